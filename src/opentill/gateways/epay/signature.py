"""The signature of Epay V1: MD5 over the sorted parameters and the key.

The convention of the "rainbow" Epay servers and their clients: take each parameter received except
``sign``, ``sign_type`` and the empty ones, sort by name, join ``name=value`` with ``&``, append the
key with nothing between, MD5 over UTF-8 in lower-case hex. Values are raw, not URL-encoded. Used in
both directions: by the Epay API for merchants, and by the gateway that calls an Epay server.
"""

import hashlib
import hmac
import re
from collections.abc import Mapping
from typing import Final

SIGN_TYPE: Final = "MD5"
_UNSIGNED: Final = frozenset({"sign", "sign_type"})
_SIGN: Final = re.compile(r"[0-9a-f]{32}", re.ASCII)
# Names that a signed text may not be made to hold by a value: with one of them in it, the text of a
# request is also that of another message, such as a notification of a payment.
PROTOCOL_FIELDS: Final = frozenset({
    "act", "addtime", "api_trade_no", "buyer", "channel_param", "clientip", "device",
    "display_merchant_name", "endtime", "key", "limit", "method", "money", "money_type", "name",
    "notify_url", "offset", "out_trade_no", "page", "param", "pid", "refund_no", "return_url",
    "sign", "sign_type", "sitename", "status", "timestamp", "trade_no", "trade_status", "type",
})  # fmt: skip
_BORDER: Final = re.compile(r"&\s*([^&=]{1,64})=([^&]*)")


def text_to_sign(params: Mapping[str, str]) -> str:
    """Return what is signed, without the key. The text ``"0"`` is not empty and takes part."""
    taken = sorted(
        (name.encode(), name, value)
        for name, value in params.items()
        if value and name not in _UNSIGNED
    )
    return "&".join(f"{name}={value}" for _, name, value in taken)


def sign(params: Mapping[str, str], key: str) -> str:
    """Sign parameters: 32 lower-case hex digits."""
    text = text_to_sign(params) + key
    return hashlib.md5(text.encode(), usedforsecurity=False).hexdigest()


def verify(params: Mapping[str, str], key: str) -> bool:
    """Return whether ``params["sign"]`` is the signature of the rest, in constant time.

    A ``sign_type`` that is missing or empty means MD5, in any case; with any other there is no
    valid signature. Capitals are not valid: the reference server compares letter by letter.
    """
    given = params.get("sign", "")
    if sign_type(params) != SIGN_TYPE or _SIGN.fullmatch(given) is None:
        return False
    return hmac.compare_digest(given, sign(params, key))


def sign_type(params: Mapping[str, str]) -> str:
    """Return the ``sign_type`` of a message, which in capitals: MD5 if there is none."""
    return params.get("sign_type", "").strip().upper() or SIGN_TYPE


def embedded_fields(value: str) -> list[tuple[str, str]]:
    """Return each ``&``, name of a protocol field and ``=`` within a value: the name, what follows.

    The signed text is not escaped, so such a value can make one message's signature that of
    another: ``return_url=…?a=1&trade_no=1&trade_status=TRADE_SUCCESS``.
    """
    found = ((name.strip().lower(), text) for name, text in _BORDER.findall(value))
    return [(name, text) for name, text in found if name in PROTOCOL_FIELDS]
