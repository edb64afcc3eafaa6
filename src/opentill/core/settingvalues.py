"""Parsers of the values of settings.

Each raises ``ValueError``, whose text completes the sentence "it must be …".
"""

import re
from collections.abc import Callable, Sequence
from decimal import Decimal
from email.utils import parseaddr
from ipaddress import IPv4Network, IPv6Address, IPv6Network, ip_network
from typing import Final
from urllib.parse import SplitResult, urlsplit
from zoneinfo import ZoneInfo

from opentill.core import bankaccounts, hostnames
from opentill.core.payment_methods import parse_methods

SHORTEST_KEY: Final = 32
LONGEST_KEY: Final = 256
_LAST_PORT: Final = 65535
_LONGEST_NAME: Final = 253  # characters of a host name
_WEB_PORTS: Final = {"http": 80, "https": 443}


def whole(low: int, high: int) -> Callable[[str], int]:
    """Return a parser of a whole number from ``low`` to ``high``."""

    def parse(text: str) -> int:
        if not re.fullmatch(r"[0-9]{1,9}", text) or not low <= int(text) <= high:
            message = f"a whole number from {low} to {high}"
            raise ValueError(message)
        return int(text)

    return parse


def seconds(low: float, high: float) -> Callable[[str], float]:
    """Return a parser of a number of seconds from ``low`` to ``high``."""

    def parse(text: str) -> float:
        if not re.fullmatch(r"[0-9]{1,6}(\.[0-9]{1,3})?", text) or not low <= float(text) <= high:
            message = f"seconds from {low:g} to {high:g}"
            raise ValueError(message)
        return float(text)

    return parse


def amount(text: str) -> Decimal:
    """Parse an amount in decimal text."""
    if not re.fullmatch(r"[0-9]{1,15}(\.[0-9]{1,2})?", text):
        message = "a decimal number of at most two fraction digits, such as 10000 or 2500.00"
        raise ValueError(message)
    return Decimal(text)


def one_of(*words: str) -> Callable[[str], str]:
    """Return a parser that accepts only one of ``words``."""

    def parse(text: str) -> str:
        if text not in words:
            raise ValueError(" or ".join(words))
        return text

    return parse


def yes_no(text: str) -> bool:
    """Parse ``yes`` or ``no``."""
    if text not in {"yes", "no"}:
        message = "yes or no"
        raise ValueError(message)
    return text == "yes"


def text(low: int, high: int) -> Callable[[str], str]:
    """Return a parser of printable text of ``low`` to ``high`` characters."""

    def parse(text: str) -> str:
        if not low <= len(text) <= high or not text.isprintable():
            message = f"{low} to {high} printable characters"
            raise ValueError(message)
        return text

    return parse


def password(text: str) -> str:
    """Parse any text without NUL."""
    try:
        fits = b"\0" not in text.encode()
    except UnicodeEncodeError:  # the environment's bytes are not UTF-8
        fits = False
    if not fits:
        message = "UTF-8 text without NUL"
        raise ValueError(message)
    return text


def token(low: int, high: int) -> Callable[[str], str]:
    """Return a parser of tokens of ``low`` to ``high`` characters for a header (RFC 9110 §5.5)."""

    def parse(text: str) -> str:
        if not low <= len(text) <= high or not re.fullmatch(r"[!-~](?:[ -~]*[!-~])?", text):
            message = f"{low} to {high} visible ASCII characters, with spaces between them only"
            raise ValueError(message)
        return text

    return parse


def header_prefix(text: str) -> str:
    """Parse the prefix of header names: a token (RFC 9110 §5.6.2) except ``webhook-``."""
    if not re.fullmatch(r"[!#$%&'*+.^_`|~0-9A-Za-z-]{1,64}", text) or text.lower() == "webhook-":
        message = "1 to 64 characters of a header's name, such as X-Svc-, and not webhook-"
        raise ValueError(message)
    return text


def host(text: str) -> str:
    """Parse a host name or an IP address; IPv6 also in brackets."""
    name = text[1:-1] if text.startswith("[") and text.endswith("]") else text
    try:
        name = name if name.isascii() else hostnames.to_ascii(name)
    except hostnames.BadHost:
        name = ""
    if not (_is_ipv6(name) if ":" in name else _is_name(name)):
        message = "a host name or an IP address, without a port"
        raise ValueError(message)
    return name


