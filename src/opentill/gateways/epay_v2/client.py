"""The adapter for an Epay V2 server. It caches replies about orders for two seconds.

Placing an order moves no money and is idempotent by its parameters. Only the reply has the page's
address: the customer never gets a signed request, which the convention would also accept as a
refund. A refund is sent once, unless the server is known to make refunds of one number once; if its
reply is lost, the server is asked for it (decision 0171).
"""

import asyncio
import logging
import time
from collections.abc import Mapping
from http import HTTPStatus
from typing import Any, Final, Literal
from urllib.parse import urlencode

import msgspec
from cryptography.hazmat.primitives.asymmetric.rsa import RSAPrivateKey, RSAPublicKey

from opentill.core.errors import Unavailable
from opentill.core.ids import creation_time, is_id
from opentill.core.links import safe_url
from opentill.core.money import Money
from opentill.gateways.epay import signature
from opentill.gateways.epay import wire as v1
from opentill.gateways.epay_v2 import wire
from opentill.gateways.epay_v2.wire import Reply
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
# These may take longer, because the server calls its own provider.
_SLOW: Final = frozenset({wire.CREATE, wire.REFUND})
_CACHE_S: Final = 2.0
_FORM: Final = {"Content-Type": "application/x-www-form-urlencoded"}
_NO_CLIENT_IP: Final = "127.0.0.1"  # clientip is required, even if the address is unknown
# An attempt whose page nobody has seen is declined after this time, so that the customer can try
# again.
_LOST_MS: Final = 60_000
_LOST: Final = "the response was lost, and with it the server's page of the order"
_LOST_REFUND: Final = (
    "the server's response was lost, and it does not know the refund: look there, then run {}"
)
_OTHER: Final = "the response is about another {}"
_VARIABLES: Final = "OPENTILL_GATEWAY_EPAY_V2_"
_log: Final = logging.getLogger(__name__)


class Options(msgspec.Struct, frozen=True, kw_only=True):
    """The server's URL, our account there with both keys, and how to use it."""

    url: str  # of the folder with ``api/``, ends with a slash
    pid: str
    private_key: RSAPrivateKey
    public_key: RSAPublicKey  # the platform's
    methods: dict[Method, str]  # each method's ``type`` at the server, the preferred method first
    currency: str
    shows_codes: bool = False  # whether the server may return QR codes instead of pages
    repeats_refunds: bool = False  # whether the server makes refunds of one number only once

    def __repr__(self) -> str:
        """Omit the keys."""
        return f"Options(url={self.url!r}, pid={self.pid!r})"


class _NoReply(msgspec.Struct, frozen=True):
    """There is no usable reply; ``status`` is the result of ``failures.status_of``."""

    status: Literal["UNREACHABLE", "UNKNOWN"]
    reason: str
    is_forged: bool = False  # there was one that the server has not signed


