"""The API of an Epay V2 server at ``/epay_v2/api/…``, as the reference server speaks it.

Responses are JSON with HTTP status 200. Successes are signed; refusals are not, as at the reference
server. The customer continues on the bank's own pages.
"""

import re
import time
from collections.abc import Callable, Mapping
from typing import Final
from urllib.parse import urlencode

import msgspec
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from opentill.sandbox import amounts
from opentill.sandbox.bank import Bank
from opentill.sandbox.epay_v2 import orders
from opentill.sandbox.epay_v2.keys import PID, Account
from opentill.sandbox.epay_v2.orders import Error, Values, refuse
from opentill.sandbox.fault_responses import respond_in_dialect
from opentill.sandbox.http import bank_of, json_response, read_pairs, store_of
from opentill.sandbox.model import (
    CallbackType,
    Dispute,
    FaultKind,
    Operation,
    PaymentView,
    Refund,
)
from opentill.sandbox.storage import Tx

PATH: Final = "/epay_v2"
_MAX_SKEW_S: Final = 300
_TIMESTAMP: Final = re.compile(r"[0-9]{10}", re.ASCII)
_OTHER: Final = "att_of_another_account"
# A fault of the signature, in the stored body of a callback; not sent.
_FAULT: Final = "_fault"
_WRONG_SIGNATURE: Final = -3
_NO_FIELDS: Final = -4
_UNKNOWN_PATH: Final = -5
_OLD_S: Final = 3600  # how old a response or callback with an expired timestamp is


class EpayV2:
    """The ``Dialect`` of an Epay V2 server."""

    name = orders.NAME
    callback_method = "GET"

    def __init__(self, account: Account, public_url: str) -> None:
        """``account`` has the keys; ``public_url`` is the bank's for customers."""
        self._account, self._public_url = account, public_url
        self.routes = (Route(f"{PATH}/api/{{path:path}}", self.serve, methods=["GET", "POST"]),)

    # Requests

    async def serve(self, request: Request) -> Response:
        """Serve a request of the shop."""
        values = await read_pairs(request) if request.method == "POST" else {}
        call = _CALLS.get(request.path_params["path"])
        try:
            operation, work, subject = call or refuse("接口方法不存在", _UNKNOWN_PATH)
            self._authenticate(values)
        except Error as error:
            return _refusal(error)
        bank = bank_of(request)

        def run(tx: Tx, fault: FaultKind | None) -> Response:
            try:
                if fault == "unconfirmed":  # the refund is accepted, and done when it is sent again
                    return self._success({"msg": "退款成功"}, None)
                result = work(tx, bank, values)
            except Error as error:
                return _refusal(error)
            if work is _create:
                result |= self._page(bank, str(result.pop("payment_id")), values)
            return self._success(_spoil(result, fault), fault)

        return await respond_in_dialect(store_of(request), operation, values.get(subject, ""), run)

    def _authenticate(self, values: Mapping[str, str]) -> None:
        """Raise Error unless the account signed the request within five minutes."""
        if not values.get("pid"):
            refuse("未传入任何参数", _NO_FIELDS)
        timestamp = values.get("timestamp", "")
        is_recent = (
            _TIMESTAMP.fullmatch(timestamp) and abs(time.time() - int(timestamp)) <= _MAX_SKEW_S
        )
        if values["pid"] != PID or not self._account.is_signed(values):
            refuse("RSA签名校验失败", _WRONG_SIGNATURE)
        if not is_recent:
            refuse("时间戳字段不正确，请检查服务器时间", _WRONG_SIGNATURE)

    def _page(self, bank: Bank, payment_id: str, values: Mapping[str, str]) -> Values:
        """Return the page of an order, or its QR code if the shop asks for any way."""
        if values.get("method") == "web" and values.get("device", "pc") == "pc":
            return {"pay_type": "qrcode", "pay_info": f"{bank.public_url}/phone/{payment_id}"}
        return {"pay_type": "jump", "pay_info": f"{self._public_url}/pay/{payment_id}"}

    def _success(self, values: Values, fault: FaultKind | None) -> Response:
        old_s = _OLD_S if fault == "expired_certificate" else 0
        signed: Values = {"code": 0, **values, "timestamp": str(int(time.time()) - old_s)}
        signed["sign"] = self._account.sign(signed, wrongly=fault == "wrong_signature")
        return json_response({**signed, "sign_type": "RSA"})

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
        """Return a notification as JSON, which ``sign`` completes: such servers report payments."""
        del now
        order = orders.find(tx, payment_id=payment.id)
        if order is None or about is not None or kind != "payment.succeeded":
            return None
        values = _spoil(orders.fields(order, payment), fault)
        texts = {name: str(value) for name, value in values.items() if value != ""}
        texts["trade_status"] = "TRADE_SUCCESS"
        if fault in ("wrong_signature", "expired_certificate"):
            texts[_FAULT] = fault
        return msgspec.json.encode(texts)

    def sign(self, body: bytes, now: int) -> tuple[Mapping[str, str], bytes]:
        """Return a notification as a query with its time and signature."""
        values = msgspec.json.decode(body, type=dict[str, str])
        fault = values.pop(_FAULT, "")
        old_s = _OLD_S if fault == "expired_certificate" else 0
        values["timestamp"] = str(now // 1000 - old_s)
        values["sign"] = self._account.sign(values, wrongly=fault == "wrong_signature")
        return {}, urlencode({**values, "sign_type": "RSA"}).encode()

    def is_acknowledged(self, status: int, body: bytes) -> bool:
        """Whether the shop's response contains the word ``success``."""
        return status == 200 and b"success" in body.lower()  # noqa: PLR2004 - OK


def _create(tx: Tx, bank: Bank, values: Mapping[str, str]) -> Values:
    order, payment = orders.start(tx, bank, values)
    return {"trade_no": order.trade_no, "payment_id": payment.id}


# Path → operation, work, and the field with the id to which a fault may be limited.
_CALLS: Final[dict[str, tuple[Operation, Callable[[Tx, Bank, Mapping[str, str]], Values], str]]] = {
    "pay/create": ("pay", _create, "out_trade_no"),
    "pay/query": ("find", orders.query, "out_trade_no"),
    "pay/close": ("close", orders.close, "trade_no"),
    "pay/refund": ("refund", orders.refund, "out_refund_no"),
    "pay/refundquery": ("find_refund", orders.query_refund, "out_refund_no"),
    "merchant/info": ("find", orders.info, "pid"),
}


def _spoil(values: Values, fault: FaultKind | None) -> Values:
    """Return values with a fault of their content."""
    if fault == "wrong_amount" and "money" in values:
        minor = amounts.minor(str(values["money"]), orders.CURRENCY) or 0
        return values | {"money": amounts.decimal(minor + 1, orders.CURRENCY)}
    if fault == "other_account":
        others: Values = {"out_trade_no": _OTHER, "out_refund_no": _OTHER, "pid": int(PID) + 1}
        return values | {name: value for name, value in others.items() if name in values}
    return values


def _refusal(error: Error) -> Response:
    return json_response({"code": error.code, "msg": str(error)})
