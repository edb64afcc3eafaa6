"""Payments, refunds, disputes and faults, as they are stored and as the bank's API shows them.

Amounts are whole minor units, times are Unix milliseconds. There are no transitions and faults
other than those in the tables of this file.
"""

from typing import Annotated, Final, Literal

import msgspec

Method = Literal["CREDIT_CARD", "ALIPAY", "WECHAT_PAY", "PAYNOW", "CRYPTO", "BANK_TRANSFER"]
PaymentStatus = Literal[
    "action_required", "processing", "succeeded", "declined", "refused", "voided"
]
RefundStatus = Literal["pending", "succeeded", "failed"]
DisputeStatus = Literal["opened", "won", "lost", "recovered"]
Operation = Literal[
    "pay",
    "find",
    "capture",
    "close",
    "refund",
    "find_refund",
    "callback",
    "node",
    "bill",
    "bill_file",
]
CallbackType = Literal[
    "payment.processing",
    "payment.succeeded",
    "payment.declined",
    "payment.refused",
    "payment.voided",
    "refund.succeeded",
    "refund.failed",
    "dispute.opened",
    "dispute.won",
    "dispute.lost",
    "dispute.recovered",
]
FaultKind = Literal[
    "timeout_before",
    "timeout_after",
    "error_500",
    "error_500_after",
    "reset",
    "reset_after",
    "slow",
    "duplicate",
    "out_of_order",
    "drop",
    "wrong_amount",
    "other_account",
    "wrong_signature",
    "expired_certificate",
    "unconfirmed",
    "malformed",
    "huge",
    "behind",
    "other_chain",
    "limit_exceeded",
    "missing_logs",
    "duplicate_logs",
    "not_ready",
    "redirect",
    "other_day",
    "other_content",
    "bomb",
    "cut_half",
    "only_half",
]

# Status → the statuses that can follow it, for payments and for disputes.
PAYMENT_TRANSITIONS: Final[dict[PaymentStatus, tuple[PaymentStatus, ...]]] = {
    "action_required": ("processing", "succeeded", "declined", "refused", "voided"),
    "processing": ("succeeded", "declined", "refused", "voided"),
    "succeeded": (),
    "declined": (),
    "refused": (),
    "voided": (),
}
DISPUTE_TRANSITIONS: Final[dict[DisputeStatus, tuple[DisputeStatus, ...]]] = {
    "opened": ("won", "lost"),
    "won": (),
    "lost": ("recovered",),
    "recovered": (),
}

