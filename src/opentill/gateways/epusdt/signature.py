"""The signature of epusdt: MD5 over the sorted values of a JSON object and the API token.

The servers are written in Go and read every JSON number as a float, so a number is signed in its
shortest decimal form without an exponent: ``100``, ``28.88``. Missing and empty values are not
signed (https://github.com/assimon/epusdt/blob/master/wiki/API.md).
"""

import hashlib
import hmac
import math
import re
from collections.abc import Mapping
from decimal import Decimal
from typing import Any, Final

FIELD: Final = "signature"
_SIGNATURE: Final = re.compile(r"[0-9a-f]{32}", re.ASCII)


def text_of(value: object) -> str | None:
    """Return a value as it is signed, "" for an empty one; None if it cannot be signed."""
    match value:
        case None:
            return ""
        case str():
            return value
        case bool():
            return None
        case int():
            return str(value)
        case float() if math.isfinite(value):
            digits = f"{Decimal(repr(value)):f}"
            return digits.rstrip("0").rstrip(".") if "." in digits else digits
        case _:
            return None


def sign(params: Mapping[str, Any], token: str) -> str | None:
    """Return the signature of an object: 32 lower-case hex digits; None if it cannot be signed."""
    pairs: list[str] = []
    for name in sorted(params):
        text = text_of(params[name])
        if text is None:
            return None
        if text and name != FIELD:
            pairs.append(f"{name}={text}")
    content = ("&".join(pairs) + token).encode(errors="surrogatepass")
    return hashlib.md5(content, usedforsecurity=False).hexdigest()


def verify(params: Mapping[str, Any], token: str) -> bool:
    """Whether ``params["signature"]`` signs the other values, compared in constant time.

    The signed text is not escaped. No value of a callback contains ``&``, so one that does is
    refused: its text could be that of other fields.
    """
    claimed = params.get(FIELD)
    if not isinstance(claimed, str) or _SIGNATURE.fullmatch(claimed) is None:
        return False
    if any(
        "&" in name or (isinstance(value, str) and "&" in value) for name, value in params.items()
    ):
        return False
    expected = sign(params, token)
    return expected is not None and hmac.compare_digest(claimed, expected)
