"""The bank's API for shops: JSON, with ``Authorization: Bearer <secret>``."""

import hmac
import time
from collections.abc import Callable
from typing import Annotated, Any, Final, Literal
from urllib.parse import urlsplit

from litestar import Response, Router, delete, get, post
from litestar.connection import ASGIConnection
from litestar.di import NamedDependency
from litestar.handlers import BaseRouteHandler
from litestar.params import FromPath, JSONBody, QueryParameter
from litestar.response import Stream

from opentill.sandbox import faults, report
from opentill.sandbox.bank import Bank
from opentill.sandbox.model import (
    Dispute,
    DisputeOrder,
    Fault,
    FaultOrder,
    PaymentOrder,
    PaymentView,
    Refund,
    RefundOrder,
    Refusal,
)
from opentill.sandbox.storage import Store, Tx


def _now() -> int:
    return time.time_ns() // 1_000_000


def _check_address(url: str) -> None:
    try:
        parts = urlsplit(url)
        fine = bool(parts.hostname) and (parts.port is None or parts.port > 0)
    except ValueError:
        fine = False
    if not fine:
        message = "return_url and callback_url must be absolute http or https addresses."
        raise Refusal(400, "invalid_request", message)


@post("/payments")
async def start_payment(
    data: JSONBody[PaymentOrder], bank: NamedDependency[Bank], store: NamedDependency[Store]
) -> Response[PaymentView]:
    """Take a payment: 201, or 200 with the payment that was started under this id before."""
    _check_address(data.return_url)
    _check_address(data.callback_url)

    def step(tx: Tx) -> Response[PaymentView]:
        payment, new = bank.start_payment(tx, data, _now())
        return Response(bank.view(payment), status_code=201 if new else 200)

    return await faults.answer(store, "pay", data.id, step)


@get("/payments/{payment_id:str}")
async def find_payment(
    payment_id: FromPath[str], bank: NamedDependency[Bank], store: NamedDependency[Store]
) -> Response[PaymentView]:
    """Say what became of a payment; 404 if it was never seen."""

    def step(tx: Tx) -> Response[PaymentView]:
        return Response(bank.view(bank.find_payment(tx, payment_id)))

    return await faults.answer(store, "find", payment_id, step)


@post("/payments/{payment_id:str}/void", status_code=200)
async def void_payment(
    payment_id: FromPath[str], bank: NamedDependency[Bank], store: NamedDependency[Store]
) -> PaymentView:
    """Give an authorization back before it is captured; 409 afterwards."""
    return bank.view(await store.do(lambda tx: bank.void(tx, payment_id, _now())))


@post("/refunds")
async def start_refund(
    data: JSONBody[RefundOrder], bank: NamedDependency[Bank], store: NamedDependency[Store]
) -> Response[Refund]:
    """Give money back: 201, or 200 with the refund that was started under this id before."""
    _check_address(data.callback_url)

    def step(tx: Tx) -> Response[Refund]:
        refund, new = bank.start_refund(tx, data, _now())
        return Response(refund, status_code=201 if new else 200)

    return await faults.answer(store, "refund", data.id, step)


@get("/refunds/{refund_id:str}")
async def find_refund(
    refund_id: FromPath[str], bank: NamedDependency[Bank], store: NamedDependency[Store]
) -> Response[Refund]:
    """Say what became of a refund; 404 if it was never seen."""

    def step(tx: Tx) -> Response[Refund]:
        return Response(bank.find_refund(tx, refund_id))

    return await faults.answer(store, "find_refund", refund_id, step)


@post("/payments/{payment_id:str}/disputes")
async def open_dispute(
    payment_id: FromPath[str],
    bank: NamedDependency[Bank],
    store: NamedDependency[Store],
    data: JSONBody[DisputeOrder | None] = None,
) -> Dispute:
    """Have the customer dispute the payment."""
    reason = (data or DisputeOrder()).reason
    return await store.do(lambda tx: bank.open_dispute(tx, payment_id, reason, _now()))


@get("/payments/{payment_id:str}/disputes")
async def payment_disputes(
    payment_id: FromPath[str], bank: NamedDependency[Bank], store: NamedDependency[Store]
) -> list[Dispute]:
    """List the disputes of a payment."""

    def step(tx: Tx) -> list[Dispute]:
        return bank.disputes(tx, bank.find_payment(tx, payment_id).id)

    return await store.do(step)


@get("/disputes")
async def disputes(bank: NamedDependency[Bank], store: NamedDependency[Store]) -> list[Dispute]:
    """List the latest disputes of all payments."""
    return await store.do(bank.disputes)


def _step_handler(status: Literal["won", "lost", "recovered"]) -> Callable[..., Any]:
    async def step_dispute(
        dispute_id: FromPath[str], bank: NamedDependency[Bank], store: NamedDependency[Store]
    ) -> Dispute:
        return await store.do(lambda tx: bank.step_dispute(tx, dispute_id, status, _now()))

    step_dispute.__doc__ = f"Have the dispute {status}, from the shop's view."
    return step_dispute


_DISPUTE_HANDLERS: Final = [
    post(f"/disputes/{{dispute_id:str}}/{status}", status_code=200)(_step_handler(status))
    for status in ("won", "lost", "recovered")
]


@post("/faults")
async def add_fault(data: JSONBody[FaultOrder], store: NamedDependency[Store]) -> list[Fault]:
    """Order faults; answers all that wait."""
    return await store.do(lambda tx: faults.add(tx, data))


@get("/faults")
async def list_faults(store: NamedDependency[Store]) -> list[Fault]:
    """List the faults that wait."""
    return await store.do(faults.waiting)


@delete("/faults")
async def clear_faults(store: NamedDependency[Store]) -> None:
    """Forget all faults."""
    await store.do(faults.clear)


@get("/settlement-report.csv", media_type="text/csv")
async def settlement_report(
    store: NamedDependency[Store],
    since: Annotated[int, QueryParameter(name="from", ge=0)] = 0,
    until: Annotated[int, QueryParameter(name="to", ge=0)] = report.FOREVER,
) -> Stream:
    """Write what was settled between two times (Unix ms, inclusive), oldest first."""
    return Stream(report.lines(store, since, until), media_type="text/csv")


def router(secret: str) -> Router:
    """Put the handlers behind the secret."""
    expected = f"Bearer {secret}".encode()

    def with_secret(connection: ASGIConnection[Any, Any, Any, Any], _: BaseRouteHandler) -> None:
        given = connection.headers.get("authorization", "").encode()
        if not hmac.compare_digest(given, expected):
            raise Refusal(401, "unauthorized", "The Authorization header needs the bank's secret.")

    return Router(
        path="/",
        guards=[with_secret],
        route_handlers=[
            start_payment,
            find_payment,
            void_payment,
            start_refund,
            find_refund,
            open_dispute,
            payment_disputes,
            disputes,
            *_DISPUTE_HANDLERS,
            add_fault,
            list_faults,
            clear_faults,
            settlement_report,
        ],
    )
