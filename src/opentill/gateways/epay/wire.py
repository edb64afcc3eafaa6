"""Epay V1 on the wire, from the shop's side: the parameters that are sent, the replies that come.

Replies are JSON with HTTP 200, errors too. Servers differ in the types of values (``1``, ``"1"``),
in encoding (UTF-8, GBK) and in what they add; what has another form is no reply.
"""

import json
import re
from collections.abc import Mapping
from typing import Any, Final, Literal, cast

import msgspec

from opentill.core.money import Money, parse
from opentill.gateways.epay import signature
from opentill.gateways.model import Method, PaymentRequest

# type ↔ payment method, as far as the convention names them.
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
_REFUND_DONE: Final = 0  # with the text of a refund that was done
# Refused before anything was done: wrong key or sign, missing, unknown act.
_NOT_DONE: Final = frozenset({WRONG_KEY, -4, -5})
# -2 is "not enabled" where the message says so: there are servers that give it for lost responses.
_NOT_ENABLED: Final = -2
_SAYS_NOT_ENABLED: Final = ("未开启", "未开通")
TOO_MANY: Final = "请求过于频繁"
# How refusals of a refund begin that come before anything was done: the reference server's, those
# of its relatives, ours. "退款失败：…" is none: it quotes a provider, which may not have responded.
REFUSALS: Final = (
    "金额输入错误",
    "退款金额不",  # 正确, 能大于订单金额, 能超过该订单剩余可退款金额
    "退款金额超过",
    "商户余额不足",
    "商户暂时不能退款",
    "接口订单号不存在",
    "该订单暂时不能退款",
    "这笔退款已失败",
)
# How servers of the convention say that there is no such order.
_NO_SUCH_ORDER: Final = ("订单不存在", "订单号不存在")
# The response of the usual server to a refund has code 0 and this text, that of others code 1.
_REFUNDED: Final = "退款成功"
Standing = Literal["unpaid", "paid", "refunded", "frozen"]
STANDINGS: Final[dict[str, Standing]] = {
    "0": "unpaid",
    "1": "paid",
    "2": "refunded",
    "3": "frozen",
}
_MAX_NAME_BYTES: Final = 127
_LONGEST: Final = 4096  # characters of a value
_SHOWN: Final = 200  # characters of a server's message that are stored
_MONEY: Final = re.compile(r"([0-9]{1,15})(?:\.([0-9]{1,2})0*)?", re.ASCII)


class Reply(msgspec.Struct, frozen=True):
    """A reply in the convention's form: its code, and its values as text."""

    code: int
    values: Mapping[str, str]

    def get(self, name: str) -> str:
        """Return a value, "" where there is none."""
        return self.values.get(name, "")

    @property
    def words(self) -> str:
        """The server's message, cut to fit a reason."""
        return f"{self.code}: {self.get('msg')[:_SHOWN]}"

    @property
    def not_done(self) -> bool:
        """Whether the server surely did not look at what was asked, and may be asked again."""
        message = self.get("msg")
        if self.code == _NOT_ENABLED:
            return any(text in message for text in _SAYS_NOT_ENABLED)
        return self.code in _NOT_DONE or message.startswith(TOO_MANY)

    @property
    def wrong_key(self) -> bool:
        """Whether the server does not know who asks: it may not have read the parameters."""
        return self.code == WRONG_KEY

    @property
    def no_such_order(self) -> bool:
        """Whether the server says that it has no such order."""
        return self.code != SUCCESS and any(text in self.get("msg") for text in _NO_SUCH_ORDER)

    @property
    def refunded(self) -> bool:
        """Whether the server says that a refund was done."""
        return self.code == SUCCESS or (
            self.code == _REFUND_DONE and self.get("msg").startswith(_REFUNDED)
        )

    @property
    def refuses(self) -> bool:
        """Whether the server refused a refund for a reason that comes before doing it."""
        return self.get("msg").startswith(REFUSALS)


def read(body: bytes) -> Reply | None:
    """Read a reply; None if it is not JSON, no object, or has no code."""
    try:
        text = body.decode("utf-8-sig")
    except UnicodeDecodeError:
        text = body.decode("gb18030", "replace")  # GBK and all that fits it
    try:
        found: object = json.loads(text, parse_float=str)  # as it is written
    except (ValueError, RecursionError):
        return None
    if not isinstance(found, dict):
        return None
    named = cast("dict[str, Any]", found).items()
    values = {name: str(value)[:_LONGEST] for name, value in named if isinstance(value, str | int)}
    code = values.get("code", "")
    return Reply(int(code), values) if re.fullmatch(r"-?[0-9]{1,6}", code) else None


def amount(text: str, currency: str) -> Money | None:
    """Read ``money``, to which some servers add zeros; None if it is no amount."""
    found = _MONEY.fullmatch(text)
    if found is None:
        return None
    try:
        return Money(parse(f"{found[1]}.{found[2] or '0'}", currency), currency)
    except ValueError:
        return None


def order(request: PaymentRequest, pid: str, kind: str) -> dict[str, str]:
    """Return the parameters that place an order, without a sign.

    ``out_trade_no`` is our attempt's id: the same parameters again are the same order.
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

    Without backslashes, which some servers strip, ``&``, which delimits the signed text, and outer
    spaces.
    """
    plain = description.replace("\\", "/").replace("&", "＆").replace("\x00", "")
    cut = " ".join(plain.split()).encode(errors="replace")[:_MAX_NAME_BYTES]
    return cut.decode(errors="ignore").strip() or "-"


def signed(params: Mapping[str, str], key: str) -> dict[str, str]:
    """Return parameters with their sign."""
    return {**params, "sign": signature.sign(params, key), "sign_type": signature.SIGN_TYPE}
