"""Epusdt on the wire: parameters of orders, replies and statuses.

Facts are those of the servers' documents and sources: https://github.com/assimon/epusdt and its
fork https://github.com/v03413/bepusdt. Errors of the first have HTTP status 200 and a
``status_code``; the second responds to a wrong signature with HTTP 400 and ``error``. Amounts are
numbers or texts.
"""

import re
from collections.abc import Mapping
from decimal import Decimal, InvalidOperation
from typing import Any, Final, cast

import msgspec

from opentill.core.money import EXPONENTS, Money
from opentill.gateways.epusdt.signature import text_of
from opentill.gateways.failures import MALFORMED
from opentill.gateways.model import PaymentOutcome, PaymentRequest, PaymentStatus

SUCCESS: Final = 200
WRONG_SIGNATURE: Final = 401
ORDER_EXISTS: Final = 10002
_UNKNOWN_ORDER: Final = 10008
_SAYS_UNKNOWN_ORDER: Final = "订单不存在"
_SAYS_WRONG_SIGNATURE: Final = "签名"
# With these codes nothing was done: invalid parameters, signature, no wallet, amount or rate.
_REFUSALS: Final = frozenset({400, WRONG_SIGNATURE, 10003, 10004, 10005, 10006, 10009})
_MAX_MESSAGE: Final = 200  # characters; longer messages of a server are truncated
MOST_DECIMALS: Final = 2  # of an order's amount
_TRADE_ID: Final = re.compile(r"[A-Za-z0-9_-]{1,128}", re.ASCII)
_MONEY: Final = re.compile(r"[0-9]{1,15}(?:\.[0-9]{1,8})?", re.ASCII)
_LEAST_TIMEOUT_S: Final = 60
_WAITING: Final = "1"

# Status of an order → outcome and reason. The fork has three more.
_STATUSES: Final[dict[str, tuple[PaymentStatus, str]]] = {
    _WAITING: ("ACTION_REQUIRED", ""),
    "2": ("SUCCEEDED", ""),
    "3": ("DECLINED", "expired"),
}
_FORK_STATUSES: Final[dict[str, tuple[PaymentStatus, str]]] = {
    **_STATUSES,
    "4": ("DECLINED", "canceled"),
    "5": ("PENDING", "confirming"),
    "6": ("DECLINED", "not_confirmed"),
}


class Reply(msgspec.Struct, frozen=True):
    """A server's JSON object."""

    values: Mapping[str, Any]

    @property
    def code(self) -> int | None:
        """The code; None if the server sends none, as the fork's status of an order."""
        text = text_of(self.values.get("status_code")) or ""
        return int(text) if re.fullmatch(r"[0-9]{1,6}", text) else None

    @property
    def message(self) -> str:
        """The server's message, truncated and printable."""
        value = self.values.get("message") or self.values.get("error")
        text = value if isinstance(value, str) else ""
        return "".join(each if each.isprintable() else " " for each in text)[:_MAX_MESSAGE]

    @property
    def summary(self) -> str:
        """Code and message."""
        return f"{'' if self.code is None else self.code} {self.message}".strip() or "no message"

    @property
    def data(self) -> Mapping[str, Any]:
        """The object of a successful reply: ``data``, or the reply itself without a code."""
        if self.code is None:
            return self.values
        data = self.values.get("data")
        if self.code != SUCCESS or not isinstance(data, dict):
            return {}
        return cast("dict[str, Any]", data)

    def get(self, name: str) -> str:
        """Return a value of ``data`` as text, "" if it is missing."""
        return text_of(self.data.get(name)) or ""

    @property
    def is_wrong_signature(self) -> bool:
        """Whether the server does not accept the token."""
        by_fork = self.code is None and _SAYS_WRONG_SIGNATURE in self.message
        return self.code == WRONG_SIGNATURE or by_fork

    @property
    def is_refusal(self) -> bool:
        """Whether the server surely did not do what it was asked for."""
        if self.code is None:
            return "error" in self.values
        return self.code in _REFUSALS

    @property
    def is_unknown_order(self) -> bool:
        """Whether the server reports that it has no such order."""
        refused = self.code not in (None, SUCCESS) and _SAYS_UNKNOWN_ORDER in self.message
        return refused or self.code == _UNKNOWN_ORDER


def read(body: bytes) -> Reply | None:
    """Read a reply; None unless it is a JSON object."""
    try:
        return Reply(msgspec.json.decode(body, type=dict[str, Any]))
    except MALFORMED:
        return None


def read_trade_id(text: str) -> str:
    """Return the server's id of an order, "" unless it can be one."""
    return text if _TRADE_ID.fullmatch(text) else ""


def amount(value: object, currency: str) -> Money | None:
    """Read an amount, a number or a text; None if it is not one in this currency."""
    text = text_of(value) or ""
    if _MONEY.fullmatch(text) is None:
        return None
    minor = Decimal(text).scaleb(EXPONENTS[currency])
    return Money(int(minor), currency) if minor == int(minor) else None


def number(amount: Money) -> float | None:
    """Return an amount as the float that servers make of it, None if it is too large for one."""
    value = float(amount.text)
    try:
        return value if Decimal(repr(value)) == Decimal(amount.text) else None
    except InvalidOperation:
        return None


def order(
    request: PaymentRequest, number: float, fork: Mapping[str, str] | None, now: int
) -> dict[str, Any]:
    """Return the unsigned parameters that create an order.

    ``order_id`` is the attempt's id. ``fork`` has parameters that only the fork knows, None for the
    original server.
    """
    params: dict[str, Any] = {
        "order_id": request.attempt_id,
        "amount": number,
        "notify_url": request.callback_url,
        "redirect_url": request.return_url,
    }
    if fork is None:
        return params
    if request.expires_at is not None:
        params["timeout"] = max(_LEAST_TIMEOUT_S, (request.expires_at - now) // 1000)
    return {**params, **fork}


def outcome(
    status: object, trade_id: str, *, fork: bool, amount: Money | None = None
) -> PaymentOutcome:
    """Return the outcome of an order's status."""
    text = text_of(status) or ""
    state, reason = (_FORK_STATUSES if fork else _STATUSES).get(text, ("UNKNOWN", ""))
    if state == "UNKNOWN":
        reason = f"status {text[:20]!r}"
    paid = amount if state == "SUCCEEDED" else None
    return PaymentOutcome(status=state, provider_ref=trade_id, reason=reason, amount=paid)


def is_waiting(status: object) -> bool:
    """Whether a status says that nothing has happened yet."""
    return text_of(status) == _WAITING
