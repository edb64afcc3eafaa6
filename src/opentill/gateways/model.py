"""The interface between OpenTill and a payment service provider.

This is the public interface of adapters, built-in ones and those that other packages add through
the entry point group ``opentill.gateways`` (``docs/recipes/add-a-gateway.md``). An adapter
translates these requests into the provider's, and the provider's responses and callbacks into these
outcomes. It is stateless. Our attempt or refund id is the provider's idempotency key, so that
repeating a request has no second effect.

Amounts are ``Money``: whole minor units and an ISO 4217 currency. Times are Unix milliseconds.
"""

import re
from collections.abc import Mapping
from typing import BinaryIO, Final, Literal, Protocol, Self, TypeGuard, runtime_checkable

import msgspec

from opentill.core import times
from opentill.core.errors import NotFound
from opentill.core.money import MOST_MINOR, Money
from opentill.core.payment_methods import Method as Method  # noqa: PLC0414 - part of this interface

# The outcome of a payment or refund as far as the provider's response reveals it:
#   SUCCEEDED        the money moved: it was captured or refunded
#   ACTION_REQUIRED  the customer must go to action_url or scan qr_text
#   PENDING          accepted; a callback or a later query brings the result
#   DECLINED         it did not go through; the customer may try again
#   REFUSED          it did not and never will go through
#   VOIDED           an authorization was cancelled before capture
#   UNREACHABLE      the request surely never reached the provider; another gateway may be tried
#   NOT_FOUND        the provider reports that it does not know this id
#   UNKNOWN          no usable response: the provider may have done it, and is queried again
# ``failures.status_of`` decides between UNREACHABLE and UNKNOWN for a failed request.
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
    """Take ``amount`` by ``method``; ``attempt_id`` is the idempotency key."""

    attempt_id: str
    method: Method
    amount: Money
    description: str
    merchant_name: str
    customer_email: str
    customer_name: str | None
    payer_ip: str
    return_url: str  # where the provider sends the customer afterwards, paid or not
    callback_url: str  # where the provider sends its callbacks
    locale: str  # BCP 47 tag of the customer's page
    expires_at: int | None = None  # the end of the checkout session, Unix ms; None if unknown
    on_phone: bool = False  # whether the customer's browser is that of a phone
    address: str | None = None  # the address that was reserved for the attempt (``deposits``)


class RefundRequest(msgspec.Struct, frozen=True, kw_only=True):
    """Refund ``amount`` of a payment; ``refund_id`` is the idempotency key.

    ``repeated``: this refund was sent before and may have been done. Adapters of providers without
    idempotency keys must not send it again.
    """

    refund_id: str
    attempt_id: str
    provider_ref: str  # the provider's id of the payment, "" if it has none
    amount: Money
    reason: str
    callback_url: str
    repeated: bool = False


def _storable(text: str) -> str:
    """Replace NUL and lone surrogates, which PostgreSQL cannot store."""
    if text.isascii() and "\x00" not in text:
        return text
    return text.replace("\x00", "").encode(errors="replace").decode()


def _make_storable(outcome: "PaymentOutcome | RefundOutcome | GatewayDisputeEvent") -> None:
    for field in outcome.__struct_fields__:
        text = getattr(outcome, field)
        if isinstance(text, str) and (storable := _storable(text)) != text:
            msgspec.structs.force_setattr(outcome, field, storable)


_CURRENCY: Final = re.compile(r"[A-Z0-9]{3,10}", re.ASCII)


def _is_credible(amount: Money) -> bool:
    """Whether an amount of a provider can be stored, summed and shown."""
    return 0 <= amount.minor <= MOST_MINOR and bool(_CURRENCY.fullmatch(amount.currency))


_BRAND: Final = re.compile(r"[a-z0-9_ -]{0,20}", re.ASCII)
_LAST4: Final = re.compile(r"[0-9]{4}", re.ASCII)


class Card(msgspec.Struct, frozen=True, kw_only=True):
    """The card of a payment: the provider's name of its brand, and its last four digits."""

    brand: str  # such as "visa", "" if the provider does not say
    last4: str

    @classmethod
    def read(cls, brand: str | None, last4: str | None) -> Self | None:
        """Return the card of a provider's response; None if ``last4`` is not four digits."""
        if last4 is None or _LAST4.fullmatch(last4) is None:
            return None
        name = (brand or "").lower()
        return cls(brand=name if _BRAND.fullmatch(name) else "", last4=last4)


