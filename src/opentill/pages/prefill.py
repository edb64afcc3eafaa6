"""What a payer typed is shown again to the browser that sent it, and to no other (decision 0036).

Whoever has a session's address may look at it, and addresses get passed on. So what the form shows
again after a decline is bound to a cookie of the browser: a code by the deployment's key over the
session and what was typed. Without it the form shows what the merchant has prefilled, which the
contract says is shown on the checkout. Nothing is decided by the cookie, and nothing is kept of it.
"""

import hashlib
import hmac
from collections.abc import Mapping
from typing import Final

from opentill.web import cookies

COOKIE: Final = "opentill_payer"
_PURPOSE: Final = "opentill payer 1"


def token(secret_key: str, session_id: str, email: str, name: str) -> str:
    """Return the cookie's value for a browser that has sent this e-mail and name."""
    message = f"{_PURPOSE}\0{session_id}\0{email}\0{name}"
    return hmac.new(secret_key.encode(), message.encode(), hashlib.sha256).hexdigest()


def cookie(
    secret_key: str, public_url: str, session_id: str, typed: tuple[str, str], left_ms: int
) -> str:
    """Return the cookie for a browser that has sent an e-mail and name; while the session lasts."""
    value = token(secret_key, session_id, *typed)
    path, age_s = f"/checkout/{session_id}", max(0, left_ms // 1000)
    return cookies.cookie_header(COOKIE, value, public_url=public_url, path=path, age_s=age_s)


def given(headers: Mapping[bytes, bytes]) -> bytes:
    """Return the cookie's value in a request, empty if it has none."""
    return cookies.read_cookie(headers, COOKIE)


def proves(shown: bytes, secret_key: str, session_id: str, email: str, name: str) -> bool:
    """Return whether a browser has sent this e-mail and name; in constant time."""
    return hmac.compare_digest(shown, token(secret_key, session_id, email, name).encode())
