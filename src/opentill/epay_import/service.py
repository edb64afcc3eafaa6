"""Import an old Epay server: read it, look for pids that are taken, then write (decision 0175).

An import that is interrupted is continued by running it again: ids follow from the old numbers, and
a merchant stays switched off until all of it is here. Running it once more changes nothing.
"""

import asyncio
from collections.abc import Callable, Iterator, Mapping
from decimal import Decimal
from typing import Final

import asyncpg
import msgspec

from opentill import adjustments, epay, merchants
from opentill.core.errors import Invalid
from opentill.core.settings import Settings
from opentill.db.database import Db, Tx
from opentill.epay_import import queries, rates
from opentill.epay_import.batches import Batch, Writer, read_batches
from opentill.epay_import.model import CURRENCY, OldMerchant, Row
from opentill.epay_import.progress import Done, ImportedMerchant
from opentill.epay_import.reading import Reader
from opentill.epay_import.survey import Survey, Surveyor
from opentill.epay_import.tables import Tables
from opentill.merchants import Actor, Capability

# Opens the source at its beginning; called once for each pass.
OpenSource = Callable[[Tables], Iterator[Row]]
_SHOWN: Final = 5


class Import(msgspec.Struct, frozen=True, kw_only=True):
    """What to import, and how."""

    rows: OpenSource
    prefix: str | None
    gateways: Mapping[int, str]  # by old channel; refunds of other channels are the operator's
    accept_left_out: bool  # whether merchants are switched on although rows of them are left out
    actor: Actor


def survey(requested: Import, zone: str) -> Survey:
    """Read the source once. Raises BadSource."""
    tables = Tables(requested.prefix)
    return Surveyor(zone).read(requested.rows(tables), tables)


async def find_conflicts(tx: Tx, old_server: Survey) -> list[str]:
    """Return the merchants here, other than imported ones, that have a pid of the old server."""
    imported = {
        row.pid
        for row in await queries.OF_PIDS.all(tx, pid=list(old_server.merchants), currency=CURRENCY)
    }
    conflicts: list[str] = []
    for pid in sorted(old_server.merchants.keys() - imported):
        owner = await epay.find_merchant_of_pid(tx, pid)
        if owner is not None:
            conflicts.append(f"{pid}: {owner[0]} ({owner[1]})")
    return conflicts


async def run(
    db: Db,
    settings: Settings,
    requested: Import,
    old_server: Survey,
    now: int,
    advance: Callable[[int], None] = lambda _: None,
) -> Done:
    """Write what is not here yet. Raises Invalid, ConfigurationError and BadSource."""
    async with db.connection() as tx:
        conflicts = await find_conflicts(tx, old_server)
    if conflicts:
        more = len(conflicts) - _SHOWN
        names = ", ".join(conflicts[:_SHOWN]) + (f" and {more} more" if more > 0 else "")
        raise Invalid("pid", f"pid must be one that no merchant here has: {names}")
    done = Done()
    if old_server.private_key:
        await db.run(
            lambda tx: epay.adopt_platform_key(
                tx, settings.secret_key, old_server.private_key, now, actor=requested.actor
            )
        )
    imported = await _prepare(db, settings, requested, old_server, done, now)
    await _write_rows(db, settings, requested, old_server, imported, done, advance, now)
    for uid, merchant in sorted(imported.items()):
        if merchant.state == "FINISHED":
            continue
        old = old_server.merchants[uid]
        is_whole = old_server.is_complete(uid) and uid not in done.incomplete
        accepted = requested.accept_left_out and not old.off
        is_complete = (is_whole or accepted) and uid not in done.changed
        if not is_complete:
            done.unfinished.append(uid)
        elif await _finish(db, settings, requested.actor, merchant, old, now):
            done.finished += 1
            done.opened_minor += old.balance_minor
    return done


async def _prepare(
    db: Db, settings: Settings, requested: Import, old_server: Survey, done: Done, now: int
) -> dict[int, ImportedMerchant]:
    """Create the merchants that are not here yet, switched off; return all by their old numbers."""
    async with db.connection() as tx:
        rows = await queries.OF_PIDS.all(tx, pid=list(old_server.merchants), currency=CURRENCY)
    imported = {row.pid: row for row in rows}
    for uid, old in sorted(old_server.merchants.items()):
        if uid not in imported:
            imported[uid] = await _create(db, settings, requested.actor, old_server, old, now)
            done.merchants += 1
    return imported


