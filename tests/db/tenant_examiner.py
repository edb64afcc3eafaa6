"""Run a merchant's statements again beside rows with the same ids, numbers, names and texts.

The examiner wraps the methods that run statements. Before a statement of the merchant runs, the
examiner runs it in savepoints, which it rolls back:

- on the database as it is;
- beside a twin, another merchant with a copy of every row under the same ids;
- as that twin;
- as a stranger, a merchant without rows;
- beside a copy of the merchant's books in another currency;
- beside copies of all its rows under other ids, if one of the statement's parameters is an id.

The results must be equal, and the other rows must not change. A statement that lacks its condition
on the merchant or on the id returns, counts or changes more rows.
"""

import asyncio
import contextlib
import contextvars
import re
from collections import Counter
from collections.abc import AsyncIterator, Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from decimal import Decimal
from ipaddress import ip_network
from typing import Any, Final, NamedTuple

import asyncpg
import pytest

from db.tenant_copies import prepare_database
from opentill.core.settings import Settings
from opentill.db.database import Tx
from opentill.db.query import Command, Query, Value
from support.api_server import SECRETS, ApiServer, serving
from support.databases import cloned_database
from support.epay_shop import Inbox
from support.sandbox_bank import SECRET
from support.statements import EVERYWHERE, LOCKS, without_comments

ID_PATTERN: Final = re.compile(r"(?!mer_)[a-z]{2,6}_[0-9a-z]{12,}")
# Statements with an id among their parameters that does not limit them to the row with this id.
RANGES: Final = frozenset({
    # the id is a position to continue from, or an event to deliver to all endpoints
    "orders.export.queries.EXPORT", "orders.export.queries.EXPORT_EDGES",
    "orders.export.queries.LOCAL_EXPORT",
    "webhooks.resend_queries.RESEND_RANGE",
    "webhooks.queries.EMIT",
    # these search the bodies of events, which copies of events share
    "webhooks.queries.OF_ORDER",
    "integrity.queries.MERCHANT_EVENTS",
    # the ids are those of orders to exclude or to add
    *(name for name in EVERYWHERE if name.startswith("orders.search.queries.BY_")),
    *(name for name in EVERYWHERE if name.startswith("orders.customers.queries.")),
})  # fmt: skip
# A statement without these words only reads, because no statement calls a function that writes.
_WRITES: Final = re.compile(r"\b(insert|update|delete|merge)\b")
NAMES: Final = {id(statement): name for name, statement in EVERYWHERE.items()}


class Outcome(NamedTuple):
    """The rows that a statement returned, and the digest of the merchant's rows after it."""

    rows: list[tuple[Any, ...]]
    digest: str


# Whether the examined statement may write. A context variable is needed because concurrent requests
# are examined in separate tasks.
_may_write: Final = contextvars.ContextVar("may_write", default=True)