# The faults that a response can have. Callbacks can have others.
_RESPONSE_FAULTS: Final[tuple[FaultKind, ...]] = (
    "timeout_before",
    "timeout_after",
    "error_500",
    "error_500_after",
    "reset",
    "reset_after",
    "slow",
    "malformed",
    "huge",
)
# Faults of signatures and contents, which only dialects have. The bank's own API leaves them.
_SIGNATURE_FAULTS: Final[tuple[FaultKind, ...]] = ("wrong_signature", "expired_certificate")
# Faults of the node of a chain.
_NODE_FAULTS: Final[tuple[FaultKind, ...]] = (
    "behind",
    "other_chain",
    "limit_exceeded",
    "missing_logs",
    "duplicate_logs",
)
# Faults of the links to bills, and of their files.
_LINK_FAULTS: Final[tuple[FaultKind, ...]] = ("not_ready", "other_account", "other_day")
_FILE_FAULTS: Final[tuple[FaultKind, ...]] = ("redirect", "other_content", "bomb")
# Faults of the transfer of a file: the connection is closed after half of the announced bytes, or
# the response is complete and has only half of the file.
_TRANSFER_FAULTS: Final[tuple[FaultKind, ...]] = ("cut_half", "only_half")
DIALECT_FAULTS: Final[tuple[FaultKind, ...]] = (
    "wrong_amount",
    "other_account",
    *_SIGNATURE_FAULTS,
    "unconfirmed",
    *_NODE_FAULTS,
    "not_ready",
    "other_day",
    *_FILE_FAULTS,
)
FAULTS: Final[dict[Operation, tuple[FaultKind, ...]]] = {
    "pay": (*_RESPONSE_FAULTS, *_SIGNATURE_FAULTS, "wrong_amount", "other_account"),
    "find": (*_RESPONSE_FAULTS, *_SIGNATURE_FAULTS, "wrong_amount", "other_account"),
    "capture": (*_RESPONSE_FAULTS, "wrong_amount", "other_account"),
    "close": (*_RESPONSE_FAULTS, *_SIGNATURE_FAULTS),
    "refund": (*_RESPONSE_FAULTS, *_SIGNATURE_FAULTS, "other_account", "unconfirmed"),
    "find_refund": (*_RESPONSE_FAULTS, *_SIGNATURE_FAULTS, "wrong_amount", "other_account"),
    "callback": (
        "duplicate", "out_of_order", "slow", "drop", *_SIGNATURE_FAULTS, "wrong_amount",
        "other_account",
    ),
    "node": (*_RESPONSE_FAULTS, *_NODE_FAULTS, "wrong_amount"),
    "bill": (*_RESPONSE_FAULTS, *_SIGNATURE_FAULTS, *_LINK_FAULTS),
    "bill_file": (*_RESPONSE_FAULTS, *_FILE_FAULTS, *_TRANSFER_FAULTS),
}  # fmt: skip

Id = Annotated[str, msgspec.Meta(pattern=r"^[A-Za-z0-9_-]{1,64}\Z")]
Minor = Annotated[int, msgspec.Meta(gt=0, le=10**15)]
Currency = Annotated[str, msgspec.Meta(pattern=r"^[A-Z]{3}\Z")]
Url = Annotated[str, msgspec.Meta(pattern=r"^https?://[^\s\x00-\x1f/]+[^\s\x00-\x1f]*\Z")]
HttpUrl = Annotated[Url, msgspec.Meta(max_length=2048)]
Text = Annotated[str, msgspec.Meta(max_length=1000)]


class Timing(msgspec.Struct, frozen=True, kw_only=True):
    """The bank's delays in seconds; tests set shorter ones."""

    # A payment by a card that gets no decision is "processing" for this time, and then declined.
    processing_s: float = 10.0
    dispute_after_s: float = 3.0  # the card for disputes is disputed this long after the payment
    refund_fails_after_s: float = 3.0  # a refund that will fail is "pending" for this time
    # The waits between attempts to deliver a callback; the last one repeats.
    retry_s: tuple[float, ...] = (0.5, 1, 2, 5, 15, 60, 300)
    give_up_after_s: float = 86_400.0
    callback_timeout_s: float = 10.0
    block_s: int = 5  # the time between two blocks of the chain; 0: blocks are added on demand only


class PaymentOrder(msgspec.Struct, frozen=True, kw_only=True):
    """A shop's request for a payment; ``id`` is chosen by the shop and is the idempotency key."""

    id: Id
    amount_minor: Minor
    currency: Currency
    method: Method
    return_url: HttpUrl
    callback_url: HttpUrl
    description: Text = ""
    merchant_name: Text = ""
    customer_email: Text = ""
    # The BCP 47 tag of the shop's page; "" if the shop sent none.
    locale: Annotated[str, msgspec.Meta(max_length=64)] = ""


class Payment(msgspec.Struct, frozen=True, kw_only=True):
    """A row of ``payments``. Of the card number, only the last four digits are stored."""

    id: str
    amount_minor: int
    currency: str
    method: Method
    description: str
    merchant_name: str
    customer_email: str
    return_url: str
    callback_url: str
    locale: str
    status: PaymentStatus
    decline_code: str | None
    challenged: bool  # whether the customer must still complete the card's 3-D Secure check
    card_last4: str | None
    refunds_fail: bool
    refunded_minor: int
    created_at: int
    updated_at: int
    dialect: str = ""  # the name of the dialect that started it, "" for the bank's own API


