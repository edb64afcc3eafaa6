"""The adapter for an Epay V1 server. It caches responses about orders for two seconds.

Placing an order moves no money and is idempotent by its parameters: if the response is lost, the
customer's browser places the same order again. A refund has no idempotency key: it is sent once,
and if its response is lost, either the order's state reveals the result or an operator has to look
it up at the server.
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
_CACHE_S: Final = 2.0
_FORM: Final = {"Content-Type": "application/x-www-form-urlencoded"}
_NO_CLIENT_IP: Final = "127.0.0.1"  # clientip is required, even if the address is unknown
_LOST: Final = (
    "the gateway's response was lost, and Epay V1 cannot be asked about a partial refund: look"
    " there, then run {}"
)
_log: Final = logging.getLogger(__name__)


class Options(msgspec.Struct, frozen=True, kw_only=True):
    """The server's URL, our account there, and how to call its PHP files."""

    url: str  # ends with a slash
    pid: str
    key: str
    methods: dict[Method, str]  # each method's ``type`` at the server, the preferred method first
    currency: str
    # Whether we place orders, by mapi.php; otherwise the customer's browser does, by submit.php.
    by_server: bool = True
    # Whether queries of orders send the key in the body instead of the URL.
    query_by_post: bool = False

    def __repr__(self) -> str:
        """Omit the key."""
        return f"Options(url={self.url!r}, pid={self.pid!r})"


class _NoReply(msgspec.Struct, frozen=True):
    """There is no usable response; ``status`` is the result of ``failures.status_of``."""

    status: Literal["UNREACHABLE", "UNKNOWN"]
    reason: str


