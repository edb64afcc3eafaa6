"""Reading transfers to reserved addresses from a chain, block by block.

A position is stored for each account and chain: every transfer until its block is stored, and the
block is deep enough below the newest one that it should stay. The position moves in the transaction
that stores the transfers, and only for the process that has claimed it, so that a crash loses
nothing and two processes store nothing twice.

The node is not trusted to be consistent: services respond from several nodes, some of which are
behind. So each run reads some blocks again, compares the hashes of blocks before and after, and
treats a missing transfer as removed only if its block has been replaced.
"""

from collections.abc import Collection, Mapping
from decimal import Decimal
from functools import partial
from typing import Final

import msgspec
import structlog

from opentill.core.ids import new_id
from opentill.db.clock import now_ms
from opentill.db.database import Db, Tx
from opentill.deposits import queries
from opentill.deposits.model import Position, StoredTransfer
from opentill.gateways.deposits import Block, ChainFailure, TakesDeposits, Transfer
from opentill.orders.payments import deposit_addresses
from opentill.orders.payments.model import DepositAddress

_LEASE_MS: Final = 120_000
_PAUSE_MS: Final = 4_000
IDLE_MS: Final = 60_000  # the pause while no address is monitored
_OVERLAP: Final = 16  # blocks that each run reads again
_REWIND: Final = 512  # blocks that are read again after a reorganisation of confirmed blocks
_MOST_RANGES: Final = 10  # requests for ranges of blocks in one run
_MOST_ADDRESSES: Final = 10_000
_MOST_UNKNOWN: Final = 10  # transfers of other tokens that are stored for an address
# The clock of a block may be behind ours by this much. A transfer that is older than its address
# paid for something else, such as an order of a deployment that used the same key before.
_CLOCK_MARGIN_MS: Final = 5 * 60_000
_log: Final = structlog.get_logger()


class Account(msgspec.Struct, frozen=True):
    """An account and its adapter."""

    name: str
    gateway: TakesDeposits

    @property
    def key(self) -> dict[str, str | int]:
        """The key of its position."""
        return {"account": self.name, "chain_id": self.gateway.chain_id}


class Reading(msgspec.Struct, frozen=True):
    """What one run knows: the addresses that are monitored, and the newest block."""

    addresses: Mapping[str, DepositAddress]
    head: Block
    safe: int  # the number of the newest block with enough confirmations


class _Lost(Exception):
    """Another process has the claim now."""


async def scan(db: Db, account: Account, now: int) -> list[Transfer]:
    """Store new transfers of an account, and return those without enough confirmations.

    Returns nothing if another process reads the chain, or if it is not due. ``now`` is business
    time. Failures of the node are logged and stored with the position.
    """
    claimed_at = now_ms()
    try:
        position = await _claim(db, account, claimed_at, now)
    except ChainFailure as failure:
        _log.warning("chain not read", account=account.name, reason=str(failure))
        return []
    if position is None:
        return []
    failure_text: str | None = None
    pause_ms, unconfirmed = _PAUSE_MS, list[Transfer]()
    try:
        async with db.connection() as tx:
            monitored = await deposit_addresses.list_monitored(
                tx, account.name, account.gateway.chain_id, now, _MOST_ADDRESSES
            )
        if len(monitored) == _MOST_ADDRESSES:
            _log.error("too many addresses to scan", account=account.name, limit=_MOST_ADDRESSES)
        if not monitored:
            pause_ms = IDLE_MS
        unconfirmed = await _read(db, account, position, {row.address: row for row in monitored})
    except ChainFailure as failure:
        failure_text = str(failure)[:300] or "the node failed"
        _log.warning("chain not read", account=account.name, reason=failure_text)
    except _Lost:
        _log.warning("chain is read by another process", account=account.name)
    finally:
        released_at = now_ms()
        releasing = partial(
            queries.RELEASE.run,
            **account.key,
            claimed_until=position.claimed_until,
            next_at=released_at + pause_ms,
            failure=failure_text,
            now=released_at,
        )
        await db.run(releasing)
    return unconfirmed


