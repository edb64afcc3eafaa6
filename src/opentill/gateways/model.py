"""The language between OpenTill and a payment service provider.

This is the public surface for adapters, ours and those that other packages add through the entry
point group ``opentill.gateways`` (``docs/recipes/add-a-gateway.md``). An adapter translates: these
requests into the provider's, the provider's responses and callbacks into these outcomes. It stores
nothing. Our attempt or refund id is the provider's idempotency key, so that the same request may be
sent again without a second effect.

Amounts are ``Money``: whole minor units and an ISO 4217 currency. Times are Unix milliseconds.
"""

import re
from collections.abc import Mapping
from typing import Final, Literal, Protocol, Self, TypeGuard, runtime_checkable

import msgspec

from opentill.core import times
from opentill.core.errors import NotFound
from opentill.core.money import MOST_MINOR, Money
from opentill.core.payment_methods import Method as Method  # noqa: PLC0414 - part of this interface

# What became of a payment or refund, as far as the provider's response says:
#   SUCCEEDED        the money moved: it was captured, or given back
#   ACTION_REQUIRED  the customer must go to action_url or scan qr_text
#   PENDING          accepted; the result comes later, by a callback or when it is asked for
#   DECLINED         it did not go through; the customer may try again
#   REFUSED          it did not and never will go through
#   VOIDED           an authorization was cancelled before capture
#   UNREACHABLE      the request surely never reached the provider; another gateway may be tried
#   NOT_FOUND        the provider says that it does not know this id
#   UNKNOWN          no usable response: the provider may have done it, and is asked again
# ``failures.status_of`` says which of UNREACHABLE and UNKNOWN a failed request is.
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
    expires_at: int | None = None  # the end of the checkout session, Unix ms, if known


class RefundRequest(msgspec.Struct, frozen=True, kw_only=True):
    """Give ``amount`` of a payment back; ``refund_id`` is the idempotency key.

    ``repeated``: it was sent before and may have been done, for providers without such a key.
    """

    refund_id: str
    attempt_id: str
    provider_ref: str  # the provider's id of the payment, "" if it has none
    amount: Money
    reason: str
    callback_url: str
    repeated: bool = False


def _storable(text: str) -> str:
    """Replace what PostgreSQL cannot store: NUL, and halves of surrogate pairs."""
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
    """Return whether an amount that a provider names can be stored, added up and shown."""
    return 0 <= amount.minor <= MOST_MINOR and bool(_CURRENCY.fullmatch(amount.currency))


_BRAND: Final = re.compile(r"[a-z0-9_ -]{0,20}", re.ASCII)
_LAST4: Final = re.compile(r"[0-9]{4}", re.ASCII)


class Card(msgspec.Struct, frozen=True, kw_only=True):
    """The card that was paid with: its brand as the provider names it, and its last four digits."""

    brand: str  # such as "visa", "" if the provider does not say
    last4: str

    @classmethod
    def read(cls, brand: str | None, last4: str | None) -> Self | None:
        """Return the card that a provider speaks of, None for what are no four digits."""
        if last4 is None or _LAST4.fullmatch(last4) is None:
            return None
        name = (brand or "").lower()
        return cls(brand=name if _BRAND.fullmatch(name) else "", last4=last4)


class PaymentOutcome(msgspec.Struct, frozen=True, kw_only=True):
    """The state of an attempt as the provider reports it. Its texts are made storable.

    With an impossible amount, below zero or above 10**16 minor units, it is UNKNOWN.
    """

    status: PaymentStatus
    provider_ref: str = ""
    action_url: str = ""
    qr_text: str = ""
    reason: str = ""  # a decline code such as "insufficient_funds", or why it is UNKNOWN
    amount: Money | None = None  # what was captured, if the provider says so
    method: Method | None = None  # what the customer used, if the provider says so
    clearing_currency: str | None = None  # ISO 4217, if the provider says so
    card: Card | None = None  # what the customer paid with, if the provider says so

    def __post_init__(self) -> None:
        """Make the texts storable, so that no outcome is lost for its wording."""
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
    """The state of a refund as the provider reports it. Its texts are made storable."""

    status: RefundStatus
    provider_ref: str = ""
    reason: str = ""

    def __post_init__(self) -> None:
        """Make the texts storable, so that no outcome is lost for its wording."""
        _make_storable(self)


class GatewayPaymentEvent(msgspec.Struct, frozen=True, kw_only=True):
    """A callback about an attempt."""

    attempt_id: str
    outcome: PaymentOutcome


class GatewayRefundEvent(msgspec.Struct, frozen=True, kw_only=True):
    """A callback about a refund of an attempt's payment.

    ``refund_id`` is ours, "" for a refund that was made at the provider and not by us: that one has
    its ``amount``, and the provider's id of it as ``outcome.provider_ref``. Where the provider does
    not return our id of the payment, ``attempt_id`` is "", ``payment_ref`` the provider's id of the
    payment, and the adapter has ``Traces``.
    """

    attempt_id: str
    refund_id: str
    outcome: RefundOutcome
    payment_ref: str = ""
    amount: Money | None = None


class GatewayRefundsEvent(msgspec.Struct, frozen=True, kw_only=True):
    """A callback that says that a payment was refunded, and not which refunds it has.

    The adapter has ``ListsRefunds``. ``attempt_id`` is that of the payment.
    """

    attempt_id: str
    payment_ref: str


