"""A merchant's balance is adjusted in the console: a quote, then one adjustment for each form."""

import re
from decimal import Decimal

import httpx2
import msgspec
import pytest

from console.console_pages import audit_rows, hidden_fields, visible_text
from opentill import adjustments, ledger, merchants, onboarding
from support.api_server import Shop
from support.people import Visitor, create_person


def read_available_and_frozen(shop: Shop) -> tuple[int, int]:
    balance = shop.api_server.tx(lambda tx: ledger.find_balance(tx, shop.id, "USD"))
    return (balance.available, balance.frozen) if balance else (0, 0)


def form_values(**changes: str) -> dict[str, str]:
    return {
        "kind": "recharge",
        "amount": "25.00",
        "account": "available",
        "order": "",
        "reference": "R-1",
        "reason": "wired on Monday",
    } | changes


def get_quote(visitor: Visitor, path: str, **changes: str) -> httpx2.Response:
    """Send the form; return the page with the quote."""
    query = "&".join(f"{name}={value}" for name, value in form_values(**changes).items())
    return visitor.get(f"{path}?{query}")


def confirmation_form(page: httpx2.Response) -> dict[str, str]:
    return hidden_fields(page.text.partition('id="moves"')[2])


def test_an_adjustment_is_quoted_and_then_made_once(shop: Shop) -> None:
    finance = create_person(shop.api_server, None, staff_role="finance")
    path = f"/console/merchants/{shop.id}/adjustments"
    assert f'href="{path}"' in finance.get(f"/console/merchants/{shop.id}").text
    quote = get_quote(finance, path)
    assert "Available $0.00 → $25.00" in visible_text(quote.text)
    assert read_available_and_frozen(shop) == (0, 0)
    form = confirmation_form(quote)
    # A double click submits the form twice.
    result_urls = [finance.post(path, form).headers["location"] for _ in range(2)]
    assert result_urls[0] == result_urls[1]
    assert read_available_and_frozen(shop) == (2500, 0)
    assert "Credit of $25.00: done." in visible_text(finance.get(result_urls[0]).text)
    assert audit_rows(shop, "balance recharge") == [(finance.audit_name, "wired on Monday")]
    refusal = finance.post(path, form | {"amount": "26.00", "reference": "R-2"})
    assert (refusal.status_code, 'value="26.00"' in refusal.text) == (422, True)
    freeze = get_quote(finance, path, kind="freeze", amount="10.00", reference="F-1")
    balances = "Available $25.00 → $15.00 On hold $0.00 → $10.00"
    assert balances in visible_text(freeze.text)
    assert finance.post(path, confirmation_form(freeze)).status_code == 303
    assert read_available_and_frozen(shop) == (1500, 1000)


def test_an_invalid_adjustment_is_refused_at_its_field_and_its_input_kept(shop: Shop) -> None:
    finance = create_person(shop.api_server, None, staff_role="finance")
    path = f"/console/merchants/{shop.id}/adjustments"
    for field, changes in (
        ("kind", {"kind": "x"}),
        ("amount", {"amount": "1.005"}),
        ("amount", {"amount": "-5"}),  # only a correction may be negative
        ("amount", {"amount": "0"}),
        ("account", {"account": "pending"}),
        ("order", {"kind": "correct"}),
        ("order", {"kind": "correct", "order": "%00"}),
        ("order", {"order": "order_0000000000000000000000"}),
        ("reference", {"reference": ""}),
        ("reason", {"reason": " "}),
    ):
        refusal = get_quote(finance, path, **changes)
        assert refusal.status_code == 400, changes
        assert re.findall(r'id="(\w+)-error"', refusal.text) == [field], changes
        assert confirmation_form(refusal) == {}
    for kind in ("freeze", "unfreeze", "fee"):
        refusal = get_quote(finance, path, kind=kind, reference=kind)
        assert re.findall(r'id="(\w+)-error"', refusal.text) == ["amount"], kind
        assert "does not allow this amount" in refusal.text
        assert confirmation_form(refusal) == {}
        too_much = finance.post(path, form_values(kind=kind, reference=kind))
        assert too_much.status_code == 409, kind
        assert "does not allow this amount" in too_much.text
        assert 'value="wired on Monday"' in too_much.text
    assert read_available_and_frozen(shop) == (0, 0)
    unknown_merchant = "/console/merchants/mer_00000000000000000000000/adjustments"
    assert get_quote(finance, unknown_merchant).status_code == 404


