"""The cookies of persons: their login, and who has logged in with this browser before."""

from collections.abc import Mapping
from typing import Final

from opentill.core.settings import Settings
from opentill.people import (
    LONGEST_LOGIN_MS,
    NewLogin,
    Person,
    is_known,
    known_browser,
    trusted_browser,
)
from opentill.web import cookies

_KNOWN_PERSONS: Final = "opentill_known"
_YEAR_S: Final = 365 * 24 * 3600
_MAX_PERSONS: Final = 5  # a browser's cookie names at most this many persons


def _login_name(settings: Settings) -> str:
    """Return the name of the cookie that holds the login.

    With HTTPS it has a prefix, so that browsers accept the cookie only from this host and for all
    paths (RFC 6265bis §4.1.3.2). Browsers refuse the prefix without HTTPS, as on loopback.
    """
    return "__Host-opentill" if settings.is_https else "opentill"


def login(settings: Settings, headers: Mapping[bytes, bytes]) -> str:
    """Return the login token of a request, "" if it has none."""
    return cookies.read_cookie(headers, _login_name(settings)).decode("latin-1")


def logged_in(settings: Settings, token: str) -> str:
    """Return the cookie with the token of a login."""
    return _cookie(settings, _login_name(settings), token, LONGEST_LOGIN_MS // 1000)


def logged_out(settings: Settings) -> str:
    """Return the cookie that removes the cookie of a login."""
    return _cookie(settings, _login_name(settings), "", 0)


def has_logged_in(settings: Settings, headers: Mapping[bytes, bytes], email: str) -> bool:
    """Return whether somebody has logged in with this browser and email address before."""
    marks = (entry.partition("-")[0] for entry in _read_person_entries(headers))
    return any(is_known(settings.secret_key, email, mark) for mark in marks)


def trust_marks(headers: Mapping[bytes, bytes]) -> tuple[str, ...]:
    """Return the cookie's marks of a trusted browser, one for each person."""
    return tuple(entry.partition("-")[2] for entry in _read_person_entries(headers))


def remember_person(settings: Settings, headers: Mapping[bytes, bytes], person: Person) -> str:
    """Return the cookie of known persons with ``person`` first."""
    mark = known_browser(settings.secret_key, person.email)
    others = [entry for entry in _read_person_entries(headers) if entry.partition("-")[0] != mark]
    entry = f"{mark}-{trusted_browser(settings.secret_key, person)}"
    return _cookie(settings, _KNOWN_PERSONS, ".".join([entry, *others][:_MAX_PERSONS]), _YEAR_S)


def build_login_cookies(
    settings: Settings, headers: Mapping[bytes, bytes], login: NewLogin
) -> list[str]:
    """Return the cookies for a browser with a new login.

    The person is remembered only once the second factor is proved.
    """
    login_cookie = logged_in(settings, login.token)
    if login.pending:
        return [login_cookie]
    return [login_cookie, remember_person(settings, headers, login.person)]


def _read_person_entries(headers: Mapping[bytes, bytes]) -> list[str]:
    entries = cookies.read_cookie(headers, _KNOWN_PERSONS).decode("latin-1").split(".")
    return [entry for entry in entries if entry][:_MAX_PERSONS]


def _cookie(settings: Settings, name: str, value: str, age_s: int) -> str:
    return cookies.cookie_header(
        name, value, public_url=settings.public_url, age_s=age_s, whole_host=True
    )
