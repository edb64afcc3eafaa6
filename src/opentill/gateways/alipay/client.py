"""The adapter for Alipay. It is stateless.

Our attempt id is ``out_trade_no`` and our refund id ``out_request_no``; repeating either has no
second effect. Alipay knows a trade only once the customer has opened its page or scanned its code:
until then a query says that it does not exist, although it may still be paid.
"""

import logging
import time
from collections.abc import Mapping
from http import HTTPStatus
from typing import BinaryIO, Final
from urllib.parse import urlencode

import msgspec

from opentill.core.errors import Unavailable
from opentill.core.ids import creation_time, is_id, new_id
from opentill.gateways import bills as china_bills
from opentill.gateways.alipay import bills, keys, wire
from opentill.gateways.alipay.keys import Credentials
from opentill.gateways.alipay.wire import CURRENCY, Product, Reply
from opentill.gateways.failures import FAILURES, ProviderResponse, status_of
from opentill.gateways.model import (
    BadCallback,
    CheckProblem,
    GatewayEvent,
    GatewayPaymentEvent,
    GatewayRefundEvent,
    Method,
    PaymentOutcome,
    PaymentRequest,
    RefundOutcome,
    RefundRequest,
    RefundStatus,
)
from opentill.outgoing.client import Outgoing, Policy

_TIMEOUT_S: Final = 10.0  # shorter than the 15 s after which an attempt without a result is queried
_FORM: Final = {"Content-Type": "application/x-www-form-urlencoded;charset=utf-8"}
_QUERY: Final = "alipay.trade.query"
_CLOSE: Final = "alipay.trade.close"
_REFUND: Final = "alipay.trade.refund"
_REFUND_QUERY: Final = "alipay.trade.fastpay.refund.query"
# A refund of a duplicate payment has the attempt's id.
_OUR_REFUNDS: Final = ("re_", "att_")
_log: Final = logging.getLogger(__name__)


class Options(msgspec.Struct, frozen=True, kw_only=True):
    """The application, its keys, and the products that the account has."""

    url: str  # of gateway.do
    app_id: str
    credentials: Credentials
    products: tuple[Product, ...]
    seller_id: str = ""  # your Alipay account, 2088…, which receives payments; "": not checked

    def __repr__(self) -> str:
        """Omit the keys."""
        return f"Options(url={self.url!r}, app_id={self.app_id!r})"


