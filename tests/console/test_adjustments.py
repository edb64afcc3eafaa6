"""A merchant's balance is adjusted in the console: shown first, then made once."""

import re
from decimal import Decimal
from typing import Any, Final

import msgspec

from opentill import adjustments, ledger
from support.api_server import Shop
from support.people import Visitor, person

_HIDDEN: Final = re.compile(r'<input type="hidden" name="(\w+)" value="([^"]*)"')


def held(shop: Shop) -> tuple[int, int]:
    """Return what is available, and what is frozen."""
    balance = shop.api_server.tx(lambda tx: ledger.find_balance(tx, shop.id, "USD"))
    return (balance.available, balance.frozen) if balance else (0, 0)


def words(page: Any) -> str:
    """Return the words of a page's main part."""
    text = re.sub(r"<[^>]+>", " ", page.text.partition("<main")[2])
    return re.sub(r"[\s\u2068\u2069]+", " ", text)


def filled(**changes: str) -> dict[str, str]:
    """Return the entries of the form."""
    return {
        "kind": "recharge",
        "amount": "25.00",
        "account": "available",
        "order": "",
        "reference": "R-1",
        "reason": "wired on Monday",
    } | changes


def asked(visitor: Visitor, place: str, **changes: str) -> Any:
    """Fill in the form, and look at what it would move."""
    query = "&".join(f"{name}={value}" for name, value in filled(**changes).items())
    return visitor.get(f"{place}?{query}")


def confirming(page: Any) -> dict[str, str]:
    """Return the fields of the form that confirms."""
    return dict(_HIDDEN.findall(page.text.partition('id="moves"')[2]))


def test_an_adjustment_is_shown_then_made_once(shop: Shop) -> None:
    finance = person(shop.api_server, None, staff_role="finance")
    place = f"/console/merchants/{shop.id}/adjustments"
    assert f'href="{place}"' in finance.get(f"/console/merchants/{shop.id}").text
    shown = asked(finance, place)
    assert "Available $0.00 before, $25.00 after" in words(shown)
    assert held(shop) == (0, 0)
    form = confirming(shown)
    places = [finance.post(place, form).headers["location"] for _ in range(2)]  # a double click
    assert places[0] == places[1]
    assert held(shop) == (2500, 0)
    assert "Recharge of $25.00: done." in words(finance.get(places[0]))
    rows = shop.api_server.sql(
        "select who, reason from audit_log where merchant_id = $1 and action = 'balance recharge'",
        shop.id,
    )
    who = f"{finance.email} ({finance.person_id})"
    assert [tuple(row.values()) for row in rows] == [(who, "wired on Monday")]
    other = finance.post(place, form | {"amount": "26.00", "reference": "R-2"})
    assert (other.status_code, 'value="26.00"' in other.text) == (422, True)
    frozen = asked(finance, place, kind="freeze", amount="10.00", reference="F-1")
    assert "Available $25.00 before, $15.00 after Frozen $0.00 before, $10.00" in words(frozen)
    assert finance.post(place, confirming(frozen)).status_code == 303
    assert held(shop) == (1500, 1000)


def test_what_cannot_be_is_refused_at_its_field_and_nothing_typed_is_lost(shop: Shop) -> None:
    finance = person(shop.api_server, None, staff_role="finance")
    place = f"/console/merchants/{shop.id}/adjustments"
    for field, changes in (
        ("kind", {"kind": "x"}),
        ("amount", {"amount": "1.005"}),
        ("amount", {"amount": "-5"}),  # only a correction takes
        ("amount", {"amount": "0"}),
        ("account", {"account": "pending"}),
        ("order", {"kind": "correct"}),
        ("order", {"kind": "correct", "order": "%00"}),
        ("order", {"order": "order_0000000000000000000000"}),
        ("reference", {"reference": ""}),
        ("reason", {"reason": " "}),
    ):
        refused = asked(finance, place, **changes)
        assert refused.status_code == 400, changes
        assert re.findall(r'id="(\w+)-error"', refused.text) == [field], changes
        assert confirming(refused) == {}
    for kind in ("freeze", "unfreeze", "fee"):
        too_much = finance.post(place, filled(kind=kind, reference=kind))
        assert too_much.status_code == 409, kind
        assert "does not allow this amount" in too_much.text
        assert 'value="wired on Monday"' in too_much.text
    assert held(shop) == (0, 0)
    nobody = "/console/merchants/mer_00000000000000000000000/adjustments"
    assert asked(finance, nobody).status_code == 404


def test_above_the_limit_it_waits_for_somebody_else(shop: Shop) -> None:
    server = shop.api_server
    finance = person(server, None, staff_role="finance")
    place = f"/console/merchants/{shop.id}/adjustments"
    before = server.app.settings
    server.app.settings = msgspec.structs.replace(before, approval_above=Decimal(10))
    try:
        shown = asked(finance, place, reference="W-1")
        assert "nothing moves before somebody else approves" in words(shown)
        made = finance.post(place, confirming(shown)).headers["location"]
    finally:
        server.app.settings = before
    assert "waits for a second person" in words(finance.get(made))
    (waits,) = server.tx(lambda tx: adjustments.list_waiting(tx, shop.id))
    assert (held(shop), made.endswith(f"?done={waits.id}")) == ((0, 0), True)
    boss = person(server, None, staff_role="admin")
    assert boss.post(f"/console/approvals/{waits.id}/approve").status_code == 303
    assert held(shop) == (2500, 0)


def test_only_finance_and_administrators_adjust_with_a_fresh_proof(shop: Shop) -> None:
    server = shop.api_server
    place = f"/console/merchants/{shop.id}/adjustments"
    for role in ("support", "auditor"):
        looks = person(server, None, staff_role=role)
        assert looks.post(place, filled()).status_code == 403
        assert 'name="kind"' not in looks.get(place).text
    old = person(server, None, staff_role="finance")
    server.tx(
        lambda tx: tx.execute(
            "update logins set proved_at = proved_at - 660000 where person_id = $1", old.person_id
        )
    )
    assert 'name="proof_password"' in old.post(place, filled()).text
    assert held(shop) == (0, 0)
