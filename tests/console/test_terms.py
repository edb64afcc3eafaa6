"""Changing a merchant's terms in the console: each field, what is refused, two at once."""

import re
from html import unescape
from typing import Final

from opentill import merchants
from support.api_server import Shop
from support.people import Visitor, person

FIELD: Final = re.compile(r'<input[^>]* name="(\w+)"[^>]*? value="([^"]*)"')
AREA: Final = re.compile(r'<textarea[^>]* name="(\w+)"[^>]*>([^<]*)<')
CHOICE: Final = re.compile(r'<select[^>]* name="(\w+)".*?value="(\w+)" selected', re.DOTALL)


def shown(page: str) -> dict[str, str]:
    """Return the fields of the form as a browser would send them."""
    form = page.partition('<form method="post" action="/console/merchants')[2].partition("</form>")[
        0
    ]
    found = [*FIELD.findall(form), *AREA.findall(form), *CHOICE.findall(form)]
    return {name: unescape(value) for name, value in found}


def of(shop: Shop) -> merchants.Merchant:
    return shop.api_server.tx(lambda tx: merchants.find(tx, shop.id))


def admin_of(shop: Shop) -> tuple[Visitor, str]:
    return person(shop.api_server, None, staff_role="admin"), f"/console/merchants/{shop.id}/terms"


def test_every_term_is_changed_by_its_field_and_the_reason_is_kept(shop: Shop) -> None:
    admin, path = admin_of(shop)
    form = shown(admin.get(path).text)
    assert form["platform_fee_rate"] == "4"
    form |= {
        "platform_fee_rate": "2.95",
        "fees": "CREDIT_CARD:EUR=0.014+0.25\nALIPAY=0.02",
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
    for _ in range(2):  # a double click
        done = admin.post(path, form)
        assert done.headers["location"] == f"/console/merchants/{shop.id}"
    now = of(shop)
    assert now.terms_version == 2
    assert (str(now.platform_fee_rate), str(now.reserve_rate)) == ("0.0295", "0.1")
    assert [str(fee) for fee in merchants.read_fees(now.fees)] == [
        "ALIPAY=0.02",
        "CREDIT_CARD:EUR=0.014+0.25",
    ]
    assert (now.overdraft_minor, now.dispute_fee_minor, now.payout_minimum_minor) == (
        25_000, 2_000, 5_050,
    )  # fmt: skip
    assert (now.settlement_delay_days, now.settlement_calendar) == (3, "WEEKDAYS")
    assert (now.refund_fee_policy, now.reserve_days) == ("RETURNED", 90)
    assert now.ip_allowlist == ["192.0.2.0/24", "2001:db8::/32"]
    (version,) = shop.api_server.sql(
        "select who, reason from merchant_terms where merchant_id = $1 and version = 2", shop.id
    )
    assert version == {
        "who": f"{admin.email} ({admin.person_id})",
        "reason": "a year without disputes",
    }
    form = shown(admin.get(path).text) | {"fees": "ALIPAY=0.021", "reason": "less"}
    assert admin.post(path, form).status_code == 303
    assert [str(fee) for fee in merchants.read_fees(of(shop).fees)] == ["ALIPAY=0.021"]


def test_what_is_wrong_is_said_at_its_field_and_what_was_typed_stays(shop: Shop) -> None:
    admin, path = admin_of(shop)
    good = shown(admin.get(path).text) | {"reason": "why not"}
    for field, typed, sentence in (
        ("platform_fee_rate", "100", "from 0 to below 100"),
        ("platform_fee_rate", "NaN", "from 0 to below 100"),
        ("platform_fee_rate", "1e999999999", "from 0 to below 100"),
        ("fees", "CASH=0.1", "Enter rows such as"),
        ("overdraft_minor", "1.234", "Enter an amount"),
        ("settlement_delay_days", "366", "whole number of days"),
        ("reserve_days", "-1", "whole number of days"),
        ("refund_fee_policy", "MAYBE", "Choose one"),
        ("ip_allowlist", "192.0.2.0/99", "Enter addresses"),
        ("reason", " ", "Say why"),
    ):
        refused = admin.post(path, good | {field: typed, "form_id": ""})
        assert refused.status_code == 400, field
        assert sentence in refused.text, field
        assert f'id="{field}-error"' in refused.text
        if field not in {"refund_fee_policy", "reason"}:
            assert shown(refused.text)[field] == typed
    assert of(shop).terms_version == 1


def test_of_two_that_change_terms_at_once_the_second_sees_both(shop: Shop) -> None:
    admin, path = admin_of(shop)
    first, second = (shown(admin.get(path).text) for _ in range(2))
    change = {"dispute_fee_minor": "20.00", "reason": "first"}
    assert admin.post(path, first | change).status_code == 303
    other = second | {"dispute_fee_minor": "30.00", "reason": "second"}
    stale = admin.post(path, other)
    assert stale.status_code == 409
    assert "The terms were changed meanwhile" in stale.text
    assert "It is now: 20.00" in stale.text
    assert of(shop).dispute_fee_minor == 2_000
    again = shown(stale.text)
    assert again["dispute_fee_minor"] == "30.00"
    assert admin.post(path, again).status_code == 303
    assert of(shop).dispute_fee_minor == 3_000
    auditor = person(shop.api_server, None, staff_role="auditor")
    assert "Only an administrator changes terms" in auditor.get(path).text
