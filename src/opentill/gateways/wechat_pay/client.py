"""The adapter for WeChat Pay. It is stateless, but caches WeChat Pay's certificates.

Our attempt id is ``out_trade_no`` and our refund id ``out_refund_no``; repeating either has no
second effect. A customer pays by a QR code (Native) or, on a phone, by a link that opens WeChat
(H5). JSAPI, for pages inside WeChat, needs the customer's openid and a script in the page; our
payment page has no scripts (decision 0154).
"""

import logging
import time
from collections.abc import Mapping
from typing import BinaryIO, Final, Literal

from opentill.core.ids import new_id
from opentill.core.links import safe_url
from opentill.core.money import Money
from opentill.gateways import bills as china_bills
from opentill.gateways.model import (
    BadCallback,
    CheckProblem,
    GatewayEvent,
    Method,
    PaymentOutcome,
    PaymentRequest,
    PaymentStatus,
    RefundOutcome,
    RefundRequest,
)
from opentill.gateways.wechat_pay import bills, wire
from opentill.gateways.wechat_pay.certificates import BadSignature
from opentill.gateways.wechat_pay.transport import NoReply, Options, Reply, Transport
from opentill.outgoing.client import Outgoing

# Two requests, such as the query before a refund, take less than the 15 s after which an attempt
# without a result is queried.
_TIMEOUT_S: Final = 4.0
_log: Final = logging.getLogger(__name__)


