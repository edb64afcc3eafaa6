"""Chains and tokens that are known, and the tokens that an account takes.

A wrong address of a token would let everybody pay with a worthless one. So on a known chain,
USDT and USDC are the contracts of their issuers, and no others. The issuers
list their contracts at https://tether.to/en/supported-protocols/ and
https://developers.circle.com/stablecoins/usdc-contract-addresses; on BNB Smart Chain both tokens
are those of Binance's bridge, with 18 decimals.
"""

import re
from typing import Final

import msgspec

from opentill.gateways.deposits import SCALE, Token
from opentill.gateways.evm.addresses import read_address, with_checksum

SYMBOLS: Final = ("USDT", "USDC")
_LEAST_DECIMALS: Final = 2  # as the US dollar, so that no cent is rounded
_DEFINITION: Final = re.compile(r"([A-Z]{4}):(0x[0-9A-Fa-f]{40}):([0-9]{1,2})", re.ASCII)


class Chain(msgspec.Struct, frozen=True):
    """A chain. Test networks have no real money, and their tokens are named in the settings."""

    name: str
    confirmations: int
    explorer: str = ""
    is_test_network: bool = False


CHAINS: Final[dict[int, Chain]] = {
    1: Chain("Ethereum", 12, "https://etherscan.io"),
    10: Chain("OP Mainnet", 60, "https://optimistic.etherscan.io"),
    56: Chain("BNB Smart Chain", 20, "https://bscscan.com"),
    137: Chain("Polygon", 64, "https://polygonscan.com"),
    8453: Chain("Base", 60, "https://basescan.org"),
    42161: Chain("Arbitrum One", 240, "https://arbiscan.io"),
    43114: Chain("Avalanche C-Chain", 12, "https://snowtrace.io"),
    1337: Chain("Local test chain", 1, is_test_network=True),
    31337: Chain("Local test chain", 1, is_test_network=True),
    80002: Chain("Polygon Amoy", 12, "https://amoy.polygonscan.com", is_test_network=True),
    84532: Chain("Base Sepolia", 12, "https://sepolia.basescan.org", is_test_network=True),
    421614: Chain("Arbitrum Sepolia", 12, "https://sepolia.arbiscan.io", is_test_network=True),
    11155111: Chain("Ethereum Sepolia", 12, "https://sepolia.etherscan.io", is_test_network=True),
}
# The contracts of the issuers: chain, symbol, address and decimals.
CONTRACTS: Final = (
    (1, "USDT", "0xdAC17F958D2ee523a2206206994597C13D831ec7", 6),
    (1, "USDC", "0xA0b86991c6218b36c1d19D4a2e9Eb0cE3606eB48", 6),
    (10, "USDT", "0x94b008aA00579c1307B0EF2c499aD98a8ce58e58", 6),
    (10, "USDC", "0x0b2C639c533813f4Aa9D7837CAf62653d097Ff85", 6),
    (56, "USDT", "0x55d398326f99059fF775485246999027B3197955", 18),
    (56, "USDC", "0x8AC76a51cc950d9822D68b83fE1Ad97B32Cd580d", 18),
    (137, "USDT", "0xc2132D05D31c914a87C6611C10748AEb04B58e8F", 6),
    (137, "USDC", "0x3c499c542cEF5E3811e1192ce70d8cC03d5c3359", 6),
    (8453, "USDC", "0x833589fCD6eDb6E08f4c7C32D4f71b54bdA02913", 6),
    (42161, "USDT", "0xFd086bC7CD5C481DCC9C85ebE478A1C0b69FCbb9", 6),
    (42161, "USDC", "0xaf88d065e77c8cC2239327C5EDb3A432268e5831", 6),
    (43114, "USDT", "0x9702230A8Ea53601f5cD2dc00fDBc13d4dF4A8c7", 6),
    (43114, "USDC", "0xB97EF9Ef8734C71904D8002F8b6Bc66Dd9c48a6E", 6),
)
# Chain → symbol → the issuer's token; its address is in lower case.
ISSUED: Final[dict[int, dict[str, Token]]] = {
    chain_id: {
        symbol: Token(symbol, address.lower(), decimals)
        for chain, symbol, address, decimals in CONTRACTS
        if chain == chain_id
    }
    for chain_id in CHAINS
}


def read_tokens(text: str, chain_id: int) -> tuple[Token, ...]:
    """Read ``USDT,USDC`` of a known chain, or ``USDT:0x…:6`` of another. Raises ValueError."""
    tokens: list[Token] = []
    for part in (each.strip() for each in text.split(",")):
        token = _read_token(part, chain_id)
        if any(token.symbol == each.symbol or token.address == each.address for each in tokens):
            msg = "different tokens with commas between them"
            raise ValueError(msg)
        tokens.append(token)
    return tuple(tokens)


def _read_token(text: str, chain_id: int) -> Token:
    chain = CHAINS.get(chain_id)
    issued = ISSUED.get(chain_id, {})
    if text in issued:
        return issued[text]
    match = _DEFINITION.fullmatch(text)
    if match is None or match[1] not in SYMBOLS:
        available = " and ".join(issued)
        msg = (
            f"{available}, the tokens of {chain.name} that are known"
            if chain is not None and issued
            else "symbol, contract and decimals of each token, such as USDT:0x…:6"
        )
        raise ValueError(msg)
    symbol, decimals = match[1], int(match[3])
    address = read_address(match[2])
    if chain is not None and not chain.is_test_network:
        if symbol not in issued:
            msg = f"{' and '.join(issued)}: no contract of {symbol} on {chain.name} is known"
            raise ValueError(msg)
        if (address, decimals) != (issued[symbol].address, issued[symbol].decimals):
            contract = with_checksum(issued[symbol].address)
            msg = f"{symbol}: its contract on {chain.name} is {contract}, not this one"
            raise ValueError(msg)
    if not _LEAST_DECIMALS <= decimals <= SCALE:
        msg = f"a token with {_LEAST_DECIMALS} to {SCALE} decimals"
        raise ValueError(msg)
    return Token(symbol, address, decimals)
