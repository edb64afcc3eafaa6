"""The bank's storage: one SQLite file, written by one thread, several calls per commit.

Commits wait for the disk (``synchronous=FULL``), so that a killed process loses nothing that it
acknowledged. To make that cheap, the writing thread takes all queued calls, runs each in its own
savepoint and commits them together; no call returns before its commit.
"""

import asyncio
import os
import queue
import sqlite3
import threading
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, Final, TypeVar

import msgspec

T = TypeVar("T")
Value = str | bytes | int | float | None

FILE: Final = "sandbox.sqlite3"  # the name of the file in the data directory
_BATCH: Final = 64  # one transaction runs at most this many calls of ``do``

_SCHEMA: Final = """
create table if not exists payments (
    id text primary key,
    amount_minor integer not null check (amount_minor > 0),
    currency text not null,
    method text not null,
    description text not null,
    merchant_name text not null,
    customer_email text not null,
    return_url text not null,
    callback_url text not null,
    locale text not null,
    status text not null,
    decline_code text,
    challenged integer not null,
    card_last4 text check (length(card_last4) = 4),
    refunds_fail integer not null,
    refunded_minor integer not null check (refunded_minor between 0 and amount_minor),
    created_at integer not null,
    updated_at integer not null,
    settled_at integer,
    dialect text not null default ''
) without rowid;
create table if not exists refunds (
    id text primary key,
    payment_id text not null references payments,
    amount_minor integer not null check (amount_minor > 0),
    currency text not null,
    callback_url text not null,
    status text not null,
    error text,
    created_at integer not null,
    updated_at integer not null,
    by_bank integer not null default 0,
    succeeded_at integer,
    reversed_at integer
) without rowid;
create table if not exists disputes (
    id text primary key,
    payment_id text not null references payments,
    amount_minor integer not null check (amount_minor > 0),
    currency text not null,
    reason text not null,
    status text not null,
    created_at integer not null,
    updated_at integer not null,
    lost_at integer
) without rowid;
create index if not exists payments_old on payments (updated_at);
create index if not exists refunds_by_payment on refunds (payment_id);
create index if not exists disputes_by_payment on disputes (payment_id);
create table if not exists callbacks (
    id text primary key,
    receiver text not null,
    url text not null,
    payment_id text not null,
    body blob not null,
    status text not null check (status in ('pending', 'delivered', 'dropped', 'given_up')),
    attempts integer not null default 0,
    copies integer not null default 0,
    held integer not null default 0,
    next_at integer not null,
    created_at integer not null,
    dialect text not null default ''
) without rowid;
create index if not exists callbacks_due on callbacks (receiver, next_at) where status = 'pending';
create index if not exists callbacks_old on callbacks (created_at) where status <> 'pending';
create index if not exists callbacks_held on callbacks (payment_id)
    where status = 'pending' and held;
create table if not exists alipay_trades (
    payment_id text primary key references payments,
    trade_no text not null unique,
    product text not null,
    opened integer not null,
    expires_at integer not null
) without rowid;
create table if not exists wechat_pay_orders (
    payment_id text primary key references payments,
    transaction_id text not null unique,
    product text not null,
    by_public_key integer not null,
    expires_at integer not null,
    closed integer not null
) without rowid;
create table if not exists paypal_orders (
    payment_id text primary key references payments,
    order_id text not null unique,
    capture_id text not null unique,
    request_id text not null,
    custom_id text not null,
    invoice_id text not null,
    captured_at integer,
    capture_request_id text not null
) without rowid;
create index if not exists paypal_orders_by_request on paypal_orders (request_id);
create table if not exists paypal_refunds (
    refund_id text primary key,
    paypal_id text not null unique,
    custom_id text not null
) without rowid;
create table if not exists paypal_webhooks (
    id text primary key,
    url text not null,
    event_types text not null,
    created_at integer not null
) without rowid;
create table if not exists epusdt_orders (
    payment_id text primary key references payments,
    trade_id text not null unique,
    is_fork integer not null,
    trade_type text not null,
    actual text not null,
    address text not null,
    expires_at integer not null,
    canceled integer not null
) without rowid;
create table if not exists epay_v2_orders (
    payment_id text primary key references payments,
    trade_no text not null unique,
    type text not null,
    name text not null,
    notify_url text not null,
    return_url text not null,
    param text not null
) without rowid;
create table if not exists evm_marks (
    number integer primary key,
    count integer not null,
    time_s integer not null,
    period_s integer not null,
    salt text not null
);
create table if not exists evm_transfers (
    transaction_hash text primary key,
    block_number integer not null,
    token text not null,
    sender text not null,
    recipient text not null,
    units text not null
) without rowid;
create index if not exists evm_transfers_by_block on evm_transfers (block_number);
create index if not exists evm_transfers_by_recipient on evm_transfers (recipient, block_number);
create index if not exists evm_transfers_by_sender on evm_transfers (sender);
create table if not exists timers (
    id integer primary key,
    due_at integer not null,
    task text not null,
    subject text not null
);
create index if not exists timers_due on timers (due_at);
create table if not exists faults (
    id integer primary key,
    operation text not null,
    kind text not null,
    times integer not null,
    delay_s real not null,
    match text
);
"""


# Table, a column that a file of an earlier version lacks, and the statements that upgrade it.
_LATER_COLUMNS: Final = (
    (
        "refunds",
        "by_bank",
        """
        alter table refunds add column by_bank integer not null default 0;
        alter table refunds add column succeeded_at integer;
        alter table refunds add column reversed_at integer;
        update refunds set succeeded_at = updated_at where status = 'succeeded';
        """,
    ),
    ("payments", "dialect", "alter table payments add column dialect text not null default '';"),
    ("callbacks", "dialect", "alter table callbacks add column dialect text not null default '';"),
)


