"""Administrators who add and change accounts at once, and a crash before an account is saved."""

import asyncio
from typing import Any

import pytest

from gateways.test_accounts import SETTINGS, create_request
from opentill.core.errors import Invalid
from opentill.db.database import Db, Tx
from opentill.gateways import accounts
from opentill.gateways.account import GatewayAccount
from opentill.gateways.accounts import AccountChanges
from support.people import TESTER
from support.transactions import db
from support.world import NOW

__all__ = ["db"]
TOGETHER = 6


async def _add(tx: Tx, label: str) -> GatewayAccount:
    return await accounts.add(tx, SETTINGS, create_request(label=label), NOW, actor=TESTER)


def _split(results: list[Any]) -> tuple[list[GatewayAccount], list[str]]:
    """Return the accounts, and the fields of the refusals."""
    for result in results:
        if isinstance(result, BaseException) and not isinstance(result, Invalid):
            raise result
    refused = [str(result.field) for result in results if isinstance(result, Invalid)]
    return [result for result in results if isinstance(result, GatewayAccount)], refused


async def _count(db: Db, table: str) -> int:
    return int(await db.read(lambda tx: tx.fetchval(f"select count(*) from {table}")))


async def test_one_label_is_given_to_one_of_accounts_that_are_added_at_once(db: Db) -> None:
    audited = await _count(db, "audit_log")

    async def add(tx: Tx) -> GatewayAccount:
        account = await _add(tx, "Main")
        await asyncio.sleep(0.2)  # the others have read by now that the label is free
        return account

    results = await asyncio.gather(*(db.run(add) for _ in range(TOGETHER)), return_exceptions=True)
    added, refused = _split(results)
    assert (len(added), refused) == (1, ["label"] * (TOGETHER - 1))
    assert await _count(db, "gateway_accounts") == 1
    assert await _count(db, "audit_log") == audited + 1


async def test_one_label_is_given_to_one_of_accounts_that_are_changed_at_once(db: Db) -> None:
    created = [
        await db.run(lambda tx, n=number: _add(tx, f"Bank {n}")) for number in range(TOGETHER)
    ]

    async def change(tx: Tx, account: GatewayAccount) -> GatewayAccount:
        changes = AccountChanges(label="main")
        changed = await accounts.change(tx, SETTINGS, account.id, changes, NOW, actor=TESTER)
        await asyncio.sleep(0.2)
        return changed

    results = await asyncio.gather(
        *(db.run(lambda tx, a=account: change(tx, a)) for account in created),
        return_exceptions=True,
    )
    changed, refused = _split(results)
    assert (len(changed), refused) == (1, ["label"] * (TOGETHER - 1))


@pytest.mark.parametrize("again", ["Main", "Other"])
async def test_a_transaction_that_ends_before_its_commit_saves_nothing(db: Db, again: str) -> None:
    """The process is killed after the provider has accepted the credentials."""
    adapter = accounts.build(create_request(), SETTINGS)
    await adapter.close()
    connection = await db.borrow()
    pid = await connection.fetchval("select pg_backend_pid()")
    transaction = connection.transaction()
    await transaction.start()
    await _add(connection, "Main")
    await db.read(lambda tx: tx.execute("select pg_terminate_backend($1)", pid))
    db.give_back(connection)
    assert await _count(db, "gateway_accounts") == 0
    assert (await db.run(lambda tx: _add(tx, again))).label == again
