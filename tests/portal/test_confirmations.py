"""Forms are checked before the password is asked for."""

import re
from pathlib import Path

import opentill
from opentill.app import PORTALS
from support.api_server import Shop
from support.people import create_person, heading_of

_FOLDER = Path(opentill.__file__).parent
_FIELD = re.compile(r'shared\.confirming_word\(_, "(\w+)"')


def test_every_typed_confirmation_is_checked_before_the_step_up() -> None:
    templates = _FOLDER.rglob("templates/*.html")
    fields = {name for path in templates for name in _FIELD.findall(path.read_text())}
    assert {"revoke", "replace", "rotate", "disable"} <= fields
    checked = {
        name
        for portal in PORTALS
        for page in portal.pages
        if page.check is not None
        for name in page.fields
    }
    assert fields <= checked


def test_wrong_entries_are_refused_before_the_step_up(shop: Shop) -> None:
    owner = create_person(shop.api_server, shop.id, "owner")
    email, person_id = owner.email, owner.person_id
    shop.api_server.tx(
        lambda tx: tx.execute("update logins set proved_at = 0 where person_id = $1", person_id)
    )
    endpoint = f"developers/webhooks/{shop.create_endpoint()['id']}"
    (key,) = shop.api_server.sql("select id from api_keys where merchant_id = $1", shop.id)
    url, everything = "https://shop.example.com/hook", {"events": "all", "description": ""}
    for path, wrong, error, right in (
        ("team/invite", {"email": "bad", "role": "viewer"},
         "Enter an email address such as name@example.com", {"email": "new@example.com"}),
        ("team/invite", {"email": email.upper(), "role": "viewer"},
         "This person is a member already", {"email": "new@example.com"}),
        ("developers/webhooks", {"url": "nope", **everything}, "an absolute http or https URL",
         {"url": url}),
        (endpoint, {"url": f"{url}#part", "seen_at": "1", **everything}, "without a fragment",
         {"url": url}),
        ("developers/keys", {"name": "x" * 101, "expires": "", "access": "all"},
         "Enter a name of 1 to 100 characters", {"name": "Shop"}),
        (f"developers/keys/{key['id']}/rename", {"name": ""},
         "Enter a name of 1 to 100 characters", {"name": "Shop"}),
        ("payouts/account", {"country": "DE", "account": "DE1", "holder": "Ann"},
         "22 letters and digits", {"account": "DE89370400440532013000"}),
    ):  # fmt: skip
        refusal = owner.post(f"/dashboard/{shop.id}/{path}", wrong)
        assert refusal.status_code == 400, path
        assert error in refusal.text, path
        proof = owner.post(f"/dashboard/{shop.id}/{path}", wrong | right)
        assert heading_of(proof) == "Confirm that it is you", path
