"""Addresses that are refused because of their form, or because they are not public."""

from ipaddress import ip_address, ip_network

import pytest

from opentill.outgoing.addresses import Forbidden, Policy

OPEN = Policy(allow_http=True)

# Spellings of hosts whose addresses are not public.
HOSTS = """
    0.0.0.0 0.1.2.3 10.0.0.1 10.255.255.255 100.64.0.1 100.100.100.200 100.127.255.255
    127.0.0.1 127.0.0.2 127.255.255.254 168.63.129.16 169.254.0.1 169.254.169.254
    169.254.170.2 172.16.0.1 172.31.255.255 192.0.0.1 192.0.0.192 192.0.2.1 192.31.196.1
    192.52.193.1 192.88.99.1 192.168.0.1 192.168.255.255 192.175.48.1 198.18.0.1
    198.19.255.255 198.51.100.1 203.0.113.1 224.0.0.1 239.255.255.255 240.0.0.1
    255.255.255.255 [::] [::1] [0:0:0:0:0:0:0:1] [::127.0.0.1] [::8.8.8.8]
    [::ffff:127.0.0.1] [::ffff:7f00:1] [::ffff:8.8.8.8] [::FFFF:10.0.0.1]
    [::ffff:169.254.169.254] [::ffff:0:127.0.0.1] [::ffff:0:8.8.8.8] [64:ff9b::7f00:1]
    [64:ff9b::8.8.8.8] [64:ff9b:1::1] [64:ff9b:1:ffff::a00:1] [100::1] [100:0:0:1::1]
    [2001::1] [2001:0:7f00:1::1] [2001:2::1] [2001:3::1] [2001:10::1] [2001:20::1]
    [2001:db8::1] [2002:7f00:1::1] [2002:a00:1::] [2002:808:808::1] [2620:4f:8000::1]
    [3ffe::1] [3fff::1] [4000::1] [5f00::1] [fc00::1] [fd00::1] [fd00:ec2::254] [fe80::1]
    [febf::1] [fec0::1] [feff::1] [ff02::1] [ff0e::1] [fe80::1%eth0] [fe80::1%25eth0]
    [2606:4700::1111%1] [::ffff:127.1] [1:2:3] [:::] [] [ 127.1 127.0.1 127 0 0x7f.1
    0x7f.0.0.1 0x7f000001 0X7F000001 0x 017700000001 0177.0.0.1 127.0.0.01 127.0.0.0x1
    2130706433 00000000127.0.0.1 127.0.0.1. 127.0.0.256 1.2.3.4.5 8.8.8 08.8.8.8 localhost
    LOCALHOST localhost. www.localhost example.com. .example.com example..com . ..
    127。0。0。1 127．0．0．1 example。com ⑯⑨.254.169.254 ①②⑦.0.0.1 bücher.example 例え.jp
    ｌocalhost loc%61lhost %31%32%37.0.0.1 example.com%00.evil.com example%2ecom
    127.0.0.1%00 % user@example.com user:pass@example.com @example.com :@example.com
    example.com@127.0.0.1 example.com:0 example.com:00 example.com:080 example.com:65536
    example.com:99999 example.com: example.com:-1 example.com:8o example.com:80:80
    example.com:25 example.com:22 example.com:6667 example.com:2049 exa_mple!.com a'b.com
    a;b.com -example-.com a$b.com a*b.com a(b).com a,b.com
""".split()
# URLs that parsers interpret differently, or that the client does not support.
URLS = [
    *("", " ", "https:", "https:/", "https://", "https:///", "https:///path", "https://?x", "https://#x"),
    *("example.com", "//example.com/", "/path", "https:example.com", "https:/example.com"),
    *("ftp://example.com/", "file:///etc/passwd", "gopher://example.com:70/_x", "data:,x"),
    *("javascript:alert(1)", "ws://example.com/", "unix:///run/x", "http+unix://x/", "httpss://a.com"),
    *(" https://example.com/", "https://example.com/ ", "\thttps://example.com/", "https://exa\tmple.com/"),
    *("https://example.com/a b", "https://example.com/a\nb", "https://example.com/\r\nHost: x"),
    *("https://example.com\n", "https://example.com/\x00", "https://example.com/\x7f", "https\n://a.com"),
    *("https:\\\\example.com\\", "https://example.com\\@127.0.0.1/", "https://example.com/\\evil"),
    *("https://example.com/é", "https://example.com/?q=例", "https://example.com/\u202e", "https://\u200b.com/"),
    *("https://example.com#@127.0.0.1\\", "https://127.0.0.1#@example.com/"),
    *("https://10.0.0.1?@example.com", "https://10.0.0.1#", "https://10.0.0.1?"),
    *("https://[::1/", "https://::1/", "https://[::1]x/", "https://[127.0.0.1]/", "https://[v1.x]/"),
    *("https://" + "a" * 64 + ".com/", "https://" + "a." * 126 + "com/"),
    "https://a.com/" + "x" * 2048,
]  # fmt: skip


