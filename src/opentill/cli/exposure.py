"""Checks of ``opentill doctor`` on an exposed deployment: proxies, TLS, test mode."""

import os
from collections.abc import Iterator, Mapping
from ipaddress import IPv4Network, IPv6Network, ip_address
from typing import Final, Literal
from urllib.parse import parse_qs, urlsplit

import msgspec

from opentill.core.settings import SANDBOX, Settings

Level = Literal["ok", "warn", "fail"]
# The shortest plausible prefix length, by IP version: no owner has a wider public network.
_SHORTEST_PREFIX: Final = {4: 8, 6: 16}
# Weaknesses of the modes of encryption, by sslmode (libpq §34.19). asyncpg's default is "prefer".
_MODES: Final[Mapping[str, str]] = {
    "disable": "the connection is not encrypted",
    "allow": "the connection may be unencrypted",
    "prefer": "the connection may be unencrypted",
    "require": "the connection is encrypted, but whoever stands between can pose as the database",
    "verify-ca": "any certificate of its authority is believed, whosever it is",
}


class Finding(msgspec.Struct, frozen=True):
    """The result of a check, with advice."""

    subject: str
    level: Level
    text: str


def test_mode(settings: Settings) -> Finding | None:
    """Report that the sandbox bank may take payments, None if that is expected."""
    from opentill.config import is_loopback

    if settings.sandbox_refused:
        return Finding("test mode", "fail", settings.sandbox_refused)
    if SANDBOX not in settings.gateways:
        return None
    if settings.database_url is None and is_loopback(settings.public_url):
        return None
    text = (
        f"OPENTILL_SANDBOX=yes: who reaches {settings.public_url} pays with test cards, and that"
        " money is not real; set OPENTILL_GATEWAYS to a real gateway before real orders come"
    )
    return Finding("test mode", "warn", text)


def too_broad_networks(settings: Settings) -> list[IPv4Network | IPv6Network]:
    """Return the trusted proxies that include large public networks."""
    return [
        network
        for network in settings.trusted_proxies
        if not network.is_private and network.prefixlen < _SHORTEST_PREFIX[network.version]
    ]


def explain_public_trust(networks: list[IPv4Network | IPv6Network]) -> str:
    """Explain that any client can forge its address if such networks are trusted."""
    addresses = ", ".join(map(str, networks))
    return (
        f"OPENTILL_TRUSTED_PROXIES has {addresses}: everybody is believed to come from whatever"
        " address they write, so that rate limits and merchants' lists of addresses hold nobody"
        " back; name your proxy's own address"
    )


def proxies(settings: Settings) -> Finding:
    """Report how client addresses are determined."""
    from opentill.config import is_loopback

    if broad := too_broad_networks(settings):
        return Finding("proxies", "fail", explain_public_trust(broad))
    if settings.trusted_proxies:
        addresses = ", ".join(map(str, settings.trusted_proxies))
        return Finding("proxies", "ok", f"X-Forwarded-For is believed of {addresses}")
    if is_loopback(settings.public_url) or not settings.is_https:
        return Finding(
            "proxies", "ok", "none; each client is known by the address that it connects from"
        )
    text = (
        "none is trusted, and https needs one in front: all clients behind it share one rate limit"
        " and are shown with its address; set OPENTILL_TRUSTED_PROXIES to it"
    )
    return Finding("proxies", "warn", text)


def database_tls(settings: Settings) -> Iterator[Finding]:
    """Report whether connections to the database are encrypted and verified."""
    urls = {
        "OPENTILL_DATABASE_URL": settings.database_url,
        "OPENTILL_DATABASE_READ_URL": settings.database_read_url,
    }
    for variable, url in urls.items():
        if not url:
            continue
        query = parse_qs(urlsplit(url).query)
        mode = query.get("sslmode", [os.environ.get("PGSSLMODE", "prefer")])[-1]
        if mode == "verify-full":
            yield Finding("tls", "ok", f"{variable}: the database shows who it is (verify-full)")
        elif all(map(_is_local, _host_names(url, query))):
            yield Finding("tls", "ok", f"{variable}: the database is on this machine")
        else:
            weakness = _MODES.get(mode, "the mode is not known")
            text = (
                f"{variable} has sslmode {mode}: {weakness}; add sslmode=verify-full, and"
                " sslrootcert=/path/to/ca.pem where its authority is your own"
            )
            yield Finding("tls", "warn", text)


def _host_names(url: str, query: Mapping[str, list[str]]) -> list[str]:
    places = urlsplit(url).netloc.rpartition("@")[2]
    hosts = ",".join([places, *query.get("host", [])]).split(",")
    return [_strip_port(place) for place in hosts if place]


def _strip_port(place: str) -> str:
    """Return a host without port and brackets."""
    if place.startswith("["):
        return place[1:].partition("]")[0]
    return place if place.startswith("/") else place.partition(":")[0]


def _is_local(host: str) -> bool:
    if host.startswith(("/", "%2F", "%2f")) or host == "localhost":
        return True
    try:
        return ip_address(host).is_loopback
    except ValueError:
        return False
