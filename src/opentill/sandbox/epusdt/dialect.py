"""The API of epusdt at ``/epusdt``, and that of its fork at ``/bepusdt``.

Both speak of orders in CNY and wallets in USDT. The customer continues on the bank's own pages,
and pays exactly the amount that the server asks for, or not at all.
"""

import hashlib
from collections.abc import Mapping
from functools import partial
from typing import Any, Final

import msgspec
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from opentill.sandbox.epusdt import keys, orders
from opentill.sandbox.epusdt.orders import Error, Order
from opentill.sandbox.fault_responses import respond_in_dialect
from opentill.sandbox.http import bank_of, json_response, read_body, store_of
from opentill.sandbox.model import (
    CallbackType,
    Dispute,
    FaultKind,
    Operation,
    Payment,
    PaymentView,
    Refund,
    Refusal,
)
from opentill.sandbox.pages import Pages
from opentill.sandbox.storage import Tx
from opentill.sandbox.timers import now_ms

PATH: Final = "/epusdt"
FORK_PATH: Final = "/bepusdt"
_OTHER: Final = "att_of_another_account"
_FAULT: Final = "_fault"  # a fault of the signature, in the stored body of a callback; not sent
_WRONG_SIGNATURE: Final = 401


class Epusdt:
    """The ``Dialect`` of both servers."""

    name = orders.NAME
    callback_method = "POST"

    def __init__(self, token: str, public_url: str) -> None:
        """``token`` signs requests and callbacks; ``public_url`` is the bank's for customers."""
        self._token, self._public_url = token, public_url
        self.routes = tuple(
            Route(f"{path}{rest}", partial(handler, is_fork=path == FORK_PATH), methods=methods)
            for path, rest, handler, methods in (
                (PATH, "/api/v1/order/create-transaction", self.create, ["POST"]),
                (PATH, "/pay/check-status/{trade_id}", self.check_status, ["GET"]),
                (PATH, "/pay/checkout-counter/{trade_id}", self.open_page, ["GET"]),
                (FORK_PATH, "/api/v1/order/create-transaction", self.create, ["POST"]),
                (FORK_PATH, "/api/v1/order/cancel-transaction", self.cancel, ["POST"]),
                (FORK_PATH, "/pay/check-status/{trade_id}", self.check_status, ["GET"]),
                (FORK_PATH, "/pay/checkout-counter/{trade_id}", self.open_page, ["GET"]),
            )
        )

    # Requests

    async def create(self, request: Request, *, is_fork: bool) -> Response:
        """Create an order."""
        params = await _read(request)
        if not self._is_signed(params):
            return _refuse_signature(is_fork=is_fork)
        bank = bank_of(request)

        def work(tx: Tx, fault: FaultKind | None) -> Response:
            try:
                order, payment = orders.start(tx, bank, params, now_ms(), is_fork=is_fork)
            except Error as error:
                return _error(error)
            return _success(self._view(order, payment, fault))

        return await self._respond(request, "pay", str(params.get("order_id", "")), work)

    async def cancel(self, request: Request, *, is_fork: bool) -> Response:
        """Cancel an order of the fork."""
        params = await _read(request)
        if not self._is_signed(params):
            return _refuse_signature(is_fork=is_fork)
        trade_id, bank = params.get("trade_id"), bank_of(request)

        def work(tx: Tx, _fault: FaultKind | None) -> Response:
            if not isinstance(trade_id, str):
                return _error(Error(400, "参数 trade_id 不存在"))
            try:
                orders.cancel(tx, bank, trade_id, now_ms())
            except Error as error:
                return _error(error)
            return _success({"trade_id": trade_id})

        return await self._respond(request, "close", str(trade_id), work)

    async def check_status(self, request: Request, *, is_fork: bool) -> Response:
        """Return the status of an order."""
        trade_id, bank = request.path_params["trade_id"], bank_of(request)

        def work(tx: Tx, fault: FaultKind | None) -> Response:
            try:
                order = orders.require(tx, trade_id, is_fork=is_fork)
            except Error as error:
                return _error(error)
            payment = bank.find_payment(tx, order.payment_id)
            status = orders.status_of(order, payment.status)
            shown_id = _OTHER if fault == "other_account" else trade_id
            if not is_fork:
                return _success({"trade_id": shown_id, "status": status})
            return_url = payment.return_url if payment.status == "succeeded" else ""
            return json_response(
                {
                    "trade_id": shown_id,
                    "trade_hash": _hash(order),
                    "status": status,
                    "return_url": return_url,
                }
            )

        return await self._respond(request, "find", trade_id, work)

    async def open_page(self, request: Request, *, is_fork: bool) -> Response:
        """Redirect to the bank's page of an order."""
        trade_id = request.path_params["trade_id"]

        def work(tx: Tx) -> str:
            try:
                return orders.require(tx, trade_id, is_fork=is_fork).payment_id
            except Error as error:
                raise Refusal(404, "not_found", str(error)) from None

        pages: Pages = request.app.state.pages
        return pages.go(f"/pay/{await store_of(request).do(work)}")

    async def _respond(
        self, request: Request, operation: Operation, subject: str, work: Any
    ) -> Response:
        return await respond_in_dialect(store_of(request), operation, subject, work)

    def _is_signed(self, params: Mapping[str, Any]) -> bool:
        return params.get("signature") == keys.sign(params, self._token)

    def _view(self, order: Order, payment: Payment, fault: FaultKind | None) -> dict[str, Any]:
        """Return an order as the servers return it after its creation."""
        path = FORK_PATH if order.is_fork else PATH
        cents = payment.amount_minor + (fault == "wrong_amount")
        left_s = (order.expires_at - now_ms()) // 1000
        view: dict[str, Any] = {
            "trade_id": order.trade_id,
            "order_id": _OTHER if fault == "other_account" else order.payment_id,
            "amount": _number(cents),
            "actual_amount": order.actual if order.is_fork else float(order.actual),
            "token": order.address,
            "expiration_time": left_s if order.is_fork else order.expires_at // 1000,
            "payment_url": f"{self._public_url}{path}/pay/checkout-counter/{order.trade_id}",
        }
        if order.is_fork:
            view["status"] = orders.status_of(order, payment.status)
        return view

    # Callbacks

    def compose(
        self,
        tx: Tx,
        kind: CallbackType,
        now: int,  # noqa: ARG002 - callbacks have no time
        payment: PaymentView,
        about: Refund | Dispute | None,
        fault: FaultKind | None,
    ) -> bytes | None:
        """Return a callback as JSON, which ``sign`` completes.

        Both servers report payments; the fork also reports orders that have expired.
        """
        order = orders.find(tx, payment_id=payment.id)
        if order is None or about is not None:
            return None
        is_expiry = order.is_fork and kind in ("payment.voided", "payment.declined")
        if kind != "payment.succeeded" and (not is_expiry or order.canceled):
            return None
        cents = payment.amount_minor + (fault == "wrong_amount")
        body: dict[str, Any] = {
            "trade_id": order.trade_id,
            "order_id": _OTHER if fault == "other_account" else payment.id,
            "amount": _number(cents),
            "actual_amount": order.actual if order.is_fork else float(order.actual),
            "token": order.address,
            "block_transaction_id": _hash(order),
            "status": orders.status_of(order, payment.status),
        }
        if fault == "wrong_signature":
            body[_FAULT] = fault
        return msgspec.json.encode(body)

    def sign(self, body: bytes, now: int) -> tuple[Mapping[str, str], bytes]:  # noqa: ARG002 - callbacks have no time
        """Return a callback with its signature."""
        values = msgspec.json.decode(body, type=dict[str, Any])
        token = f"not {self._token}" if values.pop(_FAULT, "") else self._token
        values["signature"] = keys.sign(values, token)
        return {"Content-Type": "application/json"}, msgspec.json.encode(values)

    def is_acknowledged(self, status: int, body: bytes) -> bool:
        """Whether the shop's response is the word ``ok``."""
        return status == 200 and body == b"ok"  # noqa: PLR2004 - OK


async def _read(request: Request) -> dict[str, Any]:
    """Return the JSON object of a request, an empty one for anything else, as the servers do."""
    try:
        return msgspec.json.decode(await read_body(request), type=dict[str, Any])
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
        return {}


def _number(cents: int) -> float:
    """Return an amount as a JSON number, whole ones without a fraction."""
    return cents // 100 if cents % 100 == 0 else cents / 100


def _hash(order: Order) -> str:
    return hashlib.sha256(order.trade_id.encode()).hexdigest()


def _success(data: Mapping[str, Any]) -> Response:
    return json_response({"status_code": 200, "message": "success", "data": data, "request_id": ""})


def _error(error: Error) -> Response:
    """Return an error of the business, which has HTTP status 200."""
    return json_response(
        {"status_code": error.code, "message": str(error), "data": None, "request_id": ""}
    )


def _refuse_signature(*, is_fork: bool) -> Response:
    if is_fork:
        return json_response({"error": "签名错误"}, 400)
    return _error(Error(_WRONG_SIGNATURE))