class WeChatPayGateway:
    """The ``Gateway`` of WeChat Pay.

    Implements ``Expires``, ``Checks``, ``FetchesKeys`` and ``Bills``.
    """

    name = "wechat_pay"
    report_delay_ms = china_bills.DELAY_MS
    day_offset_ms = china_bills.OFFSET_MS

    def __init__(self, options: Options, outgoing: Outgoing, timeout_s: float = _TIMEOUT_S) -> None:
        """``outgoing`` is closed with the gateway."""
        self._options = options
        self._account = options.account
        self._transport = Transport(options, outgoing)
        self._timeout_s = timeout_s
        self.bill_account = options.account.mchid

    def methods(self, currency: str) -> tuple[Method, ...]:
        """Return the payment methods for the currency."""
        return ("WECHAT_PAY",) if currency == wire.CURRENCY else ()

    async def close(self) -> None:
        """Close the connections."""
        await self._transport.close()

    # Payments

    async def pay(self, request: PaymentRequest) -> PaymentOutcome:
        """Return the QR code of a new order, or the link that opens WeChat on a phone.

        If the response is lost, the same order is placed once more, which returns its code.
        """
        options = self._options
        product = wire.choose(options.products, on_phone=request.on_phone)
        ends_at = wire.shortened(wire.end_of_order(request.attempt_id, options.products), request)
        body = wire.order(request, self._account, product, ends_at)
        path = f"/v3/pay/transactions/{product}"
        reply = await self._send("POST", path, body)
        if not _is_open(reply):
            return await self._placed(reply, request)
        outcome = await self._placed(await self._send("POST", path, body), request)
        if outcome.status == "UNREACHABLE":  # but the first request may have arrived
            return PaymentOutcome(status="UNKNOWN", reason=outcome.reason)
        return outcome

    async def _placed(self, reply: Reply | NoReply, request: PaymentRequest) -> PaymentOutcome:
        """Return the outcome of an order by the response to it."""
        if isinstance(reply, NoReply):
            return PaymentOutcome(status=reply.status, reason=reply.reason)
        if reply.is_success:
            return _prepaid(reply, request.return_url)
        if reply.error.code in wire.ORDER_EXISTS:
            return await self._find_existing(request.attempt_id, reply.error.summary)
        return PaymentOutcome(status=_payment_status(reply), reason=reply.error.summary)

    async def _find_existing(self, attempt_id: str, refusal: str) -> PaymentOutcome:
        """Return the state of an order that WeChat Pay has already."""
        existing = await self.find_payment(attempt_id)
        # An order that waits for its customer has a code that was lost.
        if existing.status in ("NOT_FOUND", "ACTION_REQUIRED"):
            return PaymentOutcome(status="UNKNOWN", reason=refusal)
        return existing

    async def find_payment(self, attempt_id: str, provider_ref: str = "") -> PaymentOutcome:  # noqa: ARG002 - WeChat Pay finds it by our id
        """Return the state of an attempt. NOT_FOUND only if WeChat Pay reports it.

        An unpaid order whose time is over is closed, so that the customer may start again: its code
        or link no longer works.
        """
        state = await self._find_order(attempt_id)
        if isinstance(state, PaymentOutcome):
            return state
        if state.trade_state == wire.UNPAID and self._is_over(attempt_id):
            return await self._close_order(attempt_id, state.outcome)
        return state.outcome

    async def expire(self, attempt_id: str, provider_ref: str) -> PaymentOutcome:  # noqa: ARG002 - WeChat Pay finds it by our id
        """Close an unpaid order and return the attempt's state."""
        state = await self._find_order(attempt_id)
        if isinstance(state, PaymentOutcome):
            return state
        if state.trade_state == wire.UNPAID:
            return await self._close_order(attempt_id, state.outcome)
        return state.outcome

    async def _find_order(self, attempt_id: str) -> wire.Order | PaymentOutcome:
        """Query an order of our account; return the outcome if there is none."""
        path = f"/v3/pay/transactions/out-trade-no/{attempt_id}?mchid={self._account.mchid}"
        reply = await self._send("GET", path)
        if isinstance(reply, NoReply):
            return PaymentOutcome(status=reply.status, reason=reply.reason)
        if not reply.is_success:
            status: Literal["NOT_FOUND", "UNKNOWN"] = (
                "NOT_FOUND" if reply.error.code in wire.NO_ORDER else "UNKNOWN"
            )
            return PaymentOutcome(status=status, reason=reply.error.summary)
        order = wire.read(reply.body, wire.Order)
        if order is None:
            return PaymentOutcome(status="UNKNOWN", reason="a response in another format")
        if order.out_trade_no != attempt_id or not order.is_of(self._account):
            return PaymentOutcome(status="UNKNOWN", reason="the response is about another payment")
        return order

    def _is_over(self, attempt_id: str) -> bool:
        """Whether the customer can no longer pay an order."""
        ends_at = wire.end_of_order(attempt_id, self._options.products)
        return _now_ms() > ends_at + wire.EXPIRY_MARGIN_MS

    async def _close_order(self, attempt_id: str, unpaid: PaymentOutcome) -> PaymentOutcome:
        """Close an order; return ``unpaid`` if that failed."""
        path = f"/v3/pay/transactions/out-trade-no/{attempt_id}/close"
        reply = await self._send("POST", path, {"mchid": self._account.mchid})
        if isinstance(reply, NoReply):
            return unpaid
        if reply.is_success:
            return PaymentOutcome(status="DECLINED", reason="closed")
        if _is_open(reply):
            return unpaid
        # It was paid or closed meanwhile.
        after = await self._find_order(attempt_id)
        return after if isinstance(after, PaymentOutcome) else after.outcome

    # Refunds

    async def refund(self, request: RefundRequest) -> RefundOutcome:
        """Refund a payment, or report the refund that was made before with the same id.

        WeChat Pay wants the amount of the payment too, which is queried first: a query that fails
        has the outcome UNREACHABLE, because no refund was sent. A refund counts as refused only if
        WeChat Pay names a reason and knows of no such refund.
        """
        state = await self._find_order(request.attempt_id)
        paid = state if isinstance(state, PaymentOutcome) else state.outcome
        if paid.status in ("UNKNOWN", "UNREACHABLE"):
            return RefundOutcome(status="UNREACHABLE", reason=paid.reason)
        if paid.status != "SUCCEEDED" or paid.amount is None:
            reason = f"the payment is {paid.reason or paid.status}"
            return RefundOutcome(status="REFUSED", reason=reason)
        body = wire.refund(request, paid.amount)
        reply = await self._send("POST", "/v3/refund/domestic/refunds", body)
        if isinstance(reply, NoReply):
            return RefundOutcome(status=reply.status, reason=reply.reason)
        if reply.is_success:
            return _refund(reply, request.refund_id, request.attempt_id, request.amount)
        return await self._explain_refusal(request.refund_id, reply.error)

    async def _explain_refusal(self, refund_id: str, error: wire.Error) -> RefundOutcome:
        """Return the outcome of a refund that WeChat Pay did not accept."""
        if error.code in wire.NOT_PROCESSED:
            return RefundOutcome(status="UNREACHABLE", reason=error.summary)
        if error.code not in wire.REFUND_REFUSALS:
            return RefundOutcome(status="UNKNOWN", reason=error.summary)
        existing = await self.find_refund(refund_id)
        if existing.status == "NOT_FOUND":
            return RefundOutcome(status="REFUSED", reason=error.summary)
        return existing

    async def find_refund(self, refund_id: str, payment_ref: str = "") -> RefundOutcome:  # noqa: ARG002 - WeChat Pay finds it by our id
        """Return the state of a refund. NOT_FOUND only if WeChat Pay reports it."""
        reply = await self._send("GET", f"/v3/refund/domestic/refunds/{refund_id}")
        if isinstance(reply, NoReply):
            return RefundOutcome(status=reply.status, reason=reply.reason)
        if reply.is_success:
            return _refund(reply, refund_id)
        status: Literal["NOT_FOUND", "UNKNOWN"] = (
            "NOT_FOUND" if reply.error.code in wire.NO_REFUND else "UNKNOWN"
        )
        return RefundOutcome(status=status, reason=reply.error.summary)

    # Notifications

    async def fetch_keys(self, headers: Mapping[str, str]) -> None:
        """Download the platform certificates if the one that signed a callback is unknown."""
        await self._transport.keys.fetch(headers.get("wechatpay-serial", ""))

    def read_callback(
        self, headers: Mapping[str, str], body: bytes, now: int
    ) -> tuple[GatewayEvent, ...]:
        """Verify a notification, decrypt it and return its event. Raises BadCallback.

        ``fetch_keys`` must have been called. A notification of another type, such as one about a
        coupon, returns an empty tuple.
        """
        platform_keys = self._transport.keys
        try:
            platform_keys.verify(headers, body, now)
        except BadSignature as error:
            raise BadCallback(str(error)) from None
        notification = wire.read(body, wire.Notification)
        if notification is None:
            msg = "the body is not in WeChat Pay's format"
            raise BadCallback(msg)
        try:
            resource = platform_keys.decrypt(notification.resource)
            event = wire.read_event(notification.event_type, resource, self._account)
        except ValueError as error:
            msg = f"the resource cannot be used: {error}"
            raise BadCallback(msg) from None
        return () if event is None else (event,)

    # Bills

    async def settlement_report(
        self, target: BinaryIO, since: int | None = None, until: int | None = None
    ) -> None:
        """Write the trades of the days of a range (Unix ms, inclusive), as WeChat Pay's bill.

        Raises Invalid without ``since``, and ConfigurationError if there is no usable bill.
        """
        download, url = self._transport.download, self._options.url
        await bills.write(self._get, download, url, target, since, until, _now_ms())

    async def _get(self, path: str) -> Reply | NoReply:
        return await self._send("GET", path)

    # Checks

    async def check(self) -> CheckProblem | None:
        """Query an order that does not exist; return the problem with the response and its remedy.

        A wrong APIv3 key is noticed only if the account has platform certificates.
        """
        options = self._options
        path = f"/v3/pay/transactions/out-trade-no/{new_id('att')}?mchid={self._account.mchid}"
        reply = await self._send("GET", path)
        prefix = "OPENTILL_GATEWAY_WECHAT_PAY_"
        if isinstance(reply, NoReply):
            if reply.refused:
                return CheckProblem(
                    f"{options.url} refuses our signature: correct {prefix}MCHID,"
                    f" {prefix}PRIVATE_KEY and {prefix}SERIAL or {prefix}CERTIFICATE"
                )
            if reply.status == "UNKNOWN":
                return CheckProblem(
                    f"{options.url}: {reply.reason}. If this stays, correct {prefix}API_V3_KEY, or"
                    f" {prefix}PUBLIC_KEY and {prefix}PUBLIC_KEY_ID"
                )
            return CheckProblem(
                f"{options.url} gave no usable response: {reply.reason}", was_asked=False
            )
        if not reply.is_success and reply.error.code in wire.NO_ORDER:
            return None
        return CheckProblem(
            f"{options.url} responds to a query of an unknown order with {reply.error.summary}"
        )

    async def _send(
        self, method: Literal["GET", "POST"], path: str, body: object = None
    ) -> Reply | NoReply:
        return await self._transport.send(method, path, body, timeout_s=self._timeout_s)


