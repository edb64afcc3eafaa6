"""The language between OpenTill and a payment service provider.

An adapter turns these requests into the provider's calls and the provider's answers and callbacks
into these outcomes. It is stateless and has no database; our attempt or refund id is the
provider's idempotency key, so that the same request may be sent again without a second effect.
"""

from collections.abc import Mapping
from typing import Literal, Protocol, runtime_checkable

import msgspec

from opentill.core.errors import NotFound
from opentill.core.money import Money
from opentill.core.payment_methods import Method as Method  # noqa: PLC0414 - a word of this language

# What became of a payment or refund, as far as the provider's answer tells:
#   SUCCEEDED        the money moved (captured, or given back)
#   ACTION_REQUIRED  the customer must go to action_url or scan qr_text
#   PENDING          accepted; the result comes later by callback
#   DECLINED         did not go through; the customer may try again
#   REFUSED          did not and will never go through
#   VOIDED           an authorization was given back before capture
#   UNREACHABLE      the call surely never reached the provider (connection refused)
#   NOT_FOUND        the provider answers that it has never seen this id
#   UNKNOWN          no usable answer: the provider may or may not have done it
PaymentStatus = Literal[
    "SUCCEEDED",
    "ACTION_REQUIRED",
    "PENDING",
    "DECLINED",
    "REFUSED",
    "VOIDED",
    "UNREACHABLE",
    "NOT_FOUND",
    "UNKNOWN",
]
RefundStatus = Literal["SUCCEEDED", "PENDING", "REFUSED", "UNREACHABLE", "NOT_FOUND", "UNKNOWN"]
DisputeStatus = Literal["OPENED", "WON", "LOST", "RECOVERED"]


class PaymentRequest(msgspec.Struct, frozen=True, kw_only=True):
    """One attempt to take ``amount`` by ``method``; ``attempt_id`` is the idempotency key."""

    attempt_id: str
    method: Method
    amount: Money
    description: str
    merchant_name: str
    customer_email: str
    customer_name: str | None
    payer_ip: str
    return_url: str  # where the provider sends the customer back to, whatever came of it
    callback_url: str  # where the provider reports results to
    locale: str  # BCP 47 tag of the page the customer came from
    expires_at: int | None = None  # until when it can be paid (Unix ms), where that is known


class RefundRequest(msgspec.Struct, frozen=True, kw_only=True):
    """Give ``amount`` of the attempt's payment back; ``refund_id`` is the idempotency key.

    ``repeated``: it was sent before and may have been done. For providers without such a key.
    """

    refund_id: str
    attempt_id: str
    provider_ref: str  # the provider's own name of the payment, "" if it has none
    amount: Money
    reason: str
    callback_url: str
    repeated: bool = False


def _storable(text: str) -> str:
    """Leave out what PostgreSQL cannot keep: NUL, and halves of surrogate pairs."""
    if text.isascii() and "\x00" not in text:
        return text
    return text.replace("\x00", "").encode(errors="replace").decode()


def _make_storable(outcome: "PaymentOutcome | RefundOutcome | GatewayDisputeEvent") -> None:
    for field in outcome.__struct_fields__:
        text = getattr(outcome, field)
        if isinstance(text, str) and (storable := _storable(text)) != text:
            msgspec.structs.force_setattr(outcome, field, storable)


class PaymentOutcome(msgspec.Struct, frozen=True, kw_only=True):
    """What a provider said about one attempt; its texts can be kept, whatever it sent."""

    status: PaymentStatus
    provider_ref: str = ""
    action_url: str = ""
    qr_text: str = ""
    reason: str = ""  # a decline code such as "insufficient_funds", or why it is unknown
    amount: Money | None = None  # what was really captured, where the provider tells
    method: Method | None = None  # what was really used, where the provider tells
    clearing_currency: str | None = None  # ISO 4217, where the provider tells

    def __post_init__(self) -> None:
        """Drop from the texts what cannot be stored, so that no answer is lost for its wording."""
        _make_storable(self)


class RefundOutcome(msgspec.Struct, frozen=True, kw_only=True):
    """What a provider said about one refund; its texts can be kept, whatever it sent."""

    status: RefundStatus
    provider_ref: str = ""
    reason: str = ""

    def __post_init__(self) -> None:
        """Drop from the texts what cannot be stored, so that no answer is lost for its wording."""
        _make_storable(self)


