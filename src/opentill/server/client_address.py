"""Client addresses: their subjects in rate limits, and membership in networks."""

from collections.abc import Sequence
from ipaddress import IPv4Address, IPv4Network, IPv6Address, IPv6Network, ip_address, ip_network


def limit_subject(address: str) -> str:
    """Return the subject under which limits count an address: the /64 for IPv6."""
    try:
        parsed = ip_address(address)
    except ValueError:
        return address
    if isinstance(parsed, IPv6Address):
        mapped: IPv4Address | None = parsed.ipv4_mapped
        return str(mapped) if mapped else str(ip_network((parsed, 64), strict=False))
    return address


def is_loopback_host(host: str) -> bool:
    """Whether a host is a loopback address or name."""
    try:
        return ip_address(host).is_loopback
    except ValueError:
        # RFC 6761 §6.3 reserves these names for loopback addresses.
        return host == "localhost" or host.endswith(".localhost")


def is_inside(address: str, networks: Sequence[IPv4Network | IPv6Network]) -> bool:
    """Whether an address is in any of the networks. The address of a Unix socket is in none."""
    try:
        parsed = ip_address(address)
    except ValueError:
        return False
    mapped = getattr(parsed, "ipv4_mapped", None)
    return any((mapped or parsed) in network for network in networks)
