"""Codes of an authenticator (RFC 6238), and recovery codes.

Codes follow real time, as the person's device does, and not business time.
"""

import base64
import hashlib
import hmac
import io
import secrets
import struct
from typing import Final
from urllib.parse import quote, urlencode

import segno

PERIOD_S: Final = 30
_DIGITS: Final = 6
_SECRET_BYTES: Final = 20  # the length of SHA-1's hashes, which RFC 4226 §4 R6 recommends
# By how many periods the authenticator's clock may be ahead or behind (RFC 6238 §5.2).
_DRIFT: Final = 1
RECOVERY_CODES: Final = 10
_RECOVERY_BYTES: Final = 10  # a recovery code has 80 random bits, which are 16 letters and digits
_GROUP: Final = 4


def new_secret() -> str:
    """Return a random secret in base32, as authenticators expect it."""
    return base64.b32encode(secrets.token_bytes(_SECRET_BYTES)).decode()


def code_at(secret: str, period: int) -> str:
    """Return the code of a period; ``period`` counts the periods of 30 seconds since 1970."""
    digest = hmac.digest(base64.b32decode(secret), struct.pack(">Q", period), hashlib.sha1)
    offset = digest[-1] & 15
    number = int.from_bytes(digest[offset : offset + 4]) & 0x7FFF_FFFF
    return f"{number % 10**_DIGITS:0{_DIGITS}}"


def matching_period(secret: str, code: str, now_s: int, after: int) -> int | None:
    """Return the number of the period whose code this is, None if it is no current code.

    ``after`` is the number of the period of the last used code: used and older codes are not
    accepted.
    """
    current = now_s // PERIOD_S
    for period in range(current - _DRIFT, current + _DRIFT + 1):
        if period > after and hmac.compare_digest(code_at(secret, period), code):
            return period
    return None


def is_code(text: str) -> bool:
    """Whether a text without spaces has the form of an authenticator's code."""
    return len(text) == _DIGITS and text.isascii() and text.isdigit()


def otpauth_uri(secret: str, issuer: str, account: str) -> str:
    """Return the ``otpauth:`` URI that an authenticator scans."""
    label = quote(f"{issuer}:{account}", safe="@")
    query = urlencode({"secret": secret, "issuer": issuer, "digits": _DIGITS, "period": PERIOD_S})
    return f"otpauth://totp/{label}?{query}"


def qr_code(text: str) -> bytes:
    """Render a text as a QR code in SVG."""
    image = io.BytesIO()
    code = segno.make(text, error="m", micro=False)
    code.save(image, kind="svg", scale=6, border=4, light="#fff", svgclass=None, lineclass=None)
    return image.getvalue()


def group_by_four(text: str) -> str:
    """Split a secret or code into groups of four characters."""
    return " ".join(text[at : at + _GROUP] for at in range(0, len(text), _GROUP))


def new_recovery_codes() -> list[str]:
    """Return ten random recovery codes."""
    return [
        base64.b32encode(secrets.token_bytes(_RECOVERY_BYTES)).decode().lower()
        for _ in range(RECOVERY_CODES)
    ]


def recovery_digest(text: str) -> bytes:
    """Return the digest by which a recovery code is stored, however it was typed."""
    bare = "".join(text.split()).replace("-", "").lower()
    return hashlib.sha256(bare.encode()).digest()
