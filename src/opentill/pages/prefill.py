"""Prefills the payment form with a payer's entries, for the same browser only (decision 0036).

Anybody who has a session's address can open its page, and addresses are passed on. So after a
decline, the form repeats email and name only for the browser that sent them. Its cookie proves
that: it is a keyed hash of the session and these entries. Other browsers see the entries that the
merchant has prefilled. The cookie has no other effect, and the server does not store it.
"""

import hashlib
import hmac
from collections.abc import Mapping
from typing import Final

from opentill.web import cookies

COOKIE: Final = "opentill_payer"
_PURPOSE: Final = "opentill payer 1"


def token(secret_key: str, session_id: str, email: str, name: str) -> str:
    """Return the cookie's value for a browser that has sent this email and name."""
    message = f"{_PURPOSE}\0{session_id}\0{email}\0{name}"
    return hmac.new(secret_key.encode(), message.encode(), hashlib.sha256).hexdigest()


def cookie(
    secret_key: str, public_url: str, session_id: str, payer: tuple[str, str], ttl_ms: int
) -> str:
    """Return the cookie for a browser that has sent ``payer``, an email and name."""
    value = token(secret_key, session_id, *payer)
    path, age_s = f"/checkout/{session_id}", max(0, ttl_ms // 1000)
    return cookies.cookie_header(COOKIE, value, public_url=public_url, path=path, age_s=age_s)


def token_in(headers: Mapping[bytes, bytes]) -> bytes:
    """Return the cookie's value in a request, empty if it has none."""
    return cookies.read_cookie(headers, COOKIE)


def proves(cookie_value: bytes, secret_key: str, session_id: str, email: str, name: str) -> bool:
    """Whether the cookie shows that the browser has sent this email and name.

    The comparison takes constant time.
    """
    return hmac.compare_digest(cookie_value, token(secret_key, session_id, email, name).encode())
