"""Client addresses: what they are counted under, and which networks they are in."""

from collections.abc import Sequence
from ipaddress import IPv4Address, IPv4Network, IPv6Address, IPv6Network, ip_address, ip_network


def limit_subject(address: str) -> str:
    """Return what an address is counted under by limits: IPv6 by its /64."""
    try:
        parsed = ip_address(address)
    except ValueError:
        return address
    if isinstance(parsed, IPv6Address):
        mapped: IPv4Address | None = parsed.ipv4_mapped
        return str(mapped) if mapped else str(ip_network((parsed, 64), strict=False))
    return address


def is_loopback_host(host: str) -> bool:
    """Return whether a host leads to this machine, from this machine only."""
    try:
        return ip_address(host).is_loopback
    except ValueError:
        return host == "localhost" or host.endswith(".localhost")  # RFC 6761 §6.3


def inside(address: str, networks: Sequence[IPv4Network | IPv6Network]) -> bool:
    """Return whether an address is in one of the networks; a local socket's is in none."""
    try:
        parsed = ip_address(address)
    except ValueError:
        return False
    mapped = getattr(parsed, "ipv4_mapped", None)
    return any((mapped or parsed) in network for network in networks)
