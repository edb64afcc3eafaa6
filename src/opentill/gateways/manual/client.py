"""The adapter for bank transfers that an operator confirms: it shows payment instructions.

The order is closed when its session expires, like any other; ``opentill orders confirm`` records a
transfer even after that. The operator also pays refunds, and records them with ``opentill refunds
done`` or ``failed``.
"""

from collections.abc import Mapping
from typing import Final

from opentill.core.money import EXPONENTS
from opentill.gateways.model import (
    Method,
    PaymentOutcome,
    PaymentRequest,
    RefundOutcome,
    RefundRequest,
)
from opentill.gateways.no_callbacks import RefusesCallbacks

_EVERY: Final = ""  # the key of the instructions for currencies that have none of their own


class ManualGateway(RefusesCallbacks):
    """The ``Gateway`` of the operator's own bank account."""

    name = "manual"

    def __init__(self, by_currency: Mapping[str, str]) -> None:
        """``by_currency`` are the texts for customers (``configuration.instructions``)."""
        self._by_currency = by_currency

    def methods(self, currency: str) -> tuple[Method, ...]:
        """Return BANK_TRANSFER in currencies with instructions."""
        has_instructions = currency in EXPONENTS and not self._by_currency.keys().isdisjoint(
            {currency, _EVERY}
        )
        return ("BANK_TRANSFER",) if has_instructions else ()

    async def pay(self, request: PaymentRequest) -> PaymentOutcome:
        """Return the instructions; the page adds the amount and the order as the reference."""
        currency = request.amount.currency
        text = self._by_currency.get(currency) or self._by_currency.get(_EVERY, "")
        if not text:
            return PaymentOutcome(status="REFUSED", reason="no instructions for this currency")
        return PaymentOutcome(status="ACTION_REQUIRED", qr_text=text)

    async def find_payment(self, attempt_id: str, provider_ref: str = "") -> PaymentOutcome:
        """Return NOT_FOUND: there is no provider to query."""
        del attempt_id, provider_ref
        return PaymentOutcome(status="NOT_FOUND")

    async def refund(self, request: RefundRequest) -> RefundOutcome:
        """Return PENDING: the operator sends the money and records the result."""
        del request
        return RefundOutcome(status="PENDING")

    async def find_refund(self, refund_id: str, payment_ref: str = "") -> RefundOutcome:
        """Return PENDING: the operator records the result."""
        del refund_id, payment_ref
        return RefundOutcome(status="PENDING")

    async def close(self) -> None:
        """Do nothing: no connection is open."""
