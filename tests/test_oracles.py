"""Each check that the suite relies on sees a planted defect: one that cannot fail proves nothing.

The integrity rules have theirs in ``tests/ledger/corruptions.py``.
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
from support.crash_load import Storm
from support.dispatcher_crashes import assert_all_arrived
from support.mail_server import MailServer
from support.webhook_harness import until, webhook_harness
from support.webhook_receiver import receiving


async def _execute(db: Db, statement: str, *values: object, triggers: bool = True) -> None:
    async with db.transaction() as tx:
        if not triggers:
            await tx.execute("set local session_replication_role = replica")
        await tx.execute(statement, *values)


# ── mail and webhooks ──────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("copies", [0, 2])
async def test_a_mail_that_is_lost_or_sent_twice_is_seen(db: Db, copies: int) -> None:
    with MailServer() as server:
        await mailing.fill(db, mailing.settings_of(server.url), 2)
        async with db.connection() as tx:
            mails = await tx.fetch("select recipient, message_id from mails order by recipient")
        messages = []
        for mail in mails:
            message = EmailMessage()
            message["Message-ID"] = mail["message_id"]
            messages.append((mail["recipient"], message))
        await _execute(db, "update mails set status = 'SENT', due_at = null", triggers=False)
        server.taken = list(messages)
        await mailing.each_once(db, server, 2)
        server.taken = messages[:1] + messages[1:] * copies
        with pytest.raises(AssertionError):
            await mailing.each_once(db, server, 2)


async def test_an_event_that_does_not_arrive_or_arrives_changed_is_seen(
    db: Db, database_url: str
) -> None:
    async with webhook_harness(database_url) as harness, receiving() as receiver:
        merchant_id = await harness.merchant()

        async def _nothing_is_pending() -> bool:
            return "PENDING" not in await harness.statuses()

        await harness.endpoint(merchant_id, receiver.url)
        await harness.emit(merchant_id, 2)
        with pytest.raises(AssertionError):
            await assert_all_arrived(harness, receiver)
        async with harness.dispatching():
            await until(receiver.ids)
            await until(_nothing_is_pending)
        await assert_all_arrived(harness, receiver)
        await _execute(db, "update events set body = body || ' '", triggers=False)
        with pytest.raises(AssertionError):
            await assert_all_arrived(harness, receiver)
    await _execute(db, "delete from events", triggers=False)


# ── crashes: what the bank has, what was acknowledged ──────────────────────────────────────────


class QuietStorm(Storm):
    """A storm that is over: no server runs, and the bank is a file with payments."""

    def __init__(self, folder: Path, db: Db) -> None:
        """``folder`` gets the bank's file."""
        super().__init__(folder, cast("Any", SimpleNamespace(processes=[])), db)
        (folder / "bank").mkdir()
        with contextlib.closing(sqlite3.connect(self._file)) as bank:
            bank.execute("create table payments (id, status, amount_minor, refunded_minor)")

    @property
    def _file(self) -> Path:
        return self.folder / "bank" / "sandbox.sqlite3"

    def bank_has(self, attempt_id: str | None, amount_minor: int) -> None:
        """Have the bank keep this much of an attempt."""
        with contextlib.closing(sqlite3.connect(self._file)) as bank:
            bank.execute("delete from payments where id = ?", (attempt_id,))
            row = (attempt_id, "succeeded", amount_minor, 0)
            bank.execute("insert into payments values (?, ?, ?, ?)", row)
            bank.commit()


@pytest.fixture
async def storm(db: Db, tmp_path: Path) -> QuietStorm:
    """A storm after which all is right: one order that bank, books and merchant know as paid."""
    async with db.transaction() as tx:
        order = await world.create_order_in(tx, "PAID")
    quiet = QuietStorm(tmp_path, db)
    quiet.bank_has(order.paid_attempt_id, order.amount_minor)
    quiet.opened = {order.id}
    quiet.paid = {order.merchant_id: [order.id]}
    await quiet.reckon(5)
    return quiet


async def test_money_at_the_bank_that_no_order_has_is_seen(storm: QuietStorm) -> None:
    storm.bank_has("att_unknown", 100)
    with pytest.raises(AssertionError):
        await storm.reckon(0.1)


async def test_a_payment_captured_with_another_amount_is_seen(storm: QuietStorm) -> None:
    async with storm.db.connection() as tx:
        attempt_id = await tx.fetchval("select paid_attempt_id from orders")
    storm.bank_has(attempt_id, 1)
    with pytest.raises(AssertionError):
        await storm.reckon(0.1)


@pytest.mark.parametrize("lost", ["opened", "refunded", "paid"])
async def test_what_was_acknowledged_and_is_not_there_is_seen(storm: QuietStorm, lost: str) -> None:
    if lost == "opened":
        storm.opened.add("order_lost")
    elif lost == "refunded":
        storm.refunded["re_lost"] = "order_lost"
    else:
        async with storm.db.transaction() as tx:
            order = await world.create_order_in(tx, "PENDING")
        storm.paid[order.merchant_id] = [order.id]
    with pytest.raises((AssertionError, KeyError)):
        await storm.reckon(5)


async def test_an_attempt_that_never_ends_is_seen(storm: QuietStorm) -> None:
    async with storm.db.transaction() as tx:
        await world.create_order_in(tx, "CREATING")
    with pytest.raises(AssertionError):
        await storm.reckon(0.1)


# ── concurrent movements ───────────────────────────────────────────────────────────────────────


async def test_a_payout_of_more_than_there_is_and_a_broken_audit_chain_are_seen(tx: Tx) -> None:
    hammer: Any = SimpleNamespace(done=concurrent_movements.EVERYTHING)
    shop = await world.create_merchant(tx)
    request = AdjustmentRequest(
        kind="recharge", amount_minor=100, reference=world.new_reference(), reason="why", by="ann"
    )
    await adjustments.request(tx, shop.id, request, None, world.NOW)
    for number in range(3):
        actor = merchants.Actor("ann", "why")
        await merchants.record_audit(tx, actor, "test", shop.id, str(number), world.NOW)
    await concurrent_movements.reckon(tx, hammer)
    for defect in (
        (
            "update entries set type = 'PAYOUT', from_account = 'available', to_account = 'bank',"
            " shown_minor = -amount_minor, available_after = -1"
        ),
        "delete from audit_log where number = (select max(number) - 1 from audit_log)",
    ):
        planted = tx.transaction()
        await planted.start()
        await tx.execute("set local session_replication_role = replica")
        assert not (await tx.execute(defect)).endswith(" 0")
        with pytest.raises(AssertionError):
            await concurrent_movements.reckon(tx, hammer)
        await planted.rollback()
    hammer.done = set()
    with pytest.raises(AssertionError):
        await concurrent_movements.reckon(tx, hammer)


# ── random histories against the model ─────────────────────────────────────────────────────────


def test_money_that_is_rounded_down_differs_from_the_model(
    rollback_database_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("opentill.core.money.ROUND_HALF_UP", ROUND_DOWN)
    with pytest.raises(AssertionError):
        explore(rollback_database_url, 6, 40, fixed=True)
