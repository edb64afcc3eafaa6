"""A shop with an Epay client: it signs requests and receives notices."""

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
# Latin words that the Chinese reasons may contain: fields, files, operations and types of the Epay
# API, and codes.
_LATIN_WORDS: Final = signature.PROTOCOL_FIELDS | frozenset("""
    alipay wxpay creditcard crypto paynow bank whatever
    epay submit mapi api php query settle order orders refund GET POST
    RSA CNY EUR IDR JPY HKD USD XPF http https IP ISO UTF NUL KiB
""".split())  # fmt: skip


def assert_chinese(text: str) -> None:
    """Assert that a text is in Chinese, with only the Latin words that reasons may contain."""
    assert re.search("[\u4e00-\u9fff]", text), text
    assert set(re.findall("[A-Za-z_]{2,}", text)) <= _LATIN_WORDS, text


def _check_refusal(response: httpx2.Response) -> None:
    """Assert that the reason is in Chinese if the request was refused."""
    if response.headers.get("content-type") == "application/json":
        body = response.json()
        if body["code"] < 0:
            assert_chinese(body["msg"])


class Inbox:
    """The server at notify_url: it records each query and responds with ``answer``."""

    def __init__(self) -> None:
        self.received: list[dict[str, str]] = []
        self.paths: list[str] = []
        self.answer: tuple[int, bytes] = (200, b"success")
        self.before_answer: Callable[[], None] = lambda: None
        inbox = self

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                inbox.paths.append(self.path)
                query = urlsplit(self.path).query
                inbox.received.append(dict(parse_qsl(query, keep_blank_values=True)))
                inbox.before_answer()
                status, body = inbox.answer
                self.send_response(status)
                if status == 302:
                    self.send_header("location", "/elsewhere")
                self.send_header("content-length", str(len(body)))
                self.end_headers()
                self.wfile.write(body)

            def log_message(self, format: str, *args: Any) -> None:  # noqa: A002 - its name
                """Discard log lines."""

        self._server = ThreadingHTTPServer(("127.0.0.1", free_port()), Handler)
        self.url = f"http://127.0.0.1:{self._server.server_port}/notify"
        serve = self._server.serve_forever
        threading.Thread(target=serve, args=(0.01,), daemon=True).start()

    def close(self) -> None:
        self._server.shutdown()
        self._server.server_close()


class EpayShop:
    """A merchant with Epay credentials, and the calls that its software makes."""

    def __init__(self, api_server: ApiServer, inbox: Inbox, **terms: Any) -> None:
        self.api_server = api_server
        self.inbox = inbox
        self.shop: Shop = api_server.create_shop(**terms)
        self.id = self.shop.id
        now = api_server.app.clock()
        credentials = api_server.tx(lambda tx: epay.enable(tx, api_server.settings, self.id, now))
        self.pid, self.key = str(credentials.pid), credentials.key

    def form(self, **changes: Any) -> dict[str, str]:
        """Return the unsigned parameters of a new order; None omits one."""
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

    def sign(self, form: dict[str, str], key: str | None = None) -> dict[str, str]:
        """Sign parameters."""
        sign = signature.sign(form, key or self.key)
        return {**form, "sign": sign, "sign_type": "MD5"}

    def post(self, entry: str, form: dict[str, str], **options: Any) -> httpx2.Response:
        """Post a form unchanged."""
        response = self.api_server.http.post(f"/epay/{entry}.php", data=form, **options)
        _check_refusal(response)
        return response

    def mapi(self, **changes: Any) -> dict[str, Any]:
        """Place an order through mapi.php."""
        response = self.post("mapi", self.sign(self.form(**changes)))
        assert response.status_code == 200
        body: dict[str, Any] = response.json()
        return body

    def place_order(self, **changes: Any) -> dict[str, Any]:
        """Place an order and assert that it was accepted."""
        body = self.mapi(**changes)
        assert body["code"] == 1, body
        return body

    def call_api(self, act: str, **params: Any) -> dict[str, Any]:
        """Call api.php with the key."""
        query = {"act": act, "pid": self.pid, "key": self.key, **params}
        response = self.api_server.http.get("/epay/api.php", params=query)
        assert response.status_code == 200
        _check_refusal(response)
        body: dict[str, Any] = response.json()
        return body

    def order_id(self, placed: dict[str, Any]) -> str:
        """Return the API's id of a placed order."""
        return "order_" + placed["trade_no"].removeprefix("order")

    def pay(self, placed: dict[str, Any]) -> None:
        """Confirm the payment of an order manually."""
        self.shop.confirm(self.order_id(placed))

    def place_paid_order(self, **changes: Any) -> dict[str, Any]:
        """Place an order and pay it."""
        placed = self.place_order(**changes)
        self.pay(placed)
        return placed

    def send_notices(self, now: int | None = None) -> int:
        """Run the job that sends due notices once."""
        when = self.api_server.app.clock() if now is None else now
        return self.api_server.run(jobs.send_due(self.api_server.app, when))

    def notice(self, placed: dict[str, Any]) -> dict[str, Any]:
        """Return the row of an order's notice."""
        (row,) = self.api_server.sql(
            "select * from epay_notifications where merchant_id = $1 and order_id = $2",
            self.id,
            self.order_id(placed),
        )
        return row