def web(text: str) -> str:
    """Parse an absolute http(s) URL; a final slash is removed.

    Scheme and host are returned in lower case, the host in ASCII, without a default or empty port:
    the form of an origin in browsers (RFC 6454 §6.1), to which passkeys are bound.
    """
    expected = "an absolute http:// or https:// address without credentials, query or fragment"
    try:
        text = hostnames.with_ascii_host(text)
        parts = urlsplit(text)
        port_number = parts.port
    except ValueError:
        raise ValueError(expected) from None
    match = re.fullmatch(r"(?:\[([^\]]+)\]|([^:\[\]]+))(?::[0-9]*)?", parts.netloc)
    if (
        match is None
        or not (_is_ipv6(match[1]) if match[1] else _is_name(match[2]))
        or parts.scheme not in _WEB_PORTS
        or port_number == 0
        or re.search(r"[\s?#@\\]", text)
        or not text.isascii()
    ):
        raise ValueError(expected)
    name = f"[{parts.hostname}]" if match[1] else parts.hostname
    port = "" if port_number in (None, _WEB_PORTS[parts.scheme]) else f":{port_number}"
    return f"{parts.scheme}://{name}{port}{parts.path}".rstrip("/")


def _is_name(text: str) -> bool:
    """Whether a text can be a host name (RFC 1035 §2.3.4) or an IPv4 address."""
    labels = text.removesuffix(".").split(".")
    return len(text) <= _LONGEST_NAME and all(
        re.fullmatch(r"[A-Za-z0-9_-]{1,63}", label) for label in labels
    )


def _is_ipv6(text: str) -> bool:
    """Whether a text is an IPv6 address, optionally with a zone (RFC 4007 §11)."""
    try:
        return bool(IPv6Address(text)) and re.fullmatch(r"[A-Za-z0-9._:%-]+", text) is not None
    except ValueError:
        return False


def database(text: str) -> str:
    """Parse the URL of one or more PostgreSQL servers, in asyncpg's form.

    A leading or trailing & of the parameters is removed, and a ? without parameters. A URL that is
    broken by an unencoded password is refused here, because asyncpg's errors quote such text.
    """
    expected = (
        "a postgresql:// address such as postgresql://user:password@host:5432/opentill; the"
        " password percent-encoded, or in OPENTILL_DATABASE_PASSWORD: with %23 for # in it, %2F for"
        " /, %3F for ? and %40 for @"
    )
    try:
        parts = urlsplit(text)
    except ValueError:
        raise ValueError(expected) from None
    fits = parts.scheme in {"postgresql", "postgres"} and "#" not in text
    before, _, after = text.partition("?")
    fields = after.strip("&")
    are_pairs = all("=" in field for field in fields.split("&") if fields)
    if not fits or not _names_hosts(parts) or not are_pairs:
        raise ValueError(expected)
    try:
        before = before.replace(parts.netloc, _ascii_hosts(parts.netloc), 1)
    except hostnames.BadHost:
        raise ValueError(expected) from None
    return f"{before}?{fields}" if fields else before


def _names_hosts(parts: SplitResult) -> bool:
    """Whether the part before the path is an optional user and hosts with optional ports."""
    user, at, hosts = parts.netloc.rpartition("@")
    if "@" in user or (not at and "@" in parts.path):  # the password has an unencoded @ or slash
        return False
    return not hosts or all(map(_is_place, hosts.split(",")))


def _ascii_hosts(netloc: str) -> str:
    """Convert the hosts to ASCII; the driver would use IDNA 2003."""
    user, at, hosts = netloc.rpartition("@")
    places = (place.partition(":") for place in hosts.split(","))
    written = [
        f"{host if host.isascii() else hostnames.to_ascii(host)}{colon}{port}"
        for host, colon, port in places
    ]
    return f"{user}{at}{','.join(written)}"


def _is_place(text: str) -> bool:
    """Whether a text is a host, a port or both."""
    match = re.fullmatch(r"(?=.)(?:\[[^\]]+\]|[^:\[\]]*)(?::([0-9]{0,5}))?", text)
    return match is not None and int(match[1] or 0) <= _LAST_PORT