def test_a_closed_merchant_gets_no_new_money_and_its_row_offers_none(shop: Shop) -> None:
    server, admin = shop.api_server, create_person(shop.api_server, None, staff_role="admin")
    path = f"/console/merchants/{shop.id}/adjustments"
    listed = "/console/merchants?status="
    assert path in admin.get(listed + "ACTIVE").text
    actor, now = merchants.Actor("ann", "moved away"), server.app.clock()
    server.tx(lambda tx: onboarding.close(tx, shop.id, actor, now))
    closed = admin.get(listed + "CLOSED").text
    assert f"/console/merchants/{shop.id}" in closed
    assert not re.search(rf"{shop.id}/(adjustments|terms)", closed)
    page = admin.get(path).text
    assert "This merchant is closed, and nothing is paid out to it any more." in page
    for kind, field in (("recharge", "amount"), ("topup", "kind"), ("prepay", "kind")):
        refusal = get_quote(admin, path, kind=kind, amount="2.00")
        assert re.findall(r'id="(\w+)-error"', refusal.text) == [field], kind
        assert "closed and gets no new money" in refusal.text
        assert confirmation_form(refusal) == {}
        assert admin.post(path, form_values(kind=kind)).status_code == 400, kind
    assert read_available_and_frozen(shop) == (0, 0)


@pytest.mark.parametrize(
    ("entry", "shown"),
    [("1,200.50", "$1,200.50"), ("$24.90", "$24.90"), ("12,50", "$12.50"), ("1 200", "$1,200.00")],
)
def test_the_amount_of_an_adjustment_is_entered_as_people_write_it(
    shop: Shop, entry: str, shown: str
) -> None:
    finance = create_person(shop.api_server, None, staff_role="finance")
    path = f"/console/merchants/{shop.id}/adjustments"
    quote = finance.get(path, params=form_values(amount=entry))
    assert f"Available $0.00 → {shown}" in visible_text(quote.text)
    result_url = finance.post(path, confirmation_form(quote)).headers["location"]
    assert f"Credit of {shown}: done." in visible_text(finance.get(result_url).text)


@pytest.mark.parametrize(
    ("entry", "error"),
    [
        ("€5.00", "This sign or code is of another currency"),
        ("1,200", "The separator may stand for thousands or for decimals"),
        ("ten", "Enter an amount above 0, such as 25.00 or 1,200.50"),
    ],
)
def test_an_amount_that_cannot_be_read_says_what_is_accepted(
    shop: Shop, entry: str, error: str
) -> None:
    finance = create_person(shop.api_server, None, staff_role="finance")
    path = f"/console/merchants/{shop.id}/adjustments"
    refusal = finance.get(path, params=form_values(amount=entry))
    assert (refusal.status_code, error in visible_text(refusal.text)) == (400, True)


def test_an_adjustment_above_the_limit_waits_for_a_second_person(shop: Shop) -> None:
    server = shop.api_server
    finance = create_person(server, None, staff_role="finance")
    path = f"/console/merchants/{shop.id}/adjustments"
    before = server.app.settings
    server.app.settings = msgspec.structs.replace(before, approval_above=Decimal(10))
    try:
        quote = get_quote(finance, path, reference="W-1")
        assert "Needs a second person’s approval" in visible_text(quote.text)
        assert "Request approval" in visible_text(quote.text)
        result_url = finance.post(path, confirmation_form(quote)).headers["location"]
    finally:
        server.app.settings = before
    assert "waits for a second person" in visible_text(finance.get(result_url).text)
    (waiting,) = server.tx(lambda tx: adjustments.list_waiting(tx, shop.id))
    assert read_available_and_frozen(shop) == (0, 0)
    assert result_url.endswith(f"?done={waiting.id}")
    admin = create_person(server, None, staff_role="admin")
    assert admin.post(f"/console/approvals/{waiting.id}/approve").status_code == 303
    assert read_available_and_frozen(shop) == (2500, 0)


def test_an_adjustment_needs_a_permission_and_a_recent_proof_of_identity(shop: Shop) -> None:
    server = shop.api_server
    path = f"/console/merchants/{shop.id}/adjustments"
    for role in ("support", "auditor"):
        reader = create_person(server, None, staff_role=role)
        assert reader.post(path, form_values()).status_code == 403
        assert 'name="kind"' not in reader.get(path).text
    unproven = create_person(server, None, staff_role="finance")
    server.tx(
        lambda tx: tx.execute(
            "update logins set proved_at = proved_at - 660000 where person_id = $1",
            unproven.person_id,
        )
    )
    assert 'name="proof_password"' in unproven.post(path, form_values()).text
    assert read_available_and_frozen(shop) == (0, 0)
