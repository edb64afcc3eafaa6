"""Forms are checked before the password is asked for."""

import inspect
import re
from pathlib import Path

import opentill
from opentill.app import PORTALS
from opentill.people import NEED_PROOF
from support.api_server import Shop
from support.people import PASSWORD, Visitor, create_person, heading_of

_FOLDER = Path(opentill.__file__).parent
_FIELD = re.compile(r'shared\.confirming_word\(_, "(\w+)"')


def _forget_proof(visitor: Visitor, shop: Shop) -> None:
    person_id = visitor.person_id
    shop.api_server.tx(
        lambda tx: tx.execute("update logins set proved_at = 0 where person_id = $1", person_id)
    )


def test_rehearsed_handlers_store_nothing_by_other_means() -> None:
    rehearsed = [page for portal in PORTALS for page in portal.pages if page.rehearsed]
    assert sum(page.allowed in NEED_PROOF for page in rehearsed) > 30
    for page in rehearsed:
        handler = page.handler
        source = inspect.getsource(getattr(handler, "func", handler))
        calls = re.findall(r"run_once\(|transact\(|create_secret\(|add_once\(", source)
        calls += re.findall(r"invitations\.invite\(|await _create\(|await dismiss\(", source)
        assert calls, page.path
        assert "app.db.run(" not in source, page.path


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
    email = owner.email
    _forget_proof(owner, shop)
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


def test_staff_learn_all_wrong_entries_before_the_step_up_which_alone_stores_them(
    shop: Shop,
) -> None:
    admin = create_person(shop.api_server, None, staff_role="admin")
    order_id = shop.create_order()["id"]
    payment = f"/console/payments/{order_id}"
    seen = re.findall(r'name="seen" value="([^"]+)"', admin.get(payment).text)[0]
    address = f"{order_id[-12:]}@staff.example.com"
    _forget_proof(admin, shop)
    confirmed = {"seen": seen, "reason": "bank statement"}
    invited = {"email": address, "role": "support"}
    for path, form, wrong, errors in (
        (f"{payment}/confirm", confirmed, {"reason": " "}, ["reason"]),
        (f"{payment}/confirm", confirmed, {"seen": "PAID.1"}, ["The payment has changed"]),
        ("/console/people/invite", invited, {"email": "bad", "role": "king"},
         ["Enter an email address", "Choose one of the roles"]),
        (f"/console/merchants/{shop.id}/members", invited | {"role": "viewer"},
         {"email": "bad", "role": "king"}, ["Enter an email address", "Choose one of the roles"]),
    ):  # fmt: skip
        refusal = admin.post(path, form | wrong)
        assert refusal.status_code in {400, 409}, path
        assert all(error in refusal.text for error in errors), path
        assert heading_of(admin.post(path, form)) == "Confirm that it is you", path
    assert shop.data("GET", f"/v1/orders/{order_id}")["status"] == "PENDING"
    sql = "select count(*)::int as n from audit_log where who = $1 and strpos(subject, $2) > 0"
    for subject in (order_id, address):
        assert shop.api_server.sql(sql, admin.audit_name, subject) == [{"n": 0}]
    proof = {"proof_password": PASSWORD}
    assert admin.post(f"{payment}/confirm", confirmed | proof).status_code == 303
    assert shop.data("GET", f"/v1/orders/{order_id}")["status"] == "PAID"