class GatewayDisputeEvent(msgspec.Struct, frozen=True, kw_only=True):
    """A callback about a dispute of an attempt's payment.

    For a provider that does not return our id, ``attempt_id`` is "", ``payment_ref`` the provider's
    id of the payment, and the adapter has ``Traces``. ``respond_by`` is until when the provider
    takes evidence (Unix ms), None if it does not say; a time outside of the years 2000 to 2099 is
    taken for that. Raises ValueError for an impossible amount: it is below zero or above 10**16.
    """

    attempt_id: str
    payment_ref: str = ""
    dispute_ref: str
    status: DisputeStatus
    amount: Money
    reason: str = ""
    respond_by: int | None = None

    def __post_init__(self) -> None:
        """Make the texts storable, so that no event is lost for its wording."""
        _make_storable(self)
        if self.respond_by is not None and not times.is_credible(self.respond_by):
            msgspec.structs.force_setattr(self, "respond_by", None)
        if not _is_credible(self.amount):
            msg = "the amount of the dispute is an impossible one"
            raise ValueError(msg)


GatewayEvent = GatewayPaymentEvent | GatewayRefundEvent | GatewayRefundsEvent | GatewayDisputeEvent


class OfAnotherGateway(NotFound):
    """A gateway reports on a payment that went through another one, and is not believed."""

    def __init__(self, gateway: str, owner: str) -> None:
        """``gateway`` signed the event, ``owner`` the gateway of the payment."""
        super().__init__(reason=f"{gateway} reports on a payment of {owner}")
        self.gateway = gateway
        self.owner = owner


class BadCallback(Exception):
    """A callback with no valid signature, too old, or not in the provider's format."""


class Gateway(Protocol):
    """What every adapter has.

    No operation raises for a failure of the provider or the network: that is an outcome
    (``failures``). An operation ends within some ten seconds; an attempt without a result is asked
    for after 15 s.
    """

    name: str

    def methods(self, currency: str) -> tuple[Method, ...]:
        """Return the payment methods for an ISO 4217 currency, the preferred first; () for none."""
        ...

    async def pay(self, request: PaymentRequest) -> PaymentOutcome:
        """Start a payment, or find the one that was started before under the same id.

        Any outcome but NOT_FOUND. ACTION_REQUIRED has ``action_url`` or ``qr_text``. REFUSED ends
        the attempt for good; UNREACHABLE lets the next gateway try.
        """
        ...

    async def find_payment(self, attempt_id: str, provider_ref: str = "") -> PaymentOutcome:
        """Ask the provider for an attempt's state. NOT_FOUND only if the provider says so.

        ``provider_ref`` is that of an earlier outcome, "" if none had one.
        """
        ...

    async def refund(self, request: RefundRequest) -> RefundOutcome:
        """Start a refund, or find the one that was started before under the same id.

        SUCCEEDED, PENDING, REFUSED (the money stays with the merchant), UNREACHABLE or UNKNOWN.
        """
        ...

    async def find_refund(self, refund_id: str, payment_ref: str = "") -> RefundOutcome:
        """Ask the provider for a refund's state. NOT_FOUND only if the provider says so.

        ``payment_ref`` is the provider's id of the payment that is refunded.
        """
        ...

    def read_callback(
        self, headers: Mapping[str, str], body: bytes, now: int
    ) -> tuple[GatewayEvent, ...]:
        """Verify a callback's signature and age and return its events. Raises BadCallback.

        ``headers`` has lower-case names, ``now`` is real time in Unix ms. A genuine callback about
        anything else than our payments is an empty tuple.
        """
        ...

    async def close(self) -> None:
        """Close the connections; nothing is called afterwards."""
        ...


@runtime_checkable
class Notified(Gateway, Protocol):
    """An adapter whose provider sends callbacks as a query or a form.

    Such a provider expects ``acknowledgement`` as the response and takes any other as a failure.
    """

    acknowledgement: bytes

    async def read_notice(self, params: Mapping[str, str]) -> tuple[GatewayEvent, ...]:
        """Verify a callback's parameters and return its events, as ``read_callback`` does.

        Raises BadCallback, and Unavailable to have the provider send it again.
        """
        ...


def is_notified(gateway: Gateway | None) -> TypeGuard[Notified]:
    """Return whether an adapter is ``Notified``, quickly: ``isinstance`` of a protocol is slow."""
    return hasattr(gateway, "read_notice")


@runtime_checkable
class Expires(Protocol):
    """What an adapter has as well if the provider's open payment page can be closed."""

    async def expire(self, attempt_id: str, provider_ref: str) -> PaymentOutcome:
        """Close the attempt's page and return its state; one that is being paid stays open."""
        ...


@runtime_checkable
class Checks(Protocol):
    """What an adapter has as well if it can try whether the provider accepts its account."""

    async def check(self) -> str | None:
        """Send a query that changes nothing; return what is wrong and what to do, or None."""
        ...


@runtime_checkable
class Traces(Protocol):
    """What an adapter has as well if the provider's events name a payment without our id."""

    async def trace(self, payment_ref: str) -> str | None:
        """Return the attempt id of a payment; "" if it is not ours, None if that is unknown."""
        ...


@runtime_checkable
class ListsRefunds(Protocol):
    """What an adapter has as well if the provider says that a payment was refunded, not how."""

    async def list_refunds(
        self, payment_ref: str, attempt_id: str
    ) -> tuple[GatewayRefundEvent, ...] | None:
        """Return all refunds of a payment of ours, whoever made them; None if they are unknown."""
        ...
