"""The adapter for PayPal's Orders API v2. It is stateless, but caches a token and certificates.

A customer approves an order on PayPal's page; the money moves only when we capture the order. We do
that when we query the attempt: after the customer's return, after PayPal's webhook, and by polling.
An order that nobody captures takes no money, so closing one needs no request (decision 0157).
Our attempt and refund ids are the idempotency keys (PayPal-Request-Id).
"""

import asyncio
import time
from collections.abc import Mapping
from typing import BinaryIO, Final
from urllib.parse import quote

from opentill.core.errors import ConfigurationError, Invalid
from opentill.core.ids import creation_time
from opentill.gateways.model import (
    BadCallback,
    CheckProblem,
    GatewayEvent,
    Method,
    PaymentOutcome,
    PaymentRequest,
    RefundOutcome,
    RefundRequest,
)
from opentill.gateways.paypal import codes, report, webhooks, wire
from opentill.gateways.paypal.amounts import DECIMALS
from opentill.gateways.paypal.certificates import BadSignature, Certificates
from opentill.gateways.paypal.replies import (
    NOT_FOUND,
    is_missing,
    is_open,
    read_order,
    refund_outcome,
    refused_payment,
    unknown_payment,
    unknown_refund,
)
from opentill.gateways.paypal.transport import Deadline, NoReply, Options, Reply, Transport
from opentill.outgoing.client import Outgoing

# A capture asks a bank, which takes longer than other requests.
_TIMEOUT_S: Final = 7.0
# A customer who has come back sees a page after three seconds at the latest.
_PATIENCE_S: Final = 1.5
# A capture that was sent before an order ended is done within this time.
_CAPTURE_MS: Final = 5 * 60_000
# PayPal cancels an order that was not captured three hours after its approval ("Handle uncaptured
# payments"), and an order that nobody approved.
_MOST_AGE_MS: Final = 6 * 3_600_000
# PayPal remembers the ids of refunds for 45 days. A later request would be a second refund.
_REMEMBERED_MS: Final = 40 * 86_400_000
_NO_ORDER: Final = "0TILL0CHECK000000"  # the id of no order, in PayPal's form
_REPORT_S: Final = 60.0
_ORDERS: Final = "/v2/checkout/orders"
_CAPTURES: Final = "/v2/payments/captures"