class PaymentOutcome(msgspec.Struct, frozen=True, kw_only=True):
    """The state of an attempt as the provider reports it, with storable texts.

    It becomes UNKNOWN if its amount is below zero or above 10**16 minor units.
    """

    status: PaymentStatus
    provider_ref: str = ""
    action_url: str = ""
    qr_text: str = ""
    reason: str = ""  # a decline code such as "insufficient_funds", or why it is UNKNOWN
    amount: Money | None = None  # the captured amount, None if the provider does not report it
    method: Method | None = None  # the customer's method, None if the provider does not report it
    clearing_currency: str | None = None  # ISO 4217 code, None if the provider does not report it
    card: Card | None = None  # the customer's card, None if the provider does not report it

    def __post_init__(self) -> None:
        """Replace what PostgreSQL cannot store, so that no outcome is lost because of its texts."""
        _make_storable(self)
        if self.card is not None:
            card = Card.read(self.card.brand, self.card.last4)
            msgspec.structs.force_setattr(self, "card", card)
        if self.clearing_currency is not None and not _CURRENCY.fullmatch(self.clearing_currency):
            msgspec.structs.force_setattr(self, "clearing_currency", None)
        if self.amount is not None and not _is_credible(self.amount):
            msgspec.structs.force_setattr(self, "status", "UNKNOWN")
            msgspec.structs.force_setattr(self, "reason", "an impossible amount")
            msgspec.structs.force_setattr(self, "amount", None)


class RefundOutcome(msgspec.Struct, frozen=True, kw_only=True):
    """The state of a refund as the provider reports it, with storable texts."""

    status: RefundStatus
    provider_ref: str = ""
    reason: str = ""

    def __post_init__(self) -> None:
        """Replace what PostgreSQL cannot store, so that no outcome is lost because of its texts."""
        _make_storable(self)


class GatewayPaymentEvent(msgspec.Struct, frozen=True, kw_only=True):
    """A callback about an attempt."""

    attempt_id: str
    outcome: PaymentOutcome


class GatewayRefundEvent(msgspec.Struct, frozen=True, kw_only=True):
    """A callback about a refund of an attempt's payment.

    ``refund_id`` is our id of the refund, or "" for a refund made at the provider, which has an
    ``amount`` and the provider's id as ``outcome.provider_ref``. If the provider does not return
    our id of the payment, ``attempt_id`` is "", ``payment_ref`` is the provider's id of the
    payment, and the adapter implements ``Traces``.
    """

    attempt_id: str
    refund_id: str
    outcome: RefundOutcome
    payment_ref: str = ""
    amount: Money | None = None


class GatewayRefundsEvent(msgspec.Struct, frozen=True, kw_only=True):
    """A callback that reports that a payment was refunded, without naming the refunds.

    The adapter implements ``ListsRefunds``. ``attempt_id`` is the attempt of the payment.
    """

    attempt_id: str
    payment_ref: str


class GatewayDisputeEvent(msgspec.Struct, frozen=True, kw_only=True):
    """A callback about a dispute of an attempt's payment.

    If the provider does not return our id, ``attempt_id`` is "", ``payment_ref`` is the provider's
    id of the payment, and the adapter implements ``Traces``. ``respond_by`` is the deadline for
    evidence (Unix ms), None if it is unknown or outside of the years 2000 to 2099. Raises
    ValueError for an amount below zero or above 10**16.
    """

    attempt_id: str
    payment_ref: str = ""
    dispute_ref: str
    status: DisputeStatus
    amount: Money
    reason: str = ""
    respond_by: int | None = None

    def __post_init__(self) -> None:
        """Replace what PostgreSQL cannot store, so that no event is lost because of its texts."""
        _make_storable(self)
        if self.respond_by is not None and not times.is_credible(self.respond_by):
            msgspec.structs.force_setattr(self, "respond_by", None)
        if not _is_credible(self.amount):
            msg = "the amount of the dispute is an impossible one"
            raise ValueError(msg)


GatewayEvent = GatewayPaymentEvent | GatewayRefundEvent | GatewayRefundsEvent | GatewayDisputeEvent


class OfAnotherGateway(NotFound):
    """A gateway reported on a payment of another gateway; the report is ignored."""

    def __init__(self, gateway: str, owner: str) -> None:
        """``gateway`` signed the event; ``owner`` is the gateway of the payment."""
        super().__init__(reason=f"{gateway} reports on a payment of {owner}")
        self.gateway = gateway
        self.owner = owner


class BadCallback(Exception):
    """A callback without a valid signature, too old, or not in the provider's format."""


class Gateway(Protocol):
    """The interface that every adapter implements.

    No operation raises for a failure of the provider or the network; it returns an outcome
    (``failures``). An operation takes at most about ten seconds; an attempt without a result is
    queried after 15 s.
    """

    name: str

    def methods(self, currency: str) -> tuple[Method, ...]:
        """Return the payment methods for an ISO 4217 currency, the preferred first; () for none."""
        ...

    async def pay(self, request: PaymentRequest) -> PaymentOutcome:
        """Start a payment, or report the payment that was started before with the same id.

        Returns any outcome except NOT_FOUND. ACTION_REQUIRED has ``action_url`` or ``qr_text``.
        REFUSED ends the attempt for good; after UNREACHABLE the next gateway is tried.
        """
        ...

    async def find_payment(self, attempt_id: str, provider_ref: str = "") -> PaymentOutcome:
        """Query the state of an attempt. NOT_FOUND only if the provider reports it.

        ``provider_ref`` is the provider's id from an earlier outcome, "" if no outcome had one.
        """
        ...

    async def refund(self, request: RefundRequest) -> RefundOutcome:
        """Start a refund, or report the refund that was started before with the same id.

        Returns SUCCEEDED, PENDING, REFUSED (the money stays with the merchant), UNREACHABLE or
        UNKNOWN.
        """
        ...

    async def find_refund(self, refund_id: str, payment_ref: str = "") -> RefundOutcome:
        """Query the state of a refund. NOT_FOUND only if the provider reports it.

        ``payment_ref`` is the provider's id of the refunded payment.
        """
        ...

    def read_callback(
        self, headers: Mapping[str, str], body: bytes, now: int
    ) -> tuple[GatewayEvent, ...]:
        """Verify a callback's signature and age and return its events. Raises BadCallback.

        ``headers`` has lower-case names, ``now`` is real time in Unix ms. A genuine callback that
        is not about our payments returns an empty tuple.
        """
        ...

    async def close(self) -> None:
        """Close the connections; no other method is called afterwards."""
        ...


