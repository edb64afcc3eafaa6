"""A small Epay V1 server on loopback with injectable faults.

It refuses orders without a valid signature. Refunds have no idempotency key, as in the
convention: each request refunds again.
"""

import contextlib
import itertools
import json
from collections.abc import AsyncIterator
from decimal import Decimal
from typing import Any, Final, Literal
from urllib.parse import parse_qsl, urlsplit

from opentill.gateways.epay import signature
from support.page_server import serving
from support.ports import free_socket, url_of

PID: Final = "1001"
KEY: Final = "89unJUB8HZ54Hj7x4nUj56HN4nUzUJ8i"


class EpayServer:
    """Keeps orders in memory. Each fault applies to the next request of its operation."""

    def __init__(self) -> None:
        """Use ``running_epay_server``."""
        self.url = ""
        self.orders: dict[str, dict[str, Any]] = {}
        self._numbers = itertools.count()
        self.refunds: list[tuple[str, str]] = []
        # Each item: method, operation, query.
        self.requests: list[tuple[str, str, dict[str, str]]] = []
        self.faults: list[tuple[str, str]] = []  # each item: operation, kind of the fault
        self.order_changes: dict[str, Any] = {}  # these fields change the response of act=order
        self.payurl: str | None = None  # replaces the URL of the cashier page (None: unchanged)
        # Replaces the response of act=refund (None: unchanged).
        self.refund_response: dict[str, Any] | None = None
        # Says from which part of the request act=order reads its parameters.
        self.reads: Literal["either", "query", "body"] = "either"

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        """Serve a request."""
        if scope["type"] != "http":
            return
        query = dict(parse_qsl(scope["query_string"].decode(), keep_blank_values=True))
        form = dict(parse_qsl((await _body(receive)).decode(), keep_blank_values=True))
        params = self._read_params(query, form)
        operation = params.pop("act", scope["path"].removeprefix("/pay/").removesuffix(".php"))
        self.requests.append((scope["method"], operation, query))
        fault = self._take_fault(operation)
        status, text = 200, b""
        if fault not in ("500 before", "html"):
            text = json.dumps(self.run_operation(operation, params), ensure_ascii=False).encode()
        match fault:
            case "held":  # the operation is performed, but gets no response
                while (await receive())["type"] != "http.disconnect":
                    pass
                return
            case "cut":
                status = 0
            case "500 before" | "500 after":
                status, text = 500, b"<h1>Internal Server Error</h1>"
            case "html":
                text = "<b>Warning</b>: 数据库连接失败".encode()
            case "gbk":
                text = text.decode().encode("gbk")
            case "bom":
                text = b"\xef\xbb\xbf" + text
            case _:
                pass
        # The fault "cut" (status 0) announces more bytes than it sends.
        length = len(text) + (100 if status == 0 else 0)
        headers = [(b"content-type", b"text/html"), (b"content-length", b"%d" % length)]
        await send({"type": "http.response.start", "status": status or 200, "headers": headers})
        await send({"type": "http.response.body", "body": text[:10] if status == 0 else text})

    def _read_params(self, query: dict[str, str], form: dict[str, str]) -> dict[str, str]:
        """Return the parameters that the server reads; for act=order ``reads`` says from where."""
        params = {**query, **form}
        if params.get("act") != "order" or self.reads == "either":
            return params
        return {"act": "order"} | (query if self.reads == "query" else form)

    def _take_fault(self, operation: str) -> str:
        for index, (where, kind) in enumerate(self.faults):
            if where == operation:
                del self.faults[index]
                return kind
        return ""

    def run_operation(self, operation: str, params: dict[str, str]) -> dict[str, Any]:
        """Run an operation and return its response."""
        if operation in ("mapi", "submit"):
            return self._place(params)
        if (params.get("pid"), params.get("key")) != (PID, KEY):
            return {"code": -3, "msg": "商户ID或密钥错误"}
        order = self._find(params)
        if order is None:
            return {"code": -1, "msg": "订单不存在"}
        if operation == "order":
            return {"code": "1", "msg": "查询订单号成功！", **order} | self.order_changes
        return self._refund(order, params)

    def _refund(self, order: dict[str, Any], params: dict[str, str]) -> dict[str, Any]:
        if order["status"] != 1:
            return {"code": -1, "msg": "订单状态不允许退款"}
        refunded = Decimal(params["money"]) + sum(
            Decimal(money) for number, money in self.refunds if number == order["out_trade_no"]
        )
        if refunded > Decimal(order["money"]):
            return {"code": -1, "msg": "退款金额大于订单金额"}
        self.refunds.append((order["out_trade_no"], params["money"]))
        if refunded == Decimal(order["money"]):
            order["status"] = 2
        response = {"code": 1, "msg": "退款成功", "money": params["money"], "refund_no": "R1"}
        return response if self.refund_response is None else self.refund_response

    def _place(self, params: dict[str, str]) -> dict[str, Any]:
        if params["pid"] != PID or not signature.verify(params, KEY):
            return {"code": -3, "msg": "签名校验失败"}
        number = params["out_trade_no"]
        if number not in self.orders:
            self.orders[number] = {
                "trade_no": f"2026{next(self._numbers):010}",
                "out_trade_no": number,
                "type": params["type"],
                "pid": int(PID),
                "name": params["name"],
                "money": params["money"],
                "status": 0,
            }
        trade_no = self.orders[number]["trade_no"]
        payurl = self.payurl or f"{self.url}cashier/{trade_no}"
        return {"code": 1, "trade_no": trade_no, "payurl": payurl}

    def _find(self, params: dict[str, str]) -> dict[str, Any] | None:
        for order in self.orders.values():
            named = params.get("trade_no") == order["trade_no"]
            if named or params.get("out_trade_no") == order["out_trade_no"]:
                return order
        return None

    def pay(self, number: str) -> dict[str, str]:
        """Pay an order and return its notice."""
        order = self.orders[number]
        order["status"] = 1
        return self.notice(order)

    def notice(self, order: dict[str, Any], key: str = KEY, **changes: str) -> dict[str, str]:
        """Return a signed notice."""
        fields = ("trade_no", "out_trade_no", "type", "name", "money")
        params = {name: str(order[name]) for name in fields}
        params |= {"pid": PID, "trade_status": "TRADE_SUCCESS"} | changes
        return {**params, "sign": signature.sign(params, key), "sign_type": "MD5"}


def parameters(url: str) -> dict[str, str]:
    """Return the parameters of a URL."""
    return dict(parse_qsl(urlsplit(url).query, keep_blank_values=True))


async def _body(receive: Any) -> bytes:
    body = b""
    while (message := await receive())["type"] == "http.request":
        body += message["body"]
        if not message["more_body"]:
            break
    return body


@contextlib.asynccontextmanager
async def running_epay_server() -> AsyncIterator[EpayServer]:
    """Run a server on a free port."""
    listener = free_socket()
    url = url_of(listener)
    server = EpayServer()
    server.url = f"{url}/pay/"
    async with serving(server, listener):
        yield server
