"""Host names in ASCII: IDNA 2008 with UTS 46, non-transitional."""

import re
from pathlib import Path

import pytest

from opentill.core import hostnames

# Each row: a host name, and the form in which browsers and registries use it. IDNA 2003 converts
# the first four to other domains.
NAMES = [
    ("faß.de", "xn--fa-hia.de"),
    ("FAẞ.de", "xn--fa-hia.de"),
    ("βόλος.com", "xn--nxasmm1c.com"),
    ("نامه\u200cای.com", "xn--mgba3gch31f060k.com"),
    ("BÜCHER.example", "xn--bcher-kva.example"),
    ("商店。example", "xn--czrs0t.example"),
    ("ｅｘａｍｐｌｅ.com", "example.com"),
    ("bu\u0308cher.example", "xn--bcher-kva.example"),
    ("Example.COM", "example.com"),
    ("a_b.bücher.example.", "a_b.xn--bcher-kva.example."),
    ("xn--fa-hia.de", "xn--fa-hia.de"),
    ("r3---sn.example", "r3---sn.example"),
    ("192.0.2.7", "192.0.2.7"),
]
IMPOSSIBLE = [
    "", ".", "a..b", "a b", "☕.example", "a\u200db.example", "\u0301a.example", "\u202ea.example",
    "a\ud800.example", "℀.example", "xn--ü.example", "x" * 64 + ".example", "ü" * 62 + ".example",
    ".".join(["abcdefgh"] * 29), "ü" * 2000, "a/b", "a:80", "[::1]", "*", "a@b",
]  # fmt: skip


@pytest.mark.parametrize(("name", "ascii_name"), NAMES)
def test_an_internationalized_name_becomes_the_domain_that_browsers_open(
    name: str, ascii_name: str
) -> None:
    assert hostnames.to_ascii(name) == ascii_name
    assert hostnames.to_ascii(ascii_name) == ascii_name


@pytest.mark.parametrize("name", IMPOSSIBLE)
def test_a_name_that_cannot_exist_is_refused(name: str) -> None:
    with pytest.raises(hostnames.BadHost):
        hostnames.to_ascii(name)


@pytest.mark.parametrize(
    ("address", "written"),
    [
        ("https://faß.de:8443/a/ß?q=ß#ß", "https://xn--fa-hia.de:8443/a/ß?q=ß#ß"),
        ("https://me:ß@faß.de", "https://me:ß@xn--fa-hia.de"),
        ("https://Example.COM:/a", "https://Example.COM:/a"),
        ("https://[::1]:8443/ß", "https://[::1]:8443/ß"),
    ],
)
def test_only_the_host_of_an_address_changes(address: str, written: str) -> None:
    assert hostnames.with_ascii_host(address) == written


def test_nothing_in_the_source_uses_idna_2003() -> None:
    sources = Path(hostnames.__file__).parents[1].rglob("*.py")
    codec = re.compile(r"""(encode|decode)\(\s*["']idna["']""")
    assert [str(file) for file in sources if codec.search(file.read_text("utf-8"))] == []
