"""Epay V2 on the wire, from the shop's side: signed requests, and replies that are verified.

The reference server signs successes and leaves refusals unsigned. A success counts only with a
valid signature and a recent timestamp. So does a refusal that is signed; one that is not signed
says what the connection says, and ``Reply.is_signed`` distinguishes them.
"""

import json
import re
from collections.abc import Mapping
from typing import Any, Final, cast

import msgspec
from cryptography.hazmat.primitives.asymmetric.rsa import RSAPrivateKey, RSAPublicKey

from opentill.gateways.epay import rsa_signature
from opentill.gateways.epay import wire as v1
from opentill.gateways.model import RefundStatus

CREATE: Final = "pay/create"
QUERY: Final = "pay/query"
CLOSE: Final = "pay/close"
REFUND: Final = "pay/refund"
REFUND_QUERY: Final = "pay/refundquery"
INFO: Final = "merchant/info"
SUCCESS: Final = 0
WRONG_KEY: Final = -3
UNKNOWN_PATH: Final = -5
# A response with one of these codes refuses the request before any effect: wrong key, signature or
# time; nothing sent; unknown path.
_NOT_DONE: Final = frozenset({WRONG_KEY, -4, UNKNOWN_PATH})
# A message that begins like one of these refuses a refund before any effect.
_REFUSALS: Final = (
    *v1.REFUSALS,
    "当前订单不存在",
    "当前支付通道不支持API退款",
    "当前支付通道信息不存在",
    "管理员未开启商户后台自助退款",
    "该订单状态不支持退款",
)
_NO_SUCH_ORDER: Final = ("订单不存在", "订单号不存在")
_NO_SUCH_REFUND: Final = ("退款记录不存在", "退款单不存在", "退款单号不存在")
# The documents name 0 and 1 only; servers whose refunds take time return others while they run.
_REFUND_STATUSES: Final[dict[str, RefundStatus]] = {"0": "REFUSED", "1": "SUCCEEDED"}
_MAX_SKEW_S: Final = 300  # as the convention says
_MAX_MESSAGE: Final = 200  # characters; longer messages of a server are truncated
_TIMESTAMP: Final = re.compile(r"[0-9]{10}", re.ASCII)
_CODE: Final = re.compile(r"-?[0-9]{1,6}", re.ASCII)


class Forged(Exception):
    """A message without a valid signature, or too old."""


class Reply(msgspec.Struct, frozen=True):
    """A reply: its code, and its values as text. A success is always signed."""

    code: int
    values: Mapping[str, str]
    is_signed: bool

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
        return self.code in _NOT_DONE or self.get("msg").startswith(v1.TOO_MANY)

    @property
    def is_unknown_order(self) -> bool:
        """Whether the server reports that it has no such order."""
        return self.code != SUCCESS and any(text in self.get("msg") for text in _NO_SUCH_ORDER)

    @property
    def is_unknown_refund(self) -> bool:
        """Whether the server reports that it has no such refund."""
        return self.code != SUCCESS and any(text in self.get("msg") for text in _NO_SUCH_REFUND)

    @property
    def is_refusal(self) -> bool:
        """Whether the server refused a refund before doing it."""
        return self.get("msg").startswith(_REFUSALS)

    @property
    def refund_status(self) -> RefundStatus:
        """The status of the refund that a query has found."""
        return _REFUND_STATUSES.get(self.get("status"), "PENDING")


def signed(fields: Mapping[str, str], pid: str, key: RSAPrivateKey, now_s: int) -> dict[str, str]:
    """Return the fields of a request with account, time and signature; blank ones are left out."""
    stamped = {"pid": pid, "timestamp": str(now_s), **fields}
    sent = {name: value for name, value in stamped.items() if value.strip(rsa_signature.BLANK)}
    sign = rsa_signature.sign(sent, key)
    return {**sent, "sign": sign, "sign_type": rsa_signature.SIGN_TYPE}


def read(body: bytes, key: RSAPublicKey, now_s: int) -> Reply | None:
    """Read a reply; None unless it is a JSON object with a code. Raises Forged."""
    values = _decode(body)
    code = "" if values is None else str(values.get("code", ""))
    if values is None or _CODE.fullmatch(code) is None:
        return None
    is_signed = bool(values.get("sign"))
    if is_signed or int(code) == SUCCESS:
        check(values, key, now_s)
    return Reply(int(code), {name: str(value) for name, value in values.items()}, is_signed)


def check(values: Mapping[str, Any], key: RSAPublicKey, now_s: int) -> None:
    """Raise Forged unless a reply or a notification is signed by the server, and recent."""
    sign_type = str(values.get("sign_type", "")).strip().upper() or rsa_signature.SIGN_TYPE
    try:
        is_valid = sign_type == rsa_signature.SIGN_TYPE and rsa_signature.verify(values, key)
    except UnicodeEncodeError:  # a lone surrogate, which no server can sign
        is_valid = False
    if not is_valid:
        msg = "the signature does not fit the values"
        raise Forged(msg)
    timestamp = str(values.get("timestamp", ""))
    if _TIMESTAMP.fullmatch(timestamp) is None or abs(now_s - int(timestamp)) > _MAX_SKEW_S:
        msg = "its timestamp differs from our clock by more than five minutes"
        raise Forged(msg)


def _decode(body: bytes) -> dict[str, str | int] | None:
    """Return the texts and whole numbers of a JSON object, which are what is signed.

    Some servers write the object as a JSON string.
    """
    try:
        decoded: object = json.loads(_text(body), parse_float=str)
        if isinstance(decoded, str):
            decoded = json.loads(decoded, parse_float=str)
    except (ValueError, RecursionError):
        return None
    if not isinstance(decoded, dict):
        return None
    items = cast("dict[str, Any]", decoded).items()
    # A Boolean is an int in Python; PHP signs True as 1 and leaves out False.
    return {
        name: int(value) if value is True else value
        for name, value in items
        if isinstance(value, str | int) and value is not False
    }


def _text(body: bytes) -> str:
    try:
        return body.decode("utf-8-sig")
    except UnicodeDecodeError:
        # Servers that do not write UTF-8 write GBK, which GB 18030 includes.
        return body.decode("gb18030", "replace")
