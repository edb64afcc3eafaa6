"""Reading blocks and transfers of tokens from a node."""

import re
from collections.abc import Collection, Sequence
from typing import Final

from opentill.gateways.deposits import Block, ChainFailure, Token, Transfer
from opentill.gateways.evm import rpc

# keccak256("Transfer(address,address,uint256)"), the event of every ERC-20 token (EIP-20).
TRANSFER: Final = "0xddf252ad1be2c89b69c2b068fc378daa952ba7f163c4a11628f55a4df523b3ef"
# The first four bytes of the hashes of balanceOf(address) and decimals().
_BALANCE_OF: Final = "0x70a08231"
_DECIMALS: Final = "0x313ce567"
_TOPICS: Final = 3
_WORD: Final = re.compile(r"0x[0-9a-fA-F]{64}", re.ASCII)  # 32 bytes
_MOST_BLOCKS: Final = 2_000  # services usually allow this many in one request
MOST_ADDRESSES: Final = 200  # in one request
_MOST_CLOCK: Final = 2**38  # seconds, the year 10680


def _padded(address: str) -> str:
    return "0x" + address[2:].rjust(64, "0")


def _unpadded(topic: str) -> str | None:
    """Return the address in a topic, None if it is none."""
    is_address = _WORD.fullmatch(topic) is not None and topic.startswith("0x" + "0" * 24)
    return "0x" + topic[26:].lower() if is_address else None


class Chain:
    """A chain as one node sees it."""

    def __init__(self, node: rpc.Node) -> None:
        """``node`` is closed with the chain."""
        self._node = node
        self._span = _MOST_BLOCKS  # how many blocks the node accepts in a request

    async def close(self) -> None:
        """Close the connections."""
        await self._node.close()

    async def chain_id(self) -> int:
        """Return the number of the chain."""
        return rpc.number(await self._node.call("eth_chainId", [], str))

    async def head(self) -> Block:
        """Return the newest block."""
        block = await self._block("latest")
        if block is None:
            msg = "the node has no block"
            raise ChainFailure(msg)
        return block

    async def block(self, number: int) -> Block | None:
        """Return a block; None if the node has none with this number."""
        block = await self._block(hex(number))
        if block is not None and block.number != number:
            msg = "the node returned another block"
            raise ChainFailure(msg)
        return block

    async def _block(self, which: str) -> Block | None:
        header = await self._node.find("eth_getBlockByNumber", [which, False], rpc.Header)
        if header is None:
            return None
        time = rpc.number(header.timestamp)
        if time > _MOST_CLOCK:
            msg = "the node returned an impossible time"
            raise ChainFailure(msg)
        return Block(rpc.number(header.number), rpc.hash_of(header.hash), time * 1000)

    async def transfers(
        self, addresses: Collection[str], first: int, last: int
    ) -> tuple[list[Transfer], int]:
        """Return transfers of all tokens to addresses, and the last block that was read."""
        monitored = sorted(addresses)
        parts = [
            monitored[at : at + MOST_ADDRESSES] for at in range(0, len(monitored), MOST_ADDRESSES)
        ]
        while True:
            end = min(last, first + self._span - 1)
            try:
                transfers = [
                    each for part in parts for each in await self._transfers(part, first, end)
                ]
            except rpc.Refused:
                if self._span == 1:
                    raise
                self._span = max(1, min(self._span, end - first + 1) // 2)
                continue
            self._span = min(2 * self._span, _MOST_BLOCKS)
            return transfers, end

    async def _transfers(self, addresses: Sequence[str], first: int, last: int) -> list[Transfer]:
        query = {
            "fromBlock": hex(first),
            "toBlock": hex(last),
            "topics": [TRANSFER, None, [_padded(each) for each in addresses]],
        }
        logs = await self._node.call("eth_getLogs", [query], list[rpc.Log], rpc.MOST_LOG_BYTES)
        read = (each for each in map(_read_transfer, logs) if each is not None)
        # A node may return a log twice, as services do that join the responses of several nodes.
        transfers = list({(each.block_hash, each.log_index): each for each in read}.values())
        monitored = set(addresses)
        for each in transfers:
            if not first <= each.block_number <= last or each.recipient not in monitored:
                msg = "the node returned logs that were not asked for"
                raise ChainFailure(msg)
        return transfers

    async def find_transfers(self, transaction: str) -> list[Transfer] | None:
        """Return the transfers of a successful transaction, None if there is no such one."""
        receipt = await self._node.find(
            "eth_getTransactionReceipt", [transaction], rpc.Receipt, rpc.MOST_LOG_BYTES
        )
        if receipt is None or rpc.number(receipt.status) != 1:
            return None
        if rpc.hash_of(receipt.transaction_hash) != transaction:
            msg = "the node returned another transaction"
            raise ChainFailure(msg)
        return [each for each in map(_read_transfer, receipt.logs) if each is not None]

    async def balance(self, token: Token, address: str) -> int:
        """Return how many units of a token an address has now."""
        call = {"to": token.address, "data": _BALANCE_OF + _padded(address)[2:]}
        return _word(await self._node.call("eth_call", [call, "latest"], str))

    async def decimals(self, token: Token) -> int | None:
        """Return the decimals of a token, None if its address has no such contract."""
        call = {"to": token.address, "data": _DECIMALS}
        result = await self._node.call("eth_call", [call, "latest"], str)
        return None if result == "0x" else _word(result)


def _word(text: str) -> int:
    if _WORD.fullmatch(text) is None:
        msg = "the node returned a value in another form"
        raise ChainFailure(msg)
    return int(text, 16)


def _read_transfer(log: rpc.Log) -> Transfer | None:
    """Read a log; None if it is not that of a fungible token, or was removed.

    Tokens that are not fungible (ERC-721) have the same event with a fourth topic.
    """
    if len(log.topics) != _TOPICS or log.topics[0].lower() != TRANSFER or log.removed:
        return None
    sender, recipient = _unpadded(log.topics[1]), _unpadded(log.topics[2])
    if sender is None or recipient is None or _WORD.fullmatch(log.data) is None:
        return None
    return Transfer(
        block_number=rpc.number(log.block_number),
        block_hash=rpc.hash_of(log.block_hash),
        transaction=rpc.hash_of(log.transaction_hash),
        log_index=rpc.number(log.log_index),
        token=rpc.address_of(log.address),
        sender=rpc.address_of(sender),
        recipient=rpc.address_of(recipient),
        units=_word(log.data),
    )
