"""What a statement does while other merchants have the very same ids, numbers, names and texts.

The examiner stands where statements are run. Before one of a merchant's runs, it runs in savepoints
that are rolled back: alone; beside a twin, a merchant with a copy of every row, under the same ids;
as that twin; as a stranger who has nothing; beside a copy of the books in another currency; and, if
it names something, beside copies of everything that the merchant has, under other ids. The results
must be the same, and no other rows may change. A statement that forgets whose rows it is about, or
which, shows more of them, counts them or changes them.
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

from opentill.core.settings import Settings
from opentill.db.database import Tx
from opentill.db.query import Command, Query, Value
from support.api_server import SECRETS, ApiServer, serving
from support.databases import clone
from support.epay_shop import Inbox
from support.sandbox_bank import SECRET
from support.statements import EVERYWHERE, LOCKS, without_comments

# Not a merchant's rows, or found by an id that nobody else can have.
LEFT_OUT: Final = ("directory", "api_keys", "audit_log", "members", "person_links", "staff_visits")
# When something is due: a twin's comes later, so that claims over all merchants leave it alone.
DUE: Final = frozenset(
    {
        "check_at",
        "try_at",
        "settle_at",
        "expires_at",
        "until",
        "reserve_release_at",
        "due_at",
        "paid_at",
    }
)
FAR: Final = 2**53
# The books, which a merchant may have in several currencies, and what names a row of them.
BOOKS: Final = {
    "balances": (),
    "entries": ("source_id",),
    "ledger_checks": (),
    "adjustments": ("id", "reference"),
    "payouts": ("id", "reference"),
    "epay_products": (),
    "figure_heads": (),
    "figures": (),
    "awaited_figures": (),
}
OTHER_MONEY: Final = "XTS"
# What makes a copy another thing of the same merchant, beside its id and the ids in it.
UNIQUE: Final = frozenset(
    {"refund_no", "reference", "out_trade_no", "gateway_ref", "key", "fields", "cause"}
)
ONE_OF_EACH: Final = frozenset(
    {"merchants", "epay_products", "search_heads", "mail_heads", "mail_preferences"}
)  # what a merchant has no two of
NUMBERED: Final = frozenset({
    ("entries", "number"), ("events", "number"), ("mail_events_put_aside", "number"),
})  # fmt: skip
AN_ID: Final = re.compile(r"(?!mer_)[a-z]{2,6}_[0-9a-z]{12,}")
# They name something as a place to go on from, or tell every endpoint of it.
RANGES: Final = frozenset({
    "orders.export.queries.EXPORT", "orders.export.queries.EXPORT_EDGES",
    "orders.export.queries.LOCAL_EXPORT",
    "webhooks.queries.RESEND_RANGE",
    "webhooks.queries.EMIT",
    "webhooks.queries.OF_ORDER",  # by the body of an event, which a copy has too
    "integrity.queries.MERCHANT_EVENTS",  # likewise
    # what they leave out is named by its id, and so is what they add
    *(name for name in EVERYWHERE if name.startswith("orders.search.queries.BY_")),
    *(name for name in EVERYWHERE if name.startswith("orders.customers.queries.")),
})  # fmt: skip
# What no statement without one of these words does: none calls a function that writes.
_WRITES: Final = re.compile(r"\b(insert|update|delete|merge)\b")
NAMES: Final = {id(statement): name for name, statement in EVERYWHERE.items()}


class Outcome(NamedTuple):
    """What a statement returned, and what the merchant's rows are afterwards."""

    rows: list[tuple[Any, ...]]
    names: tuple[str, ...]
    after: str


# Whether the statement that is examined writes. Requests are examined at the same time, each in a
# task of its own.
_may_write: Final = contextvars.ContextVar("may_write", default=True)


