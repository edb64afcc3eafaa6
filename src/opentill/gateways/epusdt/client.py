"""The adapter for an epusdt server, and for its fork bepusdt.

The server shows its own page, scans its operator's wallets and calls back. The protocol has no
refunds: staff send the tokens and record it. An order's state is queried by the server's id, which
only the response to its creation contains; the original server creates an order once and refuses
to do so again, the fork returns the same order (decision 0162).
"""

import logging
import time
from collections.abc import Mapping
from http import HTTPStatus
from typing import Any, Final, Literal

import msgspec

from opentill.core.ids import creation_time, is_id
from opentill.core.links import safe_url
from opentill.gateways.epusdt import signature, wire
from opentill.gateways.epusdt.wire import Reply
from opentill.gateways.failures import FAILURES, status_of
from opentill.gateways.model import (
    BadCallback,
    CheckProblem,
    GatewayEvent,
    GatewayPaymentEvent,
    Method,
    PaymentOutcome,
    PaymentRequest,
    RefundOutcome,
    RefundRequest,
)
from opentill.outgoing.client import Outgoing

_TIMEOUT_S: Final = 10.0  # shorter than the 15 s after which an attempt without a result is queried
_CREATE: Final = "api/v1/order/create-transaction"
_CANCEL: Final = "api/v1/order/cancel-transaction"
_STATUS: Final = "pay/check-status/"
_JSON: Final = {"Content-Type": "application/json", "Accept": "application/json"}
# An attempt whose page nobody has seen is declined after this time, so that the customer can try
# again: without a page nobody can pay it.
_LOST_MS: Final = 60_000
_LOST: Final = "the response was lost, and with it the server's page and number of the order"
_PROBE: Final = "opentill-check"
_VARIABLES: Final = "OPENTILL_GATEWAY_EPUSDT_"
_log: Final = logging.getLogger(__name__)


class Options(msgspec.Struct, frozen=True, kw_only=True):
    """The server's URL, its API token, and the currency of its orders' amounts."""

    url: str  # ends with a slash
    token: str
    currency: str
    # What only the fork gets with each order; None if the server is not the fork.
    fork: Mapping[str, str] | None = None

    def __repr__(self) -> str:
        """Omit the token."""
        return f"Options(url={self.url!r}, fork={self.fork!r})"


class _NoReply(msgspec.Struct, frozen=True):
    """There is no usable response; ``status`` is the result of ``failures.status_of``."""

    status: Literal["UNREACHABLE", "UNKNOWN"]
    reason: str


