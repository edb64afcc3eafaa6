"""Tells the customer how to transfer money, and asks nobody: a person looks at the account.

The order waits until the operator says ``opentill orders confirm``, even after its session has
expired. Refunds are paid by hand too, and ended with ``opentill refunds done`` or ``failed``.
"""

from collections.abc import Mapping
from pathlib import Path
from typing import Final

from opentill.core.errors import ConfigurationError
from opentill.core.money import EXPONENTS
from opentill.gateways.model import (
    BadCallback,
    GatewayEvent,
    Method,
    PaymentOutcome,
    PaymentRequest,
    RefundOutcome,
    RefundRequest,
)

_VARIABLE: Final = "OPENTILL_GATEWAY_MANUAL_INSTRUCTIONS"
_LONGEST: Final = 4000
_EVERY: Final = ""


class BadInstructions(ConfigurationError, ValueError):
    """There are no usable instructions; the text names the variable."""


def instructions(options: Mapping[str, str]) -> dict[str, str]:
    """Read the instructions by currency, "" for every other, from the gateway's options.

    ``…_INSTRUCTIONS`` holds text, ``…_INSTRUCTIONS_FILE`` the path of a text file in UTF-8; both
    may end in ``_EUR`` and the like, for one currency. Raises BadInstructions.
    """
    found: dict[str, str] = {}
    for option, given in options.items():
        if not option.startswith("manual_instructions"):
            continue
        variable = f"OPENTILL_GATEWAY_{option.upper()}"
        words = option.removeprefix("manual_instructions").upper().split("_")[1:]
        in_file = words[:1] == ["FILE"]
        currency = "_".join(words[1:] if in_file else words)
        if currency and currency not in EXPONENTS:
            msg = f"{variable} ends in {currency!r}, which is no ISO 4217 currency"
            raise BadInstructions(msg)
        if currency in found:
            msg = f"{variable} is given as text and as a file; one of them is enough"
            raise BadInstructions(msg)
        found[currency] = _text(variable, given, in_file=in_file)
    if not found:
        msg = (
            f"{_VARIABLE} must say how to transfer money, or {_VARIABLE}_FILE where that is written"
        )
        raise BadInstructions(msg)
    return found


def _text(variable: str, given: str, *, in_file: bool) -> str:
    try:
        text = Path(given).read_text(encoding="utf-8") if in_file else given
    except (OSError, UnicodeDecodeError) as error:
        msg = f"{variable} must be the path of a text file in UTF-8: {error}"
        raise BadInstructions(msg) from None
    text = "\n".join(line.rstrip() for line in text.strip().splitlines())
    if (
        not text
        or len(text) > _LONGEST
        or not text.replace("\n", "").replace("\t", "").isprintable()
    ):
        msg = f"{variable} must be 1 to {_LONGEST} printable characters"
        raise BadInstructions(msg)
    return text


class ManualGateway:
    """The ``Gateway`` of an account that a person looks at."""

    name = "manual"

    def __init__(self, by_currency: Mapping[str, str]) -> None:
        """``by_currency`` is what to tell the customer, as ``instructions`` returns it."""
        self._by_currency = by_currency

    def methods(self, currency: str) -> tuple[Method, ...]:
        """Bank transfer, in currencies that there are instructions for."""
        known = currency in EXPONENTS and not self._by_currency.keys().isdisjoint(
            {currency, _EVERY}
        )
        return ("BANK_TRANSFER",) if known else ()

    async def pay(self, request: PaymentRequest) -> PaymentOutcome:
        """Hand out the instructions; the page adds the amount and the order as the reference."""
        currency = request.amount.currency
        text = self._by_currency.get(currency) or self._by_currency.get(_EVERY, "")
        if not text:
            return PaymentOutcome(status="REFUSED", reason="no instructions for this currency")
        return PaymentOutcome(status="ACTION_REQUIRED", qr_text=text)

    async def find_payment(self, attempt_id: str, provider_ref: str = "") -> PaymentOutcome:
        """Nobody wrote down anything: an attempt is known only once its customer was answered."""
        del attempt_id, provider_ref
        return PaymentOutcome(status="NOT_FOUND")

    async def refund(self, request: RefundRequest) -> RefundOutcome:
        """The operator pays it back and says so."""
        del request
        return RefundOutcome(status="PENDING")

    async def find_refund(self, refund_id: str, payment_ref: str = "") -> RefundOutcome:
        """The operator says how it ended."""
        del refund_id, payment_ref
        return RefundOutcome(status="PENDING")

    def read_callback(
        self, headers: Mapping[str, str], body: bytes, now: int
    ) -> tuple[GatewayEvent, ...]:
        """Nobody reports here. Raises BadCallback."""
        del headers, body, now
        msg = "nobody reports to the manual gateway"
        raise BadCallback(msg)

    async def close(self) -> None:
        """Nothing is open."""
