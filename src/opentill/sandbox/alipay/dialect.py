"""Alipay's API and notifications, over the bank's payments and refunds.

``/alipay/gateway.do`` opens pages and serves ``precreate``, ``query``, ``close``, ``refund``,
``fastpay.refund.query`` and links to bills. As at Alipay, a trade does not exist until its customer
has opened the page or scanned the code, unpaid trades are closed when their time is over, and
errors have HTTP status 200. The customer then continues on the bank's own pages.
"""

import re
import time
from collections.abc import Callable, Mapping
from typing import Any, Final
from urllib.parse import parse_qsl, urlencode

import msgspec
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from opentill.sandbox import amounts, link_tokens
from opentill.sandbox.alipay import bills, keys, trades
from opentill.sandbox.alipay.keys import App
from opentill.sandbox.alipay.trades import (
    FAILED,
    Content,
    Error,
    Node,
    china_time,
    find_trade,
    refuse,
    status_of,
    success,
    text_of,
    yuan,
)
from opentill.sandbox.bank import Bank
from opentill.sandbox.fault_responses import respond_in_dialect
from opentill.sandbox.http import bank_of, read_pairs, store_of
from opentill.sandbox.model import (
    CallbackType,
    Dispute,
    FaultKind,
    Operation,
    PaymentView,
    Refund,
    Refusal,
)
from opentill.sandbox.pages import Pages
from opentill.sandbox.storage import Tx
from opentill.sandbox.timers import now_ms

PATH: Final = "/alipay/gateway.do"
_BILL_PATH: Final = "/alipay/downloadBillFile.resource"
_FORM: Final = "application/x-www-form-urlencoded; charset=utf-8"
_TIME: Final = re.compile(r"\d{4}-\d\d-\d\d \d\d:\d\d:\d\d", re.ASCII)
_PAGES: Final = {"alipay.trade.page.pay": "page", "alipay.trade.wap.pay": "wap"}
_MESSAGES: Final = {
    "40001": "Missing Required Arguments",
    "40002": "Invalid Arguments",
    "40004": "Business Failed",
}
# Faults are not stored in columns of their own: the body of a callback has its signature's fault
# in this field, which is not sent.
_FAULT: Final = "_fault"


