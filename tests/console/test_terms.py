"""A merchant's terms are changed in the console: each field, errors, and concurrent changes."""

import re
from html import unescape
from typing import Final

import pytest

from console.console_pages import visible_text
from opentill import merchants
from support.api_server import Shop
from support.people import Visitor, create_person

INPUT: Final = re.compile(r'<input[^>]* name="(\w+)"[^>]*? value="([^"]*)"')
TEXTAREA: Final = re.compile(r'<textarea[^>]* name="(\w+)"[^>]*>([^<]*)<')
SELECTED_OPTION: Final = re.compile(
    r'<select[^>]* name="(\w+)"(?:(?!</select>).)*?value="(\w*)" selected', re.DOTALL
)
_FEE: Final = re.compile(r"(\w+?)(?::(\w*))? ?= ?([^%]*)%(?: ?\+ ?(.*))?")


def form_values(page: str) -> dict[str, str]:
    """Return the values of the form's fields as a browser would submit them."""
    form = page.partition(' method="post" action="/console/merchants')[2]
    form = form.partition("</form>")[0]
    fields = [*INPUT.findall(form), *TEXTAREA.findall(form), *SELECTED_OPTION.findall(form)]
    return {name: unescape(value) for name, value in fields}


def fee_fields(*rows: str) -> dict[str, str]:
    """Return the fields of rows of fees, such as ``CREDIT_CARD:EUR=1.4%+0.25``."""
    fields: dict[str, str] = {}
    for number, row in enumerate(rows):
        match = _FEE.fullmatch(row)
        assert match is not None, row
        names = ("method", "currency", "rate", "fixed")
        fields |= {
            f"fee_{name}_{number}": text or ""
            for name, text in zip(names, match.groups(), strict=True)
        }
    return fields


def find_merchant(shop: Shop) -> merchants.Merchant:
    return shop.api_server.tx(lambda tx: merchants.find(tx, shop.id))


def create_admin_and_path(shop: Shop) -> tuple[Visitor, str]:
    return create_person(
        shop.api_server, None, staff_role="admin"
    ), f"/console/merchants/{shop.id}/terms"


def test_every_term_is_changed_and_the_reason_is_stored(shop: Shop) -> None:
    admin, path = create_admin_and_path(shop)
    form = form_values(admin.get(path).text)
    assert form["platform_fee_rate"] == "4"
    form |= {
        "platform_fee_rate": "2.95",
        **fee_fields("CREDIT_CARD:eur=1.4%+0.25", "ALIPAY=2%"),
        "refund_fee_policy": "RETURNED",
        "overdraft_minor": "250.00",
        "settlement_delay_days": "3",
        "settlement_calendar": "WEEKDAYS",
        "reserve_rate": "10",
        "reserve_days": "90",
        "dispute_fee_minor": "20",
        "payout_minimum_minor": "50.5",
        "ip_allowlist": "192.0.2.0/24\n2001:db8::/32",
        "reason": "a year without disputes",
    }
    for _ in range(2):  # a double click submits the form twice
        response = admin.post(path, form)
        assert response.headers["location"] == f"/console/merchants/{shop.id}?done=terms"
    merchant = find_merchant(shop)
    assert merchant.terms_version == 2
    assert (str(merchant.platform_fee_rate), str(merchant.reserve_rate)) == ("0.0295", "0.1")
    assert [str(fee) for fee in merchants.read_fees(merchant.fees)] == [
        "ALIPAY=0.02",
        "CREDIT_CARD:EUR=0.014+0.25",
    ]
    assert (merchant.overdraft_minor, merchant.dispute_fee_minor) == (25_000, 2_000)
    assert merchant.payout_minimum_minor == 5_050
    assert (merchant.settlement_delay_days, merchant.settlement_calendar) == (3, "WEEKDAYS")
    assert (merchant.refund_fee_policy, merchant.reserve_days) == ("RETURNED", 90)
    assert merchant.ip_allowlist == ["192.0.2.0/24", "2001:db8::/32"]
    (version,) = shop.api_server.sql(
        "select who, reason from merchant_terms where merchant_id = $1 and version = 2", shop.id
    )
    assert version == {
        "who": admin.audit_name,
        "reason": "a year without disputes",
    }
    form = form_values(admin.get(path).text)
    rows = {name: text for name, text in form.items() if name.startswith("fee_") and text}
    assert rows.pop("fee_rows") == "4"
    assert rows == {
        "fee_method_0": "ALIPAY", "fee_rate_0": "2",
        "fee_method_1": "CREDIT_CARD", "fee_currency_1": "EUR", "fee_rate_1": "1.4",
        "fee_fixed_1": "0.25",
    }  # fmt: skip
    form |= fee_fields("ALIPAY=2.1%") | {"fee_method_1": "NONE", "reason": "less"}
    assert admin.post(path, form).status_code == 303
    assert [str(fee) for fee in merchants.read_fees(find_merchant(shop).fees)] == ["ALIPAY=0.021"]