class AlipayGateway:
    """The ``Gateway`` of Alipay; it implements ``Notified``, ``Expires``, ``Checks``, ``Bills``."""

    name = "alipay"
    acknowledgement = b"success"
    report_delay_ms = china_bills.DELAY_MS
    day_offset_ms = china_bills.OFFSET_MS

    def __init__(self, options: Options, outgoing: Outgoing, timeout_s: float = _TIMEOUT_S) -> None:
        """``outgoing`` is closed with the gateway."""
        self._options = options
        self._outgoing = outgoing
        self._downloads = bills.Downloads(options.url, outgoing, Outgoing(Policy()))
        self._timeout_s = timeout_s
        self.bill_account = options.seller_id

    def methods(self, currency: str) -> tuple[Method, ...]:
        """Return the payment methods for the currency."""
        return ("ALIPAY",) if currency == CURRENCY else ()

    # Payments

    async def pay(self, request: PaymentRequest) -> PaymentOutcome:
        """Return the page of the trade, or its QR code from Alipay.

        The customer's browser opens the page by a signed URL, so that no request can get lost. If
        the response with a QR code is lost, nobody can pay by it.
        """
        now_ms = _now_ms()
        product = wire.choose(self._options.products, on_phone=request.on_phone)
        method, content = wire.method_of(product), wire.order(request, product, now_ms)
        if product != "precreate":
            params = self._params(
                method, content, notify_url=request.callback_url, return_url=request.return_url
            )
            return PaymentOutcome(
                status="ACTION_REQUIRED", action_url=f"{self._options.url}?{urlencode(params)}"
            )
        response = await self._call(
            method, request.attempt_id, content, notify_url=request.callback_url
        )
        if response.value is None:
            return PaymentOutcome(status=response.status, reason=response.reason)
        if response.value.sub_code in wire.TRADE_EXISTS:
            return await self._find_existing(request.attempt_id, response.value)
        return wire.precreated(response.value, request.attempt_id)

    async def _find_existing(self, attempt_id: str, refusal: Reply) -> PaymentOutcome:
        """Return the state of a trade that Alipay has already."""
        existing = await self.find_payment(attempt_id)
        # A trade that waits for its customer has a code that was lost and cannot be shown again.
        if existing.status in ("NOT_FOUND", "ACTION_REQUIRED"):
            return PaymentOutcome(status="UNKNOWN", reason=refusal.summary)
        return existing

    async def find_payment(self, attempt_id: str, provider_ref: str = "") -> PaymentOutcome:  # noqa: ARG002 - Alipay finds it by our id
        """Query the state of an attempt.

        NOT_FOUND also means that the customer has not opened the page or scanned the code yet. Once
        they can no longer do that, it is DECLINED.
        """
        response = await self._call(_QUERY, attempt_id, {"out_trade_no": attempt_id})
        reply = response.value
        if reply is None:
            return PaymentOutcome(status=response.status, reason=response.reason)
        if not reply.is_success:
            return _absent(attempt_id, reply)
        if reply.out_trade_no != attempt_id:
            return wire.OTHER_PAYMENT
        return wire.payment(
            reply.trade_status,
            reply.total_amount,
            reply.trade_no,
            was_paid=bool(reply.send_pay_date),
        )

    async def expire(self, attempt_id: str, provider_ref: str) -> PaymentOutcome:
        """Close an unpaid trade and return the attempt's state.

        A trade that the customer has not opened cannot be closed: Alipay does not know it yet.
        """
        response = await self._call(_CLOSE, attempt_id, {"out_trade_no": attempt_id})
        reply = response.value
        if reply is None:
            return PaymentOutcome(status=response.status, reason=response.reason)
        if reply.is_success:
            if reply.out_trade_no not in ("", attempt_id):
                return wire.OTHER_PAYMENT
            return PaymentOutcome(status="DECLINED", reason=wire.CLOSED)
        if reply.sub_code == wire.NO_TRADE:
            return _absent(attempt_id, reply)
        return await self.find_payment(attempt_id, provider_ref)

    # Refunds

    async def refund(self, request: RefundRequest) -> RefundOutcome:
        """Refund a payment, or report the refund that was made before with the same id.

        A refund counts as done if Alipay says so (``fund_change`` is Y, or a query confirms it),
        and as refused only if Alipay names a reason and a query knows of no such refund. A request
        that Alipay refused before it processed it is UNREACHABLE, so that it is sent again later.
        """
        response = await self._call(_REFUND, request.refund_id, wire.refund(request))
        if response.value is None:
            return RefundOutcome(status=response.status, reason=response.reason)
        outcome = wire.refunded(response.value, request.attempt_id)
        if outcome.status not in ("PENDING", "REFUSED"):
            return outcome
        existing = await self._find_refund(
            request.refund_id, {"out_trade_no": request.attempt_id}, request
        )
        return outcome if existing.status == "NOT_FOUND" else existing

    async def find_refund(self, refund_id: str, payment_ref: str = "") -> RefundOutcome:
        """Query the state of a refund. NOT_FOUND: it was not received, or it failed.

        Alipay finds a refund by its trade: without ``payment_ref`` the state is UNKNOWN.
        """
        if not payment_ref:
            return RefundOutcome(
                status="UNKNOWN", reason="Alipay's number of the payment is needed"
            )
        return await self._find_refund(refund_id, {"trade_no": payment_ref})

    async def _find_refund(
        self, refund_id: str, trade: Mapping[str, str], request: RefundRequest | None = None
    ) -> RefundOutcome:
        content = {**trade, "out_request_no": refund_id}
        response = await self._call(_REFUND_QUERY, refund_id, content)
        reply = response.value
        if reply is None:
            return RefundOutcome(status="UNKNOWN", reason=response.reason)
        if not reply.is_success:
            is_absent = reply.sub_code == wire.NO_TRADE
            status: RefundStatus = "NOT_FOUND" if is_absent else "UNKNOWN"
            return RefundOutcome(status=status, reason=reply.summary)
        if reply.refund_status != wire.REFUND_SUCCESS:
            return RefundOutcome(status="NOT_FOUND")
        refunded = wire.amount(reply.refund_amount)
        returned = {"out_trade_no": reply.out_trade_no, "trade_no": reply.trade_no}
        is_other = reply.out_request_no not in ("", refund_id) or any(
            returned[name] != value for name, value in trade.items()
        )
        if is_other or (request is not None and refunded != request.amount):
            return RefundOutcome(status="UNKNOWN", reason="Alipay has another refund of this id")
        return RefundOutcome(status="SUCCEEDED")

    # Notifications

    def read_callback(
        self,
        headers: Mapping[str, str],  # noqa: ARG002 - Alipay has no such callbacks
        body: bytes,  # noqa: ARG002 - Alipay has no such callbacks
        now: int,  # noqa: ARG002 - Alipay has no such callbacks
    ) -> tuple[GatewayEvent, ...]:
        """Raise BadCallback: Alipay sends forms (``read_notice``)."""
        msg = "Alipay sends forms, not JSON"
        raise BadCallback(msg)

    async def read_notice(self, params: Mapping[str, str]) -> tuple[GatewayEvent, ...]:
        """Verify a notification and return its events; a repeated one has no second effect.

        All parameters except ``sign`` and ``sign_type`` are signed
        (https://opendocs.alipay.com/common/02mse7). The amount is compared with the order by
        ``orders``. A notification with ``out_biz_no`` reports a refund. Raises BadCallback, and
        Unavailable if Alipay does not respond to the query of a refund.
        """
        self._verify_notice(params)
        attempt_id = params.get("out_trade_no", "")
        outcome = wire.notified_payment(params)
        if outcome.status == "UNKNOWN":
            raise BadCallback(outcome.reason)
        events: list[GatewayEvent] = []
        if outcome.status in ("SUCCEEDED", "DECLINED"):
            events.append(GatewayPaymentEvent(attempt_id=attempt_id, outcome=outcome))
        request_no = params.get("out_biz_no", "")
        if outcome.status == "SUCCEEDED" and request_no and params.get("gmt_refund"):
            events += await self._refund_events(attempt_id, request_no)
        return tuple(events)

    def _verify_notice(self, params: Mapping[str, str]) -> None:
        """Raise BadCallback unless Alipay signed the notification for our application."""
        options = self._options
        content = keys.content_of(params, without=("sign", "sign_type"))
        problem = options.credentials.verify(
            content.encode(errors="replace"),
            params.get("sign", ""),
            params.get("alipay_cert_sn", ""),
            keys.utc_now(),
        )
        if not problem and params.get("sign_type", keys.SIGN_TYPE) != keys.SIGN_TYPE:
            problem = "sign_type is not RSA2"
        if not problem and params.get("app_id") != options.app_id:
            problem = "it is for another application (app_id)"
        if not problem and options.seller_id and params.get("seller_id") != options.seller_id:
            problem = "it is about another account (seller_id)"
        if not problem and not is_id(params.get("out_trade_no", "")):
            problem = "out_trade_no is none of ours"
        if problem:
            raise BadCallback(problem)

    async def _refund_events(self, attempt_id: str, request_no: str) -> list[GatewayEvent]:
        """Return the event of a refund that a notification names, as a query reports it.

        The notification has only the sum of all refunds. A refund whose number is none of our ids
        was made on Alipay's pages.
        """
        content = {"out_trade_no": attempt_id, "out_request_no": request_no}
        response = await self._call(_REFUND_QUERY, attempt_id, content)
        reply = response.value
        if reply is None or not reply.is_success:
            raise Unavailable(None, response.reason or "the refund could not be queried")
        refunded = wire.amount(reply.refund_amount)
        if reply.refund_status != wire.REFUND_SUCCESS or refunded is None:
            return []
        if reply.out_trade_no != attempt_id:
            raise Unavailable(None, wire.OTHER_PAYMENT.reason)
        is_ours = is_id(request_no) and request_no.startswith(_OUR_REFUNDS)
        return [
            GatewayRefundEvent(
                attempt_id=attempt_id,
                refund_id=request_no if is_ours else "",
                outcome=RefundOutcome(
                    status="SUCCEEDED", provider_ref="" if is_ours else request_no
                ),
                amount=refunded,
            )
        ]

    # Bills

    async def settlement_report(
        self, target: BinaryIO, since: int | None = None, until: int | None = None
    ) -> None:
        """Write the trades of the days of a range (Unix ms, inclusive), as Alipay's bill.

        Raises Invalid without ``since``, and ConfigurationError if Alipay does not return a bill.
        """
        await bills.write(self._query_bill, self._downloads, target, since, until, _now_ms())

    async def _query_bill(self, content: Mapping[str, str]) -> ProviderResponse[Reply]:
        return await self._call(bills.METHOD, content["bill_date"], content)

    # Requests

    async def check(self) -> CheckProblem | None:
        """Query a trade that does not exist; return the problem with the response and its remedy.

        Returns None if Alipay recognizes the application and reports that it has no such trade.
        """
        options = self._options
        response = await self._call(_QUERY, "check", {"out_trade_no": new_id("att")})
        reply = response.value
        if reply is None:
            return CheckProblem(
                f"{options.url} gave no usable response: {response.reason}", was_asked=False
            )
        if reply.is_success or reply.sub_code == wire.NO_TRADE:
            return None
        remedy = _REMEDIES.get(reply.sub_code, "")
        return CheckProblem(f"alipay: {options.url} refuses a query: {reply.summary}{remedy}")

    async def close(self) -> None:
        """Close connections."""
        await self._outgoing.close()
        await self._downloads.public.close()

    def _params(self, method: str, content: Mapping[str, str], **urls: str) -> dict[str, str]:
        """Return the signed parameters of a request; ``urls`` are ``notify_url`` and the like."""
        credentials = self._options.credentials
        params = {
            "app_id": self._options.app_id,
            "method": method,
            "format": "JSON",
            "charset": "utf-8",
            "sign_type": keys.SIGN_TYPE,
            "timestamp": wire.china_time(_now_ms()),
            "version": "1.0",
            "biz_content": msgspec.json.encode(content).decode(),
            **urls,
        }
        if credentials.certificates is not None:
            params["app_cert_sn"] = credentials.certificates.app_sn
            params["alipay_root_cert_sn"] = credentials.certificates.root_sn
        return {**params, "sign": credentials.sign(params)}

    async def _call(
        self, method: str, subject: str, content: Mapping[str, str], **urls: str
    ) -> ProviderResponse[Reply]:
        """Send a request and verify the response; ``subject`` is our id, for the log."""
        response = await self._send(method, content, urls)
        if response.reason:
            _log.warning(
                "Alipay's response to %s for %s is %s: %s",
                method,
                subject,
                response.status,
                response.reason,
            )
        return response

    async def _send(
        self, method: str, content: Mapping[str, str], urls: Mapping[str, str]
    ) -> ProviderResponse[Reply]:
        try:
            response = await self._outgoing.send(
                "POST",
                f"{self._options.url}?charset=utf-8",
                headers=_FORM,
                body=urlencode(self._params(method, content, **urls)).encode(),
                timeout_s=self._timeout_s,
            )
        except FAILURES as error:
            return ProviderResponse(status=status_of(error), reason=str(error))
        if response.status != HTTPStatus.OK or response.cut:
            return ProviderResponse(reason=f"HTTP {response.status}")
        envelope = wire.read_envelope(response.body, method)
        if envelope is None:
            return ProviderResponse(reason="the response is not in Alipay's format")
        problem = "the response is not signed"
        if envelope.sign:
            problem = self._options.credentials.verify(
                envelope.node, envelope.sign, envelope.cert_sn, keys.utc_now()
            )
        if problem:
            codes = wire.codes_of(envelope.node)
            return ProviderResponse(reason=f"{problem} ({codes})" if codes else problem)
        reply = wire.read_reply(envelope.node)
        if reply is None:
            return ProviderResponse(reason="the response is not in Alipay's format")
        return ProviderResponse(value=reply)


# Remedies of the public error codes that wrong settings cause.
_REMEDIES: Final = {
    "isv.invalid-app-id": "; correct OPENTILL_GATEWAY_ALIPAY_APP_ID",
    "isv.invalid-signature": (
        "; OPENTILL_GATEWAY_ALIPAY_PRIVATE_KEY must belong to the public key or certificate that"
        " the application has at Alipay"
    ),
    "isv.insufficient-isv-permissions": "; sign the contract of the product at Alipay",
}


def _absent(attempt_id: str, reply: Reply) -> PaymentOutcome:
    """Return the outcome of an attempt that Alipay does not know, or could not query."""
    if reply.sub_code != wire.NO_TRADE:
        return PaymentOutcome(status="UNKNOWN", reason=reply.summary)
    try:
        age_ms = _now_ms() - creation_time(attempt_id)
    except ValueError:
        age_ms = 0
    if age_ms > wire.GONE_AFTER_MS:
        return PaymentOutcome(status="DECLINED", reason="never_opened")
    return PaymentOutcome(status="NOT_FOUND", reason=reply.summary)


def _now_ms() -> int:
    return time.time_ns() // 1_000_000