class CardView(msgspec.Struct, frozen=True, kw_only=True):
    """The card that a payment was made with. All test cards are Visa's."""

    last4: str
    brand: str = "visa"


class PaymentView(msgspec.Struct, frozen=True, kw_only=True):
    """A payment in the API. ``refunded_minor`` includes pending refunds."""

    id: str
    status: PaymentStatus
    decline_code: str | None
    amount_minor: int
    currency: str
    method: Method
    action_url: str
    qr_text: str | None
    card: CardView | None  # None until the customer has entered a card
    refunded_minor: int
    created_at: int
    updated_at: int

    @classmethod
    def from_payment(cls, payment: Payment, public_url: str) -> "PaymentView":
        """Return the view of a payment, with URLs below ``public_url``."""
        wallet = payment.method not in {"CREDIT_CARD", "BANK_TRANSFER"}
        return cls(
            id=payment.id,
            status=payment.status,
            decline_code=payment.decline_code,
            amount_minor=payment.amount_minor,
            currency=payment.currency,
            method=payment.method,
            action_url=f"{public_url}/pay/{payment.id}",
            qr_text=f"{public_url}/phone/{payment.id}" if wallet else None,
            card=CardView(last4=payment.card_last4) if payment.card_last4 else None,
            refunded_minor=payment.refunded_minor,
            created_at=payment.created_at,
            updated_at=payment.updated_at,
        )


class RefundOrder(msgspec.Struct, frozen=True, kw_only=True):
    """A shop's request for a refund; ``id`` is chosen by the shop and is the idempotency key."""

    id: Id
    payment_id: Id
    amount_minor: Minor
    currency: Currency
    callback_url: HttpUrl


class BankRefundOrder(msgspec.Struct, frozen=True, kw_only=True):
    """A request for a refund at the bank itself; without an amount, all that is left."""

    amount_minor: Minor | None = None


class Refund(msgspec.Struct, frozen=True, kw_only=True):
    """A row of ``refunds``, and a refund in the API.

    ``by_bank``: the refund was made at the bank's own desk, without the shop. ``reversed_at`` is
    the time at which its money came back to the shop.
    """

    id: str
    payment_id: str
    amount_minor: int
    currency: str
    callback_url: str
    status: RefundStatus
    error: str | None
    created_at: int
    updated_at: int
    by_bank: bool = False
    succeeded_at: int | None = None
    reversed_at: int | None = None


class DisputeOrder(msgspec.Struct, frozen=True, kw_only=True):
    """A request to open a dispute."""

    reason: Text = "fraudulent"


class Dispute(msgspec.Struct, frozen=True, kw_only=True):
    """A row of ``disputes``, and a dispute in the API."""

    id: str
    payment_id: str
    amount_minor: int
    currency: str
    reason: str
    status: DisputeStatus
    created_at: int
    updated_at: int


class FaultOrder(msgspec.Struct, frozen=True, kw_only=True):
    """A request for ``times`` faults; ``match`` limits them to one payment or refund id."""

    operation: Operation
    kind: FaultKind
    times: Annotated[int, msgspec.Meta(ge=1, le=1_000_000)] = 1
    delay_s: Annotated[float, msgspec.Meta(ge=0, le=3600)] | None = None
    match: Id | None = None


class Fault(msgspec.Struct, frozen=True, kw_only=True):
    """A row of ``faults``; ``times`` is the number left."""

    id: int
    operation: Operation
    kind: FaultKind
    times: int
    delay_s: float
    match: str | None


class Refusal(Exception):
    """The bank refuses: HTTP ``status``, a ``code`` for programs, a message for people."""

    def __init__(self, status: int, code: str, message: str) -> None:
        """Store the parts of the error response."""
        super().__init__(message)
        self.status = status
        self.code = code
        self.message = message