def test_an_invalid_term_is_refused_at_its_field_and_its_input_kept(shop: Shop) -> None:
    admin, path = create_admin_and_path(shop)
    form = form_values(admin.get(path).text) | {"reason": "why not"}
    for field, text, error in (
        ("platform_fee_rate", "100", "from 0 to below 100"),
        ("platform_fee_rate", "NaN", "from 0 to below 100"),
        ("platform_fee_rate", "1e999999999", "from 0 to below 100"),
        ("overdraft_minor", "1.234", "The separator may stand for thousands or for decimals"),
        ("overdraft_minor", "€5.00", "This sign or code is of another currency"),
        ("overdraft_minor", "-5", "Enter an amount such as 15.00 or 1,200.50"),
        ("settlement_delay_days", "366", "whole number of days"),
        ("reserve_days", "-1", "whole number of days"),
        ("refund_fee_policy", "MAYBE", "Choose one"),
        ("ip_allowlist", "192.0.2.0/99", "Enter addresses"),
        ("reason", " ", "Say why"),
    ):
        refusal = admin.post(path, form | {field: text, "form_id": ""})
        assert refusal.status_code == 400, field
        assert error in refusal.text, field
        assert f'id="{field}-error"' in refusal.text
        if field not in {"refund_fee_policy", "reason"}:
            assert form_values(refusal.text)[field] == text
    assert find_merchant(shop).terms_version == 1


def test_an_invalid_row_of_fees_is_refused_at_its_field_and_kept(shop: Shop) -> None:
    admin, path = create_admin_and_path(shop)
    form = form_values(admin.get(path).text) | {"reason": "why not"}
    for rows, field, error in (
        (("CASH=10%",), "fee_method_0", "Choose a payment method"),
        (("ALIPAY:XXX=1%",), "fee_currency_0", "Enter a currency code such as EUR"),
        (("ALIPAY=100%",), "fee_rate_0", "from 0 to below 100"),
        (("ALIPAY=NaN%",), "fee_rate_0", "from 0 to below 100"),
        (("ALIPAY=1%", "PAYNOW=1%+x"), "fee_fixed_1", "Enter an amount"),
        (("ALIPAY:JPY=1%+0.5",), "fee_fixed_0", "amount"),
        (("ALIPAY=1%", "ALIPAY=2%"), "fee_method_1", "Another row has this method and currency"),
    ):
        refusal = admin.post(path, form | fee_fields(*rows) | {"form_id": ""})
        assert refusal.status_code == 400, rows
        assert error in refusal.text, rows
        assert f'id="{field}-error"' in refusal.text, rows
        entered = fee_fields(*rows).items()
        shown = form_values(refusal.text)
        assert {shown[name] for name, _ in entered if "rate" in name} == {
            text for name, text in entered if "rate" in name
        }
    assert find_merchant(shop).terms_version == 1


