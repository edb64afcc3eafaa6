"""The adapter for an Epay V1 server. It stores nothing but the responses of the last two seconds.

To place an order moves no money, and the same parameters are the same order, so that an order whose
response was lost can be placed by the customer's browser. A refund has no idempotency key: it is
sent once, and if its response is lost, the order's state shows what became of it, or an operator
looks there.
"""

import asyncio
import logging
from collections.abc import Mapping
from http import HTTPStatus
from typing import Final, Literal
from urllib.parse import urlencode

import msgspec

from opentill.core.errors import Unavailable
from opentill.core.ids import is_id, new_id
from opentill.core.links import safe_url
from opentill.gateways.epay import signature, wire
from opentill.gateways.epay.wire import Reply
from opentill.gateways.failures import FAILURES, status_of
from opentill.gateways.model import (
    BadCallback,
    GatewayEvent,
    GatewayPaymentEvent,
    Method,
    PaymentOutcome,
    PaymentRequest,
    RefundOutcome,
    RefundRequest,
)
from opentill.outgoing.client import Outgoing

_TIMEOUT_S: Final = 10.0  # below the 15 s after which an attempt without a result is asked for
_REUSED_S: Final = 2.0
_FORM: Final = {"Content-Type": "application/x-www-form-urlencoded"}
_NO_CLIENT_IP: Final = "127.0.0.1"  # clientip is compulsory
_LOST: Final = (
    "the gateway's response was lost, and Epay V1 cannot be asked about a partial refund: look"
    " there, then run {}"
)
_log: Final = logging.getLogger(__name__)


class Options(msgspec.Struct, frozen=True, kw_only=True):
    """The server, the account there, and which of its files are used."""

    url: str  # with a slash at its end
    pid: str
    key: str
    methods: dict[Method, str]  # to the server's types, in order of preference
    currency: str
    by_server: bool = True  # mapi.php; otherwise submit.php in the browser
    ask_by_post: bool = False  # api.php?act=order: the key in the body, not in the address

    def __repr__(self) -> str:
        """Show the server, not the key."""
        return f"Options(url={self.url!r}, pid={self.pid!r})"


class _NoReply(msgspec.Struct, frozen=True):
    """No usable response came; ``status`` is that of ``failures.status_of``."""

    status: Literal["UNREACHABLE", "UNKNOWN"]
    reason: str


