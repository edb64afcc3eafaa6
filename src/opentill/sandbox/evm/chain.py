"""The simulated chain: blocks, and transfers of three tokens.

Blocks are not stored but calculated, so that they need no space: a row of ``evm_marks`` says from
which number on blocks have which time and salt. After the ``count`` blocks of the last mark, a
block is added every ``period_s`` seconds, or none if that is 0. A reorganization replaces marks.
"""

import hashlib
import secrets
from typing import Final

import msgspec

from opentill.sandbox.storage import Tx

CHAIN_ID: Final = 1337
_IN: Final = "{0} in (select value from json_each(:{0}))"
_HASH_DIGITS: Final = 48  # the other 16 digits of a block's hash are its number
MOST_BLOCKS: Final = 10_000  # that one request adds or replaces
MOST_UNITS: Final = 2**256 - 1


class Token(msgspec.Struct, frozen=True):
    """A contract (ERC-20)."""

    symbol: str
    decimals: int
    address: str


def _address(name: str) -> str:
    return "0x" + hashlib.sha256(f"OpenTill sandbox {name}".encode()).hexdigest()[:40]


# OTHER is a worthless token that has the symbol of another one.
TOKENS: Final = {
    "USDT": Token("USDT", 6, _address("USDT")),
    "USDC": Token("USDC", 18, _address("USDC")),
    "OTHER": Token("USDT", 6, _address("OTHER")),
}
BY_ADDRESS: Final = {token.address: token for token in TOKENS.values()}
# The wallet of the customers, which never runs out of tokens.
WALLET: Final = _address("wallet")


class Mark(msgspec.Struct, frozen=True):
    """A row of ``evm_marks``."""

    number: int
    count: int
    time_s: int
    period_s: int
    salt: str

    @property
    def last(self) -> int:
        """The number of the last block that was added on demand."""
        return self.number + self.count - 1

    def time_of(self, number: int) -> int:
        """Return the time of a block, in Unix seconds."""
        return self.time_s + max(0, number - self.last) * self.period_s


class Block(msgspec.Struct, frozen=True):
    """A block. Times are Unix seconds."""

    number: int
    hash: str
    parent_hash: str
    time_s: int


class Transfer(msgspec.Struct, frozen=True):
    """A row of ``evm_transfers``: a transaction with one log, the only one of its block."""

    transaction_hash: str
    block_number: int
    token: str
    sender: str
    recipient: str
    units: str

    @property
    def value(self) -> int:
        """The units as a number."""
        return int(self.units)


def head(tx: Tx, now_s: int, period_s: int) -> int:
    """Return the number of the newest block; begin the chain if there is none."""
    mark = tx.first(Mark, "select * from evm_marks order by number desc limit 1")
    if mark is None:
        _add(tx, 0, 1, now_s, period_s)
        return 0
    passed_s = max(0, now_s - mark.time_s)
    return mark.last + (passed_s // mark.period_s if mark.period_s else 0)


def block(tx: Tx, number: int, prefix: str = "") -> Block:
    """Return a block that exists. ``prefix`` makes it that of another chain."""
    return Block(
        number,
        _hash_of(tx, number, prefix),
        _hash_of(tx, number - 1, prefix) if number else "0x" + "0" * 64,
        _mark_of(tx, number).time_of(number),
    )


def number_in_hash(text: str) -> int:
    """Return the number that a block's hash contains, -1 if it cannot be such a hash."""
    try:
        return int(text[2 + _HASH_DIGITS :], 16)
    except ValueError:
        return -1


def mine(tx: Tx, count: int, now_s: int, period_s: int) -> int:
    """Add blocks; return the number of the first one."""
    number = head(tx, now_s, period_s) + 1
    _add(tx, number, count, max(now_s, _mark_of(tx, number - 1).time_of(number - 1)), period_s)
    return number


def send(
    tx: Tx, token: Token, sender: str, recipient: str, units: int, now_s: int, period_s: int
) -> Transfer:
    """Send units of a token, in a new block."""
    transfer = Transfer(
        transaction_hash=f"0x{secrets.token_hex(32)}",
        block_number=mine(tx, 1, now_s, period_s),
        token=token.address,
        sender=sender,
        recipient=recipient,
        units=str(units),
    )
    tx.insert("evm_transfers", msgspec.structs.asdict(transfer))
    return transfer


def reorganize(tx: Tx, count: int, now_s: int, period_s: int, *, keep: bool) -> int:
    """Replace the newest blocks by as many others; return the number of the first one.

    ``keep``: the new blocks contain the transfers of the old ones, otherwise nobody does.
    """
    last = head(tx, now_s, period_s)
    first = max(1, last - count + 1)
    if last == 0:
        return 0
    tx.run("delete from evm_marks where number >= :first", first=first)
    if not keep:
        tx.run("delete from evm_transfers where block_number >= :first", first=first)
    time_s = max(now_s, _mark_of(tx, first - 1).time_of(first - 1))
    _add(tx, first, last - first + 1, time_s, period_s)
    return first


def transfers(
    tx: Tx, first: int, last: int, tokens: list[str], recipients: list[str], limit: int
) -> list[Transfer]:
    """Return transfers in blocks, oldest first; empty lists are no conditions."""
    conditions, values = ["block_number between :first and :last"], dict[str, str | int]()
    for column, texts in (("token", tokens), ("recipient", recipients)):
        if texts:
            conditions.append(_IN.format(column))
            values[column] = msgspec.json.encode(texts).decode()
    sql = (
        f"select * from evm_transfers where {' and '.join(conditions)}"  # noqa: S608 - interpolates constants of this program only
        " order by block_number limit :limit"
    )
    return tx.all(Transfer, sql, first=first, last=last, limit=limit, **values)


def find_transfer(tx: Tx, transaction_hash: str) -> Transfer | None:
    """Return the transfer of a transaction, None if there is no such one."""
    sql = "select * from evm_transfers where transaction_hash = :hash"
    return tx.first(Transfer, sql, hash=transaction_hash)


def balance(tx: Tx, token: str, address: str, last: int) -> int:
    """Return the units of an address after a block."""
    if address == WALLET:
        return MOST_UNITS
    sql = """
        select * from evm_transfers where token = :token and block_number <= :last
            and (recipient = :address or sender = :address)
    """
    rows = tx.all(Transfer, sql, token=token, last=last, address=address)
    received = sum(each.value for each in rows if each.recipient == address)
    return max(0, received - sum(each.value for each in rows if each.sender == address))


def _add(tx: Tx, number: int, count: int, time_s: int, period_s: int) -> None:
    mark = Mark(number, count, time_s, period_s, secrets.token_hex(8))
    tx.insert("evm_marks", msgspec.structs.asdict(mark))


def _mark_of(tx: Tx, number: int) -> Mark:
    sql = "select * from evm_marks where number <= :number order by number desc limit 1"
    mark = tx.first(Mark, sql, number=number)
    if mark is None:
        raise AssertionError
    return mark


def _hash_of(tx: Tx, number: int, prefix: str) -> str:
    text = f"{prefix}{_mark_of(tx, number).salt}:{number}"
    digest = hashlib.sha256(text.encode()).hexdigest()[:_HASH_DIGITS]
    return f"0x{digest}{number:016x}"