async def _claim(db: Db, account: Account, real_now: int, now: int) -> Position | None:
    async with db.connection() as tx:
        exists = await queries.EXISTS.get(tx, **account.key)
    if not exists:
        await _begin(db, account, real_now, now)
    claiming = partial(
        queries.CLAIM.first,
        **account.key,
        claimed_until=real_now + _LEASE_MS,
        now=real_now,
        business_now=now,
        idle_ms=IDLE_MS,
    )
    return await db.run(claiming)


async def _begin(db: Db, account: Account, real_now: int, now: int) -> None:
    """Store the first position: a block before the first address was reserved."""
    gateway = account.gateway
    async with db.connection() as tx:
        monitored = await deposit_addresses.list_monitored(
            tx, account.name, gateway.chain_id, now, _MOST_ADDRESSES
        )
    since = min((row.reserved_at for row in monitored), default=real_now) - _CLOCK_MARGIN_MS
    head = await gateway.head()
    low, high = 0, max(0, head.number - gateway.confirmations + 1)
    while low < high:  # the last block that is older than the first address
        middle = (low + high + 1) // 2
        if (await _require_block(gateway, middle)).time <= since:
            low = middle
        else:
            high = middle - 1
    block = await _require_block(gateway, low)
    beginning = partial(
        queries.BEGIN.run, **account.key, number=block.number, hash=block.hash, now=real_now
    )
    await db.run(beginning)


async def _require_block(gateway: TakesDeposits, number: int) -> Block:
    block = await gateway.block(number)
    if block is None:
        msg = f"the node does not have block {number}"
        raise ChainFailure(msg)
    return block


async def _read(
    db: Db, account: Account, position: Position, monitored: Mapping[str, DepositAddress]
) -> list[Transfer]:
    gateway = account.gateway
    head = await gateway.head()
    reading = Reading(monitored, head, head.number - gateway.confirmations + 1)
    if head.number < position.number:
        if head.number + _REWIND < position.number:
            msg = f"the node is at block {head.number}, long before block {position.number}"
            raise ChainFailure(msg)
        return []  # this node is a little behind
    first = max(0, position.number - _OVERLAP + 1)
    if (await _require_block(gateway, position.number)).hash != position.hash:
        _log.error("chain reorganised", account=account.name, block=position.number)
        first = max(0, position.number - _REWIND + 1)
    if first <= reading.safe:
        for _ in range(_MOST_RANGES):
            position = await _read_range(db, account, position, reading, first)
            first = position.number + 1
            if first > reading.safe:
                break
        else:
            return []  # the next run continues
    begin = max(reading.safe, position.number) + 1
    if not monitored or begin > head.number:
        return []
    unconfirmed, _ = await gateway.transfers(list(monitored), begin, head.number)
    return unconfirmed


async def _read_range(
    db: Db, account: Account, position: Position, reading: Reading, first: int
) -> Position:
    """Store the transfers from a block on, and return the position after them."""
    gateway = account.gateway
    transfers, last = list[Transfer](), reading.safe
    if reading.addresses:
        before = await _require_block(gateway, reading.safe)
        transfers, last = await gateway.transfers(list(reading.addresses), first, reading.safe)
        if last == reading.safe and (await _require_block(gateway, last)).hash != before.hash:
            msg = "the chain changed while it was read"
            raise ChainFailure(msg)
    end = await _require_block(gateway, last)
    times = await _check_blocks(gateway, transfers)
    transfers = [each for each in transfers if _is_current(each, reading, times)]
    removed = await _find_removed(db, account, transfers, first, last)
    storing = partial(
        _store, account=account, position=position, end=end, transfers=transfers, removed=removed,
        reading=reading,
    )  # fmt: skip
    return await db.run(storing)


def _is_current(transfer: Transfer, reading: Reading, times: Mapping[int, int]) -> bool:
    """Whether a transfer is not older than the reservation of its address."""
    reserved_at = reading.addresses[transfer.recipient].reserved_at
    if times[transfer.block_number] >= reserved_at - _CLOCK_MARGIN_MS:
        return True
    _log.warning(
        "address was used before",
        address=transfer.recipient, transaction=transfer.transaction,
    )  # fmt: skip
    return False