class EpayGateway:
    """The ``Gateway`` of an Epay V1 server. ``Checks`` its account as well."""

    name = "epay"
    acknowledgement = b"success"

    def __init__(
        self,
        options: Options,
        outgoing: Outgoing,
        timeout_s: float = _TIMEOUT_S,
        reused_s: float = _REUSED_S,
    ) -> None:
        """``outgoing`` is closed with the gateway.

        ``reused_s``: for so long a response about an order serves its next notices.
        """
        self._timeout_s = timeout_s
        self._reused_s = reused_s
        self._options = options
        self._outgoing = outgoing
        self._recent: dict[str, asyncio.Task[Reply | _NoReply]] = {}
        self._asks_by_post = options.ask_by_post
        self._methods: dict[str, Method] = {
            kind: method for method, kind in options.methods.items()
        }

    def methods(self, currency: str) -> tuple[Method, ...]:
        """Return the payment methods on offer for the currency, in order of preference."""
        return tuple(self._options.methods) if currency == self._options.currency else ()

    async def pay(self, request: PaymentRequest) -> PaymentOutcome:
        """Place the order. If no response comes, submit.php in the browser places the same one."""
        options = self._options
        params = wire.order(request, options.pid, options.methods[request.method])
        page = f"{options.url}submit.php?{urlencode(wire.signed(params, options.key))}"
        if not options.by_server:
            return PaymentOutcome(status="ACTION_REQUIRED", action_url=page)
        device = {"clientip": request.payer_ip or _NO_CLIENT_IP, "device": "pc"}
        reply = await self._ask("mapi.php", wire.signed({**params, **device}, options.key))
        if isinstance(reply, _NoReply):
            if reply.status == "UNREACHABLE":
                return PaymentOutcome(status="UNREACHABLE", reason=reply.reason)
            return PaymentOutcome(status="ACTION_REQUIRED", action_url=page)
        if reply.code != wire.SUCCESS:
            return PaymentOutcome(status="DECLINED", reason=reply.words)
        address, code = safe_url(reply.get("payurl")), reply.get("qrcode")
        return PaymentOutcome(
            status="ACTION_REQUIRED",
            provider_ref=reply.get("trade_no"),
            action_url=address or ("" if code else page),
            qr_text=code,
        )

    async def find_payment(self, attempt_id: str, provider_ref: str = "") -> PaymentOutcome:  # noqa: ARG002 - it is found by our id
        """Ask what became of an attempt. NOT_FOUND only if the server says so."""
        reply = await self._order(attempt_id)
        if isinstance(reply, _NoReply):
            return PaymentOutcome(status=reply.status, reason=reply.reason)
        return self._payment(reply, attempt_id)

    def _payment(self, reply: Reply, attempt_id: str) -> PaymentOutcome:
        if reply.code != wire.SUCCESS:
            status: Literal["NOT_FOUND", "UNKNOWN"] = (
                "NOT_FOUND" if reply.no_such_order else "UNKNOWN"
            )
            return PaymentOutcome(status=status, reason=reply.words)
        if self._is_other(reply, attempt_id):
            return PaymentOutcome(status="UNKNOWN", reason="the response is about another payment")
        standing = wire.STANDINGS.get(reply.get("status"))
        if standing == "unpaid":
            return PaymentOutcome(
                status="ACTION_REQUIRED",
                provider_ref=reply.get("trade_no"),
                action_url=reply.get("payurl"),
            )
        amount = wire.amount(reply.get("money"), self._options.currency)
        if standing != "paid" or amount is None:
            reason = f"status {reply.get('status')!r}, money {reply.get('money')!r}"
            return PaymentOutcome(status="UNKNOWN", reason=reason[:200])
        return PaymentOutcome(
            status="SUCCEEDED",
            provider_ref=reply.get("trade_no"),
            amount=amount,
            method=self._methods.get(reply.get("type")),
            clearing_currency=amount.currency,
        )

    async def refund(self, request: RefundRequest) -> RefundOutcome:
        """Send a refund once. For one that was sent before, look what became of it."""
        if request.repeated:
            return await self._find_lost(request)
        options = self._options
        by_ref, by_id = {"trade_no": request.provider_ref}, {"out_trade_no": request.attempt_id}
        params = {
            "pid": options.pid,
            "key": options.key,
            **(by_ref if request.provider_ref else by_id),
            "money": request.amount.text,
            # For servers that read it: two equal parts of an order are two refunds.
            "refund_no": request.refund_id,
        }
        reply = await self._ask("api.php?act=refund", params)
        if isinstance(reply, _NoReply):
            return RefundOutcome(status=reply.status, reason=reply.reason)
        if not reply.refunded:
            return await self._refused(request, reply)
        done = wire.amount(reply.get("money"), options.currency)
        if done is not None and done != request.amount:
            reason = f"asked for {request.amount.text}, the response is about {done.text}"
            return RefundOutcome(status="UNKNOWN", reason=reason)
        return RefundOutcome(status="SUCCEEDED", provider_ref=reply.get("refund_no"))

    async def _refused(self, request: RefundRequest, reply: Reply) -> RefundOutcome:
        """Return REFUSED for what was surely not done: a server may fail after it has done it.

        The order's state does not show it: after a partial refund it still is paid.
        """
        if reply.not_done:  # it is sent again later
            return RefundOutcome(status="UNREACHABLE", reason=reply.words)
        if reply.refuses:
            order = await self._order(request.attempt_id)
            if isinstance(order, Reply) and self._standing(order, request.attempt_id) == "paid":
                return RefundOutcome(status="REFUSED", reason=reply.words)
        return RefundOutcome(status="UNKNOWN", reason=f"{reply.words}; {_lost(request.refund_id)}")

    async def _find_lost(self, request: RefundRequest) -> RefundOutcome:
        """Look whether a refund was done: an order's state shows it for a full refund only."""
        order = await self._order(request.attempt_id)
        if (
            isinstance(order, Reply)
            and self._standing(order, request.attempt_id) == "refunded"
            and wire.amount(order.get("money"), self._options.currency) == request.amount
        ):
            return RefundOutcome(status="SUCCEEDED")
        reason = _lost(request.refund_id)
        _log.error("refund %s needs an operator: %s", request.refund_id, reason)
        return RefundOutcome(status="UNKNOWN", reason=reason)

    async def find_refund(self, refund_id: str, payment_ref: str = "") -> RefundOutcome:  # noqa: ARG002 - there is nothing to ask by
        """Return UNKNOWN: Epay V1 has no query for refunds."""
        return RefundOutcome(status="UNKNOWN", reason=_lost(refund_id))

    def read_callback(
        self,
        headers: Mapping[str, str],  # noqa: ARG002 - there is none
        body: bytes,  # noqa: ARG002 - likewise
        now: int,  # noqa: ARG002 - likewise
    ) -> tuple[GatewayEvent, ...]:
        """Refuse: this convention sends notices (``read_notice``)."""
        msg = "Epay servers send forms, not JSON"
        raise BadCallback(msg)

    async def read_notice(self, params: Mapping[str, str]) -> tuple[GatewayEvent, ...]:
        """Verify a notice and ask the server for the order's state, every two seconds at most.

        A notice alone is not believed: its sign is MD5 over unescaped text, and the customer, whose
        browser gets one too, could replay it. Raises BadCallback, and Unavailable while the server
        does not respond.
        """
        options = self._options
        attempt_id = params.get("out_trade_no", "")
        if not signature.verify(params, options.key) or params.get("pid") != options.pid:
            msg = "the sign does not fit the parameters"
            raise BadCallback(msg)
        if not is_id(attempt_id):
            msg = "out_trade_no is none of ours"
            raise BadCallback(msg)
        if params.get("trade_status") != "TRADE_SUCCESS":
            return ()
        reply = await self._recent_order(attempt_id)
        if isinstance(reply, _NoReply):
            raise Unavailable(None, reply.reason)
        if reply.not_done:  # the notice may be genuine, and the account's settings wrong
            _log.error("the Epay server refuses our query of an order: %s", reply.words)
            raise Unavailable(None, reply.words)
        standing = self._standing(reply, attempt_id)
        if standing in ("refunded", "frozen"):  # an old notice
            return ()
        paid = wire.amount(params.get("money", ""), options.currency)
        outcome = self._payment(reply, attempt_id)
        if outcome.status != "SUCCEEDED" or outcome.amount != paid:
            msg = "the server itself says otherwise"
            raise BadCallback(msg)
        return (GatewayPaymentEvent(attempt_id=attempt_id, outcome=outcome),)

    async def close(self) -> None:
        """Close connections."""
        await self._outgoing.close()

    def _is_other(self, reply: Reply, attempt_id: str) -> bool:
        same = reply.get("out_trade_no") == attempt_id
        return not same or reply.get("pid") not in ("", self._options.pid)

    def _standing(self, reply: Reply, attempt_id: str) -> wire.Standing | None:
        if reply.code != wire.SUCCESS or self._is_other(reply, attempt_id):
            return None
        return wire.STANDINGS.get(reply.get("status"))

    async def _recent_order(self, attempt_id: str) -> Reply | _NoReply:
        """Ask for an order, or return the response of less than two seconds ago."""
        task = self._recent.get(attempt_id)
        if task is None:
            task = self._recent[attempt_id] = asyncio.ensure_future(self._order(attempt_id))
            later = asyncio.get_running_loop().call_later
            later(self._reused_s, self._recent.pop, attempt_id, None)
        reply = await asyncio.shield(task)
        if isinstance(reply, _NoReply):  # the next notice asks again
            self._recent.pop(attempt_id, None)
        return reply

    async def _order(self, attempt_id: str) -> Reply | _NoReply:
        """Ask for an order by GET, and by POST where the server does not read the query.

        The usual server reads the query only. One that takes who asks for nobody (-3) is asked by
        POST, and from then on only so if that helped.
        """
        if not self._asks_by_post:
            reply = await self._order_by_get(attempt_id)
            if isinstance(reply, _NoReply) or not reply.wrong_key:
                return reply
        reply = await self._order_by_post(attempt_id)
        if isinstance(reply, Reply) and not reply.wrong_key:
            self._asks_by_post = True
        return reply

    async def _order_by_get(self, attempt_id: str) -> Reply | _NoReply:
        return await self._ask(f"api.php?act=order&{urlencode(self._query_of(attempt_id))}", None)

    async def _order_by_post(self, attempt_id: str) -> Reply | _NoReply:
        return await self._ask("api.php?act=order", self._query_of(attempt_id))

    def _query_of(self, attempt_id: str) -> dict[str, str]:
        options = self._options
        return {"pid": options.pid, "key": options.key, "out_trade_no": attempt_id}

    async def check(self) -> str | None:
        """Ask for an order that the server does not have, and say what is wrong with the response.

        None if the server knows the account and finds no such order.
        """
        by_post, attempt_id = self._options.ask_by_post, new_id("att")
        usual, other = self._order_by_get, self._order_by_post
        if by_post:
            usual, other = other, usual
        reply = await usual(attempt_id)
        if isinstance(reply, Reply) and reply.wrong_key:
            other_reply = await other(attempt_id)
            if isinstance(other_reply, Reply) and other_reply.no_such_order:
                setting = "get" if by_post else "post"
                return (
                    f"{self._options.url} reads the account of a query by {setting.upper()} only:"
                    f" set OPENTILL_GATEWAY_EPAY_QUERY={setting}"
                )
            return (
                f"{self._options.url} refuses our account ({reply.words}): correct"
                " OPENTILL_GATEWAY_EPAY_PID and OPENTILL_GATEWAY_EPAY_KEY"
            )
        if isinstance(reply, _NoReply):
            return (
                f"{self._options.url} does not respond to a query of an order ({reply.reason}):"
                " correct OPENTILL_GATEWAY_EPAY_URL, or wait until it does"
            )
        if not reply.no_such_order:
            return f"{self._options.url} responds to a query of an unknown order with {reply.words}"
        return None

    async def _ask(self, path: str, form: Mapping[str, str] | None) -> Reply | _NoReply:
        """Send one request. What is sent is never logged."""
        reply = await self._try(path, form)
        if isinstance(reply, _NoReply):
            place = path.partition("&")[0]  # what follows may be the key
            _log.warning("the Epay server at %s: %s: %s", place, reply.status, reply.reason)
        return reply

    async def _try(self, path: str, form: Mapping[str, str] | None) -> Reply | _NoReply:
        url = self._options.url + path
        try:
            if form is None:
                response = await self._outgoing.send("GET", url, timeout_s=self._timeout_s)
            else:
                response = await self._outgoing.send(
                    "POST",
                    url,
                    headers=_FORM,
                    body=urlencode(form).encode(),
                    timeout_s=self._timeout_s,
                )
        except FAILURES as error:
            return _NoReply(status_of(error), _text_of(error))
        if response.status != HTTPStatus.OK:
            return _NoReply("UNKNOWN", f"HTTP {response.status}")
        return wire.read(response.body) or _NoReply("UNKNOWN", "not in the convention's form")


def _lost(refund_id: str) -> str:
    """Return what the operator is to do; a second payment goes back under its own id."""
    ends = "`opentill refunds done` or `failed`"
    return _LOST.format("`opentill orders given-back`" if refund_id.startswith("att_") else ends)


def _text_of(error: Exception) -> str:
    """Return what went wrong without the words of the HTTP client.

    They may quote the address, and so the key, in whatever encoding; those of the system do not.
    """
    cause = error.__cause__
    if cause is None:  # an address that is not allowed
        return f"{type(error).__name__}: {error}"[:200]
    words = getattr(cause, "strerror", None)
    name = type(cause).__name__
    return f"{name}: {words}"[:200] if words else name