def test_the_preview_shows_what_a_payment_of_100_costs_and_stores_nothing(shop: Shop) -> None:
    admin, path = create_admin_and_path(shop)
    assert "$4.00 of $100.00" in visible_text(admin.get(path).text)
    form = form_values(admin.get(path).text) | {"platform_fee_rate": "2.9", "preview": "1"}
    form |= fee_fields("CREDIT_CARD:EUR=1.4%+0.25", "PAYNOW=0.8%")
    page = admin.get(path, params=form).text
    text = visible_text(page)
    assert "Card · EUR €1.65 of €100.00" in text
    assert "PayNow $0.80 of $100.00" in text
    assert "Every other payment $2.90 of $100.00" in text
    assert page.count('class="fee-row"') == 4  # two with entries, and two empty ones
    refused = admin.get(path, params=form | fee_fields("PAYNOW=x%"))
    assert (refused.status_code, 'id="fee_rate_0-error"' in refused.text) == (200, True)
    assert "of $100.00" not in visible_text(refused.text)
    assert find_merchant(shop).terms_version == 1


def test_terms_are_entered_as_people_write_them(shop: Shop) -> None:
    admin, path = create_admin_and_path(shop)
    form = form_values(admin.get(path).text) | {"reason": "agreed"}
    entries = {
        "platform_fee_rate": "2,9",
        **fee_fields("ALIPAY=2,5%+0,30"),
        "overdraft_minor": "$1,200.50",
        "payout_minimum_minor": "12,50",
    }
    assert admin.post(path, form | entries).status_code == 303
    merchant = find_merchant(shop)
    assert (merchant.overdraft_minor, merchant.payout_minimum_minor) == (120_050, 1250)
    assert str(merchant.platform_fee_rate) == "0.029"
    form = form_values(admin.get(path).text)
    assert (form["fee_rate_0"], form["fee_fixed_0"]) == ("2.5", "0.30")
    form |= {"reason": "none any more", "overdraft_minor": "0"}
    assert admin.post(path, form).status_code == 303
    assert find_merchant(shop).overdraft_minor == 0


def test_the_second_of_two_concurrent_changes_sees_both_values(shop: Shop) -> None:
    admin, path = create_admin_and_path(shop)
    form, concurrent_form = (form_values(admin.get(path).text) for _ in range(2))
    change = {"dispute_fee_minor": "20.00", "reason": "first"}
    assert admin.post(path, form | change).status_code == 303
    change = {"dispute_fee_minor": "30.00", "reason": "second"}
    conflict = admin.post(path, concurrent_form | change)
    assert conflict.status_code == 409
    assert "The terms were changed meanwhile" in conflict.text
    assert "It is now: 20.00" in conflict.text
    assert find_merchant(shop).dispute_fee_minor == 2_000
    resent = form_values(conflict.text)
    assert resent["dispute_fee_minor"] == "30.00"
    assert admin.post(path, resent).status_code == 303
    assert find_merchant(shop).dispute_fee_minor == 3_000
    auditor = create_person(shop.api_server, None, staff_role="auditor")
    assert "Only an administrator changes terms" in auditor.get(path).text


@pytest.mark.parametrize("missing", ["fee_rows", "fee_rate_0", "fee_conditions_1"])
def test_no_row_of_fees_is_removed_because_the_form_lacks_a_field(shop: Shop, missing: str) -> None:
    admin, path = create_admin_and_path(shop)
    form = form_values(admin.get(path).text) | fee_fields("ALIPAY=2%") | {"reason": "agreed"}
    assert admin.post(path, form).status_code == 303
    form = form_values(admin.get(path).text) | {"reason": "shorter"}
    del form[missing]
    refusal = admin.post(path, form, complete=False)
    assert (refusal.status_code, missing in refusal.text) == (400, True)
    assert [str(fee) for fee in merchants.read_fees(find_merchant(shop).fees)] == ["ALIPAY=0.02"]
