"""Tokens of links to bills, which have the day and the time of the link and expire."""

import hashlib
import hmac
from typing import Final

LINK_S: Final = 30


def token_of(secret: str, day: str, now_s: int) -> str:
    """Return the token of a link, which has the day and the time of the link."""
    text = f"{day}.{now_s}"
    digest = hmac.new(secret.encode(), text.encode(), hashlib.sha256).hexdigest()
    return f"{text}.{digest}"


def day_of(secret: str, token: str, now_s: int) -> str:
    """Return the day of a link's token, "" if the token is wrong or has expired."""
    day, _, rest = token.partition(".")
    time_s = rest.partition(".")[0]
    if not (time_s.isascii() and time_s.isdigit()) or now_s - int(time_s) > LINK_S:
        return ""
    return day if hmac.compare_digest(token, token_of(secret, day, int(time_s))) else ""
