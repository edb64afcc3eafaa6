"""The address policy: protects against server-side request forgery (SSRF).

Merchants' URLs (webhooks, Epay notifications) must not reach the operator's own networks. The
addresses of a name are checked when it is connected to (``outgoing/client.py``), which defeats DNS
rebinding.
"""

import re
from collections.abc import Sequence
from ipaddress import IPv4Address, IPv4Network, IPv6Address, IPv6Network, ip_address, ip_network
from typing import Final, NoReturn

import msgspec

IPAddress = IPv4Address | IPv6Address
IPNetwork = IPv4Network | IPv6Network


class Forbidden(Exception):
    """The policy refuses the address, before any byte was sent. The text says why."""


class ForbiddenPort(Forbidden):
    """The policy refuses the port, because it belongs to another protocol."""


class Target(msgspec.Struct, frozen=True):
    """A valid URL. ``literal`` is the host if it is an IP address."""

    scheme: str
    host: str  # in lower case; an IPv6 address without brackets
    port: int
    rest: str  # path and query, exactly as in the URL
    literal: IPAddress | None

    @property
    def origin(self) -> str:
        """``scheme://host:port`` with an explicit port."""
        host = f"[{self.host}]" if ":" in self.host else self.host
        return f"{self.scheme}://{host}:{self.port}"


class Policy(msgspec.Struct, frozen=True, kw_only=True):
    """The addresses that may be connected to.

    Either public addresses and those in ``allowed_networks``; or, with ``origin``, only that server
    in any network, because the operator configured it. Without ``trusts_origin``, it must also be
    at one of these addresses, because a merchant configured it.
    """

    allow_http: bool = False
    allowed_networks: tuple[IPNetwork, ...] = ()
    origin: str = ""  # ``Target.origin`` of the only server that may be called; "" if not limited
    trusts_origin: bool = True

    @classmethod
    def only(cls, url: str) -> "Policy":
        """Return the policy for one configured server. Raises Forbidden for an invalid URL."""
        return cls(allow_http=True, origin=parse(url).origin)

    def target(self, url: str) -> Target:
        """Parse and check a URL. Raises Forbidden."""
        target = parse(url)
        if self.origin:
            if target.origin != self.origin:
                _refuse("another server than the configured one")
            if self.trusts_origin:
                return target
        if target.scheme == "http" and not self.allow_http:
            _refuse("it must begin with https://")
        if target.port in _BAD_PORTS:
            reason = f"port {target.port} belongs to another protocol"
            raise ForbiddenPort(reason)
        if target.literal is not None:
            self.select_allowed(target.host, (target.literal,))
        # These names always stand for a loopback address (RFC 6761 §6.3).
        elif target.host == "localhost" or target.host.endswith(".localhost"):
            self.select_allowed(target.host, _LOOPBACKS)
        return target

    def select_allowed(self, host: str, addresses: Sequence[IPAddress]) -> list[IPAddress]:
        """Return the allowed addresses of a host. Raises Forbidden if there is none."""
        allowed = [address for address in addresses if self.allows(address)]
        if not allowed:
            # The error does not contain the address: merchants could use it to explore the
            # operator's DNS.
            _refuse(f"{host} stands for no public address")
        return allowed

    def allows(self, address: IPAddress) -> bool:
        """Whether an address may be connected to."""
        if self.origin and self.trusts_origin:
            return True
        if any(address in network for network in self.allowed_networks):
            return True
        if isinstance(address, IPv4Address):
            return not any(address in network for network in _CLOSED_4)
        if address.scope_id is not None or address not in _GLOBAL_6:
            return False
        return not any(address in network for network in _CLOSED_6)


def parse(url: str) -> Target:
    """Parse an http(s) URL in its plain form. Raises Forbidden for any other.

    Forms that parsers interpret differently are refused: credentials, backslashes, blanks and
    control characters, percent signs or misplaced dots in the host, numbers that some systems
    interpret as IPv4 addresses (WHATWG URL §3.5), and names outside ASCII (internationalized names
    are written as ``xn--``).
    """
    match = _URL.fullmatch(url) if len(url) <= _LONGEST_URL else None
    if match is None:
        _refuse("it must be a plain http(s) address in ASCII, without blanks or credentials")
    host = match["host"].lower()
    port = int(match["port"] or _PORTS[match["scheme"].lower()])
    if port > _LAST_PORT:
        _refuse(f"there is no port {port}")
    literal: IPAddress | None = None
    if host.startswith("["):
        try:
            literal = IPv6Address(host[1:-1])
        except ValueError:
            _refuse(f"{host} is no IPv6 address")
        host = str(literal)
    elif _NUMBER.fullmatch(host.rpartition(".")[2]):
        try:
            literal = IPv4Address(host)
        except ValueError:
            _refuse(f"{host} is no IPv4 address in its usual form")
    elif len(host) > _LONGEST_NAME or not _NAME.fullmatch(host):
        _refuse("its host is no name")
    rest = match["rest"] or "/"
    return Target(
        match["scheme"].lower(), host, port, rest if rest.startswith("/") else f"/{rest}", literal
    )


