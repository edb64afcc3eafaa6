"""Stripe's balance transactions, fetched page by page as a settlement report."""

import io
import time
from typing import Any, Final

import pytest

from gateways.stripe_gateways import (
    create_gateway,
    create_payment,
    refund_request,
    stripe_bank,
    stripe_gateway,
)
from opentill.core.errors import ConfigurationError, Invalid
from opentill.gateways.model import Reports
from opentill.gateways.stripe import client, requests
from opentill.gateways.stripe.client import StripeGateway
from opentill.reconciliation.model import Row
from opentill.reconciliation.report import read
from support.stripe_server import StripeServer

__all__ = ["stripe_bank", "stripe_gateway"]
DAY_MS: Final = 86_400_000
ATTEMPT: Final = "att_01m8f4rxf8ezmb77tr3y4whk05"


@pytest.fixture(autouse=True)
def _without_pauses(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(requests, "_PAUSE_S", 0.001)
    monkeypatch.setattr(client, "PAGE", 2)


async def fetch(gateway: StripeGateway, days: int = 1) -> list[Row]:
    """Fetch a report of the days until now and read it as `opentill reconcile` does."""
    assert isinstance(gateway, Reports)
    now, file = time.time_ns() // 1_000_000, io.BytesIO()
    await gateway.settlement_report(file, now - days * DAY_MS, now)
    return list(read(io.StringIO(file.getvalue().decode())))


def shown(rows: list[Row]) -> set[tuple[str, str, int, str]]:
    """Return what rows say about money."""
    return {(row.kind, row.reference, row.amount_minor, row.currency) for row in rows}


async def test_every_movement_of_customers_money_is_a_row(
    stripe_gateway: StripeGateway, stripe_bank: StripeServer
) -> None:
    attempt_id, intent = await create_payment(stripe_gateway, stripe_bank)
    charge = stripe_bank.charge(intent)
    request = refund_request(attempt_id, intent, 400)
    await stripe_gateway.refund(request)
    (refund,) = stripe_bank.refunds.values()
    made_there = stripe_bank.refund_in_dashboard(intent, 100)
    disputed = stripe_bank.dispute(intent, "needs_response")
    balance = stripe_bank.balance
    balance.add("charge", 999, "eur", charge, fee=59, net=940)
    balance.add("refund", -400, "eur", refund)
    balance.add("refund_failure", 400, "eur", refund)
    balance.add("refund", -100, "eur", made_there)
    balance.add("dispute", -999, "eur", disputed, fee=1500, net=-2499)
    balance.add("dispute_reversal", 999, "eur", disputed)
    for category in ("fee", "network_cost", "payout", "payout_reversal", "topup", "tax"):
        balance.add(category, -25, "eur")
    balance.add("payout", -500, "eur", {"id": "po_1", "object": "payout", "amount": 500})
    rows = await fetch(stripe_gateway)
    assert shown(rows) == {
        ("payment", attempt_id, 999, "EUR"),
        ("refund", request.refund_id, 400, "EUR"),
        ("refund_failure", request.refund_id, 400, "EUR"),
        ("refund", made_there["id"], 100, "EUR"),
        ("chargeback", disputed["id"], 999, "EUR"),
        ("recovery", disputed["id"], 999, "EUR"),
    }
    assert all(row.at_once for row in rows)
    assert stripe_bank.count("balance") >= 7  # pages of two


@pytest.mark.parametrize(
    ("units", "currency", "minor"),
    [(500, "jpy", 500), (500, "isk", 5), (500, "ugx", 5), (5, "mga", 500), (1230, "kwd", 1230)],
)
async def test_amounts_have_the_decimals_of_the_currency(
    stripe_gateway: StripeGateway, stripe_bank: StripeServer, units: int, currency: str, minor: int
) -> None:
    charge = {
        "id": "ch_1", "object": "charge", "amount": units, "amount_captured": units,
        "currency": currency, "payment_intent": "pi_1", "metadata": {"attempt_id": ATTEMPT},
    }  # fmt: skip
    stripe_bank.balance.add("charge", units, currency, charge)
    # Settled in dollars: the customer saw the other amount.
    refund = {"id": "re_1", "object": "refund", "amount": units, "currency": currency}
    stripe_bank.balance.add("refund", -321, "usd", refund | {"metadata": {}}, exchange_rate=0.5)
    assert shown(await fetch(stripe_gateway)) == {
        ("payment", ATTEMPT, minor, currency.upper()),
        ("refund", "re_1", minor, currency.upper()),
    }


async def test_a_range_is_fetched_by_days_and_has_no_movement_twice(
    stripe_gateway: StripeGateway, stripe_bank: StripeServer
) -> None:
    now = int(time.time())
    for age_s in (0, 1, 86_399, 86_400, 86_401, 172_800, 172_801):
        stripe_bank.balance.add("charge", 100 + age_s % 7, "eur", created=now - age_s)
    rows = await fetch(stripe_gateway, 2)
    assert len(rows) in (5, 6)  # the oldest one is out of range, and perhaps the one at its start
    assert len({row.reference for row in rows}) == len(rows)


@pytest.mark.parametrize("fault", ["500", "429", "reset", "html", "odd", "reset_after"])
async def test_a_page_that_fails_is_fetched_again(
    stripe_gateway: StripeGateway, stripe_bank: StripeServer, fault: str
) -> None:
    for number in range(5):
        stripe_bank.balance.add("charge", 100 + number, "eur")
    stripe_bank.inject_faults("balance", fault, fault)
    assert len(await fetch(stripe_gateway)) == 5


@pytest.mark.parametrize("fault", ["500", "reset", "hang"])
async def test_a_page_that_keeps_failing_ends_the_report(
    stripe_bank: StripeServer, fault: str
) -> None:
    gateway = create_gateway(stripe_bank.url, timeout_s=0.2)
    for number in range(5):
        stripe_bank.balance.add("charge", 100 + number, "eur")

    stripe_bank.inject_faults("balance", "", *[fault] * 20)  # the first page is fine
    with pytest.raises(ConfigurationError, match="does not list its balance transactions"):
        await fetch(gateway)
    await gateway.close()


async def test_a_list_that_repeats_movements_is_no_report(
    stripe_gateway: StripeGateway, stripe_bank: StripeServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    for number in range(4):
        stripe_bank.balance.add("charge", 100 + number, "eur")
    paged = stripe_bank._page

    def repeat(items: list[dict[str, Any]], query: dict[str, Any]) -> dict[str, Any]:
        return paged(items, {**query, "starting_after": None})

    monkeypatch.setattr(stripe_bank, "_page", repeat)
    with pytest.raises(ConfigurationError, match="it repeats movements"):
        await fetch(stripe_gateway)


async def test_a_report_needs_a_day_and_a_key_that_may_list(
    stripe_bank: StripeServer,
) -> None:
    gateway = create_gateway(stripe_bank.url, key="sk_test_other")
    with pytest.raises(Invalid, match="from must be a day"):
        await gateway.settlement_report(io.BytesIO(), None, 1)
    with pytest.raises(ConfigurationError, match="allow the key to read balance transactions"):
        await fetch(gateway)
    await gateway.close()