class Examiner:
    """Examines each statement of one merchant until it has had an effect ``times`` times."""

    def __init__(self, url: str, times: int = 1) -> None:
        """``url`` opens another connection for statements in read-only transactions."""
        self.merchant = ""
        self.examined: Counter[str] = Counter()  # how often each statement returned or changed rows
        self.problems: list[str] = []
        self._url = url
        self._times = times
        self._twins = 0
        self._connection_lock = asyncio.Lock()
        self._connections: dict[asyncio.AbstractEventLoop, asyncpg.Connection] = {}

    @contextlib.contextmanager
    def examining(self) -> Iterator[None]:
        """Examine the statements that run in the block."""
        with pytest.MonkeyPatch.context() as patch:
            for kind, method in (
                (Query, "first"),
                (Query, "one"),
                (Query, "all"),
                (Value, "get"),
                (Command, "run"),
            ):
                patch.setattr(kind, method, self._wrap(getattr(kind, method)))
            patch.setattr(Query, "each", self._wrap_generator(Query.each))
            yield
        for connection in self._connections.values():
            connection.terminate()

    def _wrap(self, run: Any) -> Any:
        async def run_examined(statement: Any, tx: Tx, struct: Any = None, /, **named: Any) -> Any:
            await self._examine(statement, tx, tuple(statement.values(struct, named)))
            return await run(statement, tx, struct, **named)

        return run_examined

    def _wrap_generator(self, run: Any) -> Any:
        async def run_examined(
            statement: Any, tx: Tx, struct: Any = None, /, **named: Any
        ) -> AsyncIterator[Any]:
            await self._examine(statement, tx, tuple(statement.values(struct, named)))
            async for row in run(statement, tx, struct, **named):
                yield row

        return run_examined

    async def _examine(self, statement: Any, tx: Tx, values: tuple[Any, ...]) -> None:
        name = NAMES.get(id(statement), "")
        if not self.merchant or not name or self.examined[name] >= self._times:
            return
        has_merchant = _contains(values, self.merchant)
        lock = LOCKS.search(without_comments(statement.sql))
        claims = (
            lock is not None
            and lock.group(4) is not None
            and not name.startswith(("core.", "db.", "http."))
        )
        if not has_merchant and not claims:
            return
        if await tx.fetchval("select current_setting('transaction_read_only')") == "on":
            async with self._connection_lock:  # concurrent requests share this connection
                writable = await self._writable_connection()
                await self._compare_worlds(
                    writable, name, statement.sql, values, has_merchant=has_merchant
                )
        else:
            await self._compare_worlds(tx, name, statement.sql, values, has_merchant=has_merchant)

    async def _writable_connection(self) -> asyncpg.Connection:
        """Return this event loop's connection that may write."""
        loop = asyncio.get_running_loop()
        if loop not in self._connections:
            self._connections[loop] = await asyncpg.connect(self._url)
        return self._connections[loop]

    async def _compare_worlds(
        self, tx: Tx, name: str, sql: str, values: tuple[Any, ...], *, has_merchant: bool
    ) -> None:
        """Run a statement without and with other rows, and record how the results differ."""
        self._twins += 1
        twin, stranger = f"mer_twin{self._twins}", f"mer_strange{self._twins}"
        _may_write.set(_WRITES.search(without_comments(sql)) is not None)
        async with _rolled_back(tx):
            digest_before = await self._digest(tx, self.merchant)
            try:
                async with tx.transaction():
                    baseline = await self._run(tx, sql, values)
            except asyncpg.PostgresError:
                return  # the tested code will get the same error: there is nothing to compare
            if not any(map(any, baseline.rows)) and baseline.digest == digest_before:
                return
        self.examined[name] += 1
        async with _rolled_back(tx):
            await tx.execute("select examiner.copy_later($1, $2)", self.merchant, twin)
            twin_digest = await self._digest(tx, twin)
            beside = await self._run(tx, sql, values)
            same_rows = _sorted(baseline.rows) == _sorted(beside.rows)
            self._check(name, "beside a twin, other rows", same_rows)
            self._check(name, "beside a twin, other changes", baseline.digest == beside.digest)
            self._check(name, "changed a twin", await self._digest(tx, twin) == twin_digest)
        if has_merchant:
            await self._run_as_others(tx, name, sql, values, baseline, twin, stranger)
        if has_merchant and _contains_an_id(values) and name not in RANGES:
            async with _rolled_back(tx):
                await tx.execute("select examiner.copy_things($1)", self.merchant)
                copies_digest = await self._digest(tx, self.merchant, "%~%")
                beside = await self._run(tx, sql, values)
                self._check(name, "read other ids", _sorted(beside.rows) == _sorted(baseline.rows))
                unchanged = await self._digest(tx, self.merchant, "%~%") == copies_digest
                self._check(name, "changed other ids", unchanged)
        currency = next((c for c in ("USD", "CNY") if _contains(values, c)), None)
        if has_merchant and currency is not None:
            async with _rolled_back(tx):
                await tx.execute("select examiner.copy_books($1, $2)", self.merchant, currency)
                copies_digest = await self._digest_books(tx)
                beside = await self._run(tx, sql, values)
                same_rows = _sorted(beside.rows) == _sorted(baseline.rows)
                self._check(name, "read another currency", same_rows)
                unchanged = await self._digest_books(tx) == copies_digest
                self._check(name, "changed another currency", unchanged)

    async def _run_as_others(
        self,
        tx: Tx,
        name: str,
        sql: str,
        values: tuple[Any, ...],
        baseline: Outcome,
        twin: str,
        stranger: str,
    ) -> None:
        """Run a statement as the twin and as the stranger."""
        async with _rolled_back(tx):
            await tx.execute("select examiner.copy_now($1, $2)", self.merchant, twin)
            digest_before = await self._digest(tx, self.merchant)
            try:
                async with tx.transaction():
                    twin_outcome = await self._run(tx, sql, _replaced(values, self.merchant, twin))
            except asyncpg.UniqueViolationError:
                twin_outcome = None  # the statement inserts an id that is unique over all merchants
            if twin_outcome is not None and name not in ROWS_WITHOUT_COPIES:
                rows = [_replaced(row, twin, self.merchant) for row in twin_outcome.rows]
                self._check(name, "as the twin", _sorted(rows) == _sorted(baseline.rows))
            unchanged = await self._digest(tx, self.merchant) == digest_before
            self._check(name, "as the twin, changed the merchant", unchanged)
        async with _rolled_back(tx):
            await tx.execute("select examiner.copy_merchant($1, $2)", self.merchant, stranger)
            digest_before = await self._digest(tx, self.merchant)
            try:
                async with tx.transaction():
                    stranger_values = _replaced(values, self.merchant, stranger)
                    outcome = await self._run(tx, sql, stranger_values)
            except asyncpg.PostgresError:
                return  # the stranger lacks the rows to which an inserted row refers
            if without_comments(sql).startswith(("select", "with recursive")):
                leaked = [
                    cell for row in outcome.rows for cell in row if cell and cell not in values
                ]
                is_safe = not leaked or name in ABOUT_MERCHANT
                self._check(name, f"returned {leaked} to a stranger", is_safe)
            unchanged = await self._digest(tx, self.merchant) == digest_before
            self._check(name, "as a stranger, changed the merchant", unchanged)

    def _check(self, name: str, problem: str, holds: bool) -> None:
        if not holds:
            self.problems.append(f"{name}: {problem}")

    async def _run(self, tx: Tx, sql: str, values: tuple[Any, ...]) -> Outcome:
        rows = await tx.fetch(sql, *values)
        digest = await self._digest(tx, self.merchant)
        return Outcome([tuple(row) for row in rows], digest)

    async def _digest(self, tx: Tx, merchant_id: str, pattern: str = "%") -> str:
        """Digest a merchant's rows like ``pattern``; "" if the statement cannot change any."""
        if not _may_write.get():
            return ""
        digest: str = await tx.fetchval("select examiner.digest($1, $2)", merchant_id, pattern)
        return digest

    async def _digest_books(self, tx: Tx) -> str:
        if not _may_write.get():
            return ""
        digest: str = await tx.fetchval("select examiner.digest_books()")
        return digest


