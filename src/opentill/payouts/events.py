"""Event payloads about payouts (contract.md#event-types)."""

from typing import Annotated, Any, Final, Literal

import msgspec
from msgspec import Meta

from opentill.core import money
from opentill.payouts.model import Payout
from opentill.webhooks import Event, Type
from opentill.webhooks.fields import Amount, Currency


class PayoutPaidData(msgspec.Struct, frozen=True, kw_only=True):
    """A payout has left for the merchant's bank."""

    payout_id: Annotated[str, Meta(description="The payout's id.")]
    status: Annotated[Literal["PAID"], Meta(description="PAID.")]
    amount: Annotated[Amount, Meta(description="What is paid out.")]
    fee: Annotated[Amount, Meta(description="The fee, on top.")]
    currency: Currency
    bank_reference: Annotated[str, Meta(description="The bank's name of the transfer.")]
    paid_at: Annotated[int, Meta(description="When it was paid, Unix ms.")]


class PayoutFailedData(msgspec.Struct, frozen=True, kw_only=True):
    """A payout could not be sent, or the bank returned it: its money is available again."""

    payout_id: Annotated[str, Meta(description="The payout's id.")]
    status: Annotated[Literal["FAILED"], Meta(description="FAILED.")]
    amount: Annotated[Amount, Meta(description="What was to be paid.")]
    fee: Annotated[Amount, Meta(description="The fee, which is returned to the balance.")]
    currency: Currency
    failure_reason: Annotated[
        str, Meta(description="Why the bank could not send it, or why it returned it.")
    ]
    failed_at: Annotated[int, Meta(description="When it failed, Unix ms.")]
    returned: Annotated[
        bool,
        Meta(description="Whether it was PAID before: the bank sent it and returned it later."),
    ]


PAYLOADS: Final[dict[Type, type[msgspec.Struct]]] = {
    "payout.paid": PayoutPaidData,
    "payout.failed": PayoutFailedData,
}


def event_of(payout: Payout, type_: Type, at: int) -> Event:
    """Return the event of a payout that was PAID or has FAILED."""
    base: dict[str, Any] = {
        "payout_id": payout.id,
        "amount": money.show(payout.amount_minor, payout.currency),
        "fee": money.show(payout.fee_minor, payout.currency),
        "currency": payout.currency,
    }
    data: PayoutPaidData | PayoutFailedData
    if payout.status == "PAID":
        data = PayoutPaidData(
            **base,
            status="PAID",
            bank_reference=payout.bank_reference,
            paid_at=at if payout.paid_at is None else payout.paid_at,
        )
    else:
        data = PayoutFailedData(
            **base,
            status="FAILED",
            failure_reason=payout.failure_reason,
            failed_at=at if payout.failed_at is None else payout.failed_at,
            returned=payout.is_returned,
        )
    return Event(payout.merchant_id, type_, data, at)