class Examiner:
    """Looks at statements of one merchant, each a few times while it has an effect."""

    def __init__(self, url: str, times: int = 1) -> None:
        """``url`` leads to the database, for what runs in a transaction that only reads."""
        self.merchant = ""
        self.seen: Counter[str] = Counter()  # how often each had an effect
        self.wrong: list[str] = []
        self._url = url
        self._times = times
        self._twins = 0
        self._one_by_one = asyncio.Lock()
        self._kept: dict[asyncio.AbstractEventLoop, asyncpg.Connection] = {}

    @contextlib.contextmanager
    def watching(self) -> Iterator[None]:
        """Examine what runs in the block."""
        with pytest.MonkeyPatch.context() as patch:
            for kind, method in (
                (Query, "first"),
                (Query, "one"),
                (Query, "all"),
                (Value, "get"),
                (Command, "run"),
            ):
                patch.setattr(kind, method, self._before(getattr(kind, method)))
            patch.setattr(Query, "each", self._before_each(Query.each))
            yield
        for connection in self._kept.values():
            connection.terminate()

    def _before(self, run: Any) -> Any:
        async def examined(statement: Any, tx: Tx, struct: Any = None, /, **named: Any) -> Any:
            await self._examine(statement, tx, tuple(statement.values(struct, named)))
            return await run(statement, tx, struct, **named)

        return examined

    def _before_each(self, run: Any) -> Any:
        async def examined(
            statement: Any, tx: Tx, struct: Any = None, /, **named: Any
        ) -> AsyncIterator[Any]:
            await self._examine(statement, tx, tuple(statement.values(struct, named)))
            async for row in run(statement, tx, struct, **named):
                yield row

        return examined

    async def _examine(self, statement: Any, tx: Tx, values: tuple[Any, ...]) -> None:
        name = NAMES.get(id(statement), "")
        if not self.merchant or not name or self.seen[name] >= self._times:
            return
        own = _holds(values, self.merchant)
        lock = LOCKS.search(without_comments(statement.sql))
        claims = (
            lock is not None
            and lock.group(4) is not None
            and not name.startswith(("core.", "db.", "http."))
        )
        if not own and not claims:
            return
        if await tx.fetchval("select current_setting('transaction_read_only')") == "on":
            async with self._one_by_one:  # requests of several, over one connection
                apart = await self._apart()
                await self._hold_against(apart, name, statement.sql, values, own=own)
        else:
            await self._hold_against(tx, name, statement.sql, values, own=own)

    async def _apart(self) -> asyncpg.Connection:
        """Return a connection of this event loop that may write, kept for all statements."""
        loop = asyncio.get_running_loop()
        if loop not in self._kept:
            self._kept[loop] = await asyncpg.connect(self._url)
        return self._kept[loop]

    async def _hold_against(
        self, tx: Tx, name: str, sql: str, values: tuple[Any, ...], *, own: bool
    ) -> None:
        """Run a statement in each of the worlds."""
        self._twins += 1
        twin, stranger = f"mer_twin{self._twins}", f"mer_strange{self._twins}"
        _may_write.set(_WRITES.search(without_comments(sql)) is not None)
        async with _undone(tx):
            before = await self._digest(tx, self.merchant)
            try:
                async with tx.transaction():
                    alone = await self._run(tx, sql, values)
            except asyncpg.PostgresError:
                return  # it is refused, which its caller expects
            if not any(map(any, alone.rows)) and alone.after == before:
                return
        self.seen[name] += 1
        async with _undone(tx):
            await tx.execute("select examiner.copy_later($1, $2)", self.merchant, twin)
            theirs = await self._digest(tx, twin)
            beside = await self._run(tx, sql, values)
            self._same(name, "beside a twin", alone, beside)
            self._check(name, "changed a twin", await self._digest(tx, twin) == theirs)
        if own:
            await self._as_others(tx, name, sql, values, alone, twin, stranger)
        if own and _names_something(values) and name not in RANGES:
            async with _undone(tx):
                await tx.execute("select examiner.copy_things($1)", self.merchant)
                there = await self._digest(tx, self.merchant, "%~%")
                beside = await self._run(tx, sql, values)
                self._check(name, "saw other things", _sorted(beside.rows) == _sorted(alone.rows))
                unchanged = await self._digest(tx, self.merchant, "%~%") == there
                self._check(name, "changed other things", unchanged)
        currency = next((c for c in ("USD", "CNY") if _holds(values, c)), None)
        if own and currency is not None:
            async with _undone(tx):
                await tx.execute("select examiner.copy_money($1, $2)", self.merchant, currency)
                there = await self._digest_money(tx)
                beside = await self._run(tx, sql, values)
                self._check(name, "saw other money", _sorted(beside.rows) == _sorted(alone.rows))
                self._check(name, "changed other money", await self._digest_money(tx) == there)

    async def _as_others(
        self,
        tx: Tx,
        name: str,
        sql: str,
        values: tuple[Any, ...],
        alone: Outcome,
        twin: str,
        stranger: str,
    ) -> None:
        async with _undone(tx):
            await tx.execute("select examiner.copy_now($1, $2)", self.merchant, twin)
            mine = await self._digest(tx, self.merchant)
            try:
                async with tx.transaction():
                    theirs = await self._run(tx, sql, _renamed(values, self.merchant, twin))
            except asyncpg.UniqueViolationError:
                theirs = None  # a new id that the directory has given to one merchant
            if theirs is not None and name not in FROM_ELSEWHERE:
                rows = [_renamed(row, twin, self.merchant) for row in theirs.rows]
                self._check(name, "as the twin", _sorted(rows) == _sorted(alone.rows))
            self._check(
                name, "as the twin, changed it", await self._digest(tx, self.merchant) == mine
            )
        async with _undone(tx):
            await tx.execute("select examiner.copy_merchant($1, $2)", self.merchant, stranger)
            mine = await self._digest(tx, self.merchant)
            try:
                async with tx.transaction():
                    others_values = _renamed(values, self.merchant, stranger)
                    outcome = await self._run(tx, sql, others_values, stranger)
            except asyncpg.PostgresError:
                return  # there is nothing to refer to
            if without_comments(sql).startswith(("select", "with recursive")):
                leaked = [
                    cell for row in outcome.rows for cell in row if cell and cell not in values
                ]
                self._check(name, f"told a stranger {leaked}", not leaked or name in ABOUT_MERCHANT)
            unchanged = await self._digest(tx, self.merchant) == mine
            self._check(name, "changed it for a stranger", unchanged)

    def _same(self, name: str, where: str, first: Outcome, second: Outcome) -> None:
        self._check(name, f"{where}, other rows", _sorted(first.rows) == _sorted(second.rows))
        self._check(name, f"{where}, other changes", first.after == second.after)

    def _check(self, name: str, what: str, holds: bool) -> None:
        if not holds:
            self.wrong.append(f"{name}: {what}")

    async def _run(
        self, tx: Tx, sql: str, values: tuple[Any, ...], whose: str | None = None
    ) -> Outcome:
        rows = await tx.fetch(sql, *values)
        names = tuple(rows[0].keys()) if rows else ()
        after = await self._digest(tx, whose or self.merchant)
        return Outcome([tuple(row) for row in rows], names, after)

    async def _digest(self, tx: Tx, merchant_id: str, which: str = "%") -> str:
        """Return what changes when any row of a merchant does; nothing if no row can change."""
        if not _may_write.get():
            return ""
        digest: str = await tx.fetchval("select examiner.digest($1, $2)", merchant_id, which)
        return digest

    async def _digest_money(self, tx: Tx) -> str:
        if not _may_write.get():
            return ""
        digest: str = await tx.fetchval("select examiner.digest_money()")
        return digest