def read_ip(text: str) -> IPAddress:
    """Parse an address of a resolver. Raises ValueError."""
    return ip_address(text)


def _refuse(reason: str) -> NoReturn:
    raise Forbidden(reason)


def _networks(text: str) -> tuple[IPNetwork, ...]:
    return tuple(ip_network(line.split("#")[0].strip()) for line in text.strip().splitlines())


_LOOPBACKS: Final = (IPv4Address("127.0.0.1"), IPv6Address("::1"))
_PORTS: Final = {"http": 80, "https": 443}
_LAST_PORT: Final = 65535
_LONGEST_URL: Final = 2048
_LONGEST_NAME: Final = 253
# Path and query may have any printable ASCII characters except the backslash. A fragment is
# accepted, but not part of ``rest``.
_URL: Final = re.compile(
    r"(?P<scheme>https?)://(?P<host>[a-z0-9._-]+|\[[0-9a-f:.]+\])(?::(?P<port>[1-9][0-9]{0,4}))?"
    r"(?P<rest>[/?][!\"$-\[\]-~]*)?(?:\#[!-\[\]-~]*)?",
    re.ASCII | re.IGNORECASE,
)
_NAME: Final = re.compile(r"(?:[a-z0-9_](?:[a-z0-9_-]{0,61}[a-z0-9_])?\.)*[a-z0-9_-]{1,63}")
_NUMBER: Final = re.compile(r"[0-9]+|0x[0-9a-f]*")

# Networks that are not public: the IANA IPv4 Special-Purpose Address Registry (RFC 6890), and the
# metadata servers of clouds.
_CLOSED_4: Final = _networks(
    """
    0.0.0.0/8           # this host, this network; "unspecified"
    10.0.0.0/8          # private
    100.64.0.0/10       # carrier-grade NAT; 100.100.100.200: metadata of Alibaba's machines
    127.0.0.0/8         # loopback
    168.63.129.16/32    # metadata of Azure's machines
    169.254.0.0/16      # link-local; 169.254.169.254: metadata of most clouds' machines
    172.16.0.0/12       # private
    192.0.0.0/24        # protocol assignments; 192.0.0.192: metadata of Oracle's machines
    192.0.2.0/24        # documentation
    192.31.196.0/24     # AS112
    192.52.193.0/24     # automatic multicast tunnelling
    192.88.99.0/24      # relays of 6to4
    192.168.0.0/16      # private
    192.175.48.0/24     # AS112
    198.18.0.0/15       # benchmarking
    198.51.100.0/24     # documentation
    203.0.113.0/24      # documentation
    224.0.0.0/4         # multicast
    240.0.0.0/4         # reserved; broadcast
    """
)
# Nothing outside of 2000::/3 is public: ::/8 (unspecified, loopback, IPv4-mapped, -compatible and
# -translated), 64:ff9b::/96 and 64:ff9b:1::/48 (NAT64), 100::/64 (discard), 5f00::/16 (segment
# routing), fc00::/7 (ULA), fe80::/10 (link-local), fec0::/10 (site-local), ff00::/8 (multicast).
_GLOBAL_6: Final = IPv6Network("2000::/3")
# Networks within 2000::/3 that are not public (IANA IPv6 Special-Purpose Address Registry).
_CLOSED_6: Final = _networks(
    """
    2001::/23           # protocol assignments: Teredo 2001::/32, benchmarking, ORCHID, …
    2001:db8::/32       # documentation
    2002::/16           # 6to4: an IPv4 address inside
    2620:4f:8000::/48   # AS112
    3ffe::/16           # 6bone, given back
    3fff::/20           # documentation
    """
)
# Ports of other protocols, whose servers might misinterpret an HTTP request (WHATWG Fetch §2.9,
# "port blocking").
_BAD_PORTS: Final = frozenset(
    map(
        int,
        """
        1 7 9 11 13 15 17 19 20 21 22 23 25 37 42 43 53 69 77 79 87 95 101 102 103 104 109 110 111
        113 115 117 119 123 135 137 139 143 161 179 389 427 465 512 513 514 515 526 530 531 532 540
        548 554 556 563 587 601 636 989 990 993 995 1719 1720 1723 2049 3659 4045 4190 5060 5061
        6000 6566 6665 6666 6667 6668 6669 6679 6697 10080
        """.split(),  # noqa: SIM905 - a table
    )
)
