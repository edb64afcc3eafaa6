"""The page of Epay: versions, key pairs whose private half is shown once, and public keys."""

import html
import re
from typing import Any

import pytest

from dashboard.pages import new_form_id
from opentill.gateways.epay import rsa_signature
from support.api_server import Shop
from support.epay_shop import Inbox
from support.epay_v2_shop import VECTORS, EpayV2Shop, private_key
from support.people import create_person


def page_path(shop: Any, *parts: str) -> str:
    return "/".join((f"/dashboard/{shop.id}/developers/epay", *parts))


def field_value(page: str, field: str) -> str:
    (value,) = re.findall(rf'id="{field}"[^>]* value="([^"]*)"', page)
    return html.unescape(value)


@pytest.fixture
def developer(shop: Shop) -> Any:
    """A developer of a merchant with Epay credentials."""
    person = create_person(shop.api_server, shop.id, "developer")
    path = page_path(shop)
    person.post(f"{path}/enable", {"form_id": new_form_id(person, path)})
    return person


def stored(shop: Shop) -> dict[str, Any]:
    (row,) = shop.api_server.sql("select * from epay_credentials where merchant_id = $1", shop.id)
    return row


def test_a_key_pair_is_shown_once_and_replaced_only_after_confirmation(
    shop: Shop, developer: Any
) -> None:
    path = page_path(shop)
    assert "Our public key" not in developer.get(path).text
    form = {"form_id": new_form_id(developer, path), "pair": ""}
    first, again = (developer.post(f"{path}/key-pair", form).text for _ in range(2))
    text = field_value(first, "private-key")
    assert field_value(again, "private-key") == text
    key = rsa_signature.read_private_key(text)
    public_key = rsa_signature.bare_public_key(key.public_key())
    assert stored(shop)["public_key"] == public_key
    page = developer.get(path).text
    assert text not in page
    assert field_value(page, "public-key") == public_key
    platform_key = field_value(page, "platform-key")
    assert rsa_signature.pem_public_key(platform_key) in page
    assert rsa_signature.pem_private_key(text) in first

    for pair, status in (("1", 400), ("", 409)):
        refused = developer.post(f"{path}/key-pair", {"pair": pair})
        assert (refused.status_code, 'id="pair-error"' in refused.text) == (status, True)
    assert stored(shop)["public_key"] == public_key
    pid = str(stored(shop)["pid"])
    form = {"form_id": new_form_id(developer, path), "pair": pid}
    new = developer.post(f"{path}/key-pair", form)
    assert field_value(new.text, "private-key") != text


def test_a_public_key_is_entered_and_a_private_one_is_not_shown_again(
    shop: Shop, developer: Any
) -> None:
    path = page_path(shop)
    entered = rsa_signature.pem_public_key(VECTORS["merchant_public_key"])
    assert developer.post(f"{path}/public-key", {"key": entered}).status_code == 303
    assert stored(shop)["public_key"] == VECTORS["merchant_public_key"]
    private = developer.post(f"{path}/public-key", {"key": VECTORS["merchant_private_key"]})
    assert (private.status_code, "This is a private key" in private.text) == (400, True)
    assert VECTORS["merchant_private_key"][:60] not in private.text
    wrong = developer.post(f"{path}/public-key", {"key": "no key"})
    assert (wrong.status_code, "Enter an RSA public key" in wrong.text) == (400, True)
    assert ">no key</textarea>" in wrong.text
    assert stored(shop)["public_key"] == VECTORS["merchant_public_key"]


def test_versions_are_chosen_once_there_is_a_key(shop: Shop, developer: Any) -> None:
    path = page_path(shop)
    for versions in ("V2", "BOTH"):
        refused = developer.post(f"{path}/versions", {"versions": versions})
        assert (refused.status_code, 'id="versions-error"' in refused.text) == (409, True)
    assert developer.post(f"{path}/versions", {"versions": "V3"}).status_code == 400
    assert developer.post(f"{path}/versions", {"versions": "V1"}).status_code == 303
    developer.post(f"{path}/public-key", {"key": VECTORS["merchant_public_key"]})
    assert developer.post(f"{path}/versions", {"versions": "V2"}).status_code == 303
    assert stored(shop)["versions"] == "V2"
    assert 'value="V2" checked' in developer.get(path).text
    rows = shop.api_server.sql(
        "select action, subject from audit_log where merchant_id = $1 and action like 'epay %'"
        " order by number",
        shop.id,
    )
    pid = stored(shop)["pid"]
    assert [(row["action"], row["subject"]) for row in rows[1:]] == [
        ("epay public-key", f"pid {pid}"),
        ("epay versions", f"pid {pid}: V2"),
    ]


def test_who_may_only_read_changes_nothing(shop: Shop, developer: Any) -> None:
    viewer = create_person(shop.api_server, shop.id, "viewer")
    path = page_path(shop)
    assert "Only V1 (MD5)" in viewer.get(path).text
    for action, form in (
        ("versions", {"versions": "V1"}),
        ("key-pair", {"pair": ""}),
        ("public-key", {"key": VECTORS["merchant_public_key"]}),
    ):
        assert viewer.post(f"{path}/{action}", form).status_code in {403, 404}
    assert stored(shop)["public_key"] is None


def test_a_shop_signs_with_the_pair_of_the_page(shop: Shop) -> None:
    with_key = EpayV2Shop(shop.api_server, Inbox())
    developer = create_person(shop.api_server, with_key.id, "developer")
    path = page_path(with_key)
    form = {"form_id": new_form_id(developer, path), "pair": with_key.pid}
    text = field_value(developer.post(f"{path}/key-pair", form).text, "private-key")
    assert with_key.send("merchant/info", with_key.sign_v2({}, key=private_key()))["code"] == -3
    with_key.private_key = rsa_signature.read_private_key(text)
    assert with_key.call("merchant/info")["code"] == 0
    assert field_value(developer.get(path).text, "platform-key") == with_key.platform_key