# They show rows that no twin can have.
FROM_ELSEWHERE: Final = frozenset({"merchants.queries.KEYS", "merchants.queries.RENAME_KEY"})
# They tell of the merchant itself, not of what it has.
ABOUT_MERCHANT: Final = frozenset({
    "merchants.queries.BY_ID", "merchants.queries.LOCKED", "merchants.queries.EXISTS",
    "merchants.queries.LOCK_FOR_UPDATE", "merchants.queries.FIND_SHARED",
    "ledger.queries.CURRENCY", "refunds.queries.OVERDRAFT",
    "merchants.queries.LOCK", "integrity.queries.IS_FIRST",
})  # fmt: skip


@contextlib.asynccontextmanager
async def _undone(tx: Tx) -> AsyncIterator[None]:
    """Take back whatever the block does."""
    transaction = tx.transaction()
    await transaction.start()
    try:
        yield
    finally:
        await transaction.rollback()


# What is asked hundreds of times are functions of the database, which keep their plans. Triggers
# look away while rows are copied: another `session_replication_role` would forget all plans.
_FUNCTION: Final = """
    create function examiner.{name}({takes}) returns {gives} language plpgsql
    set plan_cache_mode = force_generic_plan set examiner.copying = 'yes' as $$
    #variable_conflict use_column
    begin {body} end $$
"""
_INSERTING: Final = """
    select format('drop trigger %I on %s', tgname, tgrelid::regclass) as drop,
        replace(pg_get_triggerdef(oid), ' EXECUTE FUNCTION ', ' WHEN (
            current_setting(''examiner.copying'', true) is distinct from ''yes''
        ) EXECUTE FUNCTION ') as create
    from pg_trigger where not tgisinternal and (tgtype & 4) <> 0  -- on insert
"""
_REFERRING: Final = """
    select format('alter table %s disable trigger %I', tgrelid::regclass, tgname)
    from pg_trigger where tgisinternal and tgfoid in (
        'pg_catalog."RI_FKey_check_ins"'::regproc, 'pg_catalog."RI_FKey_check_upd"'::regproc
    )
"""


