"""The signature of Epay V1: MD5 over the sorted parameters and the key.

The convention of the "rainbow" Epay servers and their clients: take each parameter except
``sign``, ``sign_type`` and the empty ones, sort by name, join ``name=value`` with ``&``, append the
key without a separator, and write the MD5 of the UTF-8 text in lower-case hex. Values are not
URL-encoded. Both the Epay API for merchants and the gateway that calls an Epay server use it.
"""

import hashlib
import hmac
import re
from collections.abc import Mapping
from typing import Final

SIGN_TYPE: Final = "MD5"
_UNSIGNED: Final = frozenset({"sign", "sign_type"})
_SIGN: Final = re.compile(r"[0-9a-f]{32}", re.ASCII)
# No value may contain ``&name=`` with one of these names: otherwise the signed text of the request
# would also be the signed text of another message, such as a notification of a payment.
PROTOCOL_FIELDS: Final = frozenset({
    "act", "addtime", "api_trade_no", "buyer", "channel_param", "clientip", "device",
    "display_merchant_name", "endtime", "key", "limit", "method", "money", "money_type", "name",
    "notify_url", "offset", "out_trade_no", "page", "param", "pid", "refund_no", "return_url",
    "sign", "sign_type", "sitename", "status", "timestamp", "trade_no", "trade_status", "type",
})  # fmt: skip
_EMBEDDED: Final = re.compile(r"&\s*([^&=]{1,64})=([^&]*)")


def text_to_sign(params: Mapping[str, str]) -> str:
    """Return the text that is signed, without the key. The value ``"0"`` is not empty."""
    signed = sorted(
        (name.encode(), name, value)
        for name, value in params.items()
        if value and name not in _UNSIGNED
    )
    return "&".join(f"{name}={value}" for _, name, value in signed)


def sign(params: Mapping[str, str], key: str) -> str:
    """Return the signature of parameters: 32 lower-case hex digits."""
    text = text_to_sign(params) + key
    return hashlib.md5(text.encode(), usedforsecurity=False).hexdigest()


def verify(params: Mapping[str, str], key: str) -> bool:
    """Whether ``params["sign"]`` signs the other parameters, compared in constant time.

    ``sign_type`` must be missing, empty or MD5 in any case. A signature in capitals is invalid,
    because the reference server compares the texts.
    """
    claimed = params.get("sign", "")
    if sign_type(params) != SIGN_TYPE or _SIGN.fullmatch(claimed) is None:
        return False
    return hmac.compare_digest(claimed, sign(params, key))


def sign_type(params: Mapping[str, str]) -> str:
    """Return the ``sign_type`` of a message in capitals, MD5 by default."""
    return params.get("sign_type", "").strip().upper() or SIGN_TYPE


def embedded_fields(value: str) -> list[tuple[str, str]]:
    """Return name and text of each ``&name=text`` within a value that names a protocol field.

    The signed text is not escaped, so that with such a value a signature also fits another
    message: ``return_url=…?a=1&trade_no=1&trade_status=TRADE_SUCCESS``.
    """
    fields = ((name.strip().lower(), text) for name, text in _EMBEDDED.findall(value))
    return [(name, text) for name, text in fields if name in PROTOCOL_FIELDS]
