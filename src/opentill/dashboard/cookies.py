"""The cookies of people: who is logged in, which accounts a browser knows, its language."""

from typing import Final

from opentill.core.settings import Settings
from opentill.people import OF_MEMBERS, is_known, known_browser

LANGUAGE: Final = "opentill_language"
_KNOWN: Final = "opentill_known"
_YEAR_S: Final = 365 * 24 * 3600
_MOST_KNOWN: Final = 5  # accounts that a browser knows at once


def login_name(settings: Settings) -> str:
    """Return the name of the cookie that holds the login.

    By HTTPS it has the prefix with which browsers take it from no other host and without any other
    path (RFC 6265bis §4.1.3.2). On loopback there is no HTTPS, and the prefix would be refused.
    """
    return "__Host-opentill" if settings.is_https else "opentill"


def read(header: bytes) -> dict[str, str]:
    """Return the cookies of a request by name; of one that comes twice, the first."""
    pairs = (part.strip().partition("=") for part in header.decode("latin-1").split(";"))
    return dict(reversed([(name, value) for name, _, value in pairs if name]))


def logged_in(settings: Settings, token: str) -> str:
    """Return the cookie of a login."""
    return _cookie(settings, login_name(settings), token, OF_MEMBERS.whole // 1000)


def logged_out(settings: Settings) -> str:
    """Return what takes the cookie of the login away."""
    return _cookie(settings, login_name(settings), "", 0)


def knows(settings: Settings, cookies: dict[str, str], account: str) -> bool:
    """Return whether this browser has logged in to an account before."""
    shown = cookies.get(_KNOWN, "").split(".")[:_MOST_KNOWN]
    return any(is_known(settings.secret_key, account, one) for one in shown)


def know(settings: Settings, cookies: dict[str, str], account: str) -> str:
    """Return the cookie of a browser that has logged in to an account, beside those before."""
    mine = known_browser(settings.secret_key, account)
    others = [one for one in cookies.get(_KNOWN, "").split(".") if one and one != mine]
    value = ".".join([mine, *others][:_MOST_KNOWN])
    return _cookie(settings, _KNOWN, value, _YEAR_S)


def begun(settings: Settings, cookies: dict[str, str], token: str, account: str) -> list[str]:
    """Return the cookies of a browser in which somebody has just logged in to an account."""
    return [logged_in(settings, token), know(settings, cookies, account)]


def speaks(settings: Settings, language: str) -> str:
    """Return the cookie that remembers a language."""
    return _cookie(settings, LANGUAGE, language, _YEAR_S)


def _cookie(settings: Settings, name: str, value: str, age_s: int) -> str:
    made = f"{name}={value}; Path=/; Max-Age={age_s}; HttpOnly; SameSite=Lax"
    return f"{made}; Secure" if settings.is_https else made