async def make_ready(url: str) -> None:
    """Give a database the examiner's functions, and let it take copies whatever they refer to."""
    connection = await asyncpg.connect(url)
    try:
        tables = await _tables(connection)
        await connection.execute("create schema examiner")
        for name, takes, gives, body in (
            ("copy_now", "text, text", "void", _copies(tables, later=False)),
            ("copy_later", "text, text", "void", _copies(tables, later=True)),
            ("copy_merchant", "text, text", "void", _copies(
                {"merchants": tables["merchants"]}, later=False
            )),
            ("copy_things", "text", "void", _copies_of_things(tables)),
            ("copy_money", "text, text", "void", _copies_of_money(tables)),
            ("digest", "text, text", "text", _digests(tables)),
            ("digest_money", "", "text", _digests_of_money()),
        ):  # fmt: skip
            await connection.execute(
                _FUNCTION.format(name=name, takes=takes, gives=gives, body=body)
            )
        for trigger in await connection.fetch(_INSERTING):
            assert " WHEN " in trigger["create"]
            await connection.execute(f"{trigger['drop']}; {trigger['create']}")
        for row in await connection.fetch(_REFERRING):
            await connection.execute(row[0])
        # Each statement runs half a dozen times, and is planned once.
        name = await connection.fetchval("select current_database()")
        await connection.execute(f"alter database {name} set plan_cache_mode = force_generic_plan")
    finally:
        await connection.close()


def _copying(table: str, columns: list[str], cells: list[str], which: str) -> str:
    return (
        f"insert into public.{table} ({', '.join(columns)})"
        f" select {', '.join(cells)} from public.{table} where {which};\n"
    )


def _copies(tables: dict[str, list[str]], *, later: bool) -> str:
    """Give a twin, $2, a copy of every row of a merchant, $1, as it is."""
    return "".join(
        _copying(
            table,
            columns,
            [
                "$2"
                if column == _key(table)
                else f"{column} + {FAR}"
                if later and column in DUE
                else column
                for column in columns
            ],
            f"{_key(table)} = $1",
        )
        for table, columns in tables.items()
    )


def _copies_of_things(tables: dict[str, list[str]]) -> str:
    """Give a merchant, $1, a copy of everything that it has, under other ids."""
    statements = []
    for table, columns in tables.items():
        named = [c for c in columns if (c == "id" or c.endswith("_id") or c in UNIQUE)]
        if table in ONE_OF_EACH or named == ["merchant_id"]:
            continue
        cells = [
            f"{column} || '{'|' if column == 'out_trade_no' else '~'}'"
            if column in named and column != "merchant_id"
            else f"sha256({column})"
            if (table, column) == ("epay_refunds", "request")
            else "number + 1000000"
            if (table, column) in NUMBERED
            else column
            for column in columns
        ]
        statements.append(_copying(table, columns, cells, "merchant_id = $1"))
    return "".join(statements)