async def _create(
    db: Db, settings: Settings, actor: Actor, old_server: Survey, old: OldMerchant, now: int
) -> ImportedMerchant:
    fees, _ = rates.find_fees(old, old_server.groups, old_server.channels, old_server.types)
    default = max(fees.values(), default=Decimal(0))
    changes = tuple(f"{method}={fee:f}" for method, fee in fees.items() if fee < 1)

    async def work(tx: Tx) -> ImportedMerchant:
        merchant = await merchants.create(
            tx,
            name=old.name,
            now=now,
            settlement_currency=CURRENCY,
            fee_changes=changes,
            who=actor.who,
            reason=actor.reason,
            platform_fee_rate=default if default < 1 else Decimal(0),
            settlement_delay_days=0,
        )
        await _switch_off(tx, merchant.id, old, actor, now)
        keys = _keys_of(merchant.id, old)
        product_id = await epay.insert_credentials(tx, settings, keys, now, actor=actor)
        await queries.INSERT.run(tx, merchant_id=merchant.id, pid=old.uid, now=now)
        return ImportedMerchant(
            merchant_id=merchant.id, pid=old.uid, state="RUNNING", product_id=product_id
        )

    return await db.run(work)


def _keys_of(merchant_id: str, old: OldMerchant) -> epay.NewMerchantKeys:
    return epay.NewMerchantKeys(
        merchant_id=merchant_id,
        pid=old.uid,
        key=old.key,
        versions=old.versions,
        public_key=old.public_key,
    )


async def _switch_off(tx: Tx, merchant_id: str, old: OldMerchant, actor: Actor, now: int) -> None:
    """Switch off what the old server has switched off. Idempotent."""
    switches: dict[Capability, str] = {
        "charge": old.charge_off,
        "refund": old.refund_off,
        "payout": old.payout_off,
    }
    for capability, why in switches.items():
        if why:
            await merchants.set_capability(
                tx, merchant_id, capability, on=False, actor=Actor(actor.who, why), now=now
            )


async def _write_rows(  # noqa: PLR0913 - the parts of an import
    db: Db,
    settings: Settings,
    requested: Import,
    old_server: Survey,
    imported: Mapping[int, ImportedMerchant],
    done: Done,
    advance: Callable[[int], None],
    now: int,
) -> None:
    """Write orders and refunds of merchants that are not finished, reading ahead by one batch."""
    unfinished = {uid for uid, merchant in imported.items() if merchant.state == "RUNNING"}
    if not unfinished:
        return
    tables = Tables(requested.prefix)
    reader = Reader(settings.epay_time_zone, old_server.types)
    writer = Writer(imported, requested.gateways)
    batches = read_batches(requested.rows(tables), tables, reader, unfinished.__contains__)
    running: asyncio.Task[Done] | None = None
    try:
        while (batch := await asyncio.to_thread(next, batches, None)) is not None:
            if running is not None:
                _add(done, await running)
            running = asyncio.create_task(_write(db, writer, batch, now))
            advance(len(batch.orders))
        if running is not None:
            _add(done, await running)
    finally:
        if running is not None and not running.done():
            await asyncio.wait([running])


async def _write(db: Db, writer: Writer, batch: Batch, now: int) -> Done:
    try:
        return await db.run(lambda tx: writer.write(tx, batch, now))
    except asyncpg.UniqueViolationError:  # a second import has written the same orders meanwhile
        return await db.run(lambda tx: writer.write(tx, batch, now))


def _add(done: Done, part: Done) -> None:
    done.orders += part.orders
    done.orders_before += part.orders_before
    done.refunds += part.refunds
    done.left_out += part.left_out
    done.incomplete |= part.incomplete
    done.changed |= part.changed


async def _finish(
    db: Db,
    settings: Settings,
    actor: Actor,
    merchant: ImportedMerchant,
    old: OldMerchant,
    now: int,
) -> bool:
    """Post the opening balance and switch a merchant on; return False if that was done already."""

    async def work(tx: Tx) -> bool:
        await merchants.lock(tx, merchant.merchant_id)
        if await queries.STATE.get(tx, merchant_id=merchant.merchant_id) == "FINISHED":
            return False
        if old.balance_minor:
            opening = adjustments.AdjustmentRequest(
                kind="recharge",
                amount_minor=old.balance_minor,
                reason=f"opening balance of pid {old.uid}: {actor.reason}",
                by=actor.who,
                reference=f"epay-import-{old.uid}",
            )
            await adjustments.request(tx, merchant.merchant_id, opening, None, now)
        # An earlier dump may have had other keys and switches.
        await _switch_off(tx, merchant.merchant_id, old, actor, now)
        await epay.replace_imported_keys(tx, settings, _keys_of(merchant.merchant_id, old), now)
        await epay.enable(tx, settings, merchant.merchant_id, now, actor=actor)
        await epay.start_imported_notices(tx, merchant.merchant_id, now)
        await queries.FINISH.run(tx, merchant_id=merchant.merchant_id, now=now)
        return True

    return await db.run(work)
