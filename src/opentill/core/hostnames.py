"""Host names in ASCII: the one place that turns an international name into what is looked up.

IDNA 2008 (RFC 5891) with the mapping of UTS 46, non-transitional, as browsers do it: ``faß.de`` is
``xn--fa-hia.de``. IDNA 2003, which Python's own codec ``idna`` implements, makes ``fass.de`` of it,
a domain that belongs to somebody else.
"""

import re
from typing import Final
from urllib.parse import SplitResult, urlsplit, urlunsplit

import idna

_LONGEST_NAME: Final = 253  # RFC 1035 §2.3.4
# As in names that exist: underscores and hyphens in every place, which IDNA would refuse.
_ASCII_LABEL: Final = re.compile(r"[a-z0-9_-]{1,63}")


class BadHost(ValueError):
    """A host name that cannot exist."""


def to_ascii(host: str) -> str:
    """Return a host name or an IPv4 address in ASCII and lower case. Raises BadHost.

    A name that is in ASCII keeps its labels, also those that begin with ``xn--``. A dot at its end
    stays.
    """
    try:
        mapped = host.lower() if host.isascii() else idna.uts46_remap(host, std3_rules=False)
        labels = [_label(label) for label in mapped.removesuffix(".").split(".")]
    except (UnicodeError, ValueError):  # the library's errors are UnicodeErrors, mostly
        raise BadHost(host) from None
    name = ".".join(labels)
    if len(name) > _LONGEST_NAME:
        raise BadHost(host)
    return f"{name}." if mapped.endswith(".") else name


def _label(label: str) -> str:
    if not label.isascii():
        return idna.alabel(label).decode("ascii")
    if _ASCII_LABEL.fullmatch(label) is None:
        raise BadHost(label)
    return label


def with_ascii_host(address: str) -> str:
    """Return an absolute address with its host in ASCII. Raises ValueError, BadHost among them.

    An address whose host is in ASCII comes back unchanged, whatever that host is.
    """
    parts = urlsplit(address)
    if parts.netloc.isascii():
        return address
    return urlunsplit(parts._replace(netloc=_netloc(parts)))


def _netloc(parts: SplitResult) -> str:
    credentials, at, place = parts.netloc.rpartition("@")
    host, colon, port = place.partition(":")
    return f"{credentials}{at}{to_ascii(host)}{colon}{port}"


def mailbox_in_ascii(address: str) -> str:
    """Return ``local@domain`` with its domain in ASCII; the local part stays. Raises BadHost."""
    local, at, domain = address.rpartition("@")
    return f"{local}{at}{to_ascii(domain)}"