def _is_open(reply: Reply | NoReply) -> bool:
    """Whether WeChat Pay may or may not have processed a request."""
    if isinstance(reply, NoReply):
        return reply.status == "UNKNOWN"
    is_failure = reply.status >= 500 or reply.error.code in wire.SYSTEM_ERRORS  # noqa: PLR2004 - the server failed
    return not reply.is_success and is_failure


def _payment_status(reply: Reply) -> PaymentStatus:
    """Return the outcome's status for an order that WeChat Pay did not accept."""
    if reply.error.code in wire.NOT_PROCESSED:
        return "UNREACHABLE"
    return "UNKNOWN" if _is_open(reply) else "DECLINED"


def _prepaid(reply: Reply, return_url: str) -> PaymentOutcome:
    prepaid = wire.read(reply.body, wire.Prepaid)
    if prepaid is not None and prepaid.code_url:
        return PaymentOutcome(status="ACTION_REQUIRED", qr_text=prepaid.code_url)
    address = "" if prepaid is None else safe_url(prepaid.h5_url)
    if not address:
        return PaymentOutcome(status="UNKNOWN", reason="a response without a code or a link")
    return PaymentOutcome(status="ACTION_REQUIRED", action_url=wire.h5_address(address, return_url))


def _refund(
    reply: Reply, refund_id: str, attempt_id: str = "", amount: Money | None = None
) -> RefundOutcome:
    """Return the outcome of a refund, UNKNOWN if the response is about another one."""
    refund = wire.read(reply.body, wire.Refund)
    if refund is None:
        return RefundOutcome(status="UNKNOWN", reason="a response in another format")
    is_other = refund.out_refund_no != refund_id or attempt_id not in ("", refund.out_trade_no)
    if is_other or (amount is not None and refund.amount.refunded != amount):
        return RefundOutcome(status="UNKNOWN", reason="the response is about another refund")
    if refund.state == "ABNORMAL":
        _log.error("refund %s is %s", refund_id, wire.ABNORMAL)
    return refund.outcome


def _now_ms() -> int:
    return time.time_ns() // 1_000_000
