"""The bank's API for shops: JSON, with ``Authorization: Bearer <secret>``."""

import hmac
from collections.abc import Awaitable, Callable
from typing import Final, Literal
from urllib.parse import urlsplit

from starlette.requests import Request
from starlette.responses import Response, StreamingResponse
from starlette.routing import Route

from opentill.sandbox import faults, report
from opentill.sandbox.fault_responses import respond
from opentill.sandbox.http import bank_of, json_response, read_json, read_millis, store_of
from opentill.sandbox.model import (
    BankRefundOrder,
    DisputeOrder,
    FaultOrder,
    PaymentOrder,
    RefundOrder,
    Refusal,
)
from opentill.sandbox.storage import Tx
from opentill.sandbox.timers import now_ms

Handler = Callable[[Request], Awaitable[Response]]


def _check_url(url: str) -> None:
    try:
        parts = urlsplit(url)
        valid = bool(parts.hostname) and (parts.port is None or parts.port > 0)
    except ValueError:
        valid = False
    if not valid:
        message = "return_url and callback_url must be absolute http or https addresses."
        raise Refusal(400, "invalid_request", message)


async def start_payment(request: Request) -> Response:
    """Start a payment. The status is 201, or 200 with the payment that this id started before."""
    order, bank = await read_json(request, PaymentOrder), bank_of(request)
    _check_url(order.return_url)
    _check_url(order.callback_url)

    def work(tx: Tx) -> Response:
        payment, new = bank.start_payment(tx, order, now_ms())
        return json_response(bank.view(payment), 201 if new else 200)

    return await respond(store_of(request), "pay", order.id, work)


async def find_payment(request: Request) -> Response:
    """Return a payment; 404 for an unknown id."""
    bank, payment_id = bank_of(request), request.path_params["id"]

    def work(tx: Tx) -> Response:
        return json_response(bank.view(bank.find_payment(tx, payment_id)))

    return await respond(store_of(request), "find", payment_id, work)


async def void_payment(request: Request) -> Response:
    """Void an authorization; 409 after its capture."""
    bank, payment_id = bank_of(request), request.path_params["id"]
    payment = await store_of(request).do(lambda tx: bank.void(tx, payment_id, now_ms()))
    return json_response(bank.view(payment))


async def start_refund(request: Request) -> Response:
    """Start a refund. The status is 201, or 200 with the refund that this id started before."""
    order, bank = await read_json(request, RefundOrder), bank_of(request)
    _check_url(order.callback_url)

    def work(tx: Tx) -> Response:
        refund, new = bank.start_refund(tx, order, now_ms())
        return json_response(refund, 201 if new else 200)

    return await respond(store_of(request), "refund", order.id, work)


async def find_refund(request: Request) -> Response:
    """Return a refund; 404 for an unknown id."""
    bank, refund_id = bank_of(request), request.path_params["id"]

    def work(tx: Tx) -> Response:
        return json_response(bank.find_refund(tx, refund_id))

    return await respond(store_of(request), "find_refund", refund_id, work)


async def refund_at_desk(request: Request) -> Response:
    """Refund a payment at the bank itself, as an operator may in a provider's dashboard."""
    bank, payment_id = bank_of(request), request.path_params["id"]
    order = await read_json(request, BankRefundOrder, BankRefundOrder())
    refund = await store_of(request).do(
        lambda tx: bank.refund_at_desk(tx, payment_id, order.amount_minor, now_ms())
    )
    return json_response(refund, 201)


async def payment_refunds(request: Request) -> Response:
    """List the refunds of a payment."""
    bank, payment_id = bank_of(request), request.path_params["id"]
    refunds = await store_of(request).do(
        lambda tx: bank.refunds(tx, bank.find_payment(tx, payment_id).id)
    )
    return json_response(refunds)


async def reverse_refund(request: Request) -> Response:
    """Reverse a refund: its money comes back to the shop."""
    bank, refund_id = bank_of(request), request.path_params["id"]
    refund = await store_of(request).do(lambda tx: bank.reverse_refund(tx, refund_id, now_ms()))
    return json_response(refund)


