"""Payers, intents, reports about payments, and rows that only the SQL of payments returns."""

import msgspec

from opentill.gateways.model import GatewayPaymentEvent, Method


class FailedAttempts(msgspec.Struct, frozen=True):
    """How many attempts failed in the quarter hour from ``since`` (Unix ms): below zero, fewer.

    Of one gateway, method and currency.
    ``attempts`` is how many were looked at.
    """

    since: int
    gateway: str
    method: str
    currency: str
    failed: int
    attempts: int


class UncountedMerchant(msgspec.Struct, frozen=True):
    """A merchant with attempts to be counted."""

    merchant_id: str


class Payer(msgspec.Struct, frozen=True, kw_only=True):
    """Who pays, as entered on the payment page."""

    email: str
    name: str | None
    prefilled: str | None = None  # the name that the merchant gave, where the payer enters none
    ip: str
    locale: str

    @property
    def known_name(self) -> str | None:
        """The name that the order keeps."""
        return self.name or self.prefilled or None


class PaymentIntent(msgspec.Struct, frozen=True, kw_only=True):
    """What a customer is about to pay, and how; ``expires_at`` (Unix ms) is the last moment."""

    merchant_id: str
    order_id: str
    payer: Payer
    method: Method
    merchant_name: str  # as the gateway shows it
    expires_at: int | None = None


class UnansweredAttempts(msgspec.Struct, frozen=True):
    """How many attempts at a gateway have no known outcome, and since when the oldest (Unix ms)."""

    gateway: str
    number: int
    since: int


class Report(msgspec.Struct, frozen=True):
    """A gateway's event about a payment, and the gateway that signed it."""

    gateway: str
    gateway_event: GatewayPaymentEvent

    @property
    def key(self) -> tuple[str, str]:
        """The gateway and the attempt."""
        return self.gateway, self.gateway_event.attempt_id


class SharedNumber(msgspec.Struct, frozen=True):
    """An order of an Epay shop whose number other orders have, too."""

    merchant_id: str
    id: str
