"""Reports for accountants: the trial balance, figures of a month, and merchants to pay out."""

from decimal import Decimal

import pytest

from cli.database import in_database
from support.commands import Commands, opentill
from support.world import NOW, create_order_in

__all__ = ["opentill"]

DAY = 86_400_000


@pytest.fixture
def shops(opentill: Commands) -> list[str]:
    """The ids of two merchants, each with a settled order of 9.99 whose fee is 0.40."""
    opentill.json("merchants", "create", "Empty Shop")
    orders = [in_database(opentill, lambda tx: create_order_in(tx, "SETTLED")) for _ in range(2)]
    return [order.merchant_id for order in orders]


def test_the_trial_balance_has_every_account_and_sums_to_zero(
    opentill: Commands, shops: list[str]
) -> None:
    (row,) = opentill.json("ledger", "accounts")
    assert (row.pop("currency"), row.pop("merchants")) == ("USD", 2)
    assert {name for name, amount in row.items() if amount != "0.00"} == {
        "available", "gateway", "platform",
    }  # fmt: skip
    assert sum(map(Decimal, row.values())) == 0
    assert row["platform"] == "0.80"
    (trial_balance,) = opentill.json("ledger", "accounts", shops[0])
    assert (trial_balance["merchants"], trial_balance["platform"]) == (1, "0.40")
    assert "there is no merchant" in opentill.refusal("ledger", "accounts", "mer_no")


def test_figures_of_a_month_are_the_sums_of_its_days(opentill: Commands, shops: list[str]) -> None:
    (row,) = opentill.json("figures", "show")
    assert row == {
        "currency": "USD", "payments": 2, "paid": "19.98", "refunds": 0, "refunded": "0.00",
        "disputes": 0, "disputed": "0.00", "fees": "0.80",
        "directPayments": 0, "paidDirectly": "0.00", "directRefunds": 0, "refundedDirectly": "0.00",
    }  # fmt: skip
    (totals,) = opentill.json("figures", "show", shops[1])
    assert totals["fees"] == "0.40"
    day = NOW // DAY * DAY
    (row,) = opentill.json("figures", "show", "--from", str(day), "--to", str(day + DAY - 1))
    assert row["fees"] == "0.80"
    (later,) = opentill.json("figures", "show", "--from", str(day + 40 * DAY))
    assert (later["payments"], later["fees"]) == (0, "0.00")
    refused = opentill.refusal("figures", "show", "--from", "2026-01-31 14:07")
    assert "from must be a day, or a time at a full quarter of an hour" in refused


def test_a_merchant_is_listed_for_payout_until_it_is_paid(
    opentill: Commands, shops: list[str]
) -> None:
    due = opentill.json("payouts", "due")
    assert {row["merchantId"] for row in due} == set(shops)
    assert {(row["available"], row["lastPayoutAt"]) for row in due} == {("9.59", None)}
    why = ("--reference", "2026-W47", "--reason", "weekly")
    opentill.json("payouts", "create", shops[0], "--amount", "9", *why)
    opentill.json("payouts", "create", shops[1], "--all", *why)
    (remaining,) = opentill.json("payouts", "due")
    assert (remaining["merchantId"], remaining["available"]) == (shops[0], "0.59")
    assert remaining["lastPayoutAt"] is not None