class PayPalGateway:
    """The ``Gateway`` of PayPal.

    Implements ``Captures``, ``Checks``, ``Traces``, ``FetchesKeys``, ``Reports``, ``TakesWallet``.
    """

    name = "paypal"
    wallet = "PayPal"
    capture_ms = _CAPTURE_MS
    report_delay_ms = report.DELAY_MS

    def __init__(
        self,
        options: Options,
        outgoing: Outgoing,
        certificates: Certificates,
        timeout_s: float = _TIMEOUT_S,
    ) -> None:
        """``outgoing`` is closed with the gateway, and so is the client of ``certificates``."""
        self._options = options
        self._transport = Transport(options, outgoing)
        self._certificates = certificates
        self._timeout_s = timeout_s
        self._patience_s = _PATIENCE_S
        self._captures: set[asyncio.Task[Reply | NoReply]] = set()

    def methods(self, currency: str) -> tuple[Method, ...]:
        """Return the payment methods for the currency.

        PayPal's page takes PayPal accounts and cards, so it is a way to pay by card.
        """
        return ("CREDIT_CARD",) if currency in DECIMALS else ()

    async def close(self) -> None:
        """Close the connections; a capture that is under way is queried after the next start."""
        for task in self._captures:
            task.cancel()
        await asyncio.gather(*self._captures, return_exceptions=True)
        await self._transport.close()
        await self._certificates.close()

    # Payments

    async def pay(self, request: PaymentRequest) -> PaymentOutcome:
        """Create an order and return the address of the page on which the customer approves it.

        If the response is lost, the same request is sent once more, which returns the same order.
        """
        try:
            body = wire.order_body(request)
        except ValueError as error:
            return PaymentOutcome(status="DECLINED", reason=str(error))
        deadline, key = Deadline(self._timeout_s), request.attempt_id
        reply = await self._transport.send("POST", _ORDERS, body, request_id=key, deadline=deadline)
        if not is_open(reply) or deadline.is_over:
            return self._created(reply, request)
        again = await self._transport.send("POST", _ORDERS, body, request_id=key, deadline=deadline)
        outcome = self._created(again, request)
        if outcome.status == "UNREACHABLE":  # but the first request may have arrived
            return PaymentOutcome(status="UNKNOWN", reason=outcome.reason)
        return outcome

    def _created(self, reply: Reply | NoReply, request: PaymentRequest) -> PaymentOutcome:
        """Return the outcome of a new order by the response to it."""
        if isinstance(reply, NoReply):
            return PaymentOutcome(status=reply.status, reason=reply.reason)
        if not reply.is_success:
            return refused_payment(reply)
        order = self._read_order(reply, request.attempt_id)
        outcome = order if isinstance(order, PaymentOutcome) else order.outcome
        if outcome.status == "ACTION_REQUIRED" and not outcome.action_url:
            return PaymentOutcome(status="UNKNOWN", reason="an order without its page")
        return outcome

    async def find_payment(self, attempt_id: str, provider_ref: str = "") -> PaymentOutcome:
        """Return the state of an attempt; capture its order if the customer has approved it.

        ``provider_ref`` is PayPal's id of the order or, once it is paid, of the capture. Without it
        the attempt is NOT_FOUND: we have captured nothing, because only the id can be captured, and
        the customer cannot have approved an order whose address never reached us.
        """
        if not wire.reference(provider_ref):
            return PaymentOutcome(status="NOT_FOUND", reason="no order of PayPal's is known")
        deadline = Deadline(self._timeout_s)
        order = await self._find_order(attempt_id, provider_ref, deadline)
        if isinstance(order, PaymentOutcome):
            return order
        if order.capture is None and order.status == wire.APPROVED:
            return await self._capture(order, attempt_id, deadline)
        return order.outcome

    async def expire(self, attempt_id: str, provider_ref: str) -> PaymentOutcome:
        """End an attempt that is not captured, and return its state.

        PayPal has no request that cancels an order. It takes no money without our capture, which
        does not follow once the attempt is DECLINED, and PayPal cancels it after some hours. A
        capture may be under way: the caller asks again until ``capture_ms`` have passed.
        """
        order = await self._find_order(attempt_id, provider_ref, Deadline(self._timeout_s))
        if isinstance(order, PaymentOutcome):
            return order
        outcome = order.outcome
        is_uncaptured = order.capture is None and outcome.status in ("ACTION_REQUIRED", "PENDING")
        return PaymentOutcome(status="DECLINED", reason="closed") if is_uncaptured else outcome

    async def _find_order(
        self, attempt_id: str, provider_ref: str, deadline: Deadline
    ) -> wire.Order | PaymentOutcome:
        """Query an order; return the outcome if there is none, or if the id is a capture's."""
        reply = await self._get(f"{_ORDERS}/{provider_ref}", deadline)
        if isinstance(reply, Reply) and reply.is_success:
            return self._read_order(reply, attempt_id)
        if isinstance(reply, Reply) and reply.status == NOT_FOUND:
            return await self._find_capture(attempt_id, provider_ref, deadline)
        return unknown_payment(reply)

    async def _find_capture(
        self, attempt_id: str, capture_id: str, deadline: Deadline
    ) -> PaymentOutcome:
        """Query a capture. PayPal forgets orders that nobody captured: those have ended."""
        capture = await self._get_capture(capture_id, deadline)
        if isinstance(capture, wire.Capture):
            if capture.custom_id != attempt_id or not self._is_ours(capture.payee):
                return PaymentOutcome(
                    status="UNKNOWN", reason="the response is about another payment"
                )
            return capture.outcome
        if isinstance(capture, Reply) and capture.status == NOT_FOUND:
            if _age_ms(attempt_id) > _MOST_AGE_MS:
                return PaymentOutcome(status="DECLINED", reason="expired")
            return PaymentOutcome(status="NOT_FOUND", reason=capture.error.code)
        return unknown_payment(capture)

    async def _capture(
        self, order: wire.Order, attempt_id: str, deadline: Deadline
    ) -> PaymentOutcome:
        """Capture an approved order. A repeated capture returns the first one.

        The customer is waiting, so a capture that takes long continues by itself: the attempt is
        PENDING, and is soon queried again.
        """
        path = f"{_ORDERS}/{order.id}/capture"
        sending = self._transport.send(
            "POST", path, {}, request_id=f"{attempt_id}-capture", deadline=deadline
        )
        task = asyncio.ensure_future(sending)
        self._captures.add(task)
        task.add_done_callback(self._captures.discard)
        done, _ = await asyncio.wait({task}, timeout=self._patience_s)
        if not done:
            return PaymentOutcome(status="PENDING", provider_ref=order.id, reason="capturing")
        return await self._captured(task.result(), order, attempt_id, deadline)

    async def _captured(
        self, reply: Reply | NoReply, order: wire.Order, attempt_id: str, deadline: Deadline
    ) -> PaymentOutcome:
        """Return the outcome of a capture by the response to it."""
        if isinstance(reply, NoReply):
            return PaymentOutcome(status="UNKNOWN", reason=reply.reason)
        if reply.is_success:
            captured = self._read_order(reply, attempt_id)
            return captured if isinstance(captured, PaymentOutcome) else captured.outcome
        code = reply.error.code
        if code in codes.CAPTURE_REFUSALS:
            return PaymentOutcome(status="DECLINED", reason=wire.reason_of(code))
        if code in codes.CAPTURED_BEFORE:
            again = await self._find_order(attempt_id, order.id, deadline)
            return again if isinstance(again, PaymentOutcome) else again.outcome
        if code in codes.NOT_APPROVED:
            return PaymentOutcome(status="PENDING", provider_ref=order.id, reason="not_approved")
        return PaymentOutcome(status="UNKNOWN", reason=code)

    def _read_order(self, reply: Reply, attempt_id: str) -> wire.Order | PaymentOutcome:
        """Return the order of a response; the outcome UNKNOWN unless it is that of the attempt."""
        order = wire.read(reply.body, wire.Order)
        if order is None or not wire.reference(order.id):
            return PaymentOutcome(status="UNKNOWN", reason="a response in another format")
        if order.attempt_id != attempt_id or not self._is_ours(order.payee):
            return PaymentOutcome(status="UNKNOWN", reason="the response is about another payment")
        return order

    def _is_ours(self, payee: wire.Payee | str | None) -> bool:
        merchant_id = payee.merchant_id if isinstance(payee, wire.Payee) else payee or ""
        try:
            wire.check_payee(merchant_id, self._options.merchant_id)
        except ValueError:
            return False
        return True

    # Refunds

    async def refund(self, request: RefundRequest) -> RefundOutcome:
        """Refund a capture, or report the refund that was made before with the same id.

        After 40 days a refund is only queried, because PayPal forgets the ids of refunds.
        """
        try:
            body = wire.refund_body(request)
        except ValueError as error:
            return RefundOutcome(status="REFUSED", reason=str(error))
        ref = wire.reference(request.provider_ref)
        if not ref:
            return RefundOutcome(status="REFUSED", reason="no capture of PayPal's is known")
        if request.repeated and _age_ms(request.refund_id) > _REMEMBERED_MS:
            return await self.find_refund(request.refund_id, ref)
        deadline = Deadline(self._timeout_s)
        reply = await self._send_refund(ref, body, request, deadline)
        if is_missing(reply):
            # The payment is known by its order only, for example because an operator confirmed it.
            order_reply = await self._get(f"{_ORDERS}/{ref}", deadline)
            order = read_order(order_reply)
            if order is None or order.capture is None or order.attempt_id != request.attempt_id:
                is_unknown = order is not None or is_missing(order_reply)
                return RefundOutcome(
                    status="REFUSED" if is_unknown else "UNREACHABLE",
                    reason="the payment is unknown to PayPal",
                )
            reply = await self._send_refund(order.capture.id, body, request, deadline)
        if isinstance(reply, Reply) and not reply.is_success:
            return await self._refused_refund(reply, request, ref)
        return refund_outcome(reply, request)

    async def _send_refund(
        self, capture_id: str, body: object, request: RefundRequest, deadline: Deadline
    ) -> Reply | NoReply:
        path = f"{_CAPTURES}/{capture_id}/refund"
        return await self._transport.send(
            "POST", path, body, request_id=request.refund_id, deadline=deadline
        )

    async def _refused_refund(
        self, reply: Reply, request: RefundRequest, ref: str
    ) -> RefundOutcome:
        """Return the outcome of a refund that PayPal did not accept.

        It is refused only if PayPal names a reason and does not show that it was made before.
        """
        code = reply.error.code
        if reply.is_unprocessed:
            return RefundOutcome(status="UNREACHABLE", reason=code)
        if code not in codes.REFUND_REFUSALS:
            return RefundOutcome(status="UNKNOWN", reason=code)
        if request.repeated:
            existing = await self.find_refund(request.refund_id, ref)
            if existing.status in ("SUCCEEDED", "PENDING"):
                return existing
        return RefundOutcome(status="REFUSED", reason=wire.reason_of(code))

    async def find_refund(self, refund_id: str, payment_ref: str = "") -> RefundOutcome:
        """Return the state of a refund. NOT_FOUND only if the payment's order does not list it.

        PayPal finds no refund by our id, but lists those of an order.
        """
        deadline = Deadline(self._timeout_s)
        if not wire.reference(payment_ref):
            return RefundOutcome(status="UNKNOWN", reason="no capture of PayPal's is known")
        capture = await self._get_capture(payment_ref, deadline)
        order_id = payment_ref
        if isinstance(capture, wire.Capture):
            order_id = capture.order_id
        elif not is_missing(capture):
            return unknown_refund(capture)
        if not order_id:
            return RefundOutcome(status="UNKNOWN", reason="the capture does not name its order")
        reply = await self._get(f"{_ORDERS}/{order_id}", deadline)
        order = read_order(reply)
        if order is None:
            return unknown_refund(reply)
        refund = wire.find_refund(order.refunds, refund_id)
        if refund is None:
            return RefundOutcome(status="NOT_FOUND")
        return refund.outcome

    async def trace(self, payment_ref: str) -> str | None:
        """Return a payment's attempt id; "" if the payment is not ours, None on a failure."""
        if not wire.reference(payment_ref):  # PayPal would repeat the report in vain
            return ""
        capture = await self._get_capture(payment_ref, Deadline(self._timeout_s))
        if isinstance(capture, wire.Capture):
            return capture.custom_id if wire.is_attempt(capture.custom_id) else ""
        return "" if is_missing(capture) else None

    # Reports

    async def settlement_report(
        self, target: BinaryIO, since: int | None = None, until: int | None = None
    ) -> None:
        """Write the account's movements between two times (Unix ms, inclusive) as CSV.

        Raises Invalid without ``since``, and ConfigurationError if PayPal does not list them.
        """
        if since is None or until is None:
            raise Invalid("from", "from must be a day: PayPal lists movements of three years")
        await report.write(self._find_movements, target, since, until)

    async def _find_movements(self, since: int, until: int, number: int) -> report.Page | None:
        """Query a page of movements; None if the range has too many. Raises ConfigurationError."""
        path = report.path(since, until, number)
        reply = await self._get(path, Deadline(_REPORT_S))
        reason = reply.reason if isinstance(reply, NoReply) else reply.error.code
        if isinstance(reply, Reply) and reply.is_success:
            if (page := wire.read(reply.body, report.Page)) is not None:
                return page
            reason = "a response in another format"
        if reason == report.TOO_MANY and number == 1 and since < until:
            return None
        msg = (
            f"{self._options.url} does not list movements ({reason}): allow Transaction Search in"
            " the app's settings at PayPal, which takes some hours to be in force"
        )
        raise ConfigurationError(msg)

    # Webhooks

    async def fetch_keys(self, headers: Mapping[str, str]) -> None:
        """Download the certificate that a webhook names, unless it is cached."""
        await self._certificates.fetch(headers.get("paypal-cert-url", ""))

    def read_callback(
        self, headers: Mapping[str, str], body: bytes, now: int
    ) -> tuple[GatewayEvent, ...]:
        """Verify a webhook and return its events. Raises BadCallback.

        ``fetch_keys`` must have been called. Events of other types return an empty tuple.
        """
        options = self._options
        try:
            self._certificates.verify(headers, body, options.webhook_id, now)
            return webhooks.read_events(body, options.merchant_id)
        except (BadSignature, ValueError) as error:
            raise BadCallback(str(error)) from None

    # Checks

    async def check(self) -> CheckProblem | None:
        """Query the account's webhook and an unknown order; return the problem and its remedy."""
        options, deadline, prefix = (
            self._options,
            Deadline(self._timeout_s),
            "OPENTILL_GATEWAY_PAYPAL_",
        )
        reply = await self._get(
            f"/v1/notifications/webhooks/{quote(options.webhook_id, safe='')}",
            deadline,
            is_check=True,
        )
        if isinstance(reply, NoReply):
            if reply.refused:
                return CheckProblem(
                    f"{options.url} refuses the credentials: correct {prefix}CLIENT_ID and"
                    f" {prefix}CLIENT_SECRET, which are those of one app, or {prefix}URL"
                )
            return CheckProblem(
                f"{options.url} gave no usable response: {reply.reason}", was_asked=False
            )
        if not reply.is_success:
            return CheckProblem(
                f"{options.url} does not know the webhook ({reply.error.code}): correct"
                f" {prefix}WEBHOOK_ID, the id of a webhook of the same app"
            )
        webhook = wire.read(reply.body, webhooks.Webhook)
        names = {event.name for event in webhook.event_types} if webhook else {"*"}
        if "*" not in names and (missing := [n for n in webhooks.NEEDED_EVENTS if n not in names]):
            return CheckProblem(f"the webhook at PayPal lacks events: add {', '.join(missing)}")
        reply = await self._get(f"{_ORDERS}/{_NO_ORDER}", deadline, is_check=True)
        if is_missing(reply):
            return None
        reason = reply.reason if isinstance(reply, NoReply) else reply.error.code
        return CheckProblem(f"{options.url} responds to a query of an unknown order with {reason}")

    async def _get(
        self, path: str, deadline: Deadline, *, is_check: bool = False
    ) -> Reply | NoReply:
        return await self._transport.send("GET", path, deadline=deadline, is_check=is_check)

    async def _get_capture(
        self, capture_id: str, deadline: Deadline
    ) -> wire.Capture | Reply | NoReply:
        """Query a capture; return the response if it has none."""
        if not wire.reference(capture_id):
            return NoReply("UNKNOWN", "an unreadable id of a capture")
        reply = await self._get(f"{_CAPTURES}/{capture_id}", deadline)
        if isinstance(reply, NoReply) or not reply.is_success:
            return reply
        capture = wire.read(reply.body, wire.Capture)
        return capture or NoReply("UNKNOWN", "a response in another format")


def _age_ms(identifier: str) -> int:
    return time.time_ns() // 1_000_000 - creation_time(identifier)