def _copies_of_money(tables: dict[str, list[str]]) -> str:
    """Copy a merchant's books, $1, of a currency, $2, to one that it has nothing in."""
    return "".join(
        _copying(
            table,
            tables[table],
            [
                f"'{OTHER_MONEY}'"
                if column == "currency"
                else f"{column} || '~'"
                if column in named
                else column
                for column in tables[table]
            ],
            "merchant_id = $1 and currency = $2",
        )
        for table, named in BOOKS.items()
    )


def _digested(parts: list[str]) -> str:
    lines = " union all ".join(parts)
    return f"return (select md5(coalesce(string_agg(l, ' ' order by l), '')) from ({lines}) r);"


def _digests(tables: dict[str, list[str]]) -> str:
    """Digest the rows of a merchant, $1, that are like a pattern, $2."""
    return _digested(
        [
            f"select '{table}' || md5(t::text) as l from public.{table} t"
            f" where {_key(table)} = $1 and t::text like $2"
            for table in tables
        ]
    )


def _digests_of_money() -> str:
    return _digested(
        [
            f"select md5(t::text) as l from public.{table} t where currency = '{OTHER_MONEY}'"
            for table in BOOKS
        ]
    )


async def _tables(connection: asyncpg.Connection) -> dict[str, list[str]]:
    """Return the tables that hold rows of merchants, and their columns."""
    rows = await connection.fetch(
        """
        select c.table_name, array_agg(c.column_name::text order by c.ordinal_position) as columns
        from information_schema.columns c
        where c.table_schema = 'public' group by 1
        having 'merchant_id' = any (array_agg(c.column_name)) or c.table_name = 'merchants'
        order by 1
        """
    )
    return {row["table_name"]: row["columns"] for row in rows if row["table_name"] not in LEFT_OUT}


def _key(table: str) -> str:
    return "id" if table == "merchants" else "merchant_id"


def _holds(values: tuple[Any, ...], what: str) -> bool:
    return any(what == value or (isinstance(value, list) and what in value) for value in values)


def _names_something(values: tuple[Any, ...]) -> bool:
    several = (one for value in values for one in (value if isinstance(value, list) else [value]))
    return any(isinstance(one, str) and AN_ID.fullmatch(one) is not None for one in several)


def _renamed(values: tuple[Any, ...], old: str, new: str) -> tuple[Any, ...]:
    return tuple(
        new
        if value == old
        else [new if one == old else one for one in value]
        if isinstance(value, list)
        else value
        for value in values
    )


def _sorted(rows: list[tuple[Any, ...]]) -> list[str]:
    return sorted(map(repr, rows))


@pytest.fixture(scope="module")
def inbox() -> Iterator[Inbox]:
    """A notify_url that says success."""
    new_inbox = Inbox()
    yield new_inbox
    new_inbox.close()


@pytest.fixture(scope="module")
def examined(
    postgres_url: str,
    template: str,
    bank_url: str,
    tmp_path_factory: pytest.TempPathFactory,
    through: Callable[[str], str],
) -> Iterator[tuple[ApiServer, Examiner]]:
    """A server, and who looks at its statements."""
    with clone(postgres_url, template) as url:
        with ThreadPoolExecutor(1) as apart:  # a test may have left a running loop in this thread
            apart.submit(asyncio.run, make_ready(url)).result()
        settings = Settings(
            database_url=through(url),
            data_dir=tmp_path_factory.mktemp("twins"),
            limit_ip_per_minute=0,
            limit_checkouts_per_minute=0,
            limit_payments_per_minute=0,
            db_pool_size=1,  # one at a time, so that nobody else changes what is compared
            outgoing_http=True,
            outgoing_allow=(ip_network("127.0.0.0/8"),),
            sandbox_url=bank_url,
            **(SECRETS | {"sandbox_secret": SECRET}),
        )
        with serving(settings) as running:
            running.rate("CNY", "USD", Decimal("0.14"))
            yield running, Examiner(url)
            running.check_books()
