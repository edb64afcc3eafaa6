"""A shop that speaks Epay: it signs requests, and has an address that notices go to."""

import itertools
import re
import threading
from collections.abc import Callable
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, Final
from urllib.parse import parse_qsl, urlsplit

import httpx2

from opentill import epay
from opentill.epay import jobs
from opentill.gateways.epay import signature
from support.api_server import ApiServer, Shop
from support.ports import free_port

_numbers: Final = itertools.count(1)
# What reasons may name: fields, files, acts and types of the convention, codes. All else in them is
# Chinese, and no name of ours.
_WORDS: Final = signature.PROTOCOL_FIELDS | frozenset("""
    alipay wxpay creditcard crypto paynow bank whatever
    epay submit mapi api php query settle order orders refund GET POST
    CNY EUR IDR JPY HKD USD XPF http https IP ISO UTF NUL KiB
""".split())  # fmt: skip


def assert_chinese(text: str) -> None:
    """See that a reason is for people who read Chinese."""
    assert re.search("[\u4e00-\u9fff]", text), text
    assert set(re.findall("[A-Za-z_]{2,}", text)) <= _WORDS, text


def _look_at(answer: httpx2.Response) -> None:
    """See that a refusal, if it is one, says why in Chinese."""
    if answer.headers.get("content-type") == "application/json":
        body = answer.json()
        if body["code"] < 0:
            assert_chinese(body["msg"])


class Inbox:
    """What listens at notify_url: keeps every query, answers what it is told to."""

    def __init__(self) -> None:
        self.got: list[dict[str, str]] = []
        self.paths: list[str] = []
        self.answer: tuple[int, bytes] = (200, b"success")
        self.before_answer: Callable[[], None] = lambda: None
        inbox = self

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                inbox.paths.append(self.path)
                query = urlsplit(self.path).query
                inbox.got.append(dict(parse_qsl(query, keep_blank_values=True)))
                inbox.before_answer()
                status, body = inbox.answer
                self.send_response(status)
                if status == 302:
                    self.send_header("location", "/elsewhere")
                self.send_header("content-length", str(len(body)))
                self.end_headers()
                self.wfile.write(body)

            def log_message(self, format: str, *args: Any) -> None:  # noqa: A002 - its name
                """Say nothing."""

        self._server = ThreadingHTTPServer(("127.0.0.1", free_port()), Handler)
        self.url = f"http://127.0.0.1:{self._server.server_port}/notify"
        serve = self._server.serve_forever
        threading.Thread(target=serve, args=(0.01,), daemon=True).start()  # looks for the end

    def close(self) -> None:
        self._server.shutdown()
        self._server.server_close()


class EpayShop:
    """A merchant with Epay credentials, and the calls that its software makes."""

    def __init__(self, api_server: ApiServer, inbox: Inbox, **terms: Any) -> None:
        self.api_server = api_server
        self.inbox = inbox
        self.shop: Shop = api_server.shop(**terms)
        self.id = self.shop.id
        now = api_server.app.clock()
        made = api_server.tx(lambda tx: epay.enable(tx, api_server.settings, self.id, now))
        self.pid, self.key = str(made.pid), made.key

    def form(self, **changes: Any) -> dict[str, str]:
        """Return the parameters of a new order, not signed yet; None leaves one out."""
        form: dict[str, Any] = {
            "pid": self.pid,
            "type": "alipay",
            "out_trade_no": f"N{next(_numbers)}",
            "notify_url": self.inbox.url,
            "return_url": "https://shop.example/back?from=till",
            "name": "VIP会员",
            "money": "10.5",
            "clientip": "203.0.113.7",
        }
        return {name: text for name, text in (form | changes).items() if text is not None}

    def signed(self, form: dict[str, str], key: str | None = None) -> dict[str, str]:
        """Sign parameters."""
        sign = signature.sign(form, key or self.key)
        return {**form, "sign": sign, "sign_type": "MD5"}

    def post(self, entry: str, form: dict[str, str], **options: Any) -> httpx2.Response:
        """Post a form as it is."""
        answer = self.api_server.http.post(f"/epay/{entry}.php", data=form, **options)
        _look_at(answer)
        return answer

    def mapi(self, **changes: Any) -> dict[str, Any]:
        """Place an order as a server."""
        answer = self.post("mapi", self.signed(self.form(**changes)))
        assert answer.status_code == 200
        body: dict[str, Any] = answer.json()
        return body

    def placed(self, **changes: Any) -> dict[str, Any]:
        """Place an order that must be taken."""
        body = self.mapi(**changes)
        assert body["code"] == 1, body
        return body

    def act(self, act: str, **params: Any) -> dict[str, Any]:
        """Call api.php with the key."""
        query = {"act": act, "pid": self.pid, "key": self.key, **params}
        answer = self.api_server.http.get("/epay/api.php", params=query)
        assert answer.status_code == 200
        _look_at(answer)
        body: dict[str, Any] = answer.json()
        return body

    def order_id(self, placed: dict[str, Any]) -> str:
        """Return our id of an order that was placed."""
        return "order_" + placed["trade_no"].removeprefix("order")

    def pay(self, placed: dict[str, Any]) -> None:
        """Let the operator say that the money of an order arrived."""
        self.shop.confirm(self.order_id(placed))

    def paid(self, **changes: Any) -> dict[str, Any]:
        """Place an order and pay it."""
        placed = self.placed(**changes)
        self.pay(placed)
        return placed

    def tell(self, now: int | None = None) -> int:
        """Run the worker's job once."""
        when = self.api_server.app.clock() if now is None else now
        return self.api_server.run(jobs.send_due(self.api_server.app, when))

    def notice(self, placed: dict[str, Any]) -> dict[str, Any]:
        """Look up how far telling of an order has come."""
        (row,) = self.api_server.sql(
            "select * from epay_notifications where merchant_id = $1 and order_id = $2",
            self.id,
            self.order_id(placed),
        )
        return row