def _add_columns(connection: sqlite3.Connection) -> None:
    """Upgrade a file of an earlier version."""
    for table, column, statements in _LATER_COLUMNS:
        names = {row[1] for row in connection.execute(f"pragma table_info({table})")}
        if column not in names:
            connection.executescript(f"begin;{statements}commit;")


class Tx:
    """A transaction as the work in it sees it: it can run statements, but not commit."""

    def __init__(self, connection: sqlite3.Connection) -> None:
        """``connection`` has an open transaction."""
        self._connection = connection
        self.announced: set[str] = set()

    def run(self, sql: str, **values: Value) -> int:
        """Run a statement with ``:named`` values and return the number of changed rows."""
        return self._connection.execute(sql, values).rowcount

    def all(self, kind: type[T], sql: str, **values: Value) -> list[T]:
        """Return all rows as structs of the kind."""
        cursor = self._connection.execute(sql, values)
        names = [column[0] for column in cursor.description]
        rows = [dict(zip(names, row, strict=True)) for row in cursor]
        return [msgspec.convert(row, kind, strict=False) for row in rows]

    def first(self, kind: type[T], sql: str, **values: Value) -> T | None:
        """Return the first row as a struct of the kind, or None."""
        rows = self.all(kind, sql, **values)
        return rows[0] if rows else None

    def insert(self, table: str, row: Mapping[str, Value]) -> None:
        """Insert a row; table and column names come from code, never from requests."""
        names, slots = ", ".join(row), ", ".join(f":{name}" for name in row)
        self.run(f"insert into {table} ({names}) values ({slots})", **row)  # noqa: S608 - interpolates constants of this program only

    def announce(self, topic: str) -> None:
        """Call ``on_commit`` with the topic after the commit."""
        self.announced.add(topic)


class _Call:
    """A queued call of ``do`` and the future of its result."""

    def __init__(self, work: Callable[[Tx], Any], future: "asyncio.Future[Any]") -> None:
        self.work = work
        self.future = future
        self.result: Any = None
        self.error: BaseException | None = None

    def settle(self) -> None:
        if self.future.done():  # the caller was cancelled; its work is committed nevertheless
            return
        if self.error is not None:
            self.future.set_exception(self.error)
        else:
            self.future.set_result(self.result)


class Store:
    """The file and its writing thread, opened and closed in the event loop that uses it."""

    def __init__(self, path: Path, on_commit: Callable[[str], None]) -> None:
        """``on_commit`` is called in the event loop with each announced topic."""
        self._path = path
        self._on_commit = on_commit
        self._calls: queue.SimpleQueue[_Call | None] = queue.SimpleQueue()
        self._thread: threading.Thread | None = None

    async def open(self) -> None:
        """Create or open the file. Raises OSError or sqlite3.Error."""
        self._path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        # Make the file private while it is empty. SQLite gives its journals the same mode.
        os.close(os.open(self._path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600))
        self._path.chmod(0o600)
        connection = sqlite3.connect(
            self._path, isolation_level=None, check_same_thread=False, timeout=10
        )
        connection.execute("pragma journal_mode = wal")
        connection.execute("pragma synchronous = full")
        connection.execute("pragma foreign_keys = on")
        connection.executescript(_SCHEMA)
        _add_columns(connection)
        self._loop = asyncio.get_running_loop()
        self._thread = threading.Thread(
            target=self._write, args=(connection,), name="sandbox-storage", daemon=True
        )
        self._thread.start()

    async def close(self) -> None:
        """Finish the queued calls and close the file."""
        if self._thread is not None:
            self._calls.put(None)
            await asyncio.to_thread(self._thread.join)
            self._thread = None

    async def do(self, work: Callable[[Tx], T]) -> T:
        """Run ``work`` in a transaction; return its result after the commit.

        Raises what ``work`` raises, after a rollback.
        """
        if self._thread is None:
            msg = "the bank's storage is closed"
            raise RuntimeError(msg)
        future: asyncio.Future[T] = self._loop.create_future()
        self._calls.put(_Call(work, future))
        return await future

    def _write(self, connection: sqlite3.Connection) -> None:
        running = True
        while running:
            batch = [self._calls.get()]
            while len(batch) < _BATCH and not self._calls.empty():
                batch.append(self._calls.get())
            calls = [call for call in batch if call is not None]
            running = len(calls) == len(batch)
            if calls:
                topics = _commit(connection, calls)
                self._loop.call_soon_threadsafe(self._settle, calls, topics)
        connection.close()

    def _settle(self, calls: list[_Call], topics: set[str]) -> None:
        for call in calls:
            call.settle()
        for topic in topics:
            self._on_commit(topic)


def _commit(connection: sqlite3.Connection, calls: list[_Call]) -> set[str]:
    """Run the calls, each in a savepoint, commit them together and return the announced topics."""
    topics: set[str] = set()
    try:
        connection.execute("begin immediate")
        for call in calls:
            tx = Tx(connection)
            connection.execute("savepoint work")
            try:
                call.result = call.work(tx)
                topics |= tx.announced
            except Exception as error:  # noqa: BLE001 - raised in the caller
                call.error = error
                connection.execute("rollback to work")
            connection.execute("release work")
        connection.execute("commit")
    except sqlite3.Error as error:
        if connection.in_transaction:
            connection.execute("rollback")
        for call in calls:
            call.error = error
        return set()
    return topics
