"""WeChat Pay's API v3 and notifications, over the bank's payments and refunds.

The paths begin with ``/v3``, as at WeChat Pay. Responses are signed by the key that a request's
``Wechatpay-Serial`` names, or else by the platform certificate; responses to requests that nobody
signed are not. As at WeChat Pay, an unpaid order stays NOTPAY until it is closed, a refund is
PROCESSING in the response that accepts it, and only payments and refunds are notified. The customer
continues on the bank's own pages.
"""

import re
import secrets
import time
from collections.abc import Callable, Mapping
from http import HTTPStatus
from typing import Any, Final, Literal
from urllib.parse import parse_qsl

import msgspec
from cryptography.hazmat.primitives.serialization import Encoding
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from opentill.sandbox import link_tokens
from opentill.sandbox.api import require_secret
from opentill.sandbox.fault_responses import respond_in_dialect
from opentill.sandbox.http import bank_of, read_body, store_of
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
from opentill.sandbox.wechat_pay import bills, keys, orders
from opentill.sandbox.wechat_pay.keys import Merchant, SigningKey
from opentill.sandbox.wechat_pay.orders import (
    OTHER_MCHID,
    Error,
    Mchid,
    NewOrder,
    NewRefund,
    check_mchid,
    china_time,
    decode,
    find_existing,
    find_order,
    order_fields,
    refund_fields,
    refund_state,
    refuse,
)

_CODE_LIFETIME_MS: Final = 2 * 3_600_000  # a code cannot be scanned later
_H5_LIFETIME_MS: Final = 300_000  # the link of H5 cannot be opened later
_TOLERANCE_S: Final = 300
_FILE_PATH: Final = "/v3/billdownload/file"
_SCHEME: Final = "WECHATPAY2-SHA256-RSA2048 "
_AUTHORIZATION: Final = re.compile(r'([a-z_]{1,20})="([^"]{1,1000})"', re.ASCII)

Work = Callable[[Tx, FaultKind | None], tuple[int, Any]]


