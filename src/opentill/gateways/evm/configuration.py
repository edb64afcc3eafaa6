"""Create the adapter from the settings ``OPENTILL_GATEWAY_EVM_…``."""

import re
from collections.abc import Mapping
from typing import Final

from opentill.core import settingvalues
from opentill.core.errors import ConfigurationError
from opentill.gateways.evm.chain import Chain
from opentill.gateways.evm.client import EvmGateway, Options
from opentill.gateways.evm.extended_keys import read_receiving_key
from opentill.gateways.evm.rpc import Node
from opentill.gateways.evm.tokens import CHAINS, read_tokens
from opentill.outgoing.client import Outgoing, Policy, ServerPolicy

_PREFIX: Final = "OPENTILL_GATEWAY_EVM_"
_CONFIRMATIONS: Final = 12
_MOST_CONFIRMATIONS: Final = 1_000
_CHAIN_ID: Final = re.compile(r"[1-9][0-9]{0,14}", re.ASCII)


def make(options: Mapping[str, str], server_policy: ServerPolicy = Policy.only) -> EvmGateway:
    """Create the adapter, which connects to the configured node only.

    ``options`` have lower-case names such as ``evm_rpc_url``. Raises ConfigurationError, which
    names the setting and the accepted values.
    """
    configured = read(options)
    outgoing = Outgoing(server_policy(configured.rpc_url))
    return EvmGateway(configured, Chain(Node(configured.rpc_url, outgoing)))


def read(options: Mapping[str, str]) -> Options:
    """Read and check the settings. Raises ConfigurationError."""
    chain_id = _chain_id(_get(options, "chain_id"))
    chain = CHAINS.get(chain_id)
    try:
        rpc_url = settingvalues.web(_get(options, "rpc_url"))
    except ValueError:
        # The address contains a key, which the error would quote.
        raise _invalid("rpc_url", "the node's web address, such as https://…") from None
    try:
        tokens = read_tokens(_get(options, "tokens") or "USDT,USDC", chain_id)
    except ValueError as error:
        raise _invalid("tokens", str(error)) from None
    try:
        key = read_receiving_key(_get(options, "xpub"))
    except ValueError as error:
        raise _invalid("xpub", str(error)) from None
    return Options(
        rpc_url=rpc_url,
        chain_id=chain_id,
        network=f"Chain {chain_id}" if chain is None else chain.name,
        explorer="" if chain is None else chain.explorer,
        confirmations=_confirmations(
            _get(options, "confirmations"),
            _CONFIRMATIONS if chain is None else chain.confirmations,
        ),
        tokens=tokens,
        key=key,
    )


def mode_of(chain_id: str) -> bool | None:
    """Return whether a chain's tokens are real money; None if the chain is unknown."""
    number = chain_id.strip()
    chain = CHAINS.get(int(number)) if _CHAIN_ID.fullmatch(number) else None
    return None if chain is None else not chain.is_test_network


def _get(options: Mapping[str, str], name: str) -> str:
    return options.get(f"evm_{name}", "").strip()


def _invalid(name: str, expectation: str) -> ConfigurationError:
    return ConfigurationError(f"{_PREFIX}{name.upper()} must be {expectation}")


def _chain_id(text: str) -> int:
    if _CHAIN_ID.fullmatch(text) is None:
        raise _invalid("chain_id", "the number of the chain, such as 1 for Ethereum")
    return int(text)


def _confirmations(text: str, default: int) -> int:
    if not text:
        return default
    if not re.fullmatch(r"[0-9]{1,4}", text, re.ASCII) or not 1 <= int(text) <= _MOST_CONFIRMATIONS:
        raise _invalid("confirmations", f"a number of blocks, 1 to {_MOST_CONFIRMATIONS}")
    return int(text)
