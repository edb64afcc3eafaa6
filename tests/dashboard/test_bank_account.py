"""The bank account: an owner changes it with a step-up, and its number is only shown masked."""

import re
from collections.abc import Callable
from html import unescape

from opentill import merchants
from opentill.web.language import Localizer
from support.api_server import Shop
from support.people import PASSWORD, Visitor, create_person
from support.world import NOW

IBAN = "DE89 3704 0044 0532 0130 00"
US_ACCOUNT = {
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
    assert owner.post(_path(shop), US_ACCOUNT).status_code == 303
    page = owner.get(_path(shop)).text
    assert "US ···· 6789" in page
    assert "payouts wait until" in page
    rows = shop.api_server.tx(lambda tx: merchants.audit_log(tx, shop.id))
    (newest, *_) = [row for row in rows if row.action == "payouts account"]
    assert newest.who == f"{owner.email} ({owner.person_id})"
    assert "000123456789" not in newest.subject
    # A stale form changes nothing, and is shown again with its input.
    conflict = owner.post(_path(shop), {**US_ACCOUNT, "holder": "Somebody else"})
    assert conflict.status_code == 409
    assert "Somebody else has changed the account" in conflict.text
    assert 'value="Somebody else"' in conflict.text
    assert "US ···· 6789" in conflict.text


def test_each_field_of_an_account_shows_its_error_and_keeps_its_input(shop: Shop) -> None:
    owner = create_person(shop.api_server, shop.id, "owner")
    for field, form in (
        ("account", {"account": "DE89370400440532013001"}),
        ("holder", {"account": IBAN, "holder": " "}),
        ("country", {"account": "12345678"}),
        ("clearing", {"account": "12345678", "country": "US"}),
        ("bic", {"account": IBAN, "bic": "x"}),
    ):
        refusal = _save(owner, shop, **form)
        assert refusal.status_code == 400
        assert f'id="{field}-error"' in refusal.text
        for text in form.values():
            assert f'value="{text}"' in refusal.text
    assert "There is no bank account yet" in owner.get(_path(shop)).text


def test_a_saved_account_shows_its_form_only_behind_a_button(shop: Shop) -> None:
    owner = create_person(shop.api_server, shop.id, "owner")
    assert "Change the account" not in owner.get(_path(shop)).text
    _save(owner, shop, account=IBAN)
    page = owner.get(_path(shop)).text
    assert 'popovertarget="change"' in page
    assert '<section class="sheet" id="change" popover' in page
    refusal = owner.post(_path(shop), {**US_ACCOUNT, "clearing": "1"}).text
    assert '<dialog class="sheet" id="change" popover open' in refusal
    # The style sheet shows a bank code only for countries that have them.
    assert '<option value="US" class="has-bank-codes" selected>' in refusal
    assert '<option value="DE">' in refusal


def test_the_holders_address_is_not_shown_again(shop: Shop) -> None:
    owner = create_person(shop.api_server, shop.id, "owner")
    page = owner.get(_path(shop)).text
    for name, token in (
        ("street", "address-line1"), ("building", "address-line2"), ("postcode", "postal-code"),
        ("town", "address-level2"),
    ):  # fmt: skip
        assert f'name="{name}" type="text" autocomplete="{token}"' in page
    assert 'name="addresscountry" autocomplete="country"' in page
    assert '<option value="DE">Germany</option>' in page
    address = {"street": "Hauptstr.", "building": "1", "postcode": "10117", "town": "Berlin"}
    refusal = _save(owner, shop, account=IBAN, **address)
    assert (refusal.status_code, 'id="addresscountry-error"' in refusal.text) == (400, True)
    assert 'value="Hauptstr."' in refusal.text
    saved = _save(owner, shop, account=IBAN, **address, addresscountry="de")
    assert saved.status_code == 303
    page = owner.get(_path(shop)).text
    assert "Entered, encrypted" in page
    assert "Hauptstr." not in page
    # The same account without an address is a new version, but payouts need not wait for it.
    assert _save(owner, shop, account=IBAN, version="1").status_code == 303
    page = owner.get(_path(shop)).text
    assert "Payouts wait" not in page
    assert "Entered, encrypted" not in page


def test_changing_the_account_needs_a_step_up(shop: Shop, clock: Callable[[int], None]) -> None:
    clock(NOW)
    owner = create_person(shop.api_server, shop.id, "owner")
    clock(NOW + 11 * 60_000)
    assert 'name="proof_password"' in _save(owner, shop, account=IBAN).text
    assert "There is no bank account yet" in owner.get(_path(shop)).text
    assert _save(owner, shop, account=IBAN, proof_password=PASSWORD).status_code == 303
    assert "DE ···· 3000" in owner.get(_path(shop)).text


def test_the_fields_for_a_country_offer_countries_only(shop: Shop) -> None:
    owner = create_person(shop.api_server, shop.id, "owner")
    finance = create_person(shop.api_server, None, staff_role="finance")
    names = [name for _, name in Localizer("merchant", "en").countries()]
    for page in (
        owner.get(_path(shop)).text,
        finance.get(f"/console/merchants/{shop.id}/bank-account").text,
    ):
        lists = re.findall(r'<select id="\w*country".*?</select>', page, re.DOTALL)
        assert len(lists) == 2
        for choice in lists:
            options = [unescape(text) for text in re.findall(r"<option[^>]*>([^<]*)", choice)]
            assert options == ["Choose a country", *names]
        assert "An IBAN names its country itself." in page