class Alipay:
    """The ``Dialect`` of Alipay."""

    name = trades.NAME
    callback_method = "POST"

    def __init__(self, app: App) -> None:
        """``app`` has the keys of the application and of Alipay."""
        self._app = app
        self.routes = (
            Route(PATH, self.serve, methods=["GET", "POST"]),
            Route("/alipay/qr/{trade_no}", self.scan),
            Route(_BILL_PATH, self.download_bill),
        )

    # Pages

    async def serve(self, request: Request) -> Response:
        """Serve ``gateway.do``: a request of the shop, or the page that a browser opens."""
        params = await read_pairs(request) if request.method == "POST" else {}
        params |= dict(parse_qsl(request.scope["query_string"].decode("ascii", "replace")))
        is_page = request.method == "GET" and params.get("method") in _PAGES
        return await (self._open_page if is_page else self._call)(request, params)

    async def _open_page(self, request: Request, params: Mapping[str, str]) -> Response:
        try:
            self._authenticate(params)
            product = _PAGES[params["method"]]
            content = _read_content(params)
        except (Error, KeyError):
            raise Refusal(400, "invalid_request", "The request is not a signed one.") from None
        bank = bank_of(request)

        def work(tx: Tx) -> str:
            payment = trades.start(tx, bank, content, params, product, opened=True)
            tx.run("update alipay_trades set opened = 1 where payment_id = :id", id=payment.id)
            return payment.id

        try:
            payment_id = await store_of(request).do(work)
        except Error as error:
            raise Refusal(409, "invalid_request", str(error)) from None
        return _redirect(request, f"/{'phone' if product == 'wap' else 'pay'}/{payment_id}")

    async def scan(self, request: Request) -> Response:
        """Open a trade on the phone that has scanned its code."""
        trade_no, now = request.path_params["trade_no"], now_ms()

        def work(tx: Tx) -> str:
            trade = find_trade(tx, trade_no=trade_no)
            if trade is None or (now > trade.expires_at and not trade.opened):
                raise Refusal(404, "not_found", "This code is not valid.")
            tx.run("update alipay_trades set opened = 1 where trade_no = :no", no=trade_no)
            return trade.payment_id

        return _redirect(request, f"/phone/{await store_of(request).do(work)}")

    # Requests

    async def _call(self, request: Request, params: Mapping[str, str]) -> Response:
        """Serve a request of the shop; errors are responses with status 200."""
        try:
            self._authenticate(params)
            content = _read_content(params)
            if params["method"] == bills.METHOD:
                return await self._query_link(request, params, content)
            operation, work = _find_call(params["method"])
        except Error as error:
            # Alipay cannot choose a key for an application that it does not know.
            is_known = params.get("app_id") == keys.APP_ID
            return self._response(params, _error_node(error), None, signed=is_known)
        subject = _subject(operation, content)
        bank = bank_of(request)

        def run(tx: Tx, fault: FaultKind | None) -> Response:
            node = self._run(tx, bank, work, content, params, fault)
            return self._response(params, node, fault)

        return await respond_in_dialect(store_of(request), operation, subject, run)

    async def download_bill(self, request: Request) -> Response:
        """Return the archive of a bill; an expired link leads to a page that says so."""
        query = request.query_params
        secret = request.app.state.secret
        day = link_tokens.day_of(secret, query.get("token", ""), int(time.time()))
        if not day:
            return Response("<html>下载超时，请重新下载</html>", media_type="text/html")
        return await respond_in_dialect(
            store_of(request),
            "bill_file",
            day,
            lambda tx, fault: bills.file(tx, query.get("bizType", ""), day, query, fault),
        )

    async def _query_link(
        self, request: Request, params: Mapping[str, str], content: Content
    ) -> Response:
        """Return the link to the bill of a day."""
        base = f"{request.url.scheme}://{request.url.netloc}{_BILL_PATH}"
        secret = request.app.state.secret

        def run(tx: Tx, fault: FaultKind | None) -> Response:
            try:
                node = bills.query_link(tx, content, base, secret, fault)
            except Error as error:
                node = _error_node(error)
            return self._response(params, node, fault)

        day = text_of(content, "bill_date")
        return await respond_in_dialect(store_of(request), "bill", day, run)

    def _run(
        self,
        tx: Tx,
        bank: Bank,
        work: Callable[..., Node],
        content: Content,
        params: Mapping[str, str],
        fault: FaultKind | None,
    ) -> Node:
        if fault == "unconfirmed":  # the refund is accepted; it is done when it is sent again
            return success(out_trade_no=text_of(content, "out_trade_no"), fund_change="N")
        try:
            node = work(tx, bank, content, params)
        except Error as error:
            return _error_node(error)
        except Refusal as refusal:
            return _error_node(Error(_REFUSALS.get(refusal.code, "ACQ.SYSTEM_ERROR"), FAILED))
        for name in ("total_amount", "refund_amount"):
            if fault == "wrong_amount" and name in node:
                node[name] = _add_cent(node[name])
        if fault == "other_account":
            node["out_trade_no"] = "att_of_another_account"
        return node

    def _authenticate(self, params: Mapping[str, str]) -> None:
        """Raise Error unless the application signed the request."""
        for name in ("app_id", "method", "sign", "sign_type", "timestamp", "version", "charset"):
            if not params.get(name):
                refuse(f"isv.missing-{name.replace('_', '-')}", "40001")
        if params["app_id"] != keys.APP_ID:
            refuse("isv.invalid-app-id", "40002")
        if params["sign_type"] != "RSA2":
            refuse("isv.invalid-signature-type", "40002")
        if not _TIME.fullmatch(params["timestamp"]):
            refuse("isv.invalid-timestamp", "40002")
        numbers = params.get("app_cert_sn"), params.get("alipay_root_cert_sn")
        if numbers not in ((None, None), (self._app.app_cert_sn, self._app.root_cert_sn)):
            refuse("isv.app-cert-sn-is-not-match", "40002")
        if not self._app.is_signed(_signed_text(params, ("sign",)), params["sign"]):
            refuse("isv.invalid-signature", "40002")

    def _response(
        self, params: Mapping[str, str], node: Node, fault: FaultKind | None, *, signed: bool = True
    ) -> Response:
        """Return a node with its signature, and the certificate's number if the shop uses them."""
        content = msgspec.json.encode(node)
        name = params.get("method", "").replace(".", "_") + "_response"
        body = b"{" + msgspec.json.encode(name) + b":" + content
        is_old = fault == "expired_certificate"
        if "app_cert_sn" in params:
            number = self._app.old_cert_sn if is_old else self._app.own_cert_sn
            body += b',"alipay_cert_sn":' + msgspec.json.encode(number)
        if signed:
            text = content + b" " if fault == "wrong_signature" else content
            sign = self._app.sign(text, by_old_key=is_old)
            body += b',"sign":' + msgspec.json.encode(sign)
        return Response(body + b"}", media_type="text/html; charset=utf-8")

    # Notifications

    def compose(
        self,
        tx: Tx,
        kind: CallbackType,
        now: int,
        payment: PaymentView,
        about: Refund | Dispute | None,
        fault: FaultKind | None,
    ) -> bytes | None:
        """Return a notification as JSON, which ``sign`` completes.

        Alipay reports payments, closed trades and refunds that were done, but no disputes.
        """
        refund = about if isinstance(about, Refund) else None
        trade = find_trade(tx, payment_id=payment.id)
        if kind not in _REPORTED or trade is None or not trade.opened:
            return None
        amount = payment.amount_minor + (fault == "wrong_amount")
        form = {
            "notify_type": "trade_status_sync",
            "notify_id": f"{now:x}{trade.trade_no}",
            "app_id": keys.APP_ID,
            "auth_app_id": keys.APP_ID,
            "charset": "utf-8",
            "version": "1.0",
            "trade_no": trade.trade_no,
            "out_trade_no": payment.id,
            "trade_status": status_of(
                payment.status, payment.amount_minor - payment.refunded_minor
            ),
            "total_amount": yuan(amount),
            "seller_id": keys.SELLER_ID,
            "gmt_create": china_time(payment.created_at),
        }
        if fault == "other_account":
            form["seller_id"] = "2088000000000002"
        if payment.status == "succeeded":
            form["gmt_payment"] = china_time(payment.updated_at)
        if refund is not None:
            form |= {
                "gmt_refund": china_time(refund.updated_at),
                "refund_fee": yuan(payment.refunded_minor),
                "out_biz_no": refund.id,
            }
        if fault in ("wrong_signature", "expired_certificate"):
            form[_FAULT] = fault
        return msgspec.json.encode(form)

    def sign(self, body: bytes, now: int) -> tuple[Mapping[str, str], bytes]:
        """Return a notification as a signed form."""
        form = msgspec.json.decode(body, type=dict[str, str])
        fault = form.pop(_FAULT, "")
        form["notify_time"] = china_time(now)
        content = _signed_text(form, ())
        if fault == "wrong_signature":
            content += b" "
        sign = self._app.sign(content, by_old_key=fault == "expired_certificate")
        form |= {"sign_type": "RSA2", "sign": sign}
        return {"Content-Type": _FORM}, urlencode(form).encode()

    def is_acknowledged(self, status: int, body: bytes) -> bool:
        """Whether the shop's response is the word ``success``."""
        return status == 200 and body.strip() == b"success"  # noqa: PLR2004 - OK


