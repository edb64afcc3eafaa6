"""Every check that many tests rely on fails when a defect is planted.

``tests/ledger/corruptions.py`` plants defects for the integrity rules.
"""

import contextlib
import sqlite3
from decimal import ROUND_DOWN
from email.message import EmailMessage
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest

from exploration.test_random_histories import explore
from opentill import adjustments, merchants
from opentill.adjustments import AdjustmentRequest
from opentill.db.database import Db, Tx
from support import concurrent_movements, mailing, world
from support.crash_load import CrashLoad
from support.dispatcher_crashes import assert_all_arrived
from support.mail_server import MailServer
from support.webhook_harness import running_harness, wait_until
from support.webhook_receiver import receiving


async def _execute(db: Db, statement: str, *values: object, triggers: bool = True) -> None:
    async with db.transaction() as tx:
        if not triggers:
            await tx.execute("set local session_replication_role = replica")
        await tx.execute(statement, *values)


# ── mail and webhooks ──────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("copies", [0, 2])
async def test_a_lost_or_repeated_mail_is_detected(db: Db, copies: int) -> None:
    with MailServer() as server:
        await mailing.queue_mails(db, mailing.mail_settings(server.url), 2)
        async with db.connection() as tx:
            mails = await tx.fetch("select recipient, message_id from mails order by recipient")
        messages = []
        for mail in mails:
            message = EmailMessage()
            message["Message-ID"] = mail["message_id"]
            messages.append((mail["recipient"], message))
        await _execute(db, "update mails set status = 'SENT', due_at = null", triggers=False)
        server.accepted = list(messages)
        await mailing.assert_delivered_once(db, server, 2)
        server.accepted = messages[:1] + messages[1:] * copies
        with pytest.raises(AssertionError):
            await mailing.assert_delivered_once(db, server, 2)


async def test_a_missing_or_changed_event_is_detected(db: Db, database_url: str) -> None:
    async with running_harness(database_url) as harness, receiving() as receiver:
        merchant_id = await harness.create_merchant()

        async def nothing_is_pending() -> bool:
            return "PENDING" not in await harness.count_statuses()

        await harness.create_endpoint(merchant_id, receiver.url)
        await harness.emit(merchant_id, 2)
        with pytest.raises(AssertionError):
            await assert_all_arrived(harness, receiver)
        async with harness.dispatching():
            await wait_until(receiver.accepted_event_ids)
            await wait_until(nothing_is_pending)
        await assert_all_arrived(harness, receiver)
        await _execute(db, "update events set body = body || ' '", triggers=False)
        with pytest.raises(AssertionError):
            await assert_all_arrived(harness, receiver)
    await _execute(db, "delete from events", triggers=False)


# ── crashes: the bank's payments, and acknowledged requests ────────────────────────────────────


class FinishedLoad(CrashLoad):
    """The end of a crash test: no server runs, and the bank is a file with payments."""

    def __init__(self, folder: Path, db: Db) -> None:
        """Create the bank's file in ``folder``."""
        super().__init__(folder, cast("Any", SimpleNamespace(processes=[])), db)
        (folder / "bank").mkdir()
        with contextlib.closing(sqlite3.connect(self._file)) as bank:
            bank.execute("create table payments (id, status, amount_minor, refunded_minor)")

    @property
    def _file(self) -> Path:
        return self.folder / "bank" / "sandbox.sqlite3"

    def store_payment(self, attempt_id: str | None, amount_minor: int) -> None:
        """Store a captured payment at the bank."""
        with contextlib.closing(sqlite3.connect(self._file)) as bank:
            bank.execute("delete from payments where id = ?", (attempt_id,))
            row = (attempt_id, "succeeded", amount_minor, 0)
            bank.execute("insert into payments values (?, ?, ?, ?)", row)
            bank.commit()


@pytest.fixture
async def load(db: Db, tmp_path: Path) -> FinishedLoad:
    """A finished crash test without defects: bank, books and merchant have one paid order."""
    async with db.transaction() as tx:
        order = await world.create_order_in(tx, "PAID")
    load = FinishedLoad(tmp_path, db)
    load.store_payment(order.paid_attempt_id, order.amount_minor)
    load.opened_orders = {order.id}
    load.paid_orders = {order.merchant_id: [order.id]}
    await load.assert_consistent(5)
    return load


async def test_a_payment_of_the_bank_without_an_order_is_detected(load: FinishedLoad) -> None:
    load.store_payment("att_unknown", 100)
    with pytest.raises(AssertionError):
        await load.assert_consistent(0.1)


async def test_a_payment_captured_with_another_amount_is_detected(load: FinishedLoad) -> None:
    async with load.db.connection() as tx:
        attempt_id = await tx.fetchval("select paid_attempt_id from orders")
    load.store_payment(attempt_id, 1)
    with pytest.raises(AssertionError):
        await load.assert_consistent(0.1)


@pytest.mark.parametrize("lost", ["opened", "refunded", "paid"])
async def test_a_lost_acknowledged_write_is_detected(load: FinishedLoad, lost: str) -> None:
    if lost == "opened":
        load.opened_orders.add("order_lost")
    elif lost == "refunded":
        load.accepted_refunds["re_lost"] = "order_lost"
    else:
        async with load.db.transaction() as tx:
            order = await world.create_order_in(tx, "PENDING")
        load.paid_orders[order.merchant_id] = [order.id]
    with pytest.raises((AssertionError, KeyError)):
        await load.assert_consistent(5)


async def test_an_attempt_that_never_ends_is_detected(load: FinishedLoad) -> None:
    async with load.db.transaction() as tx:
        await world.create_order_in(tx, "CREATING")
    with pytest.raises(AssertionError):
        await load.assert_consistent(0.1)


# ── concurrent movements ───────────────────────────────────────────────────────────────────────


async def test_an_excessive_payout_and_a_broken_audit_chain_are_detected(tx: Tx) -> None:
    run: Any = SimpleNamespace(done=concurrent_movements.MOVEMENTS)
    shop = await world.create_merchant(tx)
    request = AdjustmentRequest(
        kind="recharge", amount_minor=100, reference=world.new_reference(), reason="why", by="ann"
    )
    await adjustments.request(tx, shop.id, request, None, world.NOW)
    for number in range(3):
        actor = merchants.Actor("ann", "why")
        await merchants.record_audit(tx, actor, "test", shop.id, str(number), world.NOW)
    await concurrent_movements.assert_consistent(tx, run)
    for defect in (
        (
            "update entries set type = 'PAYOUT', from_account = 'available', to_account = 'bank',"
            " shown_minor = -amount_minor, available_after = -1"
        ),
        "delete from audit_log where number = (select max(number) - 1 from audit_log)",
    ):
        transaction = tx.transaction()
        await transaction.start()
        await tx.execute("set local session_replication_role = replica")
        assert not (await tx.execute(defect)).endswith(" 0")
        with pytest.raises(AssertionError):
            await concurrent_movements.assert_consistent(tx, run)
        await transaction.rollback()
    run.done = set()
    with pytest.raises(AssertionError):
        await concurrent_movements.assert_consistent(tx, run)


# ── random histories against the model ─────────────────────────────────────────────────────────


def test_amounts_rounded_down_are_detected(
    rollback_database_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("opentill.core.money.ROUND_HALF_UP", ROUND_DOWN)
    with pytest.raises(AssertionError):
        explore(rollback_database_url, 6, 40, fixed=True)