@pytest.mark.parametrize("host", HOSTS)
@pytest.mark.parametrize("scheme", ["http", "https"])
def test_a_host_that_is_private_or_ambiguous_is_refused(scheme: str, host: str) -> None:
    with pytest.raises(Forbidden):
        OPEN.target(f"{scheme}://{host}/path")


@pytest.mark.parametrize("url", URLS)
def test_an_ambiguous_url_is_refused(url: str) -> None:
    with pytest.raises(Forbidden):
        OPEN.target(url)


def test_the_list_of_refused_forms_is_long() -> None:
    assert len(set(HOSTS)) + len(set(URLS)) >= 200
    assert len(HOSTS) == len(set(HOSTS))


@pytest.mark.parametrize(
    ("url", "host", "port", "path"),
    [
        ("https://example.com", "example.com", 443, "/"),
        ("http://example.com:8080/a/b?c=d%20e", "example.com", 8080, "/a/b?c=d%20e"),
        ("HTTPS://Example.COM/A", "example.com", 443, "/A"),
        ("https://example.com?x=1", "example.com", 443, "/?x=1"),
        ("https://example.com/a#part", "example.com", 443, "/a"),
        ("https://xn--bcher-kva.example/{id}", "xn--bcher-kva.example", 443, "/{id}"),
        ("https://a-b.c_d.example/@me:x", "a-b.c_d.example", 443, "/@me:x"),
        ("https://receiver/", "receiver", 443, "/"),
        ("https://8.8.8.8/", "8.8.8.8", 443, "/"),
        ("https://[2606:4700:0::1111]:8443/", "2606:4700::1111", 8443, "/"),
    ],
)
def test_a_public_url_is_parsed(url: str, host: str, port: int, path: str) -> None:
    target = OPEN.target(url)
    assert (target.host, target.port, target.rest) == (host, port, path)


def test_http_is_refused_unless_it_is_allowed() -> None:
    Policy().target("https://example.com/")
    with pytest.raises(Forbidden, match="https://"):
        Policy().target("http://example.com/")


def test_allowing_a_network_allows_no_other() -> None:
    networks = (ip_network("10.1.0.0/16"), ip_network("fd00:1::/32"), ip_network("127.0.0.0/8"))
    policy = Policy(allow_http=True, allowed_networks=networks)
    for host in ("10.1.2.3", "[fd00:1::5]", "127.0.0.1", "localhost", "x.localhost"):
        policy.target(f"http://{host}/")
    for host in ("10.2.0.1", "[fd00:2::5]", "[::1]", "[::ffff:10.1.2.3]", "169.254.169.254"):
        with pytest.raises(Forbidden):
            policy.target(f"http://{host}/")


def test_only_the_public_addresses_of_a_host_are_used() -> None:
    mixed = [ip_address("127.0.0.1"), ip_address("8.8.8.8"), ip_address("64:ff9b::8.8.8.8")]
    assert Policy().select_allowed("a.example", mixed) == [ip_address("8.8.8.8")]
    with pytest.raises(Forbidden, match=r"a\.example stands for no public"):
        Policy().select_allowed("a.example", mixed[:1])


def test_only_the_configured_server_may_be_private() -> None:
    policy = Policy.only("http://Bank:8081/v1/")
    assert policy.target("http://bank:8081/v1/payments?x=1").rest == "/v1/payments?x=1"
    assert policy.allows(ip_address("10.0.0.1"))
    for other in (
        "https://bank:8081/",
        "http://bank/",
        "http://bank.example:8081/",
        "http://x:8081",
    ):
        with pytest.raises(Forbidden, match="another server"):
            policy.target(other)
    with pytest.raises(Forbidden):
        Policy.only("bank:8081")


def test_a_refusal_does_not_reveal_the_address_of_an_internal_name() -> None:
    with pytest.raises(Forbidden) as refused:
        Policy().select_allowed("db.corp.example", [ip_address("10.1.2.3"), ip_address("fd00::5")])
    assert "db.corp.example" in str(refused.value)
    assert "10.1.2.3" not in str(refused.value)
    assert "fd00" not in str(refused.value)
