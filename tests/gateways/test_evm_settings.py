"""Settings of accounts on EVM chains: what is accepted, and what is refused at which field."""

from typing import Any

import pytest

from opentill.core.errors import ConfigurationError
from opentill.core.money import Money
from opentill.core.settings import Settings
from opentill.gateways.account_modes import mode_of_credentials
from opentill.gateways.deposits import Token
from opentill.gateways.evm.configuration import mode_of, read
from opentill.gateways.registry import BadCredentials, build_account
from support.ganache import XPUB

USDT = "0xdAC17F958D2ee523a2206206994597C13D831ec7"
OPTIONS = {"rpc_url": "https://node.example/v2/secret", "chain_id": "1", "xpub": XPUB}


def options(**changes: str) -> dict[str, str]:
    return {f"evm_{name}": value for name, value in (OPTIONS | changes).items()}


def test_a_known_chain_needs_no_addresses_of_tokens() -> None:
    configured = read(options())
    assert (configured.network, configured.confirmations) == ("Ethereum", 12)
    assert [(token.symbol, token.decimals) for token in configured.tokens] == [
        ("USDT", 6),
        ("USDC", 6),
    ]
    assert "secret" not in repr(configured)


@pytest.mark.parametrize(
    ("changes", "variable", "reason"),
    [
        ({"chain_id": ""}, "CHAIN_ID", "number of the chain"),
        ({"chain_id": "0x1"}, "CHAIN_ID", "number of the chain"),
        ({"rpc_url": "node/secret"}, "RPC_URL", "web address"),
        ({"xpub": "xpub"}, "XPUB", "copied completely"),
        ({"tokens": "DAI"}, "TOKENS", "USDT and USDC, the tokens of Ethereum"),
        ({"tokens": f"USDT:0x{'12' * 20}:6"}, "TOKENS", f"its contract on Ethereum is {USDT}"),
        ({"tokens": f"USDT:{USDT}:18"}, "TOKENS", "its contract on Ethereum"),
        ({"tokens": "USDT,USDT"}, "TOKENS", "different tokens"),
        ({"chain_id": "8453"}, "TOKENS", "USDC, the tokens of Base"),
        (
            {"chain_id": "8453", "tokens": f"USDT:0x{'12' * 20}:6"},
            "TOKENS", "no contract of USDT on Base is known",
        ),
        ({"chain_id": "1337"}, "TOKENS", "such as USDT:0x…:6"),
        ({"chain_id": "1337", "tokens": f"USDT:0x{'00' * 20}:6"}, "TOKENS", "zero address"),
        ({"chain_id": "1337", "tokens": f"USDT:{USDT.swapcase()}:6"}, "TOKENS", "such as USDT"),
        ({"chain_id": "1337", "tokens": f"USDT:0x{'12' * 20}:19"}, "TOKENS", "2 to 18 decimals"),
        ({"chain_id": "1337", "tokens": f"USDT:0x{'12' * 20}:1"}, "TOKENS", "2 to 18 decimals"),
        ({"confirmations": "0"}, "CONFIRMATIONS", "1 to 1000"),
        ({"confirmations": "many"}, "CONFIRMATIONS", "1 to 1000"),
    ],
)  # fmt: skip
def test_what_does_not_fit_is_refused(changes: dict[str, str], variable: str, reason: str) -> None:
    with pytest.raises(ConfigurationError) as error:
        read(options(**changes))
    assert str(error.value).startswith(f"OPENTILL_GATEWAY_EVM_{variable} must be")
    assert reason in str(error.value)
    assert "secret" not in str(error.value)


async def test_an_account_names_its_wrong_credential() -> None:
    settings = Settings()
    adapter, methods = build_account("evm", OPTIONS, "", settings)
    assert (adapter.methods("USD"), adapter.methods("EUR"), methods) == (("CRYPTO",), (), None)
    await adapter.close()
    with pytest.raises(BadCredentials) as error:
        build_account("evm", {**OPTIONS, "xpub": "xpub1"}, "", settings)
    assert error.value.field == "xpub"


@pytest.mark.parametrize(
    ("chain_id", "livemode"), [("1", True), ("11155111", False), ("1337", False), ("99999", None)]
)
def test_the_mode_follows_from_the_chain(chain_id: str, livemode: Any) -> None:
    assert mode_of(chain_id) is livemode
    assert mode_of_credentials("evm", {"chain_id": chain_id}) is livemode


@pytest.mark.parametrize(
    ("decimals", "minor", "units", "text"),
    [(6, 999, 9_990_000, "9.99"), (18, 1, 10**16, "0.01"), (2, 100, 100, "1"), (6, 0, 0, "0")],
)
def test_an_amount_in_tokens_is_exact(decimals: int, minor: int, units: int, text: str) -> None:
    token = Token("USDT", "0x", decimals)
    assert token.units(Money(minor, "USD")) == units
    assert token.text(units) == text
    assert token.scaled(units) == minor * 10**16


def test_an_amount_that_a_token_cannot_express_is_rounded_up() -> None:
    assert Token("USDT", "0x", 2).units(Money(1001, "BHD")) == 101  # 1.001 with three decimals
