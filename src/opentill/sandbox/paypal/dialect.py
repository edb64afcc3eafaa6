"""PayPal's Orders API v2 and webhooks, over the bank's payments, refunds and disputes.

The paths are PayPal's. The customer approves an order on the bank's own card page; the shop then
captures it. As at PayPal, requests need an access token, a repeated PayPal-Request-Id has no second
effect, an order that nobody approves is forgotten after three hours, and a declined card is noticed
by the capture.
"""

import base64
import hmac
import secrets
import time
from collections.abc import Callable, Mapping
from typing import Any, Final
from urllib.parse import parse_qsl

import msgspec
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from opentill.sandbox import callbacks
from opentill.sandbox.api import require_secret
from opentill.sandbox.bank import Bank
from opentill.sandbox.fault_responses import respond_in_dialect
from opentill.sandbox.http import bank_of, read_body, store_of
from opentill.sandbox.model import (
    CallbackType,
    Dispute,
    FaultKind,
    Operation,
    PaymentStatus,
    PaymentView,
    Refund,
    Refusal,
)
from opentill.sandbox.pages import Pages
from opentill.sandbox.paypal import keys, orders, transactions, webhooks
from opentill.sandbox.paypal.keys import Account
from opentill.sandbox.paypal.orders import (
    Error,
    NewOrder,
    NewRefund,
    decode,
    find_captured,
    find_of_payment,
    find_order,
    find_refund,
    missing,
    refund_row,
)
from opentill.sandbox.paypal.views import (
    Order,
    capture_fields,
    dispute_fields,
    order_fields,
    refund_fields,
    time_of,
)
from opentill.sandbox.storage import Tx
from opentill.sandbox.timers import now_ms

_TOKEN_S: Final = 32_400
_MOST_TOKENS: Final = 100
_CAPTURED: Final[dict[PaymentStatus, CallbackType]] = {
    "succeeded": "payment.succeeded",
    "processing": "payment.processing",
}
_EVENTS: Final[dict[CallbackType, str]] = {
    "payment.succeeded": "PAYMENT.CAPTURE.COMPLETED",
    "payment.processing": "PAYMENT.CAPTURE.PENDING",
    "payment.declined": "PAYMENT.CAPTURE.DENIED",
    "payment.refused": "PAYMENT.CAPTURE.DENIED",
    "refund.succeeded": "PAYMENT.CAPTURE.REFUNDED",
    "refund.failed": "PAYMENT.REFUND.FAILED",
    "dispute.opened": "CUSTOMER.DISPUTE.CREATED",
    "dispute.won": "CUSTOMER.DISPUTE.RESOLVED",
    "dispute.lost": "CUSTOMER.DISPUTE.RESOLVED",
    "dispute.recovered": "CUSTOMER.DISPUTE.RESOLVED",
}

Work = Callable[[Tx, FaultKind | None], tuple[int, Any]]


