"""Which gateways are loaded, and which of them is used."""

from pathlib import Path

import pytest

from opentill.core.settings import Settings
from opentill.gateways import BadGateways, Gateway, find_for, load, offered
from opentill.gateways.sandbox import SandboxGateway

THIRD_PARTY = """
from opentill.gateways.sandbox import SandboxGateway

class Cheap(SandboxGateway):
    name = "cheap"

    def methods(self, currency):
        return ("ALIPAY", "CREDIT_CARD") if currency == "EUR" else ()

def make(settings):
    return Cheap(settings.sandbox_url, "secret")
"""


@pytest.fixture
def third_party(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Install a package with a gateway of its own."""
    (tmp_path / "cheap_gateway.py").write_text(THIRD_PARTY)
    info = tmp_path / "cheap_gateway-1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: cheap-gateway\nVersion: 1.0\n")
    entries = "[opentill.gateways]\ncheap = cheap_gateway:make\nsandbox = cheap_gateway:make\n"
    (info / "entry_points.txt").write_text(entries)
    monkeypatch.syspath_prepend(str(tmp_path))


def test_the_sandbox_is_built_in() -> None:
    gateways = load(("sandbox",), Settings(sandbox_secret="s"))
    assert isinstance(gateways["sandbox"], SandboxGateway)


@pytest.mark.usefixtures("third_party")
def test_a_third_party_adds_a_gateway_and_cannot_replace_ours() -> None:
    gateways = load(("cheap", "sandbox"), Settings(sandbox_secret="s"))
    assert [(name, gateway.name) for name, gateway in gateways.items()] == [
        ("cheap", "cheap"),
        ("sandbox", "sandbox"),
    ]


@pytest.mark.usefixtures("third_party")
def test_an_unknown_name_says_what_is_available() -> None:
    expected = "OPENTILL_GATEWAYS names 'bank'; available are: .*cheap.*sandbox"
    with pytest.raises(ValueError, match=expected):
        load(("sandbox", "bank"), Settings(sandbox_secret="s"))


@pytest.mark.usefixtures("third_party")
def test_the_first_gateway_that_takes_it_is_used() -> None:
    gateways: dict[str, Gateway] = load(("cheap", "sandbox"), Settings(sandbox_secret="s"))
    assert offered(gateways, "EUR") == ("ALIPAY", "CREDIT_CARD", "WECHAT_PAY", "BANK_TRANSFER")
    assert offered(gateways, "XXX") == ()
    assert find_for(gateways, "CREDIT_CARD", "EUR") is gateways["cheap"]
    assert find_for(gateways, "CREDIT_CARD", "USD") is gateways["sandbox"]
    assert find_for(gateways, "PAYNOW", "EUR") is None


def test_a_gateway_of_somebody_else_that_cannot_be_made_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    info = tmp_path / "broken_gateway-1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: broken-gateway\nVersion: 1.0\n")
    (info / "entry_points.txt").write_text("[opentill.gateways]\nbroken = nowhere:make\n")
    monkeypatch.syspath_prepend(str(tmp_path))
    with pytest.raises(BadGateways, match="gateway 'broken' cannot be made: ModuleNotFoundError"):
        load(("broken",), Settings())
