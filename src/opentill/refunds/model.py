"""Refunds, the table of their transitions, and their views for the API and the command line."""

from typing import Annotated, Final, Literal, Self

import msgspec
from msgspec import Meta

from opentill import webhooks
from opentill.core import money, structs
from opentill.core.errors import Invalid
from opentill.gateways.model import RefundStatus
from opentill.http.fields import CreatedAt, DecimalText, UpdatedAt, meaning
from opentill.ledger import Held
from opentill.orders.statuses import PAID_STATUSES

Status = Literal["PROCESSING", "SUCCEEDED", "FAILED"]
Source = Literal["REQUEST", "GATEWAY"]
CaseKind = Literal["REVERSED", "UNMATCHED"]

REFUNDABLE: Final = PAID_STATUSES  # orders with these statuses can be refunded
# Report of the gateway → new status of a PROCESSING refund (contract.md#refund-transitions). After
# any other report the refund remains PROCESSING and is sent again. A SUCCEEDED refund becomes
# FAILED if its gateway reports later that the customer did not get the money.
TRANSITIONS: Final[dict[RefundStatus, Status]] = {"SUCCEEDED": "SUCCEEDED", "REFUSED": "FAILED"}
EMITS: Final[dict[Status, webhooks.Type]] = {
    "SUCCEEDED": "order.refunded",
    "FAILED": "refund.failed",
}


class NotRefundable(Invalid):
    """An order that cannot be refunded in its present state."""


class TooMuch(Invalid):
    """An amount above the remaining refundable amount, or below the minimum."""

    def __init__(self, reason: str, most_minor: int) -> None:
        """``most_minor``: the remaining refundable amount, in minor units of the order."""
        super().__init__("amount", reason)
        self.most_minor = most_minor


class BalanceTooLow(Invalid):
    """A refund that would take the balance below the overdraft limit."""

    def __init__(self, reason: str, least_minor: int) -> None:
        """``least_minor``: the lowest balance allowed, in minor units of the settled currency."""
        super().__init__("amount", reason)
        self.least_minor = least_minor


