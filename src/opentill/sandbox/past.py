"""Adding past payments, refunds and disputes to the bank.

The payments can be refunded, and the disputes decided, like all others.
"""

from collections.abc import Sequence
from pathlib import Path

import msgspec

from opentill.sandbox.model import Dispute, DisputeStatus, Method, Payment, Refund
from opentill.sandbox.storage import FILE, Store, Tx


class PastPayment(msgspec.Struct, frozen=True, kw_only=True):
    """A payment that succeeded; minor units, Unix ms."""

    id: str
    amount_minor: int
    currency: str
    method: Method
    description: str
    merchant_name: str
    return_url: str
    callback_url: str
    refunded_minor: int
    paid_at: int


class PastRefund(msgspec.Struct, frozen=True, kw_only=True):
    """A refund that succeeded; minor units, Unix ms.

    Its amount must be included in ``refunded_minor`` of its payment.
    """

    id: str
    payment_id: str
    amount_minor: int
    currency: str
    callback_url: str
    refunded_at: int


class PastDispute(msgspec.Struct, frozen=True, kw_only=True):
    """A dispute of a payment; minor units, Unix ms. ``lost_at``: None unless it was lost."""

    id: str
    payment_id: str
    amount_minor: int
    currency: str
    reason: str
    status: DisputeStatus
    opened_at: int
    updated_at: int
    lost_at: int | None


async def add_past(
    data_dir: Path,
    payments: Sequence[PastPayment],
    refunds: Sequence[PastRefund],
    disputes: Sequence[PastDispute] = (),
) -> None:
    """Add payments, refunds and disputes to the bank of a data directory, without callbacks.

    The bank may be running. Raises OSError or sqlite3.Error if its storage cannot be written.
    """

    def work(tx: Tx) -> None:
        for past in payments:
            payment = Payment(
                id=past.id,
                amount_minor=past.amount_minor,
                currency=past.currency,
                method=past.method,
                description=past.description,
                merchant_name=past.merchant_name,
                customer_email="",
                return_url=past.return_url,
                callback_url=past.callback_url,
                locale="en",
                status="succeeded",
                decline_code=None,
                challenged=False,
                card_last4="4242" if past.method == "CREDIT_CARD" else None,
                refunds_fail=False,
                refunded_minor=past.refunded_minor,
                created_at=past.paid_at,
                updated_at=past.paid_at,
            )
            row = msgspec.structs.asdict(payment)
            tx.insert("payments", {**row, "settled_at": past.paid_at})
        for past_refund in refunds:
            refund = Refund(
                id=past_refund.id,
                payment_id=past_refund.payment_id,
                amount_minor=past_refund.amount_minor,
                currency=past_refund.currency,
                callback_url=past_refund.callback_url,
                status="succeeded",
                error=None,
                created_at=past_refund.refunded_at,
                updated_at=past_refund.refunded_at,
            )
            refund_row = msgspec.structs.asdict(refund)
            tx.insert("refunds", {**refund_row, "succeeded_at": past_refund.refunded_at})
        for past_dispute in disputes:
            dispute = Dispute(
                id=past_dispute.id,
                payment_id=past_dispute.payment_id,
                amount_minor=past_dispute.amount_minor,
                currency=past_dispute.currency,
                reason=past_dispute.reason,
                status=past_dispute.status,
                created_at=past_dispute.opened_at,
                updated_at=past_dispute.updated_at,
            )
            dispute_row = msgspec.structs.asdict(dispute)
            tx.insert("disputes", {**dispute_row, "lost_at": past_dispute.lost_at})

    store = Store(data_dir / FILE, lambda _: None)
    await store.open()
    try:
        await store.do(work)
    finally:
        await store.close()