_CALLS: Final[dict[str, tuple[Operation, Callable[..., Node]]]] = {
    "alipay.trade.precreate": ("pay", trades.precreate),
    "alipay.trade.query": ("find", trades.query),
    "alipay.trade.close": ("close", trades.close),
    "alipay.trade.refund": ("refund", trades.refund),
    "alipay.trade.fastpay.refund.query": ("find_refund", trades.query_refund),
}
_REPORTED: Final = frozenset(
    {"payment.succeeded", "payment.declined", "payment.voided", "refund.succeeded"}
)
_REFUSALS: Final = {
    "not_found": "ACQ.TRADE_NOT_EXIST",
    "id_reused": "ACQ.DISCORDANT_REPEAT_REQUEST",
}


def _find_call(method: str) -> tuple[Operation, Callable[..., Node]]:
    if method not in _CALLS:
        refuse("isv.invalid-method", "40002")
    return _CALLS[method]


def _subject(operation: Operation, content: Content) -> str:
    """Return the id to which a fault may be limited."""
    name = "out_request_no" if operation in ("refund", "find_refund") else "out_trade_no"
    return text_of(content, name)


def _read_content(params: Mapping[str, str]) -> Content:
    try:
        return msgspec.json.decode(params.get("biz_content", ""), type=dict[str, Any])
    except msgspec.MsgspecError:
        refuse("isv.invalid-parameter", "40002")


def _signed_text(params: Mapping[str, str], without: tuple[str, ...]) -> bytes:
    pairs = sorted((name, value) for name, value in params.items() if value)
    return "&".join(f"{name}={value}" for name, value in pairs if name not in without).encode()


def _error_node(error: Error) -> Node:
    return {
        "code": error.code,
        "msg": _MESSAGES[error.code],
        "sub_code": error.sub_code,
        "sub_msg": "沙箱拒绝了请求",
    }


def _add_cent(text: str) -> str:
    return yuan((amounts.minor(text, trades.CURRENCY) or 0) + 1)


def _redirect(request: Request, path: str) -> Response:
    pages: Pages = request.app.state.pages
    return pages.go(path)
