"""Every statement that locks rows waits for another session's change and then returns it.

The tests collect the statements themselves. One without a row in ``CASES`` fails the first test.
"""

import ast
import asyncio
import re
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, Final, NamedTuple

import asyncpg
import pytest

import opentill
from opentill import merchants, payment_links, payouts, webhooks
from opentill.core.ids import new_id
from opentill.core.settings import Settings
from opentill.db.database import Db, Tx
from opentill.db.query import Statement
from opentill.orders.search import queries as search_queries
from opentill.payment_links import LinkBody, LinkItemBody
from opentill.webhooks import catchup_queries
from opentill.webhooks import queries as webhook_queries
from support import payout_runs, world
from support.databases import cloned_database
from support.sources import nodes
from support.statements import LOCKING, LOCKS, without_comments

Row = asyncpg.Record
LATE: Final = world.NOW * 2
PATIENCE_S: Final = 60.0


class Case(NamedTuple):
    """A row that a statement locks, and the change that another session makes to it."""

    table: str
    values: Callable[[Row], dict[str, Any]]  # returns the statement's parameters for the row
    change: str = "updated_at = updated_at + 1"
    changed_column: str | None = "updated_at"  # a column of the result that shows the change
    where: str = "true"
    # Whether other sessions may insert rows that refer to the locked one.
    allows_references: bool = False


def by_id(row: Row) -> dict[str, Any]:
    return {"merchant_id": row["merchant_id"], "id": row["id"]}


def by_ids(row: Row) -> dict[str, Any]:
    return {"merchant_id": [row["merchant_id"]], "id": [row["id"]]}


def by_balance(row: Row) -> dict[str, Any]:
    return {"merchant_id": row["merchant_id"], "currency": row["currency"]}


def by_merchant(row: Row) -> dict[str, Any]:
    return {"merchant_id": row["merchant_id"]}


PROCESSING: Final = "status = 'PROCESSING'"
CLAIM: Final = {
    "now": LATE, "lease_until": LATE, "limit": 1000, "gateways": None, "included": True,
}  # fmt: skip
IDLE: Final = Case(
    "orders",
    lambda row: {
        "merchant_id": row["merchant_id"],
        "payment_link_id": row["payment_link_id"],
        "before": LATE,
    },
    changed_column=None,
    where="payment_link_id is not null",
)
MERCHANT: Final = Case(
    "merchants", lambda row: {"merchant_id": row["id"]}, changed_column=None, allows_references=True
)
# Statements that change the rows that they lock.
CHANGING: Final = tuple(
    f"orders.transition_queries.SUBMITTED_{name}"
    for name in ("WITHIN_LIMIT", "PREPAID", "PREPAID_WITHIN_LIMIT")
)


def by_submission(row: Row) -> dict[str, Any]:
    return {
        "merchant_id": row["merchant_id"], "order_id": row["id"], "source": row["status"],
        "history_number": row["history_number"], "target": "CREATING", "event": "submitted",
        "cause": "", "customer_email": "", "customer_name": None, "payer_ip": "",
        "attempt_id": new_id("att"), "gateway": "gat_1", "method": "CREDIT_CARD",
        "amount_minor": 1, "currency": row["currency"], "locale": "en", "check_at": LATE,
        "now": LATE, "limit_day": 0, "route": None, "prepaid_minor": 0,
    }  # fmt: skip


def by_prepaid_submission(row: Row) -> dict[str, Any]:
    return {**by_submission(row), "settled_currency": row["settled_currency"]}


