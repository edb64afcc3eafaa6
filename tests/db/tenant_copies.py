"""Database functions that copy and digest all rows of a merchant, for ``tenant_examiner``."""

from typing import Final

import asyncpg

# Tables whose rows are not copied for a twin: they belong to no merchant, or are read by an id that
# is unique over all merchants.
EXCLUDED_TABLES: Final = (
    "directory", "api_keys", "audit_log", "members", "person_links", "staff_visits",
)  # fmt: skip
# Columns with the time at which a row is due. A twin's rows are due later, so that claims over all
# merchants do not take them.
DUE_COLUMNS: Final = frozenset(
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
DELAY_MS: Final = 2**53
# Tables in which a merchant may have rows in several currencies, with the columns that identify a
# row within a currency.
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
    "direct_figures": (),
    "prepaid_notices": (),
}
OTHER_CURRENCY: Final = "XTS"
# Columns other than ids that must differ between two rows of a merchant.
UNIQUE: Final = frozenset(
    {"refund_no", "reference", "out_trade_no", "gateway_ref", "key", "fields", "cause"}
)
SINGLE_ROW_TABLES: Final = frozenset(
    {"merchants", "epay_products", "search_heads", "mail_heads", "mail_preferences"}
)  # a merchant has at most one row in each of these tables
NUMBERED: Final = frozenset({
    ("entries", "number"), ("events", "number"), ("event_resends", "number"),
    ("mail_events_put_aside", "number"),
})  # fmt: skip

# Copies and digests run hundreds of times, so they are functions, which are planned only once.
# Triggers do nothing while `examiner.copying` is set; a change of `session_replication_role`
# would discard all plans.
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


async def prepare_database(url: str) -> None:
    """Create the examiner's functions; disable triggers and foreign keys, which refuse copies."""
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
            ("copy_things", "text", "void", _copies_under_other_ids(tables)),
            ("copy_books", "text, text", "void", _copies_of_books(tables)),
            ("digest", "text, text", "text", _digests(tables)),
            ("digest_books", "", "text", _digests_of_books()),
        ):  # fmt: skip
            await connection.execute(
                _FUNCTION.format(name=name, takes=takes, gives=gives, body=body)
            )
        for trigger in await connection.fetch(_INSERTING):
            assert " WHEN " in trigger["create"]
            await connection.execute(f"{trigger['drop']}; {trigger['create']}")
        for row in await connection.fetch(_REFERRING):
            await connection.execute(row[0])
        # Each statement runs about six times, so it is planned once.
        name = await connection.fetchval("select current_database()")
        await connection.execute(f"alter database {name} set plan_cache_mode = force_generic_plan")
    finally:
        await connection.close()


def _copy_rows(table: str, columns: list[str], cells: list[str], condition: str) -> str:
    return (
        f"insert into public.{table} ({', '.join(columns)})"
        f" select {', '.join(cells)} from public.{table} where {condition};\n"
    )


def _copies(tables: dict[str, list[str]], *, later: bool) -> str:
    """Copy all rows of a merchant, $1, to a twin, $2."""
    return "".join(
        _copy_rows(
            table,
            columns,
            [
                "$2"
                if column == _key(table)
                else f"{column} + {DELAY_MS}"
                if later and column in DUE_COLUMNS
                else column
                for column in columns
            ],
            f"{_key(table)} = $1",
        )
        for table, columns in tables.items()
    )


def _copies_under_other_ids(tables: dict[str, list[str]]) -> str:
    """Copy all rows of a merchant, $1, to itself under other ids."""
    statements = []
    for table, columns in tables.items():
        keys = [c for c in columns if (c == "id" or c.endswith("_id") or c in UNIQUE)]
        if table in SINGLE_ROW_TABLES or keys == ["merchant_id"]:
            continue
        cells = [
            f"{column} || '{'|' if column == 'out_trade_no' else '~'}'"
            if column in keys and column != "merchant_id"
            else f"sha256({column})"
            if (table, column) == ("epay_refunds", "request")
            else "number + 1000000"
            if (table, column) in NUMBERED
            else column
            for column in columns
        ]
        statements.append(_copy_rows(table, columns, cells, "merchant_id = $1"))
    return "".join(statements)


def _copies_of_books(tables: dict[str, list[str]]) -> str:
    """Copy the books of a merchant, $1, in a currency, $2, to ``OTHER_CURRENCY``."""
    return "".join(
        _copy_rows(
            table,
            tables[table],
            [
                f"'{OTHER_CURRENCY}'"
                if column == "currency"
                else f"{column} || '~'"
                if column in keys
                else column
                for column in tables[table]
            ],
            "merchant_id = $1 and currency = $2",
        )
        for table, keys in BOOKS.items()
    )


def _digest_of(selects: list[str]) -> str:
    """Return the body of a function that digests rows of several tables."""
    lines = " union all ".join(selects)
    return f"return (select md5(coalesce(string_agg(l, ' ' order by l), '')) from ({lines}) r);"


def _digests(tables: dict[str, list[str]]) -> str:
    """Digest the rows of a merchant, $1, whose text is like a pattern, $2."""
    return _digest_of(
        [
            f"select '{table}' || md5(t::text) as l from public.{table} t"
            f" where {_key(table)} = $1 and t::text like $2"
            for table in tables
        ]
    )


def _digests_of_books() -> str:
    return _digest_of(
        [
            f"select md5(t::text) as l from public.{table} t where currency = '{OTHER_CURRENCY}'"
            for table in BOOKS
        ]
    )


async def _tables(connection: asyncpg.Connection) -> dict[str, list[str]]:
    """Return the tables with rows of merchants, and their columns."""
    rows = await connection.fetch(
        """
        select c.table_name, array_agg(c.column_name::text order by c.ordinal_position) as columns
        from information_schema.columns c
        where c.table_schema = 'public' group by 1
        having 'merchant_id' = any (array_agg(c.column_name)) or c.table_name = 'merchants'
        order by 1
        """
    )
    return {
        row["table_name"]: row["columns"]
        for row in rows
        if row["table_name"] not in EXCLUDED_TABLES
    }


def _key(table: str) -> str:
    return "id" if table == "merchants" else "merchant_id"
