"""The bank account: an owner changes it with a step-up, and its number is only shown masked."""

import re
from collections.abc import Callable
from html import unescape

from dashboard.pages import text_of
from opentill import adjustments, merchants, payouts
from opentill.portal import bank_fields
from opentill.portal.bank_fields import UNINHABITED
from opentill.web.language import Localizer
from support.api_server import Shop
from support.people import PASSWORD, Visitor, create_person
from support.world import NOW

IBAN = "DE89 3704 0044 0532 0130 00"
US_ACCOUNT = {
    "holder": "Harbour Books", "account": "000123456789", "repeat": "000123456789", "country": "US",
    "clearing": "021000021", "version": "1",
}  # fmt: skip


def _path(shop: Shop) -> str:
    return f"/dashboard/{shop.id}/payouts/account"


def _save(visitor: Visitor, shop: Shop, **form: str):
    return visitor.post(_path(shop), {"version": "0", "holder": "Ann & Co", **form})


def test_an_account_is_shown_masked_and_can_be_changed(shop: Shop) -> None:
    owner = create_person(shop.api_server, shop.id, "owner")
    page = owner.get(_path(shop)).text
    assert "There is no bank account yet" in page
    assert "after a change" not in page
    assert _save(owner, shop, account=IBAN).status_code == 303
    page = owner.get(_path(shop)).text
    assert "payouts wait for 3 days after a change" in page
    assert "DE •••• 3000" in page
    assert "Ann &amp; Co" in page
    assert "0532" not in page
    assert "Payouts wait" not in page
    assert "Payouts go to DE •••• 3000" in owner.get(f"/dashboard/{shop.id}/payouts").text
    money = adjustments.AdjustmentRequest(
        kind="recharge", amount_minor=1000, reference="r-1", reason="start", by="tester"
    )
    shop.api_server.tx(lambda tx: adjustments.request(tx, shop.id, money, None, NOW))
    assert owner.post(_path(shop), US_ACCOUNT).status_code == 303
    page = owner.get(_path(shop)).text
    assert "US •••• 6789" in page
    assert "<dt>Routing number</dt><dd>021000021</dd>" in page
    assert "payouts wait until" in page
    assert re.search(r"\$10\.00 is available, and waits until .*\d", text_of(page))
    rows = shop.api_server.tx(lambda tx: merchants.audit_log(tx, shop.id))
    (newest, *_) = [row for row in rows if row.action == "payouts account"]
    assert newest.who == f"{owner.email} ({owner.person_id})"
    assert "000123456789" not in newest.subject
    # A stale form changes nothing, and is shown again with its input.
    conflict = owner.post(_path(shop), {**US_ACCOUNT, "holder": "Somebody else"})
    assert conflict.status_code == 409
    assert "Somebody else has changed the account" in conflict.text
    assert 'value="Somebody else"' in conflict.text
    assert "US •••• 6789" in conflict.text


def test_each_field_of_an_account_shows_its_error_and_keeps_its_input(shop: Shop) -> None:
    owner = create_person(shop.api_server, shop.id, "owner")
    number = {"account": "12345678", "repeat": "12345678"}
    for field, form in (
        ("account", {"account": "DE89370400440532013001", "country": "DE"}),
        ("holder", {"account": IBAN, "holder": " ", "country": "DE"}),
        ("clearing", {**number, "country": "US"}),
        ("clearing", {**number, "country": "US", "clearing": "021000022"}),  # wrong check digit
        ("repeat", {**number, "repeat": "12345679", "country": "US", "clearing": "021000021"}),
        ("branch", {**number, "country": "CA", "clearing": "003", "branch": "1"}),
        ("bic", {**number, "country": "PE", "bic": "x"}),
        ("bic", {"account": IBAN, "bic": "x", "country": "DE"}),
    ):
        refusal = _save(owner, shop, **form)
        assert refusal.status_code == 400
        assert f'id="{field}-error"' in refusal.text
        for text in form.values():
            assert f'value="{text}"' in refusal.text
    refusal = _save(owner, shop, country="US", account="1", repeat="12", clearing="1").text
    assert "Too short: 1 of 9." in refusal
    assert "Too short: 1 of 4." in refusal
    assert "Enter the same account number in both fields." in refusal  # in the same round
    for account, error in (
        ("DE89370", "Too short: 7 of 22."),
        ("DE8937040044053201300012", "Too long: 24, at most 22."),
        ("FR89370400440532013000", "It must begin with DE and two digits"),
    ):
        assert error in _save(owner, shop, country="DE", account=account).text
    # Without a country there are no other fields yet.
    assert 'id="country-error"' in _save(owner, shop, **number).text
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
    assert '<option value="US" selected>' in refusal
    assert '<option value="DE">' in refusal


def _labels(page: str) -> list[str]:
    """Return the labels of the form's fields that are not folded."""
    form = page.partition('class="settings" id="bank-account"')[2].partition("<details")[0]
    return re.findall(r"<label for=\"\w+\">([^<]+)</label>", form)