class RefundBody(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """The body that refunds an order (contract.md#refund-create)."""

    amount: (
        Annotated[
            str,
            Meta(
                pattern=r"^[0-9]{1,15}(\.[0-9]{1,2})?\Z",
                description="decimal text from 0.01 with at most two fraction digits",
                extra_json_schema={
                    "description": "What to give back: decimal text from `0.01`. Everything that "
                    "is left where it is absent."
                },
            ),
        ]
        | None
    ) = None
    reason: (
        Annotated[
            str,
            Meta(max_length=255, description="text of at most 255 characters"),
            meaning("Why, for your own records: at most 255 characters."),
        ]
        | None
    ) = None
    refund_no: (
        Annotated[
            str,
            Meta(min_length=1, max_length=64, description="text of 1 to 64 characters"),
            meaning(
                "Your own number of the refund: 1 to 64 characters. The same number again is the "
                "same refund, never a second one."
            ),
        ]
        | None
    ) = None


class RefundOrder(msgspec.Struct, frozen=True):
    """The ids of a refund and of its order."""

    id: str
    order_id: str


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
    source: Source = "REQUEST"
    handled_at: int | None = None  # when a failed refund was handled; None: it is not
    handled_by: str | None = None  # the person, or the id of the later refund that succeeded
    # The part of the fee that it gives back to the prepaid balance, in ``debit_currency``. Only a
    # refund of a payment that went to the merchant directly has one; it debits nothing.
    fee_returned_minor: int = 0

    @property
    def needs_attention(self) -> bool:
        """Whether the refund has failed and nobody has handled it."""
        return self.status == "FAILED" and self.handled_at is None

    @property
    def was_reversed(self) -> bool:
        """Whether the refund had succeeded before its money came back to the gateway."""
        return self.status == "FAILED" and self.succeeded_at is not None

    @property
    def described(self) -> str:
        """The refund as the history and the ledger show it."""
        return f"Refund of {money.show(self.amount_minor, self.currency)} {self.currency}"


class NewMadeAtGateway(msgspec.Struct, frozen=True, kw_only=True):
    """A refund made at the provider, to be recorded; ``amount_minor`` in the order's currency."""

    amount_minor: int
    reason: str
    provider_ref: str


class RefundCase(msgspec.Struct, frozen=True, kw_only=True):
    """A refund that staff must look at.

    REVERSED: the refund had succeeded, and its money came back; ``gateway_ref`` is our own id of
    the refund. UNMATCHED: the refund was made at the provider and cannot be applied to its order,
    so the ledger lacks the money that left; ``gateway_ref`` is the provider's id.
    """

    merchant_id: str
    gateway: str
    gateway_ref: str
    kind: CaseKind
    order_id: str
    attempt_id: str
    refund_id: str | None
    status: Literal["SUCCEEDED", "REFUSED"]  # as the gateway last reported
    amount_minor: int
    currency: str
    reason: str
    refusal: str
    try_at: int
    tries: int
    created_at: int
    updated_at: int
    closed_at: int | None
    closed_by: str | None

    @property
    def waits(self) -> bool:
        """Whether the case is open and its refund, which has succeeded, is still to be applied."""
        return self.closed_at is None and self.status == "SUCCEEDED"


class Quote(msgspec.Struct, frozen=True, kw_only=True):
    """A preview of a refund; amounts in minor units.

    ``balance_minor`` is the present balance of the account ``held_from``, and ``least_minor`` the
    lowest balance allowed there, both in ``debit_currency``. ``paid_directly``: the refund is made
    from the merchant's own account and debits nothing; ``fee_returned_minor`` is as in ``Refund``.
    """

    order_id: str
    amount_minor: int
    left_minor: int  # the amount that can still be refunded after this refund
    currency: str
    debit_minor: int
    debit_currency: str
    held_from: Held
    balance_minor: int
    least_minor: int
    paid_directly: bool = False
    fee_returned_minor: int = 0


class RefundOut(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """A refund of an order (contract.md#refund-fields)."""

    id: Annotated[str, Meta(description="The refund's id.")]
    merchant_id: Annotated[str, Meta(description="Your own id.")]
    order_id: Annotated[str, Meta(description="The order that is refunded.")]
    refund_no: Annotated[
        str | None, Meta(description="Your own number of the refund. Null if you gave none.")
    ]
    status: Annotated[
        Status,
        Meta(
            description="`PROCESSING`: the money is held, and the bank has not confirmed yet. "
            "`SUCCEEDED`: the customer has it. `FAILED`: the bank refused, or could not deliver "
            "it after all, and the money is yours again."
        ),
    ]
    source: Annotated[
        Source,
        Meta(
            description="`REQUEST`: refunded here. `GATEWAY`: refunded directly at the payment "
            "provider."
        ),
    ]
    amount: Annotated[
        DecimalText, Meta(description="What the customer gets back, in the currency they paid in.")
    ]
    currency: Annotated[str, Meta(description="The currency of the amount: the order's.")]
    user_refund_amount_usd: Annotated[
        DecimalText, Meta(description="What the customer gets back, in USD.")
    ]
    merchant_debit_usd: Annotated[
        DecimalText,
        Meta(
            description="What your balance loses, in USD. It is less than the customer gets where"
            " the fee is returned to you."
        ),
    ]
    reason: Annotated[
        str, Meta(description="The reason given with the refund. Empty if there is none.")
    ]
    error_message: Annotated[str | None, Meta(description="Why it failed. Null unless it did.")]
    created_at: CreatedAt
    updated_at: UpdatedAt
    succeeded_at: Annotated[
        int | None,
        Meta(
            description="When the bank had done it, Unix ms. Null until then. A refund that failed "
            "after it had succeeded keeps it."
        ),
    ]
    failed_at: Annotated[
        int | None, Meta(description="When it failed, Unix ms. Null unless it did.")
    ]

    @classmethod
    def from_refund(cls, refund: Refund) -> Self:
        """Return the API's view of a refund."""
        return structs.convert(
            refund,
            cls,
            amount=money.show(refund.amount_minor, refund.currency),
            user_refund_amount_usd=money.show(refund.user_refund_usd_minor, "USD"),
            merchant_debit_usd=money.show(refund.merchant_debit_usd_minor, "USD"),
        )


class RefundCaseOut(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """A refund case as the command line shows it."""

    merchant_id: str
    gateway: str
    gateway_ref: str
    kind: CaseKind
    order_id: str
    refund_id: str | None
    amount: str
    currency: str
    reason: str
    refusal: str
    created_at: int
    closed_at: int | None
    closed_by: str | None

    @classmethod
    def from_report(cls, case: RefundCase) -> Self:
        """Build the view of a case. An amount in an unknown currency is shown in minor units."""
        amount = (case.amount_minor, case.currency)
        return structs.convert(case, cls, amount=money.shown(*amount) or money.named(*amount))
