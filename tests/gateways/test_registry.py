"""Gateways are loaded by name, built-in ones and those of third parties."""

import subprocess
import sys
from pathlib import Path

import pytest

from opentill.core.errors import ConfigurationError
from opentill.core.settings import Settings
from opentill.gateways import BadGateways, Gateway, candidates, load, offered_methods
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
    """An installed package that provides a gateway."""
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
def test_a_third_party_gateway_cannot_replace_a_built_in_one() -> None:
    gateways = load(("cheap", "sandbox"), Settings(sandbox_secret="s"))
    assert [(name, gateway.name) for name, gateway in gateways.items()] == [
        ("cheap", "cheap"),
        ("sandbox", "sandbox"),
    ]


@pytest.mark.usefixtures("third_party")
def test_an_unknown_name_is_refused_with_the_available_ones() -> None:
    expected = "OPENTILL_GATEWAYS names 'bank'; available are: .*cheap.*sandbox"
    with pytest.raises(ValueError, match=expected):
        load(("sandbox", "bank"), Settings(sandbox_secret="s"))


STRIPE = {"stripe_secret_key": "sk_test_1", "stripe_webhook_secret": "whsec_1, whsec_2"}


def test_stripe_is_built_in() -> None:
    gateways = load(("stripe",), Settings(gateway_options=STRIPE))
    assert gateways["stripe"].name == "stripe"


@pytest.mark.parametrize(("options", "expected"), [
    ({}, "OPENTILL_GATEWAY_STRIPE_SECRET_KEY must be set, since OPENTILL_GATEWAYS has stripe"),
    ({"stripe_secret_key": " "}, "OPENTILL_GATEWAY_STRIPE_SECRET_KEY must be set"),
    ({"stripe_secret_key": "pk_1"}, "STRIPE_SECRET_KEY is not acceptable; it must be one key"),
    ({"stripe_secret_key": "sk_1,sk_2"}, "it must be one key"),
    ({"stripe_secret_key": "sk_1"}, "OPENTILL_GATEWAY_STRIPE_WEBHOOK_SECRET must be set"),
    (STRIPE | {"stripe_webhook_secret": "wh sec"}, "without blanks"),
    (STRIPE | {"stripe_api_base": "stripe"}, "OPENTILL_GATEWAY_STRIPE_API_BASE is 'stripe'"),
])  # fmt: skip
def test_missing_options_of_stripe_are_named(options: dict[str, str], expected: str) -> None:
    with pytest.raises(ConfigurationError, match=expected):
        load(("stripe",), Settings(gateway_options=options))


def test_stripes_library_is_not_imported_for_other_gateways() -> None:
    program = "import sys, opentill.app, opentill.worker; sys.exit('stripe' in sys.modules)"
    subprocess.run([sys.executable, "-c", program], check=True)


@pytest.mark.usefixtures("third_party")
def test_the_first_gateway_that_takes_the_method_is_preferred() -> None:
    gateways: dict[str, Gateway] = load(("cheap", "sandbox"), Settings(sandbox_secret="s"))
    assert offered_methods(gateways, "EUR") == (
        "ALIPAY",
        "CREDIT_CARD",
        "WECHAT_PAY",
        "BANK_TRANSFER",
    )
    assert offered_methods(gateways, "XXX") == ()
    assert candidates(gateways, "CREDIT_CARD", "EUR")[0] == "cheap"
    assert candidates(gateways, "CREDIT_CARD", "USD")[0] == "sandbox"
    assert candidates(gateways, "PAYNOW", "EUR") == []


def test_a_third_party_gateway_that_cannot_be_created_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    info = tmp_path / "broken_gateway-1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: broken-gateway\nVersion: 1.0\n")
    (info / "entry_points.txt").write_text("[opentill.gateways]\nbroken = nowhere:make\n")
    monkeypatch.syspath_prepend(str(tmp_path))
    with pytest.raises(BadGateways, match="gateway 'broken' cannot be made: ModuleNotFoundError"):
        load(("broken",), Settings())


def test_types_of_an_epay_server_may_have_other_names() -> None:
    options = {
        "epay_url": "https://pay.example.com",
        "epay_pid": "1001",
        "epay_key": "k" * 16,
        "epay_methods": "WECHAT_PAY=wxpay2",
    }
    gateways = load(("epay",), Settings(gateway_options=options))
    assert offered_methods(gateways, "CNY") == ("WECHAT_PAY",)
