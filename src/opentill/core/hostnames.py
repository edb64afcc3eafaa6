"""Conversion of internationalized host names to ASCII.

IDNA 2008 (RFC 5891) with the non-transitional mapping of UTS 46, like browsers: ``faß.de`` becomes
``xn--fa-hia.de``. IDNA 2003, which Python's codec ``idna`` implements, converts it to ``fass.de``,
a domain that may belong to somebody else.
"""

import functools
import re
from typing import Final
from urllib.parse import SplitResult, urlsplit, urlunsplit

import idna

_LONGEST_NAME: Final = 253  # characters (RFC 1035 §2.3.4)
# Some existing hosts have names with underscores, or with hyphens at positions that IDNA refuses.
_ASCII_LABEL: Final = re.compile(r"[a-z0-9_-]{1,63}")


class BadHost(ValueError):
    """A host name that cannot exist."""


@functools.lru_cache(4096)  # most URLs and addresses have one of few hosts
def to_ascii(host: str) -> str:
    """Return a host name or an IPv4 address in lower-case ASCII. Raises BadHost.

    An ASCII name keeps its labels, including those with ``xn--``, and a final dot.
    """
    try:
        mapped = host.lower() if host.isascii() else idna.uts46_remap(host, std3_rules=False)
        labels = [_label(label) for label in mapped.removesuffix(".").split(".")]
    except (UnicodeError, ValueError):  # idna's own errors are UnicodeErrors
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
    """Return an absolute URL with its host in ASCII. Raises ValueError, such as BadHost.

    A URL whose host is in ASCII is returned unchanged and unchecked.
    """
    parts = urlsplit(address)
    if parts.netloc.isascii():
        return address
    return urlunsplit(parts._replace(netloc=_netloc(parts)))


def _netloc(parts: SplitResult) -> str:
    credentials, at, host_and_port = parts.netloc.rpartition("@")
    host, colon, port = host_and_port.partition(":")
    return f"{credentials}{at}{to_ascii(host)}{colon}{port}"


def mailbox_in_ascii(address: str) -> str:
    """Return ``local@domain`` with its domain in ASCII. Raises BadHost."""
    local, at, domain = address.rpartition("@")
    return f"{local}{at}{to_ascii(domain)}"