# Statements that read tables which are not copied for a twin.
ROWS_WITHOUT_COPIES: Final = frozenset({"merchants.queries.KEYS", "merchants.queries.RENAME_KEY"})
# Statements about the merchant's own row, which the stranger has too.
ABOUT_MERCHANT: Final = frozenset({
    "merchants.queries.BY_ID", "merchants.queries.LOCKED", "merchants.queries.EXISTS",
    "merchants.queries.LOCK_FOR_UPDATE", "merchants.queries.FIND_SHARED",
    "ledger.queries.CURRENCY", "refunds.queries.OVERDRAFT",
    "merchants.queries.LOCK", "integrity.queries.IS_FIRST",
})  # fmt: skip


@contextlib.asynccontextmanager
async def _rolled_back(tx: Tx) -> AsyncIterator[None]:
    """Roll back the block's changes."""
    transaction = tx.transaction()
    await transaction.start()
    try:
        yield
    finally:
        await transaction.rollback()


def _contains(values: tuple[Any, ...], text: str) -> bool:
    return any(text == value or (isinstance(value, list) and text in value) for value in values)


def _contains_an_id(values: tuple[Any, ...]) -> bool:
    items = (item for value in values for item in (value if isinstance(value, list) else [value]))
    return any(isinstance(item, str) and ID_PATTERN.fullmatch(item) is not None for item in items)


def _replaced(values: tuple[Any, ...], old: str, new: str) -> tuple[Any, ...]:
    return tuple(
        new
        if value == old
        else [new if item == old else item for item in value]
        if isinstance(value, list)
        else value
        for value in values
    )


def _sorted(rows: list[tuple[Any, ...]]) -> list[str]:
    return sorted(map(repr, rows))


@pytest.fixture(scope="module")
def inbox() -> Iterator[Inbox]:
    """A server for notifications that responds "success"."""
    new_inbox = Inbox()
    yield new_inbox
    new_inbox.close()


@pytest.fixture(scope="module")
def examined(
    postgres_url: str,
    template: str,
    bank_url: str,
    tmp_path_factory: pytest.TempPathFactory,
    pooler_url: Callable[[str], str],
) -> Iterator[tuple[ApiServer, Examiner]]:
    """A server, and the examiner of its statements."""
    with cloned_database(postgres_url, template) as url:
        # An earlier test may have left a running event loop in this thread.
        with ThreadPoolExecutor(1) as thread:
            thread.submit(asyncio.run, prepare_database(url)).result()
        settings = Settings(
            database_url=pooler_url(url),
            data_dir=tmp_path_factory.mktemp("twins"),
            limit_ip_per_minute=0,
            limit_checkouts_per_minute=0,
            limit_payments_per_minute=0,
            db_pool_size=1,  # with one connection, no other transaction changes rows
            outgoing_http=True,
            outgoing_allow=(ip_network("127.0.0.0/8"),),
            sandbox_url=bank_url,
            **(SECRETS | {"sandbox_secret": SECRET}),
        )
        with serving(settings) as running:
            running.set_rate("CNY", "USD", Decimal("0.14"))
            yield running, Examiner(url)
            running.check_books()
