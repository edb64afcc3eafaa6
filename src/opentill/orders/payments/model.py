"""Payers, intents, reports about payments, and rows that only the SQL of payments returns."""

from decimal import Decimal

import msgspec

from opentill.gateways.model import GatewayPaymentEvent, Method


class FailedAttempts(msgspec.Struct, frozen=True):
    """A change of the count of failed attempts of a gateway, method, currency and quarter hour.

    ``since`` is the beginning of the quarter hour (Unix ms). ``failed`` is added to the count, and
    is below zero if more attempts are removed than added. ``attempts`` is the number of added and
    removed attempts.
    """

    since: int
    gateway: str
    method: str
    currency: str
    failed: int
    attempts: int


class DirectPayments(msgspec.Struct, frozen=True):
    """Direct payments of a quarter hour by gateway, method, card brand and both currencies.

    ``volume_minor`` is the amount that customers paid, in ``currency``; ``settled_minor`` is the
    same in the settlement currency. ``since`` is the beginning of the quarter hour (Unix ms).
    """

    since: int
    gateway: str
    method: str
    brand: str
    currency: str
    settled_currency: str
    payments: int
    volume_minor: int
    settled_minor: int


class DayTotal(msgspec.Struct, frozen=True):
    """The payments of an account with a day limit on one day: their number and their sum."""

    account_id: str
    currency: str
    payments: int
    sum_minor: int


class EndedReservation(msgspec.Struct, frozen=True):
    """An attempt whose fee was reserved in the prepaid balance, and the fee; minor units."""

    merchant_id: str
    id: str
    fee_minor: int


class UncountedMerchant(msgspec.Struct, frozen=True):
    """A merchant with failed attempts that are not counted yet."""

    merchant_id: str


class Payer(msgspec.Struct, frozen=True, kw_only=True):
    """The person who pays, as entered on the payment page."""

    email: str
    name: str | None
    prefilled: str | None = None  # the name that the merchant gave; used if the payer enters none
    ip: str
    locale: str
    on_phone: bool = False  # whether their browser is that of a phone

    @property
    def order_name(self) -> str | None:
        """The name that is stored in the order."""
        return self.name or self.prefilled or None


class PaymentIntent(msgspec.Struct, frozen=True, kw_only=True):
    """A payment that a customer is about to make.

    ``expires_at`` (Unix ms) is its deadline, None for no deadline.
    """

    merchant_id: str
    order_id: str
    payer: Payer
    method: Method
    merchant_name: str  # the name that the gateway shows to the customer
    expires_at: int | None = None
    account: str | None = None  # the only account that may take a test payment


class LastPaid(msgspec.Struct, frozen=True):
    """When the last payment of a gateway was paid, Unix ms."""

    gateway: str
    at: int


class UnansweredAttempts(msgspec.Struct, frozen=True):
    """How many attempts of a gateway have an unknown outcome, and since when (Unix ms)."""

    gateway: str
    number: int
    since: int


class Report(msgspec.Struct, frozen=True):
    """A gateway's event about a payment, and the gateway that signed it."""

    gateway: str
    gateway_event: GatewayPaymentEvent

    @property
    def key(self) -> tuple[str, str]:
        """The gateway and the attempt's id."""
        return self.gateway, self.gateway_event.attempt_id


class SharedNumber(msgspec.Struct, frozen=True):
    """An order of an Epay shop whose number other orders have too."""

    merchant_id: str
    id: str


class DepositAddress(msgspec.Struct, frozen=True):
    """The address that was reserved for an attempt. ``due`` is in multiples of 10**-18."""

    address: str  # in lower case
    account: str
    chain_id: int
    attempt_id: str
    amount_minor: int
    currency: str
    due: Decimal
    expires_at: int | None  # business time, as ``monitored_until``
    monitored_until: int
    reserved_at: int  # real time