class WeChatPay:
    """The ``Dialect`` of WeChat Pay."""

    name = orders.NAME
    callback_method = "POST"

    def __init__(self, merchant: Merchant, public_url: str) -> None:
        """``public_url`` is the bank's URL for customers, without a trailing slash."""
        self.merchant = merchant
        self._public_url = public_url
        trades = "/v3/pay/transactions"
        self.routes = (
            Route("/v3/certificates", self.certificates),
            Route(f"{trades}/native", self.native, methods=["POST"]),
            Route(f"{trades}/h5", self.h5, methods=["POST"]),
            Route(f"{trades}/out-trade-no/{{id}}", self.query),
            Route(f"{trades}/out-trade-no/{{id}}/close", self.close, methods=["POST"]),
            Route("/v3/refund/domestic/refunds", self.refund, methods=["POST"]),
            Route("/v3/refund/domestic/refunds/{id}", self.query_refund),
            Route("/v3/bill/tradebill", self.trade_bill),
            Route("/v3/bill/fundflowbill", self.fund_bill),
            Route(_FILE_PATH, self.bill_file),
            Route("/wechat_pay/code/{transaction_id}", self.scan),
            Route("/wechat_pay/h5", self.open_h5),
            Route("/wechat_pay/rotate", self.rotate, methods=["POST"]),
        )

    # Pages

    async def scan(self, request: Request) -> Response:
        """Open an order on the phone that has scanned its code."""
        return await self._open(request, request.path_params["transaction_id"], _CODE_LIFETIME_MS)

    async def open_h5(self, request: Request) -> Response:
        """Open an order on a phone, as the link of H5 does."""
        return await self._open(request, request.query_params.get("prepay_id", ""), _H5_LIFETIME_MS)

    async def _open(self, request: Request, transaction_id: str, lifetime_ms: int) -> Response:
        bank, now = bank_of(request), now_ms()
        return_url = request.query_params.get("redirect_url", "")

        def work(tx: Tx) -> str:
            order = find_order(tx, transaction_id=transaction_id)
            if order is None or now > min(
                order.expires_at, bank.find_payment(tx, order.payment_id).created_at + lifetime_ms
            ):
                raise Refusal(404, "not_found", "This code is not valid.")
            if return_url.startswith(("https://", "http://")):
                sql = "update payments set return_url = :url where id = :id"
                tx.run(sql, url=return_url, id=order.payment_id)
            return order.payment_id

        pages: Pages = request.app.state.pages
        return pages.go(f"/phone/{await store_of(request).do(work)}")

    async def rotate(self, request: Request) -> Response:
        """Replace the platform certificate, for a caller that has the bank's secret."""
        require_secret(request)
        self.merchant.rotate()
        return _json(200, {"serial_no": self.merchant.current.serial})

    # Requests

    async def certificates(self, request: Request) -> Response:
        """Return the platform certificates, encrypted."""

        def work(_tx: Tx, _fault: FaultKind | None) -> tuple[int, Any]:
            return 200, {"data": [self._listed(key) for key in self.merchant.listed]}

        return await self._call(request, "certificates", "", lambda _: work)

    def _listed(self, key: SigningKey) -> dict[str, Any]:
        certificate = key.certificate
        if certificate is None:
            msg = "a public key has no certificate"
            raise TypeError(msg)
        return {
            "serial_no": key.serial,
            "effective_time": china_time(certificate.not_valid_before_utc.timestamp() * 1000),
            "expire_time": china_time(certificate.not_valid_after_utc.timestamp() * 1000),
            "encrypt_certificate": self.merchant.encrypt(
                certificate.public_bytes(Encoding.PEM), "certificate"
            ),
        }

    async def native(self, request: Request) -> Response:
        """Place an order that is paid by a QR code."""
        return await self._place(request, "native")

    async def h5(self, request: Request) -> Response:
        """Place an order that is paid by a link on a phone."""
        return await self._place(request, "h5")

    async def _place(self, request: Request, product: Literal["native", "h5"]) -> Response:
        bank = bank_of(request)
        by_public_key = _wants_public_key(request)

        def prepare(body: bytes) -> Work:
            new = decode(body, NewOrder)

            def work(tx: Tx, _fault: FaultKind | None) -> tuple[int, Any]:
                order = orders.start(tx, bank, new, product, by_public_key=by_public_key)
                if product == "h5":
                    url = f"{self._public_url}/wechat_pay/h5?prepay_id={order.transaction_id}"
                    return 200, {"h5_url": url}
                url = f"{self._public_url}/wechat_pay/code/{order.transaction_id}"
                return 200, {"code_url": url}

            return work

        return await self._call(request, "pay", "out_trade_no", prepare)

    async def query(self, request: Request) -> Response:
        """Return the state of an order."""
        bank = bank_of(request)

        def work(tx: Tx, fault: FaultKind | None) -> tuple[int, Any]:
            check_mchid(_query(request).get("mchid", ""))
            order, payment = find_existing(tx, bank, request.path_params["id"])
            return 200, order_fields(order, payment, fault)

        return await self._call(request, "find", "", lambda _: work)

    async def close(self, request: Request) -> Response:
        """Close an unpaid order."""
        bank = bank_of(request)

        def prepare(body: bytes) -> Work:
            mchid = decode(body, Mchid).mchid

            def work(tx: Tx, _fault: FaultKind | None) -> tuple[int, Any]:
                check_mchid(mchid)
                order, payment = find_existing(tx, bank, request.path_params["id"])
                if payment.status == "succeeded":
                    refuse(400, "ORDERPAID")
                if order.closed:
                    refuse(400, "ORDER_CLOSED")
                sql = "update wechat_pay_orders set closed = 1 where payment_id = :id"
                tx.run(sql, id=payment.id)
                if payment.status == "action_required":
                    bank.void(tx, payment.id, now_ms())
                return 204, None

            return work

        return await self._call(request, "close", "", prepare)

    async def refund(self, request: Request) -> Response:
        """Start a refund."""
        bank = bank_of(request)

        def prepare(body: bytes) -> Work:
            new = decode(body, NewRefund)

            def work(tx: Tx, fault: FaultKind | None) -> tuple[int, Any]:
                return 200, orders.start_refund(tx, bank, new, fault)

            return work

        return await self._call(request, "refund", "out_refund_no", prepare)

    async def query_refund(self, request: Request) -> Response:
        """Return the state of a refund."""
        bank = bank_of(request)

        def work(tx: Tx, fault: FaultKind | None) -> tuple[int, Any]:
            try:
                refund = bank.find_refund(tx, request.path_params["id"])
            except Refusal:
                refuse(404, "RESOURCE_NOT_EXISTS")
            order, payment = find_existing(tx, bank, refund.payment_id)
            return 200, refund_fields(order, payment, refund, refund_state(refund), fault)

        return await self._call(request, "find_refund", "", lambda _: work)

    async def trade_bill(self, request: Request) -> Response:
        """Return the link to the trade bill of a day."""
        return await self._bill(request, bills.trade_type(_query(request)))

    async def fund_bill(self, request: Request) -> Response:
        """Return the link to the bill of funds of a day."""
        return await self._bill(request, bills.fund_type(_query(request)))

    async def _bill(self, request: Request, bill_type: str) -> Response:
        query, secret = _query(request), request.app.state.secret
        base = f"{request.url.scheme}://{request.url.netloc}{_FILE_PATH}"

        def work(tx: Tx, fault: FaultKind | None) -> tuple[int, Any]:
            return 200, bills.link(tx, bill_type, query, base, secret, fault)

        return await self._call(request, "bill", "", lambda _: work)

    async def bill_file(self, request: Request) -> Response:
        """Return the file of a bill. The request must be signed, the response is not."""
        try:
            self._authenticate(request, b"")
        except Error as error:
            return _json(error.status, _error_fields(error))
        query, secret = _query(request), request.app.state.secret
        day = link_tokens.day_of(secret, query.get("token", ""), int(time.time()))
        if not day:
            return _json(400, _error_fields(Error(400, "PARAM_ERROR", "token已失效")))
        return await respond_in_dialect(
            store_of(request), "bill_file", day, lambda tx, fault: bills.file(tx, query, day, fault)
        )

    async def _call(
        self,
        request: Request,
        operation: Operation | Literal["certificates"],
        subject: str,
        prepare: Callable[[bytes], Work],
    ) -> Response:
        """Serve a signed request.

        ``prepare`` reads its body. The id to which a fault may be limited is in the field
        ``subject`` of the body, or in the path.
        """
        body = await read_body(request)
        try:
            self._authenticate(request, body)
        except Error as error:
            return _json(error.status, _error_fields(error))
        by_public_key = _wants_public_key(request)

        def run(tx: Tx, fault: FaultKind | None) -> Response:
            try:
                status, fields = prepare(body)(tx, fault)
            except Error as error:
                status, fields = error.status, _error_fields(error)
            except Refusal as refusal:
                refused = Error(400, "PARAM_ERROR", refusal.message)
                status, fields = refused.status, _error_fields(refused)
            return self._sign_response(_json(status, fields), fault, by_public_key=by_public_key)

        if operation == "certificates":
            return await store_of(request).do(lambda tx: run(tx, None))
        in_path = request.path_params.get("id") or _query(request).get("bill_date")
        subject_id = in_path or _subject(body, subject)
        return await respond_in_dialect(store_of(request), operation, subject_id, run)

    def _authenticate(self, request: Request, body: bytes) -> None:
        """Raise Error unless the merchant signed the request within five minutes."""
        header = request.headers.get("authorization", "")
        values = dict(_AUTHORIZATION.findall(header.removeprefix(_SCHEME)))
        names = {"mchid", "nonce_str", "signature", "timestamp", "serial_no"}
        if not header.startswith(_SCHEME) or values.keys() != names:
            refuse(401, "SIGN_ERROR", "Http头Authorization值格式错误")
        if (values["mchid"], values["serial_no"].upper().zfill(40)) != (
            keys.MCHID,
            self.merchant.serial,
        ):
            refuse(401, "SIGN_ERROR", "商户证书序列号有误")
        timestamp = values["timestamp"]
        if not timestamp.isdigit() or abs(time.time() - int(timestamp)) > _TOLERANCE_S:
            refuse(401, "SIGN_ERROR", "时间戳已过期")
        path = request.scope["raw_path"].decode("ascii", "replace")
        if query := request.scope["query_string"].decode("ascii", "replace"):
            path += f"?{query}"
        lines = (request.method, path, timestamp, values["nonce_str"], "")
        if not self.merchant.is_signed(
            "\n".join(lines).encode() + body + b"\n", values["signature"]
        ):
            refuse(401, "SIGN_ERROR", "签名错误")

    def _key(self, fault: str | None, *, by_public_key: bool) -> SigningKey:
        if fault == "expired_certificate":
            return self.merchant.expired
        return self.merchant.own if by_public_key else self.merchant.current

    def _headers(
        self, body: bytes, fault: str | None, now_s: int, *, by_public_key: bool
    ) -> dict[str, str]:
        key, nonce = self._key(fault, by_public_key=by_public_key), secrets.token_hex(16)
        signed = body + b" " if fault == "wrong_signature" else body
        return {
            "Wechatpay-Timestamp": str(now_s),
            "Wechatpay-Nonce": nonce,
            "Wechatpay-Signature": key.sign(now_s, nonce, signed),
            "Wechatpay-Signature-Type": _SCHEME.strip(),
            "Wechatpay-Serial": key.serial,
        }

    def _sign_response(
        self, response: Response, fault: str | None, *, by_public_key: bool
    ) -> Response:
        response.headers.update(
            self._headers(
                bytes(response.body), fault, int(time.time()), by_public_key=by_public_key
            )
        )
        return response

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
        """Return a notification with what ``sign`` must know."""
        refund = about if isinstance(about, Refund) else None
        order = find_order(tx, payment_id=payment.id)
        event_type = _event_type(kind, refund)
        if order is None or event_type is None:
            return None
        if refund is None:
            original, fields = "transaction", order_fields(order, payment, fault)
        else:
            state = refund_state(refund)
            original, fields = "refund", refund_fields(order, payment, refund, state, fault)
            fields["refund_status"] = fields.pop("status")
            fields["mchid"] = OTHER_MCHID if fault == "other_account" else keys.MCHID
            fields["out_trade_no"], fields["out_refund_no"] = payment.id, refund.id
            del fields["amount"]["currency"]
        resource = self.merchant.encrypt(msgspec.json.encode(fields), original)
        body = {
            "id": f"{now:x}{order.transaction_id}",
            "create_time": china_time(now),
            "resource_type": "encrypt-resource",
            "event_type": event_type,
            "summary": "沙箱通知",
            "resource": {"original_type": original, **resource},
        }
        signing = {"by_public_key": order.by_public_key, "fault": fault}
        return msgspec.json.encode(signing | {"body": msgspec.json.encode(body).decode()})

    def sign(self, body: bytes, now: int) -> tuple[Mapping[str, str], bytes]:
        """Return a notification and its headers."""
        signing = msgspec.json.decode(body)
        content = signing["body"].encode()
        headers = self._headers(
            content, signing["fault"], now // 1000, by_public_key=signing["by_public_key"]
        )
        return headers | {"Content-Type": "application/json"}, content

    def is_acknowledged(self, status: int, body: bytes) -> bool:  # noqa: ARG002 - any body will do
        """Whether the status of the shop's response is 200 or 204."""
        return status in (200, 204)


def _event_type(kind: CallbackType, refund: Refund | None) -> str | None:
    """Return the type of a notification; WeChat Pay has none for other reports of the bank."""
    if kind == "payment.succeeded":
        return "TRANSACTION.SUCCESS"
    if kind == "refund.succeeded":
        return "REFUND.SUCCESS"
    if kind == "refund.failed" and refund is not None and refund.reversed_at is not None:
        return "REFUND.ABNORMAL"
    return None


def _subject(body: bytes, name: str) -> str:
    try:
        value = msgspec.json.decode(body, type=dict[str, Any]).get(name)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
        return ""
    return value if isinstance(value, str) else ""


def _wants_public_key(request: Request) -> bool:
    return request.headers.get("wechatpay-serial") == keys.PUBLIC_KEY_ID


def _query(request: Request) -> dict[str, str]:
    return dict(parse_qsl(request.scope["query_string"].decode("ascii", "replace")))


def _error_fields(error: Error) -> dict[str, str]:
    return {"code": error.code, "message": str(error)}


def _json(status: int, fields: Any) -> Response:
    if status == HTTPStatus.NO_CONTENT:
        return Response(status_code=status)
    return Response(msgspec.json.encode(fields), status, media_type="application/json")
