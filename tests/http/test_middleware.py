"""The address to which a request is attributed."""

from ipaddress import ip_network

import pytest

from opentill.http.middleware import RequestMiddleware, client_address
from opentill.merchants.service import _inside, limit_subject

TRUSTED = tuple(map(ip_network, ("10.0.0.0/8", "2001:db8:ffff::/48", "127.0.0.1/32")))


@pytest.mark.parametrize(
    ("peer", "forwarded", "address"),
    [
        ("192.0.2.1", None, "192.0.2.1"),
        ("192.0.2.1", "", "192.0.2.1"),
        ("192.0.2.1", "198.51.100.1", "192.0.2.1"),  # 192.0.2.1 is not a trusted proxy
        ("10.0.0.1", None, "10.0.0.1"),
        ("10.0.0.1", "198.51.100.1", "198.51.100.1"),
        # The client may have forged the first address.
        ("10.0.0.1", "203.0.113.9, 198.51.100.1", "198.51.100.1"),
        ("10.0.0.1", "198.51.100.1, 10.0.0.2", "198.51.100.1"),
        ("10.0.0.1", "10.0.0.3, 10.0.0.2", "10.0.0.3"),
        ("10.0.0.1", "198.51.100.1, nonsense", "10.0.0.1"),
        ("10.0.0.1", "198.51.100.1, nonsense, 10.0.0.2", "10.0.0.2"),
        ("10.0.0.1", "unknown", "10.0.0.1"),
        ("10.0.0.1", "198.51.100.1:443", "198.51.100.1"),  # Azure's proxies add the port
        ("10.0.0.1", "[2001:db8::1]:443", "2001:db8::1"),
        ("10.0.0.1", "203.0.113.9:1, 198.51.100.1:443, 10.0.0.2:80", "198.51.100.1"),
        # Without brackets, the last part is no port.
        ("10.0.0.1", "2001:db8::1:443", "2001:db8::1:443"),
        ("10.0.0.1", "198.51.100.1:", "10.0.0.1"),
        ("10.0.0.1", "198.51.100.1:https", "10.0.0.1"),
        ("10.0.0.1", "[198.51.100.1]:443", "198.51.100.1"),
        ("10.0.0.1", "[]:443", "10.0.0.1"),
        ("10.0.0.1", ",", "10.0.0.1"),
        ("10.0.0.1", "2001:db8::1", "2001:db8::1"),
        ("10.0.0.1", "[2001:db8::1]", "2001:db8::1"),
        ("::ffff:10.0.0.1", "198.51.100.1", "198.51.100.1"),
        ("2001:db8:ffff::1", "198.51.100.1", "198.51.100.1"),
        ("", "198.51.100.1", ""),
        ("unix", "198.51.100.1", "unix"),
    ],
)
def test_an_address_is_the_peers_unless_it_is_a_trusted_proxy(
    peer: str, forwarded: str | None, address: str
) -> None:
    assert client_address(peer, forwarded, TRUSTED) == address


def test_without_trusted_proxies_the_header_is_ignored() -> None:
    assert client_address("127.0.0.1", "198.51.100.1", ()) == "127.0.0.1"


@pytest.mark.parametrize(
    ("address", "subject"),
    [
        ("192.0.2.1", "192.0.2.1"),
        ("2001:db8:1:2:3:4:5:6", "2001:db8:1:2::/64"),
        ("2001:db8:1:2::", "2001:db8:1:2::/64"),
        ("2001:db8:1:3::", "2001:db8:1:3::/64"),
        ("::ffff:192.0.2.1", "192.0.2.1"),
        ("::1", "::/64"),
        ("", ""),
    ],
)
def test_ipv6_addresses_are_limited_by_their_64_bit_prefix(address: str, subject: str) -> None:
    assert limit_subject(address) == subject


@pytest.mark.parametrize(
    ("address", "networks", "is_inside"),
    [
        ("192.0.2.1", ["192.0.2.0/24"], True),
        ("192.0.3.1", ["192.0.2.0/24"], False),
        ("::ffff:192.0.2.1", ["192.0.2.0/24"], True),
        ("2001:db8::1", ["192.0.2.0/24", "2001:db8::/32"], True),
        ("192.0.2.1", ["::/0"], False),
        ("", ["0.0.0.0/0", "::/0"], False),
    ],
)
def test_an_allow_list_matches_networks(address: str, networks: list[str], is_inside: bool) -> None:
    assert _inside(address, networks) == is_inside


async def test_several_lines_of_x_forwarded_for_are_one_list() -> None:
    addresses = []

    async def app(scope: dict, *_: object) -> None:
        addresses.append(scope["opentill_address"])

    middleware = RequestMiddleware(app, None, [ip_network("10.0.0.0/8")])  # type: ignore[arg-type]
    lines = [(b"x-forwarded-for", text) for text in (b"192.0.2.9", b"198.51.100.7", b"10.0.0.2")]
    scope = {"type": "http", "method": "GET", "path": "/", "headers": lines}
    await middleware(scope | {"client": ("10.0.0.1", 1)}, None, None)  # type: ignore[arg-type]
    assert addresses == ["198.51.100.7"]