async def _check_blocks(gateway: TakesDeposits, transfers: Collection[Transfer]) -> dict[int, int]:
    """Check that the blocks of transfers are part of the chain; return their times by number."""
    times: dict[int, int] = {}
    hashes: dict[int, set[str]] = {}
    for each in transfers:
        hashes.setdefault(each.block_number, set()).add(each.block_hash)
    for number, reported in hashes.items():
        block = await _require_block(gateway, number)
        if reported != {block.hash}:
            msg = f"the node reports transfers of another block {number}"
            raise ChainFailure(msg)
        times[number] = block.time
    return times


async def _find_removed(
    db: Db, account: Account, transfers: Collection[Transfer], first: int, last: int
) -> list[StoredTransfer]:
    """Return the stored transfers of blocks that are no longer part of the chain."""
    async with db.connection() as tx:
        stored = await queries.TRANSFERS_OF_BLOCKS.all(tx, **account.key, first=first, last=last)
    present = {(each.block_hash, each.log_index) for each in transfers}
    removed: list[StoredTransfer] = []
    hashes: dict[int, str] = {}
    for each in stored:
        if (each.block_hash, each.log_index) in present:
            continue
        if each.block_number not in hashes:
            block = await _require_block(account.gateway, each.block_number)
            hashes[each.block_number] = block.hash
        if hashes[each.block_number] != each.block_hash:
            removed.append(each)
    return removed


async def _store(
    tx: Tx,
    *,
    account: Account,
    position: Position,
    end: Block,
    transfers: Collection[Transfer],
    removed: Collection[StoredTransfer],
    reading: Reading,
) -> Position:
    """Store transfers and move the position. Raises _Lost if the claim has ended."""
    now = now_ms()
    moved = await queries.ADVANCE.run(
        tx,
        **account.key,
        number=end.number,
        hash=end.hash,
        claimed_until=position.claimed_until,
        from_number=position.number,
        from_hash=position.hash,
    )
    if not moved:
        raise _Lost
    changed: set[str] = set()
    for gone in removed:
        key = {"block_hash": gone.block_hash, "log_index": gone.log_index}
        if await queries.REMOVE.run(tx, **account.key, **key, now=now):
            changed.add(gone.address)
            address = reading.addresses.get(gone.address)
            if gone.scaled and address is not None:
                await open_case(tx, "REORGANIZED", address, gone, gone.units, now)
    tokens = {token.address: token for token in account.gateway.tokens}
    for each in transfers:
        if not each.units:
            continue  # worth nothing; some are sent to confuse people
        token = tokens.get(each.token)
        stored = StoredTransfer(
            block_number=each.block_number,
            block_hash=each.block_hash,
            transaction=each.transaction,
            log_index=each.log_index,
            token=each.token,
            sender=each.sender,
            address=each.recipient,
            units=Decimal(each.units),
            scaled=Decimal(0 if token is None else token.scaled(each.units)),
        )
        is_new = await queries.STORE.get(
            tx, stored, **account.key, now=now, most_unknown=_MOST_UNKNOWN
        )
        if is_new and token is not None:
            changed.add(each.recipient)
        elif is_new:
            address = reading.addresses[each.recipient]
            await open_case(tx, "UNKNOWN_TOKEN", address, stored, stored.units, now)
    if changed:
        await queries.ADD_UP.run(tx, address=sorted(changed))
    return Position(end.number, end.hash, position.claimed_until)


async def open_case(
    tx: Tx,
    kind: str,
    address: DepositAddress,
    transfer: StoredTransfer,
    units: Decimal,
    now: int,
) -> None:
    """Open a case about a transfer, unless there was one before."""
    opened = await queries.OPEN_CASE.run(
        tx,
        id=new_id("dpc"),
        kind=kind,
        account=address.account,
        attempt_id=address.attempt_id,
        address=transfer.address,
        transaction=transfer.transaction,
        log_index=transfer.log_index,
        token=transfer.token,
        units=units,
        now=now,
    )
    if opened:
        _log.error(
            "deposit needs attention",
            kind=kind, attempt=address.attempt_id, transaction=transfer.transaction,
        )  # fmt: skip