CASES: Final = {
    "orders.queries.LOCKED": Case("orders", by_id),
    "orders.transition_queries.SUBMITTED_WITHIN_LIMIT": Case(
        "orders", by_submission, changed_column=None, where="status = 'PENDING'"
    ),
    **dict.fromkeys(CHANGING[1:], Case(
        "orders", by_prepaid_submission, changed_column=None,
        where="status = 'PENDING' and merchant_id in (select merchant_id from balances)",
    )),
    "orders.payments.queries.LOCK_MANY": Case("orders", by_ids),
    "orders.payments.queries.LOCK_NUMBER": Case(
        "orders", by_id, changed_column=None, where="id in (select order_id from epay_orders)"
    ),
    "orders.settlement.queries.LOCK_SETTLEABLE": Case(
        "orders", by_id, where="settle_at is not null"
    ),
    "orders.settlement.queries.LOCK_DUE": Case(
        "orders",
        lambda row: {"merchant_id": row["merchant_id"], "until": LATE, "limit": 1000},
        where="settle_at is not null",
    ),
    "orders.payments.queries.CLAIM_ATTEMPTS": Case(
        "payment_attempts", lambda _: CLAIM, where="check_at is not null"
    ),
    "refunds.queries.SENDING": Case("refunds", by_id, "sent = not sent", "sent", PROCESSING),
    "refunds.queries.CLAIM": Case(
        "refunds", lambda _: CLAIM, where=PROCESSING
    ),
    "disputes.queries.LOCKED": Case("disputes", by_id),
    "disputes.queries.UNMATCHED": Case(
        "unmatched_disputes",
        lambda row: {name: row[name] for name in ("merchant_id", "gateway", "gateway_ref")},
    ),
    "refunds.queries.CASE": Case(
        "refund_cases",
        lambda row: {name: row[name] for name in ("merchant_id", "gateway", "gateway_ref")},
    ),
    "refunds.queries.CLAIM_UNMATCHED": Case(
        "refund_cases", lambda _: {"now": LATE, "limit": 1000}, where="kind = 'UNMATCHED'"
    ),
    "disputes.queries.CLAIM_UNMATCHED": Case(
        "unmatched_disputes", lambda _: {"now": LATE, "limit": 1000}
    ),
    "ledger.queries.LOCK_MANY": Case(
        "balances",
        lambda row: {name: [value] for name, value in by_balance(row).items()},
        "available = available + 1, bank = bank - 1",
        "available",
    ),
    "payouts.queries.LOCK_AVAILABLE": Case(
        "balances",
        by_balance,
        "available = available + 1, bank = bank - 1",
        "available",
    ),
    "payouts.queries.RUN_LOCKED": Case(
        "payout_runs", lambda row: {"id": row["id"]}, "reason = reason || '!'", "reason"
    ),
    "merchants.queries.LOCK": MERCHANT,
    "merchants.queries.LOCKED": MERCHANT._replace(changed_column="updated_at"),
    "merchants.queries.LOCK_FOR_UPDATE": MERCHANT._replace(
        changed_column="updated_at", allows_references=False
    ),
    "merchants.queries.LOCK_AUDIT_HEAD": Case(
        "audit_head", lambda _: {}, "number = number + 1", "number"
    ),
    "products.queries.LOCKED": Case("products", by_id),
    "payment_links.queries.LOCKED": Case("payment_links", by_id),
    "payment_links.queries.LOCK_IDLE": IDLE,
    "payment_links.queries.AWAIT_IDLE": IDLE,
    "epay.queries.LOCKED": Case("epay_credentials", by_merchant, allows_references=True),
    "epay.queries.CLAIM_NOTICES": Case(
        "epay_notifications",
        lambda _: {
            "now": LATE, "lease_until": LATE, "limit": 1000, "per_merchant": 50,
            "merchant_id": [], "notices": [],
        },
    ),
    "epay.queries.PRUNE_REQUESTS": Case(
        "epay_refunds", lambda _: {"until": LATE}, "created_at = created_at + 1", None
    ),
    "epay.queries.PRUNE_SIGNATURES": Case(
        "epay_signatures", lambda _: {"until": LATE}, "created_at = created_at + 1", None
    ),
    "orders.search.queries.LOCK_HEAD": Case(
        "search_heads", by_merchant, "merchant_id = merchant_id", None
    ),
    "webhooks.catchup_queries.LOCK_HEAD": Case(
        "event_heads", by_merchant, "number = number + 1", "number"
    ),
    "webhooks.queries.LOCKED": Case("webhook_endpoints", by_id),
    "webhooks.dispatch_queries.TAKE_LEASES": Case(
        "endpoint_leases",
        lambda _: {
            "now": LATE, "real_now": LATE, "owner": "me", "until": LATE, "limit": 1000,
            "failing_limit": 1000, "full_hosts": [], "per_host": 1000,
        },
        "failing_since = coalesce(failing_since, 0) + 1",
        "failing_since",
    ),
    "db.queries.PRUNE_WINDOWS": Case(
        "rate_limit_windows",
        lambda _: {
            "before": LATE, "before_hourly": LATE, "before_daily": LATE, "after": LATE,
        },
        "last_at = last_at + 1",
        None,
    ),
    "figures.queries.LOCK_HEAD": Case(
        "figure_heads", by_balance, "number = number + 1", "number"
    ),
    "figures.attempt_queries.LOCK_ATTEMPTS": Case(
        "attempt_figures", by_merchant, "failed = failed + 1", None, "since = 0"
    ),
    "orders.payments.queries.COUNT_FAILED": Case(
        "payment_attempts",
        lambda row: {**by_merchant(row), "limit": 1000},
        where="status = 'DECLINED' and counted_at is null",
    ),
    "orders.payments.direct_queries.COUNT_DIRECT": Case(
        "payment_attempts",
        lambda row: {**by_merchant(row), "limit": 1000},
        where="status = 'SUCCEEDED' and prepaid_minor is not null",
    ),
    "people.queries.LOCKED": Case("persons", lambda row: {"id": row["id"]}, allows_references=True),
    "people.queries.LOCK_REFRESHED": Case(
        "logins",
        lambda row: {"token_sha256": row["token_sha256"]},
        "used_at = used_at + 1",
        "used_at",
    ),
    "people.queries.LOCK_ADMINS": Case(
        "staff", lambda _: {}, "created_at = created_at + 1", "created_at"
    ),
    "http.queries.PRUNE": Case(
        "idempotency_keys", lambda _: {"before": LATE}, "created_at = created_at + 1", None
    ),
    "http.queries.PRUNE_REFUSED": Case(
        "refused_requests", lambda _: {"until": LATE}, "code = code + 1", None
    ),
    "mail.queries.CLAIM": Case(
        "mails", lambda _: {"now": LATE, "lease_until": LATE, "limit": 1000},
        where="status = 'WAITING'",
    ),
    "mail.queries.EXPIRE_LEASES": Case(
        "mails", lambda _: {"now": LATE, "limit": 1000, "result": "unknown"},
        changed_column=None, where="status = 'SENDING'",
    ),
    "mail.queries.GIVE_UP": Case(
        "mails", lambda _: {"now": LATE, "limit": 1000, "before": LATE},
        changed_column=None, where="status = 'WAITING'",
    ),
    "mail.queries.LOCK_HEAD": Case(
        "mail_heads", by_merchant, "number = number + 1", "number"
    ),
    "mail.queries.LOCK_PREPAID_NOTICE": Case(
        "prepaid_notices", by_balance, "number = number + 1", "number"
    ),
    "deposits.queries.LOCK_DUE": Case(
        "deposit_sums", lambda row: {"address": row["address"]}, "received = received + 1",
        "received",
    ),
    "http.queries.PRUNE_IGNORED": Case(
        "ignored_fields", lambda _: {"until": LATE}, "requests = requests + 1", None
    ),
    "merchants.queries.UPDATE_LAST_USED": Case(
        "api_keys",
        lambda row: {"id": [row["id"]], "used_at": [LATE // 60_000 * 60_000]},
        "hint = hint",
        None,
    ),
}  # fmt: skip


def _clause(name: str) -> re.Match[str]:
    match = LOCKS.search(without_comments(LOCKING[name].sql))
    assert match is not None
    return match


# Statements whose locks do not exclude each other; tests/merchants/test_standing.py tests them.
SHARING: Final = sorted(name for name in LOCKING if _clause(name).group(2) == "key share")
WAITING: Final = sorted(
    name for name in LOCKING if not _clause(name).group(4) and name not in SHARING
)
SKIPPING: Final = sorted(set(LOCKING) - set(WAITING) - set(SHARING))


def test_every_statement_that_locks_has_a_case() -> None:
    assert set(CASES) == set(LOCKING) - set(SHARING)
    assert SHARING == ["merchants.queries.FIND_SHARED", "orders.transition_queries.PLACE"]


def test_no_sql_outside_of_statements_locks_rows() -> None:
    statements = [without_comments(statement.text) for statement in LOCKING.values()]
    for path in Path(opentill.__file__).parent.rglob("*.py"):
        if not LOCKS.search(path.read_text()):
            continue
        docstrings = {id(node.value) for node in nodes(path) if isinstance(node, ast.Expr)}
        for node in nodes(path):
            if isinstance(node, ast.Constant) and isinstance(node.value, str):
                text = without_comments(node.value)
                if id(node) not in docstrings and LOCKS.search(text) and " from " in text:
                    assert any(text in sql for sql in statements), f"{path.name}: {text[:60]}"


# ── how cases change a row ─────────────────────────────────────────────────────────────────────


@pytest.fixture(scope="module")
def url(postgres_url: str, template: str) -> Iterator[str]:
    """A filled database of this module, without a pooler, which would mix up sessions."""
    with cloned_database(postgres_url, template) as clone_url:
        asyncio.run(_fill(clone_url))
        yield clone_url


async def _fill(url: str) -> None:
    db = await Db.connect(url, 4, acquire_timeout_s=20)
    try:
        await db.run(fill)
    finally:
        await db.close()


async def fill(tx: Tx) -> None:
    """Insert at least one row for each case."""
    order = await world.create_order_in(tx, "PAID")
    await world.create_refund(tx, order, "1.00")
    await payout_runs.create_payee(tx)
    await payouts.start_run(tx, payout_runs.run_request("W-1"), world.NOW)
    await world.create_order_in(tx, "CREATING")
    await world.create_order_in(tx, "DISPUTED")
    disputed = await world.create_order_in(tx, "REFUNDED")
    await world.report_dispute(tx, disputed, "OPENED", minor=5)
    await world.report_refund_event(tx, disputed, "SUCCEEDED", minor=5)
    declined = await world.create_order(tx)
    await world.report_payment(tx, await world.submit_attempt(tx, declined), "DECLINED")
    await _fill_features(tx, order.merchant_id, order.id)
    await _fill_deposits(tx)
    await _fill_figures_and_logins(tx, order.merchant_id)


async def _fill_deposits(tx: Tx) -> None:
    key, address = "0" * 32, "0x" + "0" * 40
    await tx.execute("insert into deposit_keys values ($1, 1)", key)
    await tx.execute(
        "insert into deposit_addresses values"
        " ($1, 'evm', 1, $2, 0, 'att_1', 1, 'USD', 1, null, 0, 0)",
        address,
        key,
    )
    await tx.execute("insert into deposit_sums values ($1, 1, 0, null)", address)


async def _fill_features(tx: Tx, merchant_id: str, order_id: str) -> None:
    await webhook_queries.INSERT_ENDPOINT.first(
        tx,
        merchant_id=merchant_id,
        id="whe_1",
        url="https://shop.example",
        description="",
        types=[],
        secret=b"",
        now=world.NOW,
    )
    event = webhooks.Event(merchant_id, "order.paid", {}, world.NOW)
    await webhooks.emit(tx, [event])
    link = LinkBody(item=LinkItemBody(name="A gift", currency="USD", price="5"))
    stored_link = await payment_links.create(tx, {}, merchant_id, link, world.NOW)
    selection = payment_links.Selection()
    await payment_links.open_session(tx, {}, stored_link, selection, Settings(), world.NOW)
    await catchup_queries.OPEN_HEAD.run(tx, merchant_id=merchant_id)
    await search_queries.ADD_HEAD.run(tx, merchant_id=merchant_id)
    await tx.execute(
        """
        insert into epay_credentials values ($1, 100000000, '', 'ENABLED', $2, null, $2)
        """,
        merchant_id,
        world.NOW,
    )
    await tx.execute(
        """
        insert into epay_orders (merchant_id, out_trade_no, order_id, checkout_id, type, name,
            money, money_type, notify_url, return_url, param, created_at)
        select merchant_id, 'N-1', id, checkout_id, 'bank', 'Tea', '1', 'USD', '', '', '',
            created_at
        from orders where merchant_id = $1 and id = $2
        """,
        merchant_id,
        order_id,
    )
    await tx.execute(
        "insert into epay_notifications values ($1, $2, 'WAITING', $3, 0, '', $3, $3)",
        merchant_id,
        order_id,
        world.NOW,
    )
    await tx.execute(
        "insert into epay_signatures values ($1, $2, 'pay/query', $3)",
        merchant_id,
        b"s" * 32,
        world.NOW,
    )
    await tx.execute(
        "insert into epay_refunds select merchant_id, $2, id, $3 from refunds"
        " where merchant_id = $1 limit 1",
        merchant_id,
        b"r" * 32,
        world.NOW,
    )
    await tx.execute(
        "insert into rate_limit_windows"
        " values ('ip', '192.0.2.1', array[$1::bigint], array[1], $1)",
        world.NOW,
    )
    await tx.execute(
        "insert into idempotency_keys values ($1, 'k', '', 200, '', $2)", merchant_id, world.NOW
    )
    await tx.execute(
        "insert into refused_requests values ($1, $2, 'req_1', 'key_1', 'GET', '/', 404, 40401, '',"
        " '', '')",
        merchant_id,
        world.NOW,
    )
    await tx.execute(
        "insert into ignored_fields values ($1, 'POST', '/v1/products', 'sku', 1, $2, 'r', 'k')",
        merchant_id,
        world.NOW,
    )
    await merchants.create_key(tx, merchant_id, "production", world.NOW)
    await tx.execute("insert into mail_heads values ($1, 0, 0)", merchant_id)
    await tx.execute("insert into prepaid_notices values ($1, 'USD', 'LOW', 0)", merchant_id)
    for status in ("WAITING", "SENDING"):
        await tx.execute(
            "insert into mails values ($1, $2, 'test', $2, 'a@example.com', null, 'en', '{}', null,"
            " '<a@b>', $2, 1, $3, '', $3, $3)",
            merchant_id,
            status,
            world.NOW,
        )


async def _fill_figures_and_logins(tx: Tx, merchant_id: str) -> None:
    await tx.execute(
        "insert into figure_heads select merchant_id, currency, 0 from balances"
        " where merchant_id = $1",
        merchant_id,
    )
    await tx.execute("insert into attempt_figures values ($1, 0, 0)", merchant_id)
    await tx.execute(
        "update payment_attempts set prepaid_minor = 0"
        " where merchant_id = $1 and status = 'SUCCEEDED'",
        merchant_id,
    )
    await tx.execute(
        "insert into persons values ('per_1', 'ann@example.com', 'Ann', '$argon2id$', null, null,"
        " 0, $1, $1)",
        world.NOW,
    )
    await tx.execute("insert into staff values ('per_1', 'admin', $1)", world.NOW)
    await tx.execute(
        "insert into logins values ('ses_1', 'per_1', $1, $2, $2, $2, false, '', '', $3, $1)",
        b"t" * 32,
        world.NOW,
        merchant_id,
    )


@asynccontextmanager
async def session(url: str) -> AsyncIterator[asyncpg.Connection]:
    """Open a session; its locks are released at the end of the block."""
    connection = await asyncpg.connect(url)
    try:
        await connection.execute("set default_transaction_isolation = 'read committed'")
        yield connection
    finally:
        connection.terminate()


class Sessions(NamedTuple):
    """The session that locks first, the one that waits, and two that only observe."""

    first: asyncpg.Connection
    second: asyncpg.Connection
    lock_observer: asyncpg.Connection
    row_observer: asyncpg.Connection

    async def is_blocked(self, task: asyncio.Future[Any]) -> bool:
        """Wait until the second session is blocked by the first; False if ``task`` ends."""
        first_pid = self.first.get_server_pid()
        async with asyncio.timeout(PATIENCE_S):
            while not task.done():
                blocking = await self.lock_observer.fetchval(
                    "select pg_blocking_pids($1)", self.second.get_server_pid()
                )
                if first_pid in blocking:
                    return True
                await asyncio.sleep(0.002)
        return False


@pytest.fixture
async def sessions(url: str) -> AsyncIterator[Sessions]:
    async with (
        session(url) as first,
        session(url) as second,
        session(url) as lock_observer,
        session(url) as row_observer,
    ):
        yield Sessions(first, second, lock_observer, row_observer)


class ChangedRow(NamedTuple):
    """A row that an open transaction has changed."""

    row: Row  # the row before the change
    ctid: str  # PostgreSQL's address of the new row version


async def change_row(sessions: Sessions, case: Case) -> ChangedRow:
    """Begin a transaction in the first session, and change a row of the case."""
    where = f"{case.table} where {case.where}"
    if case.table == "merchants":  # take the merchant that has rows in all features
        where += " and id in (select merchant_id from webhook_endpoints)"
    row = await sessions.row_observer.fetchrow(f"select ctid, * from {where} order by ctid limit 1")
    assert row is not None, f"nothing to lock in {where}"
    await sessions.first.execute("begin")
    ctid = await sessions.first.fetchval(
        f"update {case.table} set {case.change} where ctid = $1 returning ctid", row["ctid"]
    )
    return ChangedRow(row, ctid)


async def commit_change(sessions: Sessions, case: Case, changed: ChangedRow) -> Row:
    """Commit the first session's change, and return the row."""
    await sessions.first.execute("commit")
    row = await sessions.row_observer.fetchrow(
        f"select * from {case.table} where ctid = $1", changed.ctid
    )
    assert row is not None
    return row


async def is_locked(sessions: Sessions, case: Case, row: Row, strength: str) -> bool:
    """Whether another session fails to lock a row ``for strength``."""
    condition = " and ".join(
        f"{name} is not distinct from ${number}" for number, name in enumerate(row.keys(), 1)
    )
    statement = f"select from {case.table} where {condition} for {strength} nowait"
    try:
        async with sessions.row_observer.transaction():
            assert len(await sessions.row_observer.fetch(statement, *row.values())) >= 1
    except asyncpg.LockNotAvailableError:
        return True
    return False


# ── what a second session has to wait for ──────────────────────────────────────────────────────


@pytest.mark.parametrize("name", WAITING)
async def test_a_second_session_waits_and_reads_the_change_of_the_first(
    sessions: Sessions, name: str
) -> None:
    case, statement = CASES[name], LOCKING[name]
    changed = await change_row(sessions, case)
    await sessions.second.execute("begin")
    second = asyncio.ensure_future(_fetch(sessions.second, statement, case.values(changed.row)))
    assert await sessions.is_blocked(second), "it did not wait"
    row = await commit_change(sessions, case, changed)
    async with asyncio.timeout(PATIENCE_S):
        result = await second
    assert len(result) == 1
    if case.changed_column is not None:
        column = case.changed_column
        assert result[0][column] == row[column] != changed.row[column]


async def test_a_statement_without_its_lock_fails_the_test(
    sessions: Sessions, monkeypatch: pytest.MonkeyPatch
) -> None:
    name = "orders.queries.LOCKED"
    unlocked = re.sub(r"for (no key )?update", "", LOCKING[name].sql)
    assert unlocked != LOCKING[name].sql
    monkeypatch.setattr(LOCKING[name], "sql", unlocked)
    with pytest.raises(AssertionError, match="it did not wait"):
        await test_a_second_session_waits_and_reads_the_change_of_the_first(sessions, name)


@pytest.mark.parametrize("name", WAITING)
async def test_a_lock_lasts_until_the_commit_and_has_the_necessary_strength(
    sessions: Sessions, name: str
) -> None:
    case, statement = CASES[name], LOCKING[name]
    where = (
        case.where if case.table != "merchants" else "id = (select min(merchant_id) from orders)"
    )
    row = await sessions.row_observer.fetchrow(f"select * from {case.table} where {where} limit 1")
    assert row is not None
    await sessions.second.execute("begin")
    result = await _fetch(sessions.second, statement, case.values(row))
    assert len(result) == 1
    if statement.sql.lstrip().startswith("update") or name in CHANGING:
        await sessions.second.execute("rollback")
        return  # the update has changed the row, so the condition below does not match
    assert await is_locked(sessions, case, row, "no key update")
    # Payments insert rows that refer to rows which operators lock, and must not wait.
    assert await is_locked(sessions, case, row, "key share") == (not case.allows_references)
    await sessions.second.execute("commit")
    assert not await is_locked(sessions, case, row, "update")


@pytest.mark.parametrize("name", SKIPPING)
async def test_locked_rows_are_skipped_and_claimed_afterwards(
    sessions: Sessions, name: str
) -> None:
    case, statement = CASES[name], LOCKING[name]
    changed = await change_row(sessions, case)

    async def run() -> list[Row]:
        await sessions.second.execute("begin")
        return await _fetch(sessions.second, statement, case.values(changed.row))

    second = asyncio.ensure_future(run())
    assert not await sessions.is_blocked(second), "it waited"
    assert not any(_is_same_row(changed.row, row) for row in await second)
    await sessions.second.execute("rollback")
    await sessions.first.execute("commit")
    await run()
    assert str(changed.ctid) in await _find_locked(sessions, case)


async def _fetch(
    connection: asyncpg.Connection, statement: Statement, values: dict[str, Any]
) -> list[Row]:
    rows: list[Row] = await connection.fetch(statement.sql, *statement.values(None, values))
    return rows


def _is_same_row(row: Row, result: Row) -> bool:
    """Whether a row of a table and a row of a result have the same ids."""
    names = {"merchant_id", "id", "order_id", "endpoint_id", "gateway_ref"} & {*row.keys()}
    common = names & {*result.keys()}
    return bool(common) and all(row[name] == result[name] for name in common)


async def _find_locked(sessions: Sessions, case: Case) -> set[str]:
    """Return the ctids of the locked rows of the case's table."""
    async with sessions.row_observer.transaction():
        rows = await sessions.row_observer.fetch(f"select ctid from {case.table}")
        free = await sessions.row_observer.fetch(
            f"select ctid from {case.table} for no key update skip locked"
        )
    return {str(row["ctid"]) for row in rows} - {str(row["ctid"]) for row in free}


@pytest.mark.parametrize(
    ("name", "table", "key"),
    [
        ("orders.payments.queries.LOCK_MANY", "orders", "id"),
        ("ledger.queries.LOCK_MANY", "balances", "currency"),
    ],
)
async def test_several_rows_are_locked_in_a_fixed_order(
    sessions: Sessions, name: str, table: str, key: str
) -> None:
    rows = await sessions.row_observer.fetch(
        f"select * from {table} order by merchant_id, {key} limit 2"
    )
    assert len(rows) == 2
    requested = list(reversed(rows))
    await sessions.first.execute("begin")
    await sessions.first.fetch(
        f"select from {table} where merchant_id = $1 and {key} = $2 for update",
        rows[0]["merchant_id"],
        rows[0][key],
    )
    await sessions.second.execute("begin")
    second = asyncio.ensure_future(
        _fetch(
            sessions.second,
            LOCKING[name],
            {
                "merchant_id": [row["merchant_id"] for row in requested],
                key: [row[key] for row in requested],
            },
        )
    )
    assert await sessions.is_blocked(second)
    case = Case(table, by_id)
    assert not await is_locked(sessions, case, rows[1], "update")
    await sessions.first.execute("rollback")
    assert [row[key] for row in await second] == [row[key] for row in rows]
    assert await is_locked(sessions, case, rows[1], "update")