class GatewayPaymentEvent(msgspec.Struct, frozen=True, kw_only=True):
    """A callback about an attempt."""

    attempt_id: str
    outcome: PaymentOutcome


class GatewayRefundEvent(msgspec.Struct, frozen=True, kw_only=True):
    """A callback about a refund of an attempt's payment."""

    attempt_id: str
    refund_id: str
    outcome: RefundOutcome


class GatewayDisputeEvent(msgspec.Struct, frozen=True, kw_only=True):
    """A callback about a dispute of an attempt's payment.

    A provider that does not carry our id along leaves ``attempt_id`` "" and gives its own name of
    the payment: its adapter ``Traces`` that.
    """

    attempt_id: str
    payment_ref: str = ""
    dispute_ref: str
    status: DisputeStatus
    amount: Money
    reason: str = ""

    def __post_init__(self) -> None:
        """Drop from the texts what cannot be stored, so that no event is lost for its wording."""
        _make_storable(self)


GatewayEvent = GatewayPaymentEvent | GatewayRefundEvent | GatewayDisputeEvent


class OfAnotherGateway(NotFound):
    """A gateway speaks of a payment that went through another one: its word does not count."""

    def __init__(self, gateway: str, owner: str) -> None:
        """``gateway`` signed the event, ``owner`` the gateway of the payment."""
        super().__init__(reason=f"{gateway} speaks of a payment of {owner}")
        self.gateway = gateway
        self.owner = owner


class BadCallback(Exception):
    """A callback without a valid signature, too old, or not in the provider's form."""


class Gateway(Protocol):
    """What an adapter offers. No method raises for a provider's or network's failure."""

    name: str

    def methods(self, currency: str) -> tuple[Method, ...]:
        """Return the payment methods on offer for the currency, in order of preference."""
        ...

    async def pay(self, request: PaymentRequest) -> PaymentOutcome:
        """Start the attempt, or find it if it was started before under the same id."""
        ...

    async def find_payment(self, attempt_id: str, provider_ref: str = "") -> PaymentOutcome:
        """Ask what became of an attempt. NOT_FOUND only if the provider says so.

        ``provider_ref`` is what an outcome of it named before, "" as long as none did.
        """
        ...

    async def refund(self, request: RefundRequest) -> RefundOutcome:
        """Start the refund, or find it if it was started before under the same id."""
        ...

    async def find_refund(self, refund_id: str, payment_ref: str = "") -> RefundOutcome:
        """Ask what became of a refund. NOT_FOUND only if the provider says so.

        ``payment_ref`` is the provider's name of the payment that it is of.
        """
        ...

    def read_callback(
        self, headers: Mapping[str, str], body: bytes, now: int
    ) -> tuple[GatewayEvent, ...]:
        """Verify and translate a callback (``now`` in Unix ms). Raises BadCallback.

        ``headers`` has lower-case names. A genuine callback about something that does not
        concern us is an empty tuple.
        """
        ...

    async def close(self) -> None:
        """Close connections."""
        ...


@runtime_checkable
class Notified(Protocol):
    """What an adapter offers besides, if its provider reports by a query or a form.

    A provider of this kind wants a certain text back, and takes everything else for a failure.
    """

    acknowledgement: bytes

    async def read_notice(self, params: Mapping[str, str]) -> tuple[GatewayEvent, ...]:
        """Verify and translate a notice. Raises BadCallback, and Unavailable to have it sent again.

        A genuine notice about something that does not concern us is an empty tuple.
        """
        ...


@runtime_checkable
class Expires(Protocol):
    """What an adapter offers besides, if a page that waits for its customer can be closed."""

    async def expire(self, attempt_id: str, provider_ref: str) -> PaymentOutcome:
        """Close the attempt's page, so that nobody pays there any more; what became of it.

        What is paid, or being paid, is not closed but said.
        """
        ...


@runtime_checkable
class Traces(Protocol):
    """What an adapter offers besides, if its events can name a payment without our id."""

    async def trace(self, payment_ref: str) -> str | None:
        """Return the attempt that a payment was made for; "" if none of ours, None if unknown."""
        ...