class EpayV2Gateway:
    """The ``Gateway`` of an Epay V2 server; it implements ``Checks`` and ``Expires``."""

    name = "epay_v2"
    acknowledgement = b"success"

    def __init__(
        self,
        options: Options,
        outgoing: Outgoing,
        timeout_s: float = _TIMEOUT_S,
        cache_s: float = _CACHE_S,
    ) -> None:
        """``outgoing`` is closed with the gateway.

        A reply about an order is reused for further notices for ``cache_s`` seconds.
        """
        self._options = options
        self._outgoing = outgoing
        self._timeout_s = timeout_s
        self._cache_s = cache_s
        self._cache: dict[str, asyncio.Task[Reply | _NoReply]] = {}
        self._methods: dict[str, Method] = {
            kind: method for method, kind in options.methods.items()
        }

    def methods(self, currency: str) -> tuple[Method, ...]:
        """Return the payment methods for the currency, in order of preference."""
        return tuple(self._options.methods) if currency == self._options.currency else ()

    async def close(self) -> None:
        """Close connections."""
        await self._outgoing.close()

    # Payments

    async def pay(self, request: PaymentRequest) -> PaymentOutcome:
        """Place the order, and return its page or QR code."""
        options = self._options
        fields = v1.order(request, options.pid, options.methods[request.method])
        fields |= {
            "method": "web" if options.shows_codes else "jump",
            "device": "mobile" if request.on_phone else "pc",
            "clientip": request.payer_ip or _NO_CLIENT_IP,
        }
        reply = await self._call(wire.CREATE, fields)
        if isinstance(reply, _NoReply):
            return PaymentOutcome(status=reply.status, reason=reply.reason)
        if reply.code != wire.SUCCESS:
            # The customer has no page of this order, so nobody can pay it. UNREACHABLE: there is no
            # order, and another account may be tried.
            status: Literal["UNREACHABLE", "DECLINED"] = (
                "UNREACHABLE" if reply.is_unprocessed else "DECLINED"
            )
            return PaymentOutcome(status=status, reason=reply.summary)
        kind, content = reply.get("pay_type"), reply.get("pay_info")
        page = safe_url(content) if kind == "jump" else None
        code = content if kind == "qrcode" else ""
        if not reply.get("trade_no"):  # it shows later that the page was seen
            return PaymentOutcome(status="UNKNOWN", reason="the response has no number")
        if not page and not code:
            reason = f"OpenTill cannot show pay_type {kind[:32]!r}: set {_VARIABLES}PAGE=jump"
            return PaymentOutcome(status="DECLINED", reason=reason)
        return PaymentOutcome(
            status="ACTION_REQUIRED",
            provider_ref=reply.get("trade_no"),
            action_url=page or "",
            qr_text=code,
        )

    async def find_payment(self, attempt_id: str, provider_ref: str = "") -> PaymentOutcome:
        """Query the state of an attempt. NOT_FOUND only if the server reports it."""
        reply = await self._query_order(attempt_id)
        if isinstance(reply, _NoReply):
            return PaymentOutcome(status=reply.status, reason=reply.reason)
        outcome = self._payment(reply, attempt_id)
        if outcome.status != "ACTION_REQUIRED" or provider_ref:
            return outcome
        is_lost = time.time_ns() // 1_000_000 - creation_time(attempt_id) >= _LOST_MS
        return PaymentOutcome(status="DECLINED" if is_lost else "UNKNOWN", reason=_LOST)

    def _payment(self, reply: Reply, attempt_id: str) -> PaymentOutcome:
        if reply.code != wire.SUCCESS:
            status: Literal["NOT_FOUND", "UNKNOWN"] = (
                "NOT_FOUND" if reply.is_unknown_order else "UNKNOWN"
            )
            return PaymentOutcome(status=status, reason=reply.summary)
        if self._is_other_order(reply, attempt_id):
            return PaymentOutcome(status="UNKNOWN", reason=_OTHER.format("payment"))
        order_status = v1.STATUSES.get(reply.get("status"))
        if order_status == "unpaid":
            return PaymentOutcome(status="ACTION_REQUIRED", provider_ref=reply.get("trade_no"))
        amount = self._amount(reply)
        if order_status != "paid" or amount is None:
            reason = f"status {reply.get('status')!r}, money {reply.get('money')!r}"
            return PaymentOutcome(status="UNKNOWN", reason=reason[:200])
        return PaymentOutcome(
            status="SUCCEEDED",
            provider_ref=reply.get("trade_no"),
            amount=amount,
            method=self._methods.get(reply.get("type")),
            clearing_currency=amount.currency,
        )

    async def expire(self, attempt_id: str, provider_ref: str) -> PaymentOutcome:
        """Close an unpaid order, and return its state.

        The order is queried by our number and closed by the server's: with the same number, both
        requests of one second would have the same signature, which a server may accept only once.
        """
        outcome = await self.find_payment(attempt_id, provider_ref)
        if outcome.status != "ACTION_REQUIRED":
            return outcome
        number = outcome.provider_ref or provider_ref
        reply = await self._call(wire.CLOSE, {"trade_no": number})
        if isinstance(reply, Reply) and reply.code == wire.SUCCESS:
            return PaymentOutcome(status="DECLINED", provider_ref=number, reason="closed")
        after = await self.find_payment(attempt_id, provider_ref)
        # A server may not be able to close the order: the customer can still pay it.
        return outcome if after.status == "NOT_FOUND" else after

    # Refunds

    async def refund(self, request: RefundRequest) -> RefundOutcome:
        """Send a refund; if it was sent before, look it up first."""
        if request.repeated:
            outcome = await self.find_refund(request.refund_id, request.provider_ref)
            if outcome.status != "NOT_FOUND" or not self._options.repeats_refunds:
                return self._sent_refund(request, outcome)
        by_ref, by_id = {"trade_no": request.provider_ref}, {"out_trade_no": request.attempt_id}
        fields = {
            **(by_ref if request.provider_ref else by_id),
            "money": request.amount.text,
            "out_refund_no": request.refund_id,
        }
        reply = await self._call(wire.REFUND, fields)
        if isinstance(reply, _NoReply):
            return RefundOutcome(status=reply.status, reason=reply.reason)
        if reply.code == wire.SUCCESS:
            return await self._accepted_refund(request, reply)
        return await self._refused_refund(request, reply)

    async def _accepted_refund(self, request: RefundRequest, reply: Reply) -> RefundOutcome:
        """Look up a refund that the server has accepted: success may mean that it runs."""
        if reply.get("out_refund_no") not in ("", request.refund_id) or self._amount(reply) not in (
            None,
            request.amount,
        ):
            return RefundOutcome(status="UNKNOWN", reason=_OTHER.format("refund"))
        number = reply.get("refund_no")
        query = await self._query_refund(request.refund_id)
        if isinstance(query, Reply) and query.code == wire.UNKNOWN_PATH:
            return RefundOutcome(status="SUCCEEDED", provider_ref=number)
        outcome = self._refund(query, request.refund_id, request.provider_ref)
        if outcome.status in ("SUCCEEDED", "REFUSED"):
            return outcome
        return RefundOutcome(status="PENDING", provider_ref=number)

    async def _refused_refund(self, request: RefundRequest, reply: Reply) -> RefundOutcome:
        """Return REFUSED only if the refund was surely not done; a server may fail after doing it.

        A refusal that is not signed counts only if the server reports in a signed reply that the
        order is still paid.
        """
        if reply.is_unprocessed:  # UNREACHABLE makes OpenTill send the refund again later
            return RefundOutcome(status="UNREACHABLE", reason=reply.summary)
        # A repeated refund may be refused because of the first one, which still runs.
        if reply.is_refusal and not request.repeated:
            order = None if reply.is_signed else await self._query_order(request.attempt_id)
            if order is None or self._order_status(order, request.attempt_id) == "paid":
                return RefundOutcome(status="REFUSED", reason=reply.summary)
        return self._sent_refund(request, RefundOutcome(status="UNKNOWN", reason=reply.summary))

    def _sent_refund(self, request: RefundRequest, outcome: RefundOutcome) -> RefundOutcome:
        """Return the outcome of a refund that must not be sent again.

        The reference server stores a refund after its provider has made it: while it runs, or
        after a crash, the server does not know a refund that was made.
        """
        if outcome.status not in ("NOT_FOUND", "UNKNOWN"):
            return outcome
        is_duplicate = request.refund_id.startswith("att_")
        refunds = "`opentill refunds done` or `failed`"
        reason = _LOST_REFUND.format("`opentill orders given-back`" if is_duplicate else refunds)
        if outcome.status == "NOT_FOUND":
            _log.error("refund %s needs an operator: %s", request.refund_id, reason)
            return RefundOutcome(status="UNKNOWN", reason=reason)
        return RefundOutcome(status="UNKNOWN", reason=f"{outcome.reason}; {reason}")

    async def find_refund(self, refund_id: str, payment_ref: str = "") -> RefundOutcome:
        """Query the state of a refund. NOT_FOUND only if the server reports it."""
        return self._refund(await self._query_refund(refund_id), refund_id, payment_ref)

    def _refund(self, reply: Reply | _NoReply, refund_id: str, payment_ref: str) -> RefundOutcome:
        if isinstance(reply, _NoReply):
            return RefundOutcome(status="UNKNOWN", reason=reply.reason)
        if reply.code != wire.SUCCESS:
            status: Literal["NOT_FOUND", "UNKNOWN"] = (
                "NOT_FOUND" if reply.is_unknown_refund else "UNKNOWN"
            )
            return RefundOutcome(status=status, reason=reply.summary)
        is_same_order = not payment_ref or reply.get("trade_no") in ("", payment_ref)
        if reply.get("out_refund_no") != refund_id or not is_same_order:
            return RefundOutcome(status="UNKNOWN", reason=_OTHER.format("refund"))
        return RefundOutcome(status=reply.refund_status, provider_ref=reply.get("refund_no"))

    async def _query_refund(self, refund_id: str) -> Reply | _NoReply:
        return await self._call(wire.REFUND_QUERY, {"out_refund_no": refund_id})

    # Notices

    def read_callback(
        self, headers: Mapping[str, str], body: bytes, now: int
    ) -> tuple[GatewayEvent, ...]:
        """Raise BadCallback: Epay servers send notices (``read_notice``)."""
        del headers, body, now
        msg = "Epay servers send forms, not JSON"
        raise BadCallback(msg)

    async def read_notice(self, params: Mapping[str, str]) -> tuple[GatewayEvent, ...]:
        """Verify a notice and query the order's state, at most every two seconds.

        A notice alone is not trusted: the platform's key signs notices to all merchants of the
        server, and another merchant may choose texts that, cut elsewhere, are a notice to us.
        Raises BadCallback, and Unavailable while the server does not respond.
        """
        attempt_id = params.get("out_trade_no", "")
        self._verify_notice(params, attempt_id)
        if params.get("trade_status") != "TRADE_SUCCESS":
            return ()
        reply = await self._cached_order(attempt_id)
        if isinstance(reply, _NoReply):
            raise Unavailable(None, reply.reason)
        # The notice may be genuine: the server refused our query, so our settings are wrong.
        if reply.is_unprocessed:
            _log.error("the Epay server refuses our query of an order: %s", reply.summary)
            raise Unavailable(None, reply.summary)
        if self._order_status(reply, attempt_id) in ("refunded", "frozen"):  # the notice is late
            return ()
        outcome = self._payment(reply, attempt_id)
        if outcome.status != "SUCCEEDED" or outcome.amount != self._amount(params):
            msg = "the server itself says otherwise"
            raise BadCallback(msg)
        return (GatewayPaymentEvent(attempt_id=attempt_id, outcome=outcome),)

    def _verify_notice(self, params: Mapping[str, str], attempt_id: str) -> None:
        """Raise BadCallback unless a notice is ours, signed by the platform, and recent."""
        msg = ""
        if params.get("pid") != self._options.pid:
            msg = "pid is not our account"
        elif any(signature.embedded_fields(value) for value in params.values()):
            msg = "a value contains another field"
        elif not is_id(attempt_id):
            msg = "out_trade_no is none of ours"
        if msg:
            raise BadCallback(msg)
        try:
            wire.check(params, self._options.public_key, _now_s())
        except wire.Forged as error:
            raise BadCallback(str(error)) from None

    # The account

    async def check(self) -> CheckProblem | None:
        """Query the account by ``merchant/info``; return the problem and its remedy, or None."""
        reply, url = await self._call(wire.INFO, {}), self._options.url
        if isinstance(reply, _NoReply):
            if reply.is_forged:
                return CheckProblem(
                    f"{url} gave a response that does not count: {reply.reason}. Correct"
                    f" {_VARIABLES}PUBLIC_KEY, which is the platform's, or this machine's clock"
                )
            return CheckProblem(
                f"{url} gave no usable response: {reply.reason}. If this stays, correct"
                f" {_VARIABLES}URL",
                was_asked=False,
            )
        return self._problem_of(reply)

    def _problem_of(self, reply: Reply) -> CheckProblem | None:
        url = self._options.url
        if reply.code == wire.WRONG_KEY:
            return CheckProblem(
                f"{url} refuses our account ({reply.summary}): correct {_VARIABLES}PID and"
                f" {_VARIABLES}PRIVATE_KEY, whose public half belongs there, or this machine's"
                " clock"
            )
        if reply.code != wire.SUCCESS:
            return CheckProblem(f"{url} responds to a query of our account with {reply.summary}")
        if reply.get("pid") not in ("", self._options.pid):
            return CheckProblem(
                f"{url} responds with account {reply.get('pid')[:20]}: correct {_VARIABLES}PID"
            )
        if "0" in (reply.get("status"), reply.get("pay_status")):
            return CheckProblem(f"{url} does not let our account take payments: see its own pages")
        return None

    # Requests

    def _is_other_order(self, reply: Reply, attempt_id: str) -> bool:
        same = reply.get("out_trade_no") == attempt_id
        return not same or reply.get("pid") not in ("", self._options.pid)

    def _order_status(self, reply: Reply | _NoReply, attempt_id: str) -> v1.OrderStatus | None:
        if isinstance(reply, _NoReply) or reply.code != wire.SUCCESS:
            return None
        if self._is_other_order(reply, attempt_id):
            return None
        return v1.STATUSES.get(reply.get("status"))

    def _amount(self, values: Reply | Mapping[str, str]) -> Money | None:
        return v1.amount(values.get("money") or "", self._options.currency)

    async def _cached_order(self, attempt_id: str) -> Reply | _NoReply:
        """Query an order, or return a cached reply."""
        task = self._cache.get(attempt_id)
        if task is None:
            task = self._cache[attempt_id] = asyncio.ensure_future(self._query_order(attempt_id))
            later = asyncio.get_running_loop().call_later
            later(self._cache_s, self._cache.pop, attempt_id, None)
        reply = await asyncio.shield(task)
        if isinstance(reply, _NoReply):  # do not cache it, so that the next notice queries again
            self._cache.pop(attempt_id, None)
        return reply

    async def _query_order(self, attempt_id: str) -> Reply | _NoReply:
        return await self._call(wire.QUERY, {"out_trade_no": attempt_id})

    async def _call(self, path: str, fields: Mapping[str, str]) -> Reply | _NoReply:
        """Send a signed request and verify the reply; neither is ever logged."""
        reply = await self._send(path, fields)
        if isinstance(reply, _NoReply):
            _log.warning("the Epay server at %s: %s: %s", path, reply.status, reply.reason)
        return reply

    async def _send(self, path: str, fields: Mapping[str, Any]) -> Reply | _NoReply:
        options = self._options
        form = wire.signed(fields, options.pid, options.private_key, _now_s())
        try:
            response = await self._outgoing.send(
                "POST",
                f"{options.url}api/{path}",
                headers=_FORM,
                body=urlencode(form).encode(),
                timeout_s=self._timeout_s if path in _SLOW else self._timeout_s / 2,
            )
        except FAILURES as error:
            return _NoReply(status_of(error), f"{type(error).__name__}: {error}"[:200])
        if response.status != HTTPStatus.OK:
            return _NoReply("UNKNOWN", f"HTTP {response.status}")
        try:
            reply = wire.read(response.body, options.public_key, _now_s())
        except wire.Forged as error:
            return _NoReply("UNKNOWN", str(error), is_forged=True)
        return reply or _NoReply("UNKNOWN", "not in the convention's form")


def _now_s() -> int:
    return int(time.time())
