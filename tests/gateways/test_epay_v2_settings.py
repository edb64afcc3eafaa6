"""Settings and accounts of Epay V2 servers."""

from typing import Final

import pytest

from opentill.core.errors import ConfigurationError
from opentill.core.settings import Settings
from opentill.gateways import load, offered_methods
from opentill.gateways.epay import rsa_signature
from opentill.gateways.epay_v2.configuration import read
from opentill.gateways.registry import BadCredentials, build_account, secret_names, self_reporting
from support.epay_v2_shop import VECTORS

PRIVATE_KEY: Final = VECTORS["merchant_private_key"]
OPTIONS: Final = {
    "url": "https://pay.example/x/",
    "pid": "1001",
    "private_key": PRIVATE_KEY,
    "public_key": VECTORS["platform_public_key"],
}


def options(**changes: str) -> dict[str, str]:
    return {f"epay_v2_{name}": value for name, value in (OPTIONS | changes).items()}


def test_the_defaults_fit_any_server() -> None:
    configured = read(options())
    assert (configured.url, configured.currency) == ("https://pay.example/x/", "CNY")
    assert (configured.shows_codes, configured.repeats_refunds) == (False, False)
    assert list(configured.methods.values()) == ["alipay", "wxpay"]
    assert PRIVATE_KEY[:40] not in repr(configured)
    for url in (
        "https://pay.example",
        "https://pay.example/api/pay/create",
        "https://pay.example/api/",
    ):
        assert read(options(url=url)).url == "https://pay.example/"
    pem = rsa_signature.pem_private_key(PRIVATE_KEY)
    other = read(options(private_key=pem, page="web", refunds="repeat", currency="HKD"))
    assert (other.shows_codes, other.repeats_refunds, other.currency) == (True, True, "HKD")
    assert other.private_key.private_numbers() == configured.private_key.private_numbers()


def test_a_deployment_may_have_both_versions() -> None:
    both = options(methods="WECHAT_PAY=wxpay2") | {
        "epay_url": "https://pay.example", "epay_pid": "1", "epay_key": "k" * 16,
        "epay_methods": "ALIPAY",
    }  # fmt: skip
    gateways = load(("epay", "epay_v2"), Settings(gateway_options=both))
    assert offered_methods(gateways, "CNY") == ("ALIPAY", "WECHAT_PAY")
    assert self_reporting(["epay_v2", "stripe"]) == {"stripe"}


@pytest.mark.parametrize(
    ("changes", "variable", "reason"),
    [
        ({"url": ""}, "URL", "such as https://pay.example.com/"),
        ({"url": "pay.example"}, "URL", "absolute"),
        ({"pid": "mine"}, "PID", "the number of your account"),
        ({"private_key": ""}, "PRIVATE_KEY", "at least 2048 bits"),
        ({"private_key": VECTORS["merchant_public_key"]}, "PRIVATE_KEY", "your private RSA key"),
        ({"public_key": "no key"}, "PUBLIC_KEY", "as your account page there shows it"),
        ({"public_key": PRIVATE_KEY}, "PUBLIC_KEY", "not a private one"),
        ({"currency": "YUAN"}, "CURRENCY", "ISO 4217"),
        ({"page": "jsapi"}, "PAGE", "jump or web"),
        ({"refunds": "twice"}, "REFUNDS", "once or repeat"),
        ({"methods": "ALIPAY,ALIPAY"}, "METHODS", "different ones"),
    ],
)
def test_what_does_not_fit_is_refused(changes: dict[str, str], variable: str, reason: str) -> None:
    with pytest.raises(ConfigurationError) as error:
        read(options(**changes))
    assert str(error.value).startswith(f"OPENTILL_GATEWAY_EPAY_V2_{variable} must be")
    assert reason in str(error.value)
    assert PRIVATE_KEY[:40] not in str(error.value)


async def test_an_account_names_its_wrong_credential_and_hides_its_keys() -> None:
    with pytest.raises(BadCredentials) as error:
        build_account("epay_v2", {**OPTIONS, "public_key": PRIVATE_KEY}, "", Settings())
    assert error.value.field == "public_key"
    adapter, _ = build_account("epay_v2", OPTIONS, "ALIPAY=alipay2", Settings())
    assert adapter.methods("CNY") == ("ALIPAY",)
    await adapter.close()
    assert secret_names("epay_v2", OPTIONS) == {"private_key", "public_key"}
