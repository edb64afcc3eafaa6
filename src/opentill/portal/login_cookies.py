"""The cookies of people: who is logged in, and which accounts a browser knows."""

from collections.abc import Mapping
from typing import Final

from opentill.core.settings import Settings
from opentill.people import (
    OF_MEMBERS,
    NewLogin,
    Person,
    is_known,
    known_browser,
    trusted_browser,
)
from opentill.web import cookies

_KNOWN: Final = "opentill_known"
_YEAR_S: Final = 365 * 24 * 3600
_MOST_KNOWN: Final = 5  # accounts that a browser knows at once


def _login_name(settings: Settings) -> str:
    """Return the name of the cookie that holds the login.

    By HTTPS it has the prefix with which browsers take it from no other host and without any other
    path (RFC 6265bis §4.1.3.2). On loopback there is no HTTPS, and the prefix would be refused.
    """
    return "__Host-opentill" if settings.is_https else "opentill"


def login(settings: Settings, headers: Mapping[bytes, bytes]) -> str:
    """Return the token of the login that a request brings along, "" without one."""
    return cookies.read_cookie(headers, _login_name(settings)).decode("latin-1")


def logged_in(settings: Settings, token: str) -> str:
    """Return the cookie of a login."""
    return _cookie(settings, _login_name(settings), token, OF_MEMBERS.total // 1000)


def logged_out(settings: Settings) -> str:
    """Return what takes the cookie of the login away."""
    return _cookie(settings, _login_name(settings), "", 0)


def knows(settings: Settings, headers: Mapping[bytes, bytes], account: str) -> bool:
    """Return whether this browser has logged in to an account before, with whatever password."""
    shown = (entry.partition("-")[0] for entry in _known(headers))
    return any(is_known(settings.secret_key, account, one) for one in shown)


def shown_trust(headers: Mapping[bytes, bytes]) -> tuple[str, ...]:
    """Return what this browser shows of accounts that it has logged in to (``Credentials``)."""
    return tuple(entry.partition("-")[2] for entry in _known(headers))


def know(settings: Settings, headers: Mapping[bytes, bytes], person: Person) -> str:
    """Return the cookie of a browser that has logged in to an account, beside those before."""
    own = known_browser(settings.secret_key, person.email)
    others = [entry for entry in _known(headers) if entry.partition("-")[0] != own]
    entry = f"{own}-{trusted_browser(settings.secret_key, person)}"
    return _cookie(settings, _KNOWN, ".".join([entry, *others][:_MOST_KNOWN]), _YEAR_S)


def begun(settings: Settings, headers: Mapping[bytes, bytes], login: NewLogin) -> list[str]:
    """Return the cookies of a browser in which somebody has just logged in to an account.

    A browser knows an account only once its second factor is proved.
    """
    made = [logged_in(settings, login.token)]
    return made if login.pending else [*made, know(settings, headers, login.person)]


def _known(headers: Mapping[bytes, bytes]) -> list[str]:
    found = cookies.read_cookie(headers, _KNOWN).decode("latin-1").split(".")
    return [one for one in found if one][:_MOST_KNOWN]


def _cookie(settings: Settings, name: str, value: str, age_s: int) -> str:
    return cookies.cookie_header(
        name, value, public_url=settings.public_url, age_s=age_s, whole_host=True
    )
