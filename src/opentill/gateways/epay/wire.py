"""Epay V1 on the wire, from the shop's side: request parameters and replies.

Replies, errors included, are JSON with HTTP 200. Servers differ in the types of values (``1``,
``"1"``), in encoding (UTF-8, GBK) and in additional fields. Anything else is not a reply.
"""

import json
import re
from collections.abc import Mapping
from typing import Any, Final, Literal, cast

import msgspec

from opentill.core.money import Money, parse
from opentill.gateways.epay import signature
from opentill.gateways.model import Method, PaymentRequest

# The convention's ``type`` for each payment method.
TYPES: Final[dict[Method, str]] = {
    "ALIPAY": "alipay",
    "WECHAT_PAY": "wxpay",
    "CREDIT_CARD": "creditcard",
    "CRYPTO": "crypto",
    "PAYNOW": "paynow",
    "BANK_TRANSFER": "bank",
}
DEFAULT_CURRENCY: Final = "CNY"
SUCCESS: Final = 1
WRONG_KEY: Final = -3
_REFUND_DONE: Final = 0  # this code means success only if the message says that the refund was done
# A response with one of these codes refuses the request before any effect: wrong key or signature,
# missing parameter, unknown act.
_NOT_DONE: Final = frozenset({WRONG_KEY, -4, -5})
# -2 means "not enabled" only if the message says so: some servers return it when they have lost a
# response.
_NOT_ENABLED: Final = -2
_SAYS_NOT_ENABLED: Final = ("未开启", "未开通")
TOO_MANY: Final = "请求过于频繁"
# A message that begins like one of these, of the reference server, its forks or OpenTill, refuses a
# refund before any effect. "退款失败：…" is missing, because it quotes a provider, which may have
# failed after refunding.
REFUSALS: Final = (
    "金额输入错误",
    "退款金额不",  # continues with 正确, 能大于订单金额 or 能超过该订单剩余可退款金额
    "退款金额超过",
    "商户余额不足",
    "商户暂时不能退款",
    "接口订单号不存在",
    "该订单暂时不能退款",
    "这笔退款已失败",
)
# The messages for an unknown order.
_NO_SUCH_ORDER: Final = ("订单不存在", "订单号不存在")
# A rainbow server responds to a refund with code 0 and this text, other servers with code 1.
_REFUNDED: Final = "退款成功"
OrderStatus = Literal["unpaid", "paid", "refunded", "frozen"]
STATUSES: Final[dict[str, OrderStatus]] = {
    "0": "unpaid",
    "1": "paid",
    "2": "refunded",
    "3": "frozen",
}
_MAX_NAME_BYTES: Final = 127
_MAX_LENGTH: Final = 4096  # characters; longer values are truncated
_MAX_MESSAGE: Final = 200  # characters; longer messages of a server are truncated
_MONEY: Final = re.compile(r"([0-9]{1,15})(?:\.([0-9]{1,2})0*)?", re.ASCII)


class Reply(msgspec.Struct, frozen=True):
    """A reply of the convention: its code, and its values as text."""

    code: int
    values: Mapping[str, str]

    def get(self, name: str) -> str:
        """Return a value, "" if it is missing."""
        return self.values.get(name, "")

    @property
    def summary(self) -> str:
        """The code and the server's message, truncated."""
        return f"{self.code}: {self.get('msg')[:_MAX_MESSAGE]}"

    @property
    def is_unprocessed(self) -> bool:
        """Whether the server surely did not process the request, which may thus be repeated."""
        message = self.get("msg")
        if self.code == _NOT_ENABLED:
            return any(text in message for text in _SAYS_NOT_ENABLED)
        return self.code in _NOT_DONE or message.startswith(TOO_MANY)

    @property
    def is_wrong_key(self) -> bool:
        """Whether the server did not recognize the account; it may not have read the parameters."""
        return self.code == WRONG_KEY

    @property
    def is_unknown_order(self) -> bool:
        """Whether the server reports that it has no such order."""
        return self.code != SUCCESS and any(text in self.get("msg") for text in _NO_SUCH_ORDER)

    @property
    def is_refunded(self) -> bool:
        """Whether the server reports that a refund was done."""
        return self.code == SUCCESS or (
            self.code == _REFUND_DONE and self.get("msg").startswith(_REFUNDED)
        )

    @property
    def is_refusal(self) -> bool:
        """Whether the server refused a refund before doing it."""
        return self.get("msg").startswith(REFUSALS)


def read(body: bytes) -> Reply | None:
    """Read a reply; None unless it is a JSON object with a code."""
    try:
        text = body.decode("utf-8-sig")
    except UnicodeDecodeError:
        # Servers that do not write UTF-8 write GBK, which GB 18030 includes.
        text = body.decode("gb18030", "replace")
    try:
        # Reading numbers as text keeps the digits of amounts.
        decoded: object = json.loads(text, parse_float=str)
    except (ValueError, RecursionError):
        return None
    if not isinstance(decoded, dict):
        return None
    items = cast("dict[str, Any]", decoded).items()
    values = {
        name: str(value)[:_MAX_LENGTH] for name, value in items if isinstance(value, str | int)
    }
    code = values.get("code", "")
    return Reply(int(code), values) if re.fullmatch(r"-?[0-9]{1,6}", code) else None


def amount(text: str, currency: str) -> Money | None:
    """Read ``money``, to which some servers append zeros; None if it is not an amount."""
    match = _MONEY.fullmatch(text)
    if match is None:
        return None
    try:
        return Money(parse(f"{match[1]}.{match[2] or '0'}", currency), currency)
    except ValueError:
        return None


def order(request: PaymentRequest, pid: str, kind: str) -> dict[str, str]:
    """Return the unsigned parameters that place an order.

    ``out_trade_no`` is the attempt's id, so that repeating the request returns the same order.
    """
    params = {
        "pid": pid,
        "type": kind,
        "out_trade_no": request.attempt_id,
        "notify_url": request.callback_url,
        "return_url": request.return_url,
        "name": name(request.description),
        "money": request.amount.text,
    }
    if request.amount.currency != DEFAULT_CURRENCY:
        params["money_type"] = request.amount.currency
    return params


def name(description: str) -> str:
    """Return a description that all servers sign alike, of at most 127 bytes.

    Replaces backslashes, which some servers strip, and ``&``, which delimits the signed text;
    collapses spaces.
    """
    plain = description.replace("\\", "/").replace("&", "＆").replace("\x00", "")
    cut = " ".join(plain.split()).encode(errors="replace")[:_MAX_NAME_BYTES]
    return cut.decode(errors="ignore").strip() or "-"


def signed(params: Mapping[str, str], key: str) -> dict[str, str]:
    """Return parameters with their signature."""
    return {**params, "sign": signature.sign(params, key), "sign_type": signature.SIGN_TYPE}
