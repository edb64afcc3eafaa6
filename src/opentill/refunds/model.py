"""What a refund is, the table of its transitions, and its shapes on the wire."""

from typing import Annotated, Final, Literal, Self

import msgspec
from msgspec import Meta

from opentill import webhooks
from opentill.core import money, structs
from opentill.gateways.model import RefundStatus
from opentill.ledger import Held

Status = Literal["PROCESSING", "SUCCEEDED", "FAILED"]

# What a gateway's report does to a PROCESSING refund (contract.md#refund-transitions). Any other
# report leaves the refund as it is, to be asked for again.
TRANSITIONS: Final[dict[RefundStatus, Status]] = {"SUCCEEDED": "SUCCEEDED", "REFUSED": "FAILED"}
# The event that reports its end.
EMITS: Final[dict[Status, webhooks.Type]] = {
    "SUCCEEDED": "order.refunded",
    "FAILED": "refund.failed",
}


class RefundBody(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """The body that refunds an order (contract.md#refund-create)."""

    amount: (
        Annotated[
            str,
            Meta(
                pattern=r"^[0-9]{1,15}(\.[0-9]{1,2})?$",
                description="decimal text from 0.01 with at most two fraction digits",
            ),
        ]
        | None
    ) = None
    reason: (
        Annotated[str, Meta(max_length=255, description="text of at most 255 characters")] | None
    ) = None
    refund_no: (
        Annotated[str, Meta(min_length=1, max_length=64, description="text of 1 to 64 characters")]
        | None
    ) = None


class Refund(msgspec.Struct, frozen=True, kw_only=True):
    """A refund as it is stored; amounts in minor units."""

    merchant_id: str
    id: str
    order_id: str
    attempt_id: str
    status: Status
    amount_minor: int
    currency: str
    debit_minor: int
    debit_currency: str
    held_from: Held
    user_refund_usd_minor: int
    merchant_debit_usd_minor: int
    reason: str
    refund_no: str | None
    error_message: str | None
    provider_ref: str
    sent: bool
    try_at: int | None
    tries: int
    created_at: int
    updated_at: int
    succeeded_at: int | None
    failed_at: int | None

    @property
    def described(self) -> str:
        """What the history and the ledger call it."""
        return f"Refund of {money.show(self.amount_minor, self.currency)} {self.currency}"


class Quote(msgspec.Struct, frozen=True, kw_only=True):
    """What a refund would move, before it does: minor units.

    ``balance_minor`` is what the account that it is taken from has now, in ``debit_currency``.
    """

    order_id: str
    amount_minor: int
    left_minor: int  # to be refunded after it
    currency: str
    debit_minor: int
    debit_currency: str
    held_from: Held
    balance_minor: int


class RefundOut(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """Money given back to a customer (contract.md#refund-fields)."""

    id: str
    merchant_id: str
    order_id: str
    refund_no: str | None
    status: Status
    amount: str
    currency: str
    user_refund_amount_usd: str
    merchant_debit_usd: str
    reason: str
    error_message: str | None
    created_at: int
    updated_at: int
    succeeded_at: int | None
    failed_at: int | None

    @classmethod
    def of(cls, refund: Refund) -> Self:
        """Show a refund."""
        return structs.convert(
            refund,
            cls,
            amount=money.show(refund.amount_minor, refund.currency),
            user_refund_amount_usd=money.show(refund.user_refund_usd_minor, "USD"),
            merchant_debit_usd=money.show(refund.merchant_debit_usd_minor, "USD"),
        )