def smtp(text: str) -> str:
    """Parse the URL of a mail server (RFC 3986); the scheme selects the encryption."""
    expected = (
        "smtp://, smtp+starttls:// or smtps:// and a host, such as"
        " smtp+starttls://user:password@mail.example.com:587, with %40 for @ in a password"
    )
    try:
        text = hostnames.with_ascii_host(text)
        parts = urlsplit(text)
        fits = (
            parts.scheme in {"smtp", "smtp+starttls", "smtps"}
            and bool(parts.hostname)
            and parts.port != 0
            and (parts.username is None) == (parts.password is None)
            and not parts.path.strip("/")
        )
    except ValueError:
        fits = False
    if not fits or re.search(r"[\s?#]", text) or not text.isascii():
        raise ValueError(expected)
    return text


def mailbox(text: str) -> str:
    """Parse a mailbox with an optional name (RFC 5322 §3.4); its domain is converted to ASCII."""
    _, parsed = parseaddr(text)
    try:
        address = parsed if parsed.isascii() else hostnames.mailbox_in_ascii(parsed)
    except hostnames.BadHost:
        address = ""
    if not re.fullmatch(r"[!-?A-~]+@[A-Za-z0-9.-]+", address) or not text.isprintable():
        message = "an address, such as Example Pay <pay@example.com> or pay@example.com"
        raise ValueError(message)
    return text if address == parsed else address.join(text.rsplit(parsed, 1))


def networks(text: str) -> tuple[IPv4Network | IPv6Network, ...]:
    """Parse addresses or networks, separated by commas."""
    try:
        return tuple(ip_network(part, strict=True) for part in _parts(text))
    except ValueError:
        message = "addresses or networks with commas between them, such as 10.0.0.0/8,192.0.2.7"
        raise ValueError(message) from None


def gateways(text: str) -> tuple[str, ...]:
    """Parse unique names of gateways, separated by commas."""
    names = _parts(text)
    invalid = [name for name in names if not re.fullmatch(r"[a-z][a-z0-9_]{0,31}", name)]
    if invalid or len(set(names)) != len(names) or not names:
        message = "different names of gateways with commas between them, such as sandbox,manual"
        raise ValueError(message)
    return tuple(names)


def routes(text: str) -> str:
    """Check a list of payment methods, each with its gateways in order."""
    example = ", with gateways in order, such as ALIPAY:epay|sandbox,CREDIT_CARD:stripe"
    try:
        routes = parse_methods(text)
    except ValueError as error:
        message = f"{error}{example}"
        raise ValueError(message) from None
    if not all(routes.values()):
        message = f"methods{example}"
        raise ValueError(message)
    return text


def key(text: str) -> str:
    """Check that a secret has 32 to 256 printable characters."""
    if not SHORTEST_KEY <= len(text) <= LONGEST_KEY or not text.isprintable():
        message = (
            f"{SHORTEST_KEY} to {LONGEST_KEY} printable characters, such as `openssl rand -hex 32`"
            " gives"
        )
        raise ValueError(message)
    return text


def time_zone(text: str) -> str:
    """Check the name of a time zone of the IANA database."""
    try:
        ZoneInfo(text)
    except (KeyError, ValueError, OSError):  # an unknown name, a path, a directory
        message = "a time zone of the IANA database, such as Asia/Shanghai, Europe/Berlin or UTC"
        raise ValueError(message) from None
    return text


def operator_accounts(text: str) -> str:
    """Check the operator's own bank accounts, by currency."""
    try:
        bankaccounts.parse_operator_accounts(text, "The operator")
    except ValueError as error:
        example = "EUR:DE89370400440532013000:COBADEFFXXX,USD:000123456789:US021000021"
        message = f"accounts by currency, such as {example} ({error})"
        raise ValueError(message) from None
    return text


def operator_address(text: str) -> str:
    """Check the operator's own postal address in bank files."""
    try:
        bankaccounts.parse_operator_address(text)
    except ValueError as error:
        message = f"an address such as town=Berlin;country=DE;street=Hauptstr.;building=1 ({error})"
        raise ValueError(message) from None
    return text


def _parts(text: str) -> Sequence[str]:
    return [part.strip() for part in text.split(",") if part.strip()]
