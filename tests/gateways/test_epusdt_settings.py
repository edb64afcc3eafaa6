"""Settings of epusdt servers, and the check of an account at the server."""

from typing import Final

import pytest

from opentill.core.errors import ConfigurationError
from opentill.core.settings import Settings
from opentill.gateways import load
from opentill.gateways.accounts import check
from opentill.gateways.epusdt.client import BepusdtGateway
from opentill.gateways.epusdt.configuration import make, read
from opentill.gateways.registry import BadCredentials, build_account, self_reporting
from support.epusdt_shop import EpusdtShop
from support.ports import free_socket, url_of

OPTIONS: Final = {"url": "https://usdt.example/x/", "token": "a-secret-token"}


def options(**changes: str) -> dict[str, str]:
    return {f"epusdt_{name}": value for name, value in (OPTIONS | changes).items()}


def test_the_defaults_are_those_of_the_original_server() -> None:
    configured = read(options())
    assert (configured.url, configured.currency) == ("https://usdt.example/x/", "CNY")
    assert configured.fork is None
    assert "secret" not in repr(configured)
    url = "https://usdt.example/api/v1/order/create-transaction"
    assert read(options(url=url)).url == "https://usdt.example/"
    fork = read(options(server="bepusdt", rate="1", trade_type="usdc.polygon", currency="USD"))
    assert fork.fork == {"rate": "1", "trade_type": "usdc.polygon"}
    gateways = load(("epusdt",), Settings(gateway_options=options(server="bepusdt")))
    assert isinstance(gateways["epusdt"], BepusdtGateway)
    assert self_reporting(["epusdt", "stripe"]) == {"stripe"}


@pytest.mark.parametrize(
    ("changes", "variable", "reason"),
    [
        ({"url": ""}, "URL", "such as https://usdt.example.com/"),
        ({"url": "usdt.example"}, "URL", "absolute"),
        ({"token": ""}, "TOKEN", "API token"),
        ({"token": "123234"}, "TOKEN", "8 to 128"),  # the fork's, until it is changed
        ({"token": "epusdt_password_xasddawqe"}, "TOKEN", "not the one of an example"),
        ({"token": "with blank in it"}, "TOKEN", "API token"),
        ({"server": "other"}, "SERVER", "epusdt or bepusdt"),
        ({"currency": "KWD"}, "CURRENCY", "at most two decimals"),
        ({"currency": "USDT"}, "CURRENCY", "ISO 4217"),
        ({"rate": "7.2"}, "RATE", "empty unless OPENTILL_GATEWAY_EPUSDT_SERVER is bepusdt"),
        ({"trade_type": "usdt.trc20"}, "TRADE_TYPE", "empty unless"),
        ({"rate": "cheap", "server": "bepusdt"}, "RATE", "such as 7.2"),
        ({"trade_type": "TRX", "server": "bepusdt"}, "TRADE_TYPE", "such as usdt.trc20"),
    ],
)
def test_what_does_not_fit_is_refused(changes: dict[str, str], variable: str, reason: str) -> None:
    with pytest.raises(ConfigurationError) as error:
        read(options(**changes))
    assert str(error.value).startswith(f"OPENTILL_GATEWAY_EPUSDT_{variable} must be")
    assert reason in str(error.value)


async def test_an_account_names_its_wrong_credential() -> None:
    with pytest.raises(BadCredentials) as error:
        build_account("epusdt", {**OPTIONS, "rate": "7"}, "", Settings())
    assert error.value.field == "rate"
    adapter, _ = build_account("epusdt", OPTIONS, "CRYPTO:CNY", Settings())
    await adapter.close()


async def test_the_server_accepts_or_refuses_the_account(epusdt_shop: EpusdtShop) -> None:
    for fork in (False, True):
        assert await check(epusdt_shop.gateway(fork=fork)) is None
        problem = await check(epusdt_shop.gateway(fork=fork, token="not-the-token"))
        assert problem is not None
        assert problem.field == "token"
        assert "签名" in problem.text  # what the server says
        assert "not-the-token" not in problem.text
    # Nothing was created by all that.
    for payment_id in ("opentill-check", ""):
        assert epusdt_shop.api.get(f"/payments/{payment_id}").status_code == 404


async def test_a_server_of_the_other_kind_is_named(epusdt_shop: EpusdtShop) -> None:
    fork_url = f"{epusdt_shop.bank_url}/bepusdt"
    problem = await check(epusdt_shop.gateway(url=fork_url))
    assert problem is not None
    assert (problem.field, "set server=bepusdt" in problem.text) == ("server", True)
    # The original server has no such path, so the account cannot be checked.
    problem = await check(epusdt_shop.gateway(fork=True, url=f"{epusdt_shop.bank_url}/epusdt"))
    assert problem is not None
    assert (problem.field, "correct url or server" in problem.text) == ("", True)


async def test_an_address_where_no_server_is_is_named() -> None:
    with free_socket() as sock:
        url = url_of(sock)
    problem = await check(make(options(url=url)))
    assert problem is not None
    assert (problem.field, "refused the connection" in problem.text) == ("", True)
