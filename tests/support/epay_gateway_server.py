"""A small Epay V1 server of the documented shapes, with faults, on loopback.

An order that was not placed with our sign is refused; refunds have no idempotency key, as in the
convention: each that is done takes money again.
"""

import contextlib
import itertools
import json
from collections.abc import AsyncIterator
from decimal import Decimal
from typing import Any, Final, Literal
from urllib.parse import parse_qsl

from opentill.gateways.epay import signature
from support.page_server import serving
from support.ports import free_socket, url_of

PID: Final = "1001"
KEY: Final = "89unJUB8HZ54Hj7x4nUj56HN4nUzUJ8i"


class EpayServer:
    """Orders in memory. ``faults`` are taken in turn by what ``on`` they stand for."""

    def __init__(self) -> None:
        """Use ``running``."""
        self.url = ""
        self.orders: dict[str, dict[str, Any]] = {}
        self._numbers = itertools.count()  # of orders, even of those that are forgotten
        self.refunds: list[tuple[str, str]] = []
        self.asked: list[tuple[str, str, dict[str, str]]] = []  # method, what, parameters
        self.faults: list[tuple[str, str]] = []  # what, kind
        self.extra: dict[str, Any] = {}  # changes answers of act=order
        self.payurl: str | None = None  # instead of the cashier's address
        self.told: dict[str, Any] | None = None  # instead of what act=refund answers, once done
        self.reads: Literal["either", "query", "body"] = "either"  # where act=order looks

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        """Answer one request."""
        if scope["type"] != "http":
            return
        query = dict(parse_qsl(scope["query_string"].decode(), keep_blank_values=True))
        form = dict(parse_qsl((await _body(receive)).decode(), keep_blank_values=True))
        params = self._taken(query, form)
        what = params.pop("act", scope["path"].removeprefix("/pay/").removesuffix(".php"))
        self.asked.append((scope["method"], what, query))
        fault = self._fault(what)
        status, text = 200, b""
        if fault not in ("500 before", "html"):
            text = json.dumps(self.answer(what, params), ensure_ascii=False).encode()
        match fault:
            case "held":  # done, and answered never
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
        length = len(text) + (100 if status == 0 else 0)  # promised and never sent
        headers = [(b"content-type", b"text/html"), (b"content-length", b"%d" % length)]
        await send({"type": "http.response.start", "status": status or 200, "headers": headers})
        await send({"type": "http.response.body", "body": text[:10] if status == 0 else text})

    def _taken(self, query: dict[str, str], form: dict[str, str]) -> dict[str, str]:
        """Return the parameters that count: of act=order perhaps those of one place only."""
        params = {**query, **form}
        if params.get("act") != "order" or self.reads == "either":
            return params
        return {"act": "order"} | (query if self.reads == "query" else form)

    def _fault(self, what: str) -> str:
        for index, (where, kind) in enumerate(self.faults):
            if where == what:
                del self.faults[index]
                return kind
        return ""

    def answer(self, what: str, params: dict[str, str]) -> dict[str, Any]:
        """Do what is asked."""
        if what in ("mapi", "submit"):
            return self._place(params)
        if (params.get("pid"), params.get("key")) != (PID, KEY):
            return {"code": -3, "msg": "商户ID或密钥错误"}
        found = self._find(params)
        if found is None:
            return {"code": -1, "msg": "订单不存在"}
        if what == "order":
            return {"code": "1", "msg": "查询订单号成功！", **found} | self.extra
        if found["status"] != 1:
            return {"code": -1, "msg": "订单状态不允许退款"}
        self.refunds.append((found["out_trade_no"], params["money"]))
        given = sum(Decimal(money) for number, money in self.refunds
                    if number == found["out_trade_no"])  # fmt: skip
        if given >= Decimal(found["money"]):
            found["status"] = 2
        done = {"code": 1, "msg": "退款成功", "money": params["money"], "refund_no": "R1"}
        return done if self.told is None else self.told

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

    def paid(self, number: str) -> dict[str, str]:
        """Let the customer pay; the notice that goes out."""
        order = self.orders[number]
        order["status"] = 1
        return self.notice(order)

    def notice(self, order: dict[str, Any], key: str = KEY, **changes: str) -> dict[str, str]:
        """Make a signed notice."""
        fields = ("trade_no", "out_trade_no", "type", "name", "money")
        params = {name: str(order[name]) for name in fields}
        params |= {"pid": PID, "trade_status": "TRADE_SUCCESS"} | changes
        return {**params, "sign": signature.sign(params, key), "sign_type": "MD5"}


async def _body(receive: Any) -> bytes:
    body = b""
    while (message := await receive())["type"] == "http.request":
        body += message["body"]
        if not message["more_body"]:
            break
    return body


@contextlib.asynccontextmanager
async def running() -> AsyncIterator[EpayServer]:
    """Run one on a free port."""
    listener = free_socket()
    url = url_of(listener)
    server = EpayServer()
    server.url = f"{url}/pay/"
    async with serving(server, listener):
        yield server