class EpusdtGateway:
    """The ``Gateway`` of an epusdt server; it implements ``Acknowledges`` and ``Checks``."""

    name = "epusdt"
    acknowledgement = b"ok"

    def __init__(self, options: Options, outgoing: Outgoing, timeout_s: float = _TIMEOUT_S) -> None:
        """``outgoing`` is closed with the gateway."""
        self._options = options
        self._outgoing = outgoing
        self._timeout_s = timeout_s

    def methods(self, currency: str) -> tuple[Method, ...]:
        """Return CRYPTO for the currency of the server's amounts."""
        return ("CRYPTO",) if currency == self._options.currency else ()

    async def close(self) -> None:
        """Close the connections."""
        await self._outgoing.close()

    # Payments

    async def pay(self, request: PaymentRequest) -> PaymentOutcome:
        """Create the order and return its page."""
        number = wire.number(request.amount)
        if number is None or not self.methods(request.amount.currency):
            return PaymentOutcome(status="DECLINED", reason="the server takes no such amount")
        params = wire.order(request, number, self._options.fork, _now_ms())
        reply = await self._post(_CREATE, params)
        if isinstance(reply, _NoReply):
            return PaymentOutcome(status=reply.status, reason=reply.reason)
        if reply.is_refusal:
            return PaymentOutcome(status="DECLINED", reason=reply.summary)
        if reply.code != wire.SUCCESS:
            lost = reply.code == wire.ORDER_EXISTS
            return PaymentOutcome(status="UNKNOWN", reason=_LOST if lost else reply.summary)
        return self._created(request, reply)

    def _created(self, request: PaymentRequest, reply: Reply) -> PaymentOutcome:
        """Return the outcome of an order, if the server created the one that was asked for."""
        trade_id, page = (
            wire.read_trade_id(reply.get("trade_id")),
            safe_url(reply.get("payment_url")),
        )
        amount = wire.amount(reply.data.get("amount"), self._options.currency)
        if reply.get("order_id") != request.attempt_id or amount != request.amount:
            return PaymentOutcome(status="UNKNOWN", reason="the response is about another payment")
        if not trade_id or page is None:
            return PaymentOutcome(status="UNKNOWN", reason="the response has no page")
        status = reply.data.get("status")
        if status is not None and not wire.is_waiting(status):  # the fork knows the order already
            return wire.outcome(status, trade_id, fork=True, amount=amount)
        return PaymentOutcome(status="ACTION_REQUIRED", provider_ref=trade_id, action_url=page)

    async def find_payment(self, attempt_id: str, provider_ref: str = "") -> PaymentOutcome:
        """Query the state of an order. The server does not name the amount that was paid.

        It marks an order as paid only when exactly the amount of its page has arrived.
        """
        trade_id = wire.read_trade_id(provider_ref)
        if not trade_id:
            is_lost = _now_ms() - creation_time(attempt_id) >= _LOST_MS
            return PaymentOutcome(status="DECLINED" if is_lost else "UNKNOWN", reason=_LOST)
        reply = await self._send("GET", _STATUS + trade_id)
        if isinstance(reply, _NoReply):
            return PaymentOutcome(status="UNKNOWN", reason=reply.reason)
        if reply.is_unknown_order:
            return PaymentOutcome(status="NOT_FOUND", reason=reply.summary)
        if reply.get("trade_id") != trade_id:
            reason = f"the response is about another payment ({reply.summary})"
            return PaymentOutcome(status="UNKNOWN", reason=reason)
        return wire.outcome(reply.data.get("status"), trade_id, fork=self._options.fork is not None)

    # Refunds: staff send the tokens from a wallet, because the protocol has none.

    async def refund(self, request: RefundRequest) -> RefundOutcome:
        """Return PENDING: staff send the tokens and record the result."""
        del request
        return RefundOutcome(status="PENDING")

    async def find_refund(self, refund_id: str, payment_ref: str = "") -> RefundOutcome:
        """Return PENDING: staff record the result."""
        del refund_id, payment_ref
        return RefundOutcome(status="PENDING")

    # Callbacks

    def read_callback(
        self, headers: Mapping[str, str], body: bytes, now: int
    ) -> tuple[GatewayEvent, ...]:
        """Verify a callback and return its event; a callback that an order waits has none.

        Callbacks have no time: an old one says what it said when it was new.
        """
        del headers, now
        callback = wire.read(body)
        if callback is None or not signature.verify(callback.values, self._options.token):
            msg = "the signature does not fit the values"
            raise BadCallback(msg)
        values = callback.values
        attempt_id, trade_id = values.get("order_id"), values.get("trade_id")
        if not isinstance(attempt_id, str) or not isinstance(trade_id, str):
            msg = "order_id or trade_id is missing"
            raise BadCallback(msg)
        if not is_id(attempt_id) or wire.is_waiting(values.get("status")):
            return ()
        currency = self._options.currency
        amount = wire.amount(values.get("amount"), currency)
        outcome = wire.outcome(
            values.get("status"),
            wire.read_trade_id(trade_id),
            fork=self._options.fork is not None,
            amount=amount,
        )
        if outcome.status == "SUCCEEDED" and amount is None:
            outcome = PaymentOutcome(status="UNKNOWN", reason="the callback has no valid amount")
        return (GatewayPaymentEvent(attempt_id=attempt_id, outcome=outcome),)

    # The account

    async def check(self) -> CheckProblem | None:
        """Send a signed request that the server cannot fulfil; return the problem and its remedy.

        The original server gets an order without an address for callbacks, which it refuses; the
        fork is to cancel an order that does not exist.
        """
        if self._options.fork is None:
            reply = await self._post(_CREATE, {"order_id": _PROBE, "amount": 0})
        else:
            reply = await self._post(_CANCEL, {"trade_id": _PROBE})
        url = self._options.url
        if isinstance(reply, _NoReply):
            return CheckProblem(
                f"{url} gave no usable response: {reply.reason}. If this stays, correct"
                f" {_VARIABLES}URL or {_VARIABLES}SERVER",
                was_asked=False,
            )
        if reply.is_wrong_signature:
            return CheckProblem(
                f"{url} refuses the token ({reply.summary}): correct {_VARIABLES}TOKEN"
            )
        if self._options.fork is None and "notify_url" in reply.message:
            # The fork names the missing parameter; the original server names it in Chinese.
            return CheckProblem(
                f"{url} is a bepusdt server ({reply.summary}): set {_VARIABLES}SERVER=bepusdt"
            )
        is_right = reply.is_unknown_order if self._options.fork is not None else reply.is_refusal
        if not is_right:
            return CheckProblem(
                f"{url} responds to a request that it should refuse with {reply.summary}"
            )
        return None

    # Requests

    async def _post(self, path: str, params: dict[str, Any]) -> Reply | _NoReply:
        """Send a signed request."""
        signed = {**params, signature.FIELD: signature.sign(params, self._options.token)}
        return await self._send("POST", path, msgspec.json.encode(signed))

    async def _send(self, method: str, path: str, body: bytes = b"") -> Reply | _NoReply:
        try:
            response = await self._outgoing.send(
                method,
                self._options.url + path,
                headers=_JSON if body else {},
                body=body,
                timeout_s=self._timeout_s,
            )
        except FAILURES as error:
            reply: Reply | _NoReply | None = _NoReply(status_of(error), f"{error}"[:200])
        else:
            # The fork refuses with HTTP 400.
            if response.status not in (HTTPStatus.OK, HTTPStatus.BAD_REQUEST):
                reply = _NoReply("UNKNOWN", f"HTTP {response.status}")
            else:
                reply = wire.read(response.body)
        reply = reply or _NoReply("UNKNOWN", "not in the protocol's form")
        if isinstance(reply, _NoReply):
            _log.warning("the epusdt server: %s: %s", reply.status, reply.reason)
        return reply


class BepusdtGateway(EpusdtGateway):
    """The ``Gateway`` of the fork, which can also cancel orders: it implements ``Expires``."""

    async def expire(self, attempt_id: str, provider_ref: str) -> PaymentOutcome:
        """Cancel an order that waits, and return its state."""
        trade_id = wire.read_trade_id(provider_ref)
        if trade_id:
            reply = await self._post(_CANCEL, {"trade_id": trade_id})
            if isinstance(reply, _NoReply):
                return PaymentOutcome(status="UNKNOWN", reason=reply.reason)
            if reply.code == wire.SUCCESS and reply.get("trade_id") == trade_id:
                return PaymentOutcome(status="DECLINED", provider_ref=trade_id, reason="canceled")
        return await self.find_payment(attempt_id, provider_ref)


def _now_ms() -> int:
    return time.time_ns() // 1_000_000
