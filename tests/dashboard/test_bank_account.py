"""The bank account: an owner changes it after a step-up, and its number is not shown again."""

from collections.abc import Callable

from opentill import merchants
from support.api_server import Shop
from support.people import PASSWORD, Visitor, create_person
from support.world import NOW

IBAN = "DE89 3704 0044 0532 0130 00"
OTHER = {
    "holder": "Harbour Books", "account": "000123456789", "country": "US",
    "clearing": "021000021", "version": "1",
}  # fmt: skip


def _path(shop: Shop) -> str:
    return f"/dashboard/{shop.id}/payouts/account"


def _save(visitor: Visitor, shop: Shop, **form: str):
    return visitor.post(_path(shop), {"version": "0", "holder": "Ann & Co", **form})


def test_an_account_is_shown_masked_and_can_be_changed(shop: Shop) -> None:
    owner = create_person(shop.api_server, shop.id, "owner")
    assert "There is no bank account yet" in owner.get(_path(shop)).text
    assert _save(owner, shop, account=IBAN).status_code == 303
    page = owner.get(_path(shop)).text
    assert "DE ···· 3000" in page
    assert "Ann &amp; Co" in page
    assert "0532" not in page
    assert "Payouts wait" not in page
    assert "Payouts go to DE ···· 3000" in owner.get(f"/dashboard/{shop.id}/payouts").text
    assert owner.post(_path(shop), OTHER).status_code == 303
    page = owner.get(_path(shop)).text
    assert "US ···· 6789" in page
    assert "payouts wait until" in page
    rows = shop.api_server.tx(lambda tx: merchants.audit_log(tx, shop.id))
    (newest, *_) = [row for row in rows if row.action == "payouts account"]
    assert newest.who == f"{owner.email} ({owner.person_id})"
    assert "000123456789" not in newest.subject
    # A stale form is shown again with its entries, and changes nothing.
    stale = owner.post(_path(shop), {**OTHER, "holder": "Somebody else"})
    assert stale.status_code == 409
    assert "Somebody else has changed the account" in stale.text
    assert 'value="Somebody else"' in stale.text
    assert "US ···· 6789" in stale.text


def test_each_field_shows_its_error_and_no_entry_of_the_account_is_lost(shop: Shop) -> None:
    owner = create_person(shop.api_server, shop.id, "owner")
    for field, form in (
        ("account", {"account": "DE89370400440532013001"}),
        ("holder", {"account": IBAN, "holder": " "}),
        ("country", {"account": "12345678"}),
        ("clearing", {"account": "12345678", "country": "US"}),
        ("bic", {"account": IBAN, "bic": "x"}),
    ):
        refused = _save(owner, shop, **form)
        assert refused.status_code == 400
        assert f'id="{field}-error"' in refused.text
        for text in form.values():
            assert f'value="{text}"' in refused.text
    assert "There is no bank account yet" in owner.get(_path(shop)).text


def test_the_holders_address_is_not_shown_again(shop: Shop) -> None:
    owner = create_person(shop.api_server, shop.id, "owner")
    page = owner.get(_path(shop)).text
    for name, token in (
        ("street", "address-line1"), ("building", "address-line2"), ("postcode", "postal-code"),
        ("town", "address-level2"), ("addresscountry", "country"),
    ):  # fmt: skip
        assert f'name="{name}" type="text" autocomplete="{token}"' in page
    address = {"street": "Hauptstr.", "building": "1", "postcode": "10117", "town": "Berlin"}
    refused = _save(owner, shop, account=IBAN, **address)
    assert (refused.status_code, 'id="addresscountry-error"' in refused.text) == (400, True)
    assert 'value="Hauptstr."' in refused.text
    saved = _save(owner, shop, account=IBAN, **address, addresscountry="de")
    assert saved.status_code == 303
    page = owner.get(_path(shop)).text
    assert "Entered, encrypted" in page
    assert "Hauptstr." not in page
    # The same account without an address is another version, but no payout waits for it.
    assert _save(owner, shop, account=IBAN, version="1").status_code == 303
    page = owner.get(_path(shop)).text
    assert "Payouts wait" not in page
    assert "Entered, encrypted" not in page


def test_changing_the_account_takes_a_step_up(shop: Shop, clock: Callable[[int], None]) -> None:
    clock(NOW)
    owner = create_person(shop.api_server, shop.id, "owner")
    clock(NOW + 11 * 60_000)
    assert 'name="proof_password"' in _save(owner, shop, account=IBAN).text
    assert "There is no bank account yet" in owner.get(_path(shop)).text
    assert _save(owner, shop, account=IBAN, proof_password=PASSWORD).status_code == 303
    assert "DE ···· 3000" in owner.get(_path(shop)).text