class PayPal:
    """The ``Dialect`` of PayPal."""

    name = orders.NAME
    callback_method = "POST"

    def __init__(self, account: Account, public_url: str) -> None:
        """``public_url`` is the bank's URL, without a trailing slash."""
        self.account = account
        self._public_url = public_url
        self._tokens: dict[str, float] = {}  # tokens and their ends, monotonic time in seconds
        self.routes = (
            Route("/v1/oauth2/token", self.token, methods=["POST"]),
            Route("/v1/notifications/certs/{name}", self.certificate),
            Route("/v1/notifications/webhooks", self.create_webhook, methods=["POST"]),
            Route("/v1/notifications/webhooks/{id}", self.show_webhook),
            Route("/v1/notifications/webhooks/{id}", self.change_webhook, methods=["PATCH"]),
            Route("/v2/checkout/orders", self.create, methods=["POST"]),
            Route("/v2/checkout/orders/{id}", self.show),
            Route("/v2/checkout/orders/{id}/capture", self.capture, methods=["POST"]),
            Route("/v2/payments/captures/{id}", self.show_capture),
            Route("/v2/payments/captures/{id}/refund", self.refund, methods=["POST"]),
            Route("/v2/payments/refunds/{id}", self.show_refund),
            Route("/v1/reporting/transactions", self.report),
            Route("/paypal/checkoutnow", self.open),
            Route("/paypal/forget-tokens", self.forget_tokens, methods=["POST"]),
        )

    # Pages and certificates

    async def open(self, request: Request) -> Response:
        """Open the page on which the customer approves an order."""
        order_id, bank = request.query_params.get("token", ""), bank_of(request)

        def work(tx: Tx) -> str:
            try:
                return find_order(tx, bank, order_id)[0].payment_id
            except Error:
                raise Refusal(404, "not_found", "This order is not valid.") from None

        pages: Pages = request.app.state.pages
        return pages.go(f"/pay/{await store_of(request).do(work)}")

    async def certificate(self, request: Request) -> Response:
        """Return a certificate and that of its issuer, which anybody may read."""
        chain = self.account.chain_of(request.path_params["name"])
        if chain is None:
            return _json(404, _error_fields(Error(404, "RESOURCE_NOT_FOUND")))
        return Response(chain, media_type="application/x-pem-file")

    async def forget_tokens(self, request: Request) -> Response:
        """End all access tokens, for a caller that has the bank's secret."""
        require_secret(request)
        self._tokens.clear()
        return Response(status_code=204)

    # Access tokens

    async def token(self, request: Request) -> Response:
        """Return an access token for the app's credentials."""
        form = dict(parse_qsl((await read_body(request)).decode("ascii", "replace")))
        expected = f"{keys.CLIENT_ID}:{self.account.secret}".encode()
        scheme, _, text = request.headers.get("authorization", "").partition(" ")
        try:
            credentials = base64.b64decode(text, validate=True)
        except ValueError:
            credentials = b""
        if scheme != "Basic" or not hmac.compare_digest(credentials, expected):
            return _json(401, {"error": "invalid_client", "error_description": "sandbox"})
        if form.get("grant_type") != "client_credentials":
            return _json(400, {"error": "unsupported_grant_type"})
        while len(self._tokens) >= _MOST_TOKENS:
            self._tokens.pop(next(iter(self._tokens)))
        token = f"A21AA{secrets.token_urlsafe(40)}"
        self._tokens[token] = time.monotonic() + _TOKEN_S
        return _json(
            200,
            {
                "scope": "https://uri.paypal.com/services/payments/payment/authcapture",
                "access_token": token,
                "token_type": "Bearer",
                "app_id": "APP-80W284485P519543T",
                "expires_in": _TOKEN_S,
            },
        )

    def _authenticate(self, request: Request) -> None:
        """Raise Error unless a request has a token that is valid."""
        scheme, _, token = request.headers.get("authorization", "").partition(" ")
        if scheme != "Bearer" or self._tokens.get(token, 0.0) < time.monotonic():
            raise Error(401, "AUTHENTICATION_FAILURE", "INVALID_TOKEN")

    # Requests

    async def create(self, request: Request) -> Response:
        """Create an order."""
        bank, request_id = bank_of(request), request.headers.get("paypal-request-id", "")

        def prepare(body: bytes) -> Work:
            new = decode(body, NewOrder)

            def work(tx: Tx, fault: FaultKind | None) -> tuple[int, Any]:
                webhook = webhooks.find(tx, self.account.webhook_url)
                url = "" if webhook is None else webhook.url
                order, is_new = orders.start(tx, bank, new, request_id, url)
                return 201 if is_new else 200, self._order(tx, bank, order, fault)

            return work

        return await self._call(request, "pay", prepare, request_id)

    async def show(self, request: Request) -> Response:
        """Return an order."""
        bank = bank_of(request)

        def work(tx: Tx, fault: FaultKind | None) -> tuple[int, Any]:
            order, _ = find_order(tx, bank, request.path_params["id"])
            return 200, self._order(tx, bank, order, fault)

        return await self._call(request, "find", lambda _: work)

    async def capture(self, request: Request) -> Response:
        """Capture an approved order."""
        bank, request_id = bank_of(request), request.headers.get("paypal-request-id", "")

        def work(tx: Tx, fault: FaultKind | None) -> tuple[int, Any]:
            order, payment = find_order(tx, bank, request.path_params["id"])
            order, is_new = orders.capture(tx, order, payment, request_id)
            if is_new and (kind := _CAPTURED.get(payment.status)):
                view = bank.view(payment)
                callbacks.queue(tx, payment.callback_url, kind, now_ms(), view, dialect=self)
            return 201 if is_new else 200, self._order(tx, bank, order, fault)

        return await self._call(request, "capture", lambda _: work)

    def _order(self, tx: Tx, bank: Bank, order: Order, fault: FaultKind | None) -> dict[str, Any]:
        payment = bank.find_payment(tx, order.payment_id)
        refunds = [
            refund_fields(order, refund_row(tx, refund), refund)
            for refund in bank.refunds(tx, payment.id)
        ]
        return order_fields(order, payment, refunds, fault, self._public_url)

    async def show_capture(self, request: Request) -> Response:
        """Return a capture."""
        bank = bank_of(request)

        def work(tx: Tx, fault: FaultKind | None) -> tuple[int, Any]:
            order = find_captured(tx, request.path_params["id"])
            return 200, capture_fields(order, bank.find_payment(tx, order.payment_id), fault)

        return await self._call(request, "find", lambda _: work)

    async def refund(self, request: Request) -> Response:
        """Refund a capture."""
        bank, request_id = bank_of(request), request.headers.get("paypal-request-id", "")

        def prepare(body: bytes) -> Work:
            new = decode(body, NewRefund)

            def work(tx: Tx, fault: FaultKind | None) -> tuple[int, Any]:
                order = find_captured(tx, request.path_params["id"])
                fields, is_new = orders.start_refund(tx, bank, order, new, request_id, fault)
                return 201 if is_new else 200, fields

            return work

        return await self._call(request, "refund", prepare, request_id)

    async def show_refund(self, request: Request) -> Response:
        """Return a refund."""
        bank = bank_of(request)

        def work(tx: Tx, _fault: FaultKind | None) -> tuple[int, Any]:
            return 200, refund_fields(*find_refund(tx, bank, request.path_params["id"]))

        return await self._call(request, "find_refund", lambda _: work)

    async def report(self, request: Request) -> Response:
        """Return a page of the account's movements."""
        query = dict(request.query_params)

        def work(tx: Tx, _fault: FaultKind | None) -> tuple[int, Any]:
            return 200, transactions.search(tx, query)

        return await self._call(request, "find", lambda _: work, "report")

    async def create_webhook(self, request: Request) -> Response:
        """Create a webhook; new orders are reported to the last one."""

        def prepare(body: bytes) -> Work:
            new = decode(body, webhooks.NewWebhook)

            def work(tx: Tx, _fault: FaultKind | None) -> tuple[int, Any]:
                return 201, webhooks.create(tx, new).fields

            return work

        return await self._call(request, None, prepare)

    async def show_webhook(self, request: Request) -> Response:
        """Return a webhook."""

        def work(tx: Tx, _fault: FaultKind | None) -> tuple[int, Any]:
            row = webhooks.find(tx, self.account.webhook_url, request.path_params["id"])
            if row is None:
                missing()
            return 200, row.fields

        return await self._call(request, None, lambda _: work)

    async def change_webhook(self, request: Request) -> Response:
        """Replace the address of a webhook."""

        def prepare(body: bytes) -> Work:
            (change,) = decode(body, tuple[webhooks.Change])

            def work(tx: Tx, _fault: FaultKind | None) -> tuple[int, Any]:
                return 200, webhooks.move(tx, request.path_params["id"], change.value).fields

            return work

        return await self._call(request, None, prepare)

    async def _call(
        self,
        request: Request,
        operation: Operation | None,
        prepare: Callable[[bytes], Work],
        subject: str = "",
    ) -> Response:
        """Serve a request with an access token.

        ``prepare`` reads its body. ``subject`` is the id to which a fault may be limited, else that
        of the path. ``operation`` None: the request has no faults.
        """
        body = await read_body(request)

        def run(tx: Tx, fault: FaultKind | None) -> Response:
            try:
                self._authenticate(request)
                status, fields = prepare(body)(tx, fault)
            except Error as error:
                status, fields = error.status, _error_fields(error)
            except Refusal as refusal:
                refused = Error(refusal.status, "INVALID_REQUEST", "INVALID_PARAMETER_VALUE")
                status, fields = refused.status, _error_fields(refused)
            return _json(status, fields)

        if operation is None:
            return await store_of(request).do(lambda tx: run(tx, None))
        subject = subject or request.path_params.get("id", "")
        return await respond_in_dialect(store_of(request), operation, subject, run)

    # Webhooks

    def compose(
        self,
        tx: Tx,
        kind: CallbackType,
        now: int,
        payment: PaymentView,
        about: Refund | Dispute | None,
        fault: FaultKind | None,
    ) -> bytes | None:
        """Return the body of a webhook with what ``sign`` must know."""
        order, webhook = (
            find_of_payment(tx, payment.id),
            webhooks.find(tx, self.account.webhook_url),
        )
        if order is None or webhook is None:
            return None
        event_type, resource_type = _EVENTS.get(kind), "capture"
        if isinstance(about, Dispute):
            resource_type, fields = "dispute", dispute_fields(order, about, now)
        elif isinstance(about, Refund):
            if about.status == "failed" and about.updated_at == about.created_at:
                return None  # the response has refused it
            resource_type, fields = "refund", refund_fields(order, refund_row(tx, about), about)
        elif order.captured_at is None and event_type is not None:
            event_type, resource_type = "CHECKOUT.ORDER.APPROVED", "checkout-order"
            fields = order_fields(order, payment, [], fault, self._public_url)
        else:
            fields = capture_fields(order, payment, fault)
        if event_type is None:
            return None
        body = {
            "id": f"WH-{secrets.token_hex(9).upper()}",
            "event_version": "1.0",
            "create_time": time_of(now),
            "resource_type": resource_type,
            "event_type": event_type,
            "summary": "Sandbox",
            "resource": fields,
        }
        signing = {"webhook_id": webhook.id, "fault": fault}
        return msgspec.json.encode(signing | {"body": msgspec.json.encode(body).decode()})

    def sign(self, body: bytes, now: int) -> tuple[Mapping[str, str], bytes]:
        """Return a webhook and its headers."""
        signing = msgspec.json.decode(body)
        content, fault = signing["body"].encode(), signing["fault"]
        account = self.account
        signer = account.expired if fault == "expired_certificate" else account.current
        transmission_id, sent_at = secrets.token_hex(16), time_of(now)
        signed = content + b" " if fault == "wrong_signature" else content
        headers = {
            "Content-Type": "application/json",
            "PAYPAL-TRANSMISSION-ID": transmission_id,
            "PAYPAL-TRANSMISSION-TIME": sent_at,
            "PAYPAL-TRANSMISSION-SIG": signer.sign(
                transmission_id, sent_at, signing["webhook_id"], signed
            ),
            "PAYPAL-CERT-URL": f"{self._public_url}/v1/notifications/certs/{signer.name}",
            "PAYPAL-AUTH-ALGO": "SHA256withRSA",
        }
        return headers, content

    def is_acknowledged(self, status: int, body: bytes) -> bool:  # noqa: ARG002 - any body will do
        """Whether the status of the shop's response is 2xx."""
        return 200 <= status < 300  # noqa: PLR2004 - success


def _error_fields(error: Error) -> dict[str, Any]:
    details = [{"issue": error.issue, "description": "sandbox"}] if error.issue else []
    return {
        "name": error.name,
        "message": "sandbox",
        "debug_id": secrets.token_hex(7),
        "details": details,
    }


def _json(status: int, fields: Any) -> Response:
    return Response(msgspec.json.encode(fields), status, media_type="application/json")
