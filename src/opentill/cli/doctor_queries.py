"""Queries of ``opentill doctor`` about PostgreSQL itself."""

from typing import Final

import msgspec

from opentill.db.query import Command, Query, Value


class Collation(msgspec.Struct, frozen=True):
    """A database's collation, with its recorded and actual version."""

    provider: str  # c: the system's library, i: ICU, b: PostgreSQL itself
    locale: str
    recorded: str | None
    actual: str | None
    differing: str | None  # collations of our columns whose versions differ, None if none does


COLLATION: Final = Query(
    Collation,
    """
    select d.datlocprovider::text as provider,
        coalesce(to_jsonb(d) ->> 'datlocale', to_jsonb(d) ->> 'daticulocale', d.datcollate::text)
            as locale,
        d.datcollversion as recorded,
        pg_database_collation_actual_version(d.oid) as actual,
        (select string_agg(c.collname::text, ', ' order by c.collname) from pg_collation c
            where c.collversion <> pg_collation_actual_version(c.oid)
                and exists (select from pg_attribute a join pg_class t on t.oid = a.attrelid
                    where a.attcollation = c.oid
                        and t.relnamespace = current_schema()::regnamespace)) as differing
    from pg_database d where d.datname = current_database()
    """,
)
VERSION: Final = Value(int, "select current_setting('server_version_num')::int")
ENGINE: Final = Value(str, "select version()")
# Time of the database in Unix ms, when the statement runs.
CLOCK: Final = Value(int, "select (extract(epoch from clock_timestamp()) * 1000)::bigint")
# These limits of a survey's statement end with its transaction.
STATEMENT_TIMEOUT: Final = Command("set local statement_timeout = '10s'")
LOCK_TIMEOUT: Final = Command("set local lock_timeout = '2s'")
IMMEDIATELY: Final = Command("set constraints all immediate")
HAS_MERCHANTS: Final = Value(bool, "select exists(select from merchants)")
# Tables with triggers to which this transaction has not written.
UNTOUCHED: Final = Value(
    str,
    """
    select string_agg(name, ', ' order by name) from (
        select coalesce(pg_partition_root(relid), relid)::regclass::text as name
        from pg_stat_xact_user_tables s
        where schemaname = current_schema()
            and exists (select from pg_trigger t where t.tgrelid = s.relid and not t.tgisinternal)
        group by 1 having not bool_or(n_tup_ins + n_tup_upd + n_tup_del > 0)
    ) untouched
    """,
)