def test_the_form_asks_for_what_an_account_in_the_country_has(shop: Shop) -> None:
    owner = create_person(shop.api_server, shop.id, "owner")
    twice = ["Account number", "Account number again"]
    for country, labels in (
        ("DE", ["IBAN"]),
        ("US", ["Routing number", *twice]),
        ("GB", ["Sort code", *twice]),
        ("AU", ["BSB", *twice]),
        ("CA", ["Institution number", "Transit number", *twice]),
        ("IN", ["IFSC", *twice]),
        ("HK", ["Bank code or BIC", *twice]),
        ("MX", ["BIC of the bank", "CLABE"]),
        ("PE", ["BIC of the bank", *twice]),
    ):
        page = owner.get(f"{_path(shop)}?country={country}").text
        assert _labels(page) == ["Account holder", *labels]
        assert f'<option value="{country}" selected>' in page
    # The fixture's merchant settles in USD.
    assert '<option value="US" selected>' in owner.get(_path(shop)).text
    assert _labels(owner.get(f"{_path(shop)}?country=XX").text) == []
    assert '<option value="AQ"' not in page.partition('id="country"')[2].partition("</select>")[0]


def test_each_country_stores_the_code_of_its_clearing_system(shop: Shop) -> None:
    owner = create_person(shop.api_server, shop.id, "owner")
    for version, (country, number, fields, stored) in enumerate((
        ("US", "000123456789", {"clearing": "021000021"}, ("021000021", "")),
        ("GB", "12345678", {"clearing": "20-00-00"}, ("200000", "")),
        ("GB", "GB29 NWBK 6016 1331 9268 19", {}, ("", "")),
        ("CA", "1234567", {"clearing": "003", "branch": "12345"}, ("000312345", "")),
        ("IN", "12345678901", {"clearing": "hdfc0000001"}, ("HDFC0000001", "")),
        ("HK", "123456789", {"clearing": "004"}, ("004", "")),
        ("HK", "123456789", {"clearing": "hsbchkhhhkh"}, ("", "HSBCHKHHHKH")),
        ("JP", "1234567", {"clearing": "0001-001"}, ("0001001", "")),
        ("PE", "1234567", {"bic": "BCPLPEPL"}, ("", "BCPLPEPL")),
        ("FR", "FR1420041010050500013M02606", {}, ("", "")),
    )):  # fmt: skip
        form = {"account": number, "repeat": number, "country": country, **fields}
        saved = _save(owner, shop, version=str(version), **form)
        assert saved.status_code == 303, (country, saved.text)
        account = shop.api_server.tx(lambda tx: payouts.find_account(tx, shop.id))
        assert account is not None
        assert (account.country, (account.bank_code, account.bic)) == (country, stored)


def test_a_saved_code_is_written_as_its_country_writes_it() -> None:
    written = {("GB", "200000"): "20-00-00", ("JP", "0001001"): "0001-001"}
    unchanged = {("US", "021000021"), ("CA", "000312345"), ("HK", "004"), ("DE", "")}
    for (country, code), text in (written | {pair: pair[1] for pair in unchanged}).items():
        assert bank_fields.format_code(country, code) == text


def test_a_country_with_ibans_takes_no_other_number(shop: Shop) -> None:
    owner = create_person(shop.api_server, shop.id, "owner")
    for number, error in (
        ("12345678", "Too short: 8 of 22."),
        ("FR1420041010050500013M02606", "Too long: 27, at most 22."),
    ):
        refusal = _save(owner, shop, country="DE", account=number, bic="COBADEFFXXX")
        assert (refusal.status_code, 'id="account-error"' in refusal.text) == (400, True)
        assert error in refusal.text


def test_wrong_check_digits_are_said_to_be_a_typo(shop: Shop) -> None:
    owner = create_person(shop.api_server, shop.id, "owner")
    iban_error = "This IBAN has a typo: its check digits do not fit."
    typo = "there is a typo, since the check digits do not fit."
    for field, error, form in (
        ("account", iban_error, {"country": "DE", "account": "DE89 3704 0044 0532 0130 01"}),
        ("account", iban_error, {
            "country": "GB", "account": "GB30NWBK60161331926819", "clearing": "200000",
            "repeat": "GB30NWBK60161331926819",
        }),
        ("account", f"CLABE: {typo}", {
            "country": "MX", "account": "032180000118359718", "bic": "BCMRMXMM",
        }),
        ("clearing", f"Routing number: {typo}", {
            "country": "US", "account": "1234567", "repeat": "1234567", "clearing": "021000022",
        }),
    ):  # fmt: skip
        refusal = _save(owner, shop, **form)
        shown = refusal.text.partition(f'id="{field}-error"')[2].partition("</p>")[0]
        assert (refusal.status_code, error in shown) == (400, True), (form, shown)
        assert "enter all" not in refusal.text


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
    assert "DE •••• 3000" in owner.get(_path(shop)).text


def test_the_fields_for_a_country_offer_countries_only(shop: Shop) -> None:
    owner = create_person(shop.api_server, shop.id, "owner")
    finance = create_person(shop.api_server, None, staff_role="finance")
    countries = Localizer("merchant", "en").countries()
    all_names = [name for _, name in countries]
    with_banks = [name for code, name in countries if code not in UNINHABITED]
    for page in (
        owner.get(_path(shop)).text,
        finance.get(f"/console/merchants/{shop.id}/bank-account").text,
    ):
        lists = re.findall(r'<select id="\w*country".*?</select>', page, re.DOTALL)
        for choice, names in zip(lists, (with_banks, all_names), strict=True):
            options = [unescape(text) for text in re.findall(r"<option[^>]*>([^<]*)", choice)]
            assert options == ["Choose a country", *names]