class EpayGateway:
    """The ``Gateway`` of an Epay V1 server; it implements ``Checks``."""

    name = "epay"
    acknowledgement = b"success"

    def __init__(
        self,
        options: Options,
        outgoing: Outgoing,
        timeout_s: float = _TIMEOUT_S,
        cache_s: float = _CACHE_S,
    ) -> None:
        """``outgoing`` is closed with the gateway.

        A response about an order is reused for further notices for ``cache_s`` seconds.
        """
        self._timeout_s = timeout_s
        self._cache_s = cache_s
        self._options = options
        self._outgoing = outgoing
        self._cache: dict[str, asyncio.Task[Reply | _NoReply]] = {}
        self._queries_by_post = options.query_by_post
        self._methods: dict[str, Method] = {
            kind: method for method, kind in options.methods.items()
        }

    def methods(self, currency: str) -> tuple[Method, ...]:
        """Return the payment methods for the currency, in order of preference."""
        return tuple(self._options.methods) if currency == self._options.currency else ()

    async def pay(self, request: PaymentRequest) -> PaymentOutcome:
        """Place the order. If the response is lost, the browser places it again by submit.php."""
        options = self._options
        params = wire.order(request, options.pid, options.methods[request.method])
        page = f"{options.url}submit.php?{urlencode(wire.signed(params, options.key))}"
        if not options.by_server:
            return PaymentOutcome(status="ACTION_REQUIRED", action_url=page)
        device = {"clientip": request.payer_ip or _NO_CLIENT_IP, "device": "pc"}
        reply = await self._request("mapi.php", wire.signed({**params, **device}, options.key))
        if isinstance(reply, _NoReply):
            if reply.status == "UNREACHABLE":
                return PaymentOutcome(status="UNREACHABLE", reason=reply.reason)
            return PaymentOutcome(status="ACTION_REQUIRED", action_url=page)
        if reply.code != wire.SUCCESS:
            return PaymentOutcome(status="DECLINED", reason=reply.summary)
        address, code = safe_url(reply.get("payurl")), reply.get("qrcode")
        return PaymentOutcome(
            status="ACTION_REQUIRED",
            provider_ref=reply.get("trade_no"),
            action_url=address or ("" if code else page),
            qr_text=code,
        )

    async def find_payment(self, attempt_id: str, provider_ref: str = "") -> PaymentOutcome:  # noqa: ARG002 - the server finds it by our id
        """Query the state of an attempt. NOT_FOUND only if the server reports it."""
        reply = await self._query_order(attempt_id)
        if isinstance(reply, _NoReply):
            return PaymentOutcome(status=reply.status, reason=reply.reason)
        return self._payment(reply, attempt_id)

    def _payment(self, reply: Reply, attempt_id: str) -> PaymentOutcome:
        if reply.code != wire.SUCCESS:
            status: Literal["NOT_FOUND", "UNKNOWN"] = (
                "NOT_FOUND" if reply.is_unknown_order else "UNKNOWN"
            )
            return PaymentOutcome(status=status, reason=reply.summary)
        if self._is_other_order(reply, attempt_id):
            return PaymentOutcome(status="UNKNOWN", reason="the response is about another payment")
        order_status = wire.STATUSES.get(reply.get("status"))
        if order_status == "unpaid":
            return PaymentOutcome(
                status="ACTION_REQUIRED",
                provider_ref=reply.get("trade_no"),
                action_url=reply.get("payurl"),
            )
        amount = wire.amount(reply.get("money"), self._options.currency)
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

    async def refund(self, request: RefundRequest) -> RefundOutcome:
        """Send a refund; if it was sent before, only look up whether it was done."""
        if request.repeated:
            return await self._find_lost_refund(request)
        options = self._options
        by_ref, by_id = {"trade_no": request.provider_ref}, {"out_trade_no": request.attempt_id}
        params = {
            "pid": options.pid,
            "key": options.key,
            **(by_ref if request.provider_ref else by_id),
            "money": request.amount.text,
            # Servers that read refund_no can distinguish two refunds of the same amount.
            "refund_no": request.refund_id,
        }
        reply = await self._request("api.php?act=refund", params)
        if isinstance(reply, _NoReply):
            return RefundOutcome(status=reply.status, reason=reply.reason)
        if not reply.is_refunded:
            return await self._refusal_outcome(request, reply)
        refunded = wire.amount(reply.get("money"), options.currency)
        if refunded is not None and refunded != request.amount:
            reason = f"asked for {request.amount.text}, the response is about {refunded.text}"
            return RefundOutcome(status="UNKNOWN", reason=reason)
        return RefundOutcome(status="SUCCEEDED", provider_ref=reply.get("refund_no"))

    async def _refusal_outcome(self, request: RefundRequest, reply: Reply) -> RefundOutcome:
        """Return REFUSED only if the refund was surely not done; a server may fail after doing it.

        The order's state alone does not prove it: an order stays paid after a partial refund.
        """
        if reply.is_unprocessed:  # UNREACHABLE makes OpenTill send the refund again later
            return RefundOutcome(status="UNREACHABLE", reason=reply.summary)
        if reply.is_refusal:
            order = await self._query_order(request.attempt_id)
            if isinstance(order, Reply) and self._order_status(order, request.attempt_id) == "paid":
                return RefundOutcome(status="REFUSED", reason=reply.summary)
        return RefundOutcome(
            status="UNKNOWN", reason=f"{reply.summary}; {_lost_reason(request.refund_id)}"
        )

    async def _find_lost_refund(self, request: RefundRequest) -> RefundOutcome:
        """Look up a refund whose response was lost; the order's state reveals full refunds only."""
        order = await self._query_order(request.attempt_id)
        if (
            isinstance(order, Reply)
            and self._order_status(order, request.attempt_id) == "refunded"
            and wire.amount(order.get("money"), self._options.currency) == request.amount
        ):
            return RefundOutcome(status="SUCCEEDED")
        reason = _lost_reason(request.refund_id)
        _log.error("refund %s needs an operator: %s", request.refund_id, reason)
        return RefundOutcome(status="UNKNOWN", reason=reason)

    async def find_refund(self, refund_id: str, payment_ref: str = "") -> RefundOutcome:  # noqa: ARG002 - Epay V1 has no query for refunds
        """Return UNKNOWN: Epay V1 has no query for refunds."""
        return RefundOutcome(status="UNKNOWN", reason=_lost_reason(refund_id))

    def read_callback(
        self,
        headers: Mapping[str, str],  # noqa: ARG002 - Epay has no such callbacks
        body: bytes,  # noqa: ARG002 - Epay has no such callbacks
        now: int,  # noqa: ARG002 - Epay has no such callbacks
    ) -> tuple[GatewayEvent, ...]:
        """Raise BadCallback: Epay servers send notices (``read_notice``)."""
        msg = "Epay servers send forms, not JSON"
        raise BadCallback(msg)

    async def read_notice(self, params: Mapping[str, str]) -> tuple[GatewayEvent, ...]:
        """Verify a notice and query the order's state, at most every two seconds.

        A notice alone is not trusted: its signature is MD5 over unescaped text, and the customer,
        whose browser gets a notice too, could replay it. Raises BadCallback, and Unavailable while
        the server does not respond.
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
        reply = await self._cached_order(attempt_id)
        if isinstance(reply, _NoReply):
            raise Unavailable(None, reply.reason)
        # The notice may be genuine: the server refused our query, so our settings are wrong.
        if reply.is_unprocessed:
            _log.error("the Epay server refuses our query of an order: %s", reply.summary)
            raise Unavailable(None, reply.summary)
        status = self._order_status(reply, attempt_id)
        if status in ("refunded", "frozen"):  # the notice is old and was replayed
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

    def _is_other_order(self, reply: Reply, attempt_id: str) -> bool:
        same = reply.get("out_trade_no") == attempt_id
        return not same or reply.get("pid") not in ("", self._options.pid)

    def _order_status(self, reply: Reply, attempt_id: str) -> wire.OrderStatus | None:
        if reply.code != wire.SUCCESS or self._is_other_order(reply, attempt_id):
            return None
        return wire.STATUSES.get(reply.get("status"))

    async def _cached_order(self, attempt_id: str) -> Reply | _NoReply:
        """Query an order, or return a cached response."""
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
        """Query an order by GET, or by POST at a server that does not read the query string.

        Most servers read only the query string. If a server does not recognize the account (-3),
        the query is repeated by POST; if that works, all later queries use only POST.
        """
        if not self._queries_by_post:
            reply = await self._query_order_by_get(attempt_id)
            if isinstance(reply, _NoReply) or not reply.is_wrong_key:
                return reply
        reply = await self._query_order_by_post(attempt_id)
        if isinstance(reply, Reply) and not reply.is_wrong_key:
            self._queries_by_post = True
        return reply

    async def _query_order_by_get(self, attempt_id: str) -> Reply | _NoReply:
        return await self._request(
            f"api.php?act=order&{urlencode(self._query_params(attempt_id))}", None
        )

    async def _query_order_by_post(self, attempt_id: str) -> Reply | _NoReply:
        return await self._request("api.php?act=order", self._query_params(attempt_id))

    def _query_params(self, attempt_id: str) -> dict[str, str]:
        options = self._options
        return {"pid": options.pid, "key": options.key, "out_trade_no": attempt_id}

    async def check(self) -> CheckProblem | None:
        """Query an order that does not exist; return the problem with the response and its remedy.

        Returns None if the server recognizes the account and reports that it has no such order.
        """
        by_post, attempt_id = self._options.query_by_post, new_id("att")
        first_query, second_query = self._query_order_by_get, self._query_order_by_post
        if by_post:
            first_query, second_query = second_query, first_query
        reply = await first_query(attempt_id)
        if isinstance(reply, Reply) and reply.is_wrong_key:
            other_reply = await second_query(attempt_id)
            if isinstance(other_reply, Reply) and other_reply.is_unknown_order:
                setting = "get" if by_post else "post"
                return CheckProblem(
                    f"{self._options.url} reads the account of a query by {setting.upper()} only:"
                    f" set OPENTILL_GATEWAY_EPAY_QUERY={setting}"
                )
            return CheckProblem(
                f"{self._options.url} refuses our account ({reply.summary}): correct"
                " OPENTILL_GATEWAY_EPAY_PID and OPENTILL_GATEWAY_EPAY_KEY"
            )
        if isinstance(reply, _NoReply):
            return CheckProblem(
                f"{self._options.url} gave no usable response: {reply.reason}. If this stays,"
                " correct OPENTILL_GATEWAY_EPAY_URL",
                was_asked=False,
            )
        if not reply.is_unknown_order:
            return CheckProblem(
                f"{self._options.url} responds to a query of an unknown order with {reply.summary}"
            )
        return None

    async def _request(self, path: str, form: Mapping[str, str] | None) -> Reply | _NoReply:
        """Send one request, whose content is never logged."""
        reply = await self._send(path, form)
        if isinstance(reply, _NoReply):
            public_path = path.partition("&")[0]  # the parameters after it may contain the key
            _log.warning("the Epay server at %s: %s: %s", public_path, reply.status, reply.reason)
        return reply

    async def _send(self, path: str, form: Mapping[str, str] | None) -> Reply | _NoReply:
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
            return _NoReply(status_of(error), _error_text(error))
        if response.status != HTTPStatus.OK:
            return _NoReply("UNKNOWN", f"HTTP {response.status}")
        return wire.read(response.body) or _NoReply("UNKNOWN", "not in the convention's form")


def _lost_reason(refund_id: str) -> str:
    """Return the error text for a refund without a response, with the command to run next.

    The refund of a duplicate payment needs another command than other refunds.
    """
    commands = "`opentill refunds done` or `failed`"
    is_duplicate = refund_id.startswith("att_")
    return _LOST.format("`opentill orders given-back`" if is_duplicate else commands)


def _error_text(error: Exception) -> str:
    """Describe an error without the message of the HTTP client.

    The client's message may quote the URL, which contains the key, in any encoding. A message of
    the operating system (``strerror``) does not.
    """
    cause = error.__cause__
    # OpenTill wrote this message itself, such as the one about a forbidden address.
    if cause is None:
        return f"{type(error).__name__}: {error}"[:200]
    message = getattr(cause, "strerror", None)
    name = type(cause).__name__
    return f"{name}: {message}"[:200] if message else name