@runtime_checkable
class Notified(Gateway, Protocol):
    """An adapter whose provider sends callbacks as a query string or a form.

    Such a provider expects ``acknowledgement`` as the response and treats any other as a failure.
    """

    acknowledgement: bytes

    async def read_notice(self, params: Mapping[str, str]) -> tuple[GatewayEvent, ...]:
        """Verify a callback's parameters and return its events, like ``read_callback``.

        Raises BadCallback, and Unavailable to make the provider send it again.
        """
        ...


@runtime_checkable
class Acknowledges(Protocol):
    """Implemented by adapters whose provider expects a response of its own to callbacks."""

    acknowledgement: bytes  # any other response makes the provider send the callback again


def is_notified(gateway: Gateway | None) -> TypeGuard[Notified]:
    """Whether an adapter is ``Notified``; faster than ``isinstance`` with a protocol."""
    return hasattr(gateway, "read_notice")


@runtime_checkable
class Expires(Protocol):
    """Implemented by adapters that can close the provider's open payment page."""

    async def expire(self, attempt_id: str, provider_ref: str) -> PaymentOutcome:
        """Close a page unless it is being paid, and return the attempt's state."""
        ...


@runtime_checkable
class Captures(Expires, Protocol):
    """Implemented by adapters that take the money themselves, in a request of their own.

    Another process may have sent that request when a page is closed.
    """

    capture_ms: int  # how long after the end of an order a payment may still be taken


class CheckProblem(msgspec.Struct, frozen=True):
    """Why a provider does not accept an account, and the remedy.

    ``was_asked``: False if the provider gave no usable response, so that nothing is known about the
    credentials.
    """

    reason: str
    was_asked: bool = True


@runtime_checkable
class Checks(Protocol):
    """Implemented by adapters that can test whether the provider accepts their account."""

    async def check(self) -> CheckProblem | None:
        """Send a query without side effects; return the problem and its remedy, or None."""
        ...


@runtime_checkable
class TakesWallet(Protocol):
    """Implemented by adapters whose page for CREDIT_CARD takes a wallet besides cards."""

    wallet: str  # the wallet's name for customers


@runtime_checkable
class Reports(Gateway, Protocol):
    """Implemented by adapters whose provider's settlement report can be fetched."""

    report_delay_ms: int  # how long after it has happened a movement may be missing

    async def settlement_report(
        self, target: BinaryIO, since: int | None = None, until: int | None = None
    ) -> None:
        """Write the movements between two times (Unix ms, inclusive) as CSV.

        The columns are those of ``opentill reconcile``. Raises ConfigurationError on failure, and
        Invalid if the provider needs a narrower range.
        """
        ...


@runtime_checkable
class Bills(Reports, Protocol):
    """Implemented by adapters whose report consists of bills of whole days.

    ``report_delay_ms`` is the time from the end of a day until its bill is complete.
    """

    day_offset_ms: int  # how long before those of UTC the provider's days begin
    bill_account: str  # the account's number at the provider, as its bills state it; "" if unknown


@runtime_checkable
class Traces(Protocol):
    """Implemented by adapters whose provider's events do not contain our id of the payment."""

    async def trace(self, payment_ref: str) -> str | None:
        """Return a payment's attempt id; "" if the payment is not ours, None on a failure."""
        ...


@runtime_checkable
class ListsRefunds(Protocol):
    """Implemented by adapters whose provider reports a refunded payment without its refunds."""

    async def list_refunds(
        self, payment_ref: str, attempt_id: str
    ) -> tuple[GatewayRefundEvent, ...] | None:
        """Return a payment's refunds, including those made at the provider; None on a failure."""
        ...


@runtime_checkable
class FetchesKeys(Gateway, Protocol):
    """Implemented by adapters that must fetch the keys by which callbacks are verified."""

    async def fetch_keys(self, headers: Mapping[str, str]) -> None:
        """Fetch the key of a callback if it is unknown; ``read_callback`` is called next.

        ``headers`` has lower-case names, and is not verified yet.
        """
        ...


def fetches_keys(gateway: Gateway) -> TypeGuard[FetchesKeys]:
    """Whether an adapter is ``FetchesKeys``; faster than ``isinstance`` with a protocol."""
    return hasattr(gateway, "fetch_keys")