async def open_dispute(request: Request) -> Response:
    """Open a dispute of a payment."""
    bank, payment_id = bank_of(request), request.path_params["id"]
    order = await read_json(request, DisputeOrder, DisputeOrder())
    dispute = await store_of(request).do(
        lambda tx: bank.open_dispute(tx, payment_id, order.reason, now_ms())
    )
    return json_response(dispute, 201)


async def payment_disputes(request: Request) -> Response:
    """List the disputes of a payment."""
    bank, payment_id = bank_of(request), request.path_params["id"]
    rows = await store_of(request).do(
        lambda tx: bank.disputes(tx, bank.find_payment(tx, payment_id).id)
    )
    return json_response(rows)


async def disputes(request: Request) -> Response:
    """List the latest disputes of all payments."""
    return json_response(await store_of(request).do(bank_of(request).disputes))


def _end_dispute(status: Literal["won", "lost", "recovered"]) -> Handler:
    async def end_dispute(request: Request) -> Response:
        bank, dispute_id = bank_of(request), request.path_params["id"]
        dispute = await store_of(request).do(
            lambda tx: bank.change_dispute(tx, dispute_id, status, now_ms())
        )
        return json_response(dispute)

    return end_dispute


async def add_fault(request: Request) -> Response:
    """Add faults and return all pending ones."""
    order = await read_json(request, FaultOrder)
    return json_response(await store_of(request).do(lambda tx: faults.add(tx, order)), 201)


async def list_faults(request: Request) -> Response:
    """List the pending faults."""
    return json_response(await store_of(request).do(faults.list_all))


async def clear_faults(request: Request) -> Response:
    """Delete all faults."""
    await store_of(request).do(faults.clear)
    return Response(status_code=204)


async def settlement_report(request: Request) -> Response:
    """Stream the settlement report between two times (Unix ms, inclusive), oldest first."""
    since = read_millis(request, "from", 0)
    until = read_millis(request, "to", report.FOREVER)
    return StreamingResponse(report.lines(store_of(request), since, until), media_type="text/csv")


def require_secret(request: Request) -> None:
    """Raise Refusal unless a request has the bank's secret."""
    expected = f"Bearer {request.app.state.secret}".encode()
    authorization = request.headers.get("authorization", "").encode()
    if not hmac.compare_digest(authorization, expected):
        raise Refusal(401, "unauthorized", "The Authorization header needs the bank's secret.")


def _route(method: str, path: str, handler: Handler) -> Route:
    """Return a route that requires the bank's secret."""

    async def with_secret(request: Request) -> Response:
        require_secret(request)
        return await handler(request)

    return Route(path, with_secret, methods=[method])


routes: Final = (
    _route("POST", "/payments", start_payment),
    _route("GET", "/payments/{id}", find_payment),
    _route("POST", "/payments/{id}/void", void_payment),
    _route("POST", "/refunds", start_refund),
    _route("GET", "/refunds/{id}", find_refund),
    _route("POST", "/refunds/{id}/reverse", reverse_refund),
    _route("POST", "/payments/{id}/refunds", refund_at_desk),
    _route("GET", "/payments/{id}/refunds", payment_refunds),
    _route("POST", "/payments/{id}/disputes", open_dispute),
    _route("GET", "/payments/{id}/disputes", payment_disputes),
    _route("GET", "/disputes", disputes),
    _route("POST", "/disputes/{id}/won", _end_dispute("won")),
    _route("POST", "/disputes/{id}/lost", _end_dispute("lost")),
    _route("POST", "/disputes/{id}/recovered", _end_dispute("recovered")),
    _route("POST", "/faults", add_fault),
    _route("GET", "/faults", list_faults),
    _route("DELETE", "/faults", clear_faults),
    _route("GET", "/settlement-report.csv", settlement_report),
)
