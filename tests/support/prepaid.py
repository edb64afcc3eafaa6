"""Accounts of merchants, and the prepaid balances that pay the fees of their payments."""

from collections.abc import Sequence
from typing import Any

from opentill import adjustments
from opentill.adjustments import Adjustment, AdjustmentRequest
from opentill.db.database import Tx
from opentill.ledger import Balance, find_balance
from opentill.orders import Order, PaymentAttempt
from opentill.orders.payments.intents import Chosen, start_unlocked
from opentill.orders.payments.model import Payer
from opentill.orders.payments.prepaid import fee_of
from support.world import NOW, new_reference

PAYER = Payer(email="ann@example.com", name="Ann", ip="203.0.113.7", locale="en")


async def adjust(
    tx: Tx, merchant_id: str, kind: str, amount_minor: int, **changes: Any
) -> Adjustment:
    """Make an adjustment, such as a top-up of the prepaid balance."""
    fields: dict[str, Any] = {"reference": new_reference(), "reason": "why", "by": "ann"} | changes
    request = AdjustmentRequest(kind=kind, amount_minor=amount_minor, **fields)  # type: ignore[arg-type]
    return await adjustments.request(tx, merchant_id, request, None, NOW)


async def submit_direct(
    tx: Tx, order: Order, now: int = NOW, gateway: str = "sandbox"
) -> PaymentAttempt | None:
    """Record an attempt through an account of the merchant; None if the fee is not there."""
    chosen = Chosen(prepaid_minor=fee_of(order, "CREDIT_CARD").minor)
    return await start_unlocked(tx, order, gateway, "CREDIT_CARD", PAYER, now, chosen)


async def read_prepaid(tx: Tx, merchant_id: str, currency: str = "USD") -> tuple[int, int]:
    """Return a prepaid balance, and the part of it that is reserved."""
    balance: Balance | None = await find_balance(tx, merchant_id, currency)
    return (0, 0) if balance is None else (balance.prepaid, balance.prepaid_reserved)


def moves_of(entries: Sequence[tuple[str, str, str, int]], account: str) -> list[tuple[str, int]]:
    """Return the types and signed amounts of entries that change an account."""
    return [
        (kind, amount if target == account else -amount)
        for kind, source, target, amount in entries
        if account in (source, target)
    ]
