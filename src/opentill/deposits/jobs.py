"""The worker's job on deposits: reading chains, and applying what arrived to payment attempts."""

from collections.abc import Mapping, Sequence
from decimal import Decimal
from functools import partial
from typing import Final

import structlog

from opentill import orders
from opentill.core.money import EXPONENTS, Money
from opentill.db import jobs
from opentill.db.database import Db, Tx
from opentill.deposits import queries
from opentill.deposits.model import DueReport
from opentill.deposits.scanning import Account, open_case, scan
from opentill.gateways.deposits import SCALE, Transfer, takes_deposits
from opentill.gateways.model import Gateway, PaymentOutcome
from opentill.orders.payments import deposit_addresses

_BATCH: Final = 100
_log: Final = structlog.get_logger()


async def scan_all(db: Db, gateways: Mapping[str, Gateway], now: int) -> int:
    """Read the chains of all accounts and apply what arrived; return the number of reports."""
    accounts = [
        Account(name, gateway) for name, gateway in gateways.items() if takes_deposits(gateway)
    ]

    async def run(account: Account) -> None:
        unconfirmed = await scan(db, account, now)
        await _apply_seen(db, account, unconfirmed, now)

    await jobs.each(accounts, run, lambda account: account.name)
    reports = 0
    for account in accounts:
        reports += await apply_due(db, account.name, now)
    return reports


async def _apply_seen(db: Db, account: Account, unconfirmed: Sequence[Transfer], now: int) -> None:
    """Mark attempts as pending for which enough money is in blocks without confirmations."""
    tokens = {token.address: token for token in account.gateway.tokens}
    seen: dict[str, int] = {}
    for each in unconfirmed:
        token = tokens.get(each.token)
        if token is not None:
            seen[each.recipient] = seen.get(each.recipient, 0) + token.scaled(each.units)

    async def apply(address: str) -> None:
        await db.run(
            partial(
                _mark_seen, account=account.name, address=address, scaled=seen[address], now=now
            )
        )

    await jobs.each(seen, apply, lambda address: address)


async def _mark_seen(tx: Tx, *, account: str, address: str, scaled: int, now: int) -> None:
    row = await deposit_addresses.find_by_address(tx, address)
    if row is None:
        return
    progress = await queries.PROGRESS.one(tx, attempt_id=row.attempt_id)
    if progress.received + scaled < progress.due or progress.seen_at is not None:
        return
    if await queries.MARK_SEEN.get(tx, address=address, now=now):
        outcome = PaymentOutcome(status="PENDING", reason="confirming")
        await _apply(tx, account, row.attempt_id, outcome, now)


async def apply_due(db: Db, account: str, now: int) -> int:
    """Report new sums to the attempts of an account; return how many there were."""
    async with db.connection() as tx:
        due = await queries.DUE.all(tx, account=account, now=now, limit=_BATCH)

    async def report(row: DueReport) -> None:
        await db.run(partial(_report, account=account, address=row.address, now=now))

    return await jobs.each(due, report, lambda row: row.attempt_id)


async def _report(tx: Tx, *, account: str, address: str, now: int) -> None:
    """Apply the sum at an address to its attempt, once."""
    # Nothing that has locked an order waits for the sum of an address, so it may be locked first.
    row = await queries.LOCK_DUE.first(tx, address=address)
    if row is None:
        return
    await queries.SET_REPORTED.run(tx, address=address, reported=row.received)
    if row.received >= row.due:
        amount = Money(row.amount_minor, row.currency)
    elif row.received:
        amount = Money(_floor(row.received, row.currency), row.currency)
    else:
        return  # all of it was removed by a reorganisation, which has a case
    outcome = PaymentOutcome(status="SUCCEEDED", amount=amount, method="CRYPTO")
    await _apply(tx, account, row.attempt_id, outcome, now)
    if row.received > row.due:
        await _open_excess(tx, row, now)


async def _apply(tx: Tx, account: str, attempt_id: str, outcome: PaymentOutcome, now: int) -> None:
    merchant_id = await orders.merchant_of(tx, attempt_id)
    await orders.apply_outcome(tx, merchant_id, attempt_id, outcome, now, gateway=account)


def _floor(scaled: Decimal, currency: str) -> int:
    """Return whole minor units of a sum in multiples of 10**-18."""
    units_of_minor: int = 10 ** (SCALE - EXPONENTS[currency])
    return int(scaled) // units_of_minor


async def _open_excess(tx: Tx, row: DueReport, now: int) -> None:
    """Open a case for each transfer that is above the amount due, with its excess part."""
    address = await deposit_addresses.find_by_address(tx, row.address)
    if address is None:
        raise AssertionError
    total = Decimal(0)
    for transfer in await queries.TRANSFERS_OF_ADDRESS.all(tx, address=row.address):
        total += transfer.scaled
        excess = min(total - row.due, transfer.scaled)
        if excess > 0:
            units = Decimal(int(excess) * int(transfer.units) // int(transfer.scaled))
            if units:
                await open_case(tx, "EXCESS", address, transfer, units, now)
