"""The interface of adapters whose customers send tokens to an address of their own (decision 0160).

Such a provider reports nothing: OpenTill reads a blockchain itself. The package
``opentill.deposits`` stores addresses and transfers and calls these methods. Times are Unix ms.
"""

from collections.abc import Collection
from typing import Final, Protocol, TypeGuard, runtime_checkable

import msgspec

from opentill.core.money import EXPONENTS, Money
from opentill.gateways.model import Gateway

# Amounts of tokens with different decimals are compared as multiples of 10**-18.
SCALE: Final = 18


class Token(msgspec.Struct, frozen=True):
    """A token that an account takes, at its nominal value in US dollars."""

    symbol: str
    address: str  # of its contract, in lower case
    decimals: int

    def units(self, amount: Money) -> int:
        """Return how many of its smallest units pay an amount, rounded up."""
        fraction = amount.minor * 10**self.decimals
        cents = 10 ** EXPONENTS[amount.currency]
        return int(-(-fraction // cents))

    def scaled(self, units: int) -> int:
        """Return units as a multiple of 10**-18."""
        factor: int = 10 ** (SCALE - self.decimals)
        return units * factor

    def text(self, units: int) -> str:
        """Return units as decimal text without superfluous zeros."""
        whole, part = divmod(units, 10**self.decimals)
        digits = f"{part:0{self.decimals}d}".rstrip("0") if part else ""
        return f"{whole}.{digits}" if digits else str(whole)


class Block(msgspec.Struct, frozen=True):
    """A block of the chain."""

    number: int
    hash: str
    time: int


class Transfer(msgspec.Struct, frozen=True, kw_only=True):
    """A transfer of a token, which may be one that the account does not take."""

    block_number: int
    block_hash: str
    transaction: str
    log_index: int
    token: str  # the address of its contract, in lower case
    sender: str
    recipient: str
    units: int


class ChainFailure(Exception):
    """The chain could not be read; the message may be logged."""


@runtime_checkable
class TakesDeposits(Gateway, Protocol):
    """Implemented by adapters whose payments arrive at an address for each attempt."""

    network: str  # its name for customers
    chain_id: int
    confirmations: int  # blocks, the one with the transfer included, after which it counts
    tokens: tuple[Token, ...]
    key_id: str  # identifies the extended public key; numbers of addresses are counted for it

    def address(self, number: int) -> str:
        """Return a receiving address, in lower case. Raises ValueError if it has none."""
        ...

    def show_address(self, address: str) -> str:
        """Return an address with its checksum."""
        ...

    def show_transaction(self, transaction: str) -> str:
        """Return the URL of a transaction in a public block explorer, "" if there is none."""
        ...

    def payment_uri(self, token: Token, address: str, units: int) -> str:
        """Return the text of the QR code by which a wallet pays."""
        ...

    async def head(self) -> Block:
        """Return the newest block. Raises ChainFailure, as the other methods do."""
        ...

    async def block(self, number: int) -> Block | None:
        """Return a block of the chain as the node sees it now; None if it has none."""
        ...

    async def transfers(
        self, addresses: Collection[str], first: int, last: int
    ) -> tuple[list[Transfer], int]:
        """Return transfers of all tokens to addresses, and the last block that was read.

        A node may refuse a long range; then fewer blocks are read, at least one.
        """
        ...

    async def find_transfers(self, transaction: str) -> list[Transfer] | None:
        """Return the transfers of a successful transaction, None if there is no such one."""
        ...


def takes_deposits(gateway: Gateway | None) -> TypeGuard[TakesDeposits]:
    """Whether an adapter is ``TakesDeposits``; faster than ``isinstance`` with a protocol."""
    return hasattr(gateway, "payment_uri")
