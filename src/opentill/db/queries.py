"""All SQL about the deployment: sessions, clock, rate limits, secret key, migrations, replica."""

from typing import Final

import msgspec

from opentill.db.query import Command, Query, Value

# ── sessions and transactions ──────────────────────────────────────────────────────────────────

SESSION: Final = Value(int, "select pg_backend_pid()")
LIMIT_LOCK_WAITS: Final = Value(str, "select set_config('lock_timeout', :longest, true)")
EXPORT_SNAPSHOT: Final = Value(str, "select pg_export_snapshot()")
# Plain text to be formatted, because the statement takes no parameter.
IMPORT_SNAPSHOT: Final = "set transaction snapshot '{}'"

# ── business time ──────────────────────────────────────────────────────────────────────────────

AHEAD: Final = Value(int, "select ahead_ms from business_clock")
ADVANCE: Final = Command(
    """
    update business_clock set ahead_ms = ahead_ms + :by_ms
    where ahead_ms + :by_ms <= :furthest_ms
    """,
)
RESET_CLOCK: Final = Command("update business_clock set ahead_ms = 0")

# ── rate limits ────────────────────────────────────────────────────────────────────────────────


class Window(msgspec.Struct, frozen=True):
    """A rate limit's window: how many requests it contains, and the time of the oldest one."""

    used: int
    oldest: int  # Unix ms


_TIME: Final = "case when :limit::bigint > 1000 then (:now::bigint / 1000 + 1) * 1000 else :now end"
MINUTE_MS: Final = 60_000
HOUR_MS: Final = 3_600_000
DAY_MS: Final = 24 * HOUR_MS


def _live(window_ms: int) -> str:
    # A time up to a minute ahead counts, because the servers' clocks differ a little. A time
    # further ahead was stored before the clock was set back, and does not count.
    return f"""unnest(w.hits, w.counts) as live (hit, count)
    where hit > :now::bigint - {window_ms} and hit <= :now::bigint + {MINUTE_MS}"""


def _hit(window_ms: int) -> str:
    live = _live(window_ms)
    return f"""
    insert into rate_limit_windows as w (scope, subject, hits, counts, last_at)
    values (:scope::text, :subject::text, array[{_TIME}], array[1], :now::bigint)
    on conflict (scope, subject) do update
        set (hits, counts) = (
                select array_agg(hit order by hit), array_agg(count order by hit) from (
                    select hit, sum(count)::int as count from (
                        select hit, count from {live} union all select {_TIME}, 1
                    ) as one group by hit
                ) as summed),
            last_at = :now::bigint
        where (select coalesce(sum(count), 0) from {live}) < :limit
    returning (select sum(count)::bigint from unnest(counts) count) as used, hits[1] as oldest
"""  # noqa: S608 - interpolates constants of this program only


def _window(window_ms: int) -> str:
    return f"""
    select coalesce(sum(count), 0)::bigint as used, coalesce(min(hit), :now::bigint) as oldest
    from rate_limit_windows w, {_live(window_ms)} and w.scope = :scope and w.subject = :subject
    """  # noqa: S608 - interpolates constants of this program only


# The statement that authenticates a request contains this SQL too, see ``rate_limits``.
HIT_SQL: Final = _hit(MINUTE_MS)
HIT: Final = Query(Window, HIT_SQL)
WINDOW: Final = Query(Window, _window(MINUTE_MS))
# The next four are for scopes whose names begin with "hourly" or "daily".
HIT_HOURLY: Final = Query(Window, _hit(HOUR_MS))
WINDOW_HOURLY: Final = Query(Window, _window(HOUR_MS))
HIT_DAILY: Final = Query(Window, _hit(DAY_MS))
WINDOW_DAILY: Final = Query(Window, _window(DAY_MS))
PRUNE_WINDOWS: Final = Command(
    """
    delete from rate_limit_windows where (scope, subject) in (
        select scope, subject from rate_limit_windows
        where (last_at < :before or last_at > :after)
            and (scope not like 'hourly %' or last_at < :before_hourly or last_at > :after)
            and (scope not like 'daily %' or last_at < :before_daily or last_at > :after)
        limit 1000 for update skip locked)
    """
)
# Tests whether PostgreSQL can write to its disk: eight kilobytes of random numbers cannot be
# compressed, so that they need a new page. The caller rolls the insert back.
WRITE_TO_DISK: Final = Command(
    """
    insert into rate_limit_windows (scope, subject, hits, counts, last_at)
    select 'trial', :subject, array_agg((random() * 9e18)::bigint), array[]::int[], 0
    from generate_series(1, 1000)
    """
)
DELETE_WINDOWS: Final = Command("delete from rate_limit_windows")

# ── backups ────────────────────────────────────────────────────────────────────────────────────


class RowCounts(msgspec.Struct, frozen=True):
    """How many rows a database has in tables from which nothing is ever deleted."""

    migrations: int
    merchants: int
    orders: int
    entries: int


ROW_COUNTS: Final = Query(
    RowCounts,
    """
    select (select count(*) from schema_migrations) as migrations,
        (select count(*) from merchants) as merchants,
        (select count(*) from orders) as orders,
        (select count(*) from entries) as entries
    """,
)
# Tables, views, sequences and functions, except those of PostgreSQL and its extensions.
OBJECTS: Final = Value(
    int,
    """
    select count(*) from (
        select oid, relnamespace as place from pg_class
        union all select oid, pronamespace from pg_proc
    ) as object
    where place not in (
            select oid from pg_namespace
            where nspname ~ '^pg_' or nspname = 'information_schema')
        and not exists (
            select from pg_depend
            where pg_depend.objid = object.oid and deptype = 'e')
    """,
)

# ── the secret key ─────────────────────────────────────────────────────────────────────────────

FINGERPRINT: Final = Value(bytes, "select fingerprint from secret_key")
REMEMBER_KEY: Final = Command(
    "insert into secret_key (fingerprint) values (:fingerprint) on conflict (only_one) do nothing"
)
REPLACE_KEY: Final = Command(
    """
    insert into secret_key (fingerprint) values (:fingerprint)
    on conflict (only_one) do update set fingerprint = :fingerprint
    where secret_key.fingerprint <> :fingerprint
    """
)

# ── migrations ─────────────────────────────────────────────────────────────────────────────────


class Applied(msgspec.Struct, frozen=True):
    """A migration that the database has applied; ``sha256`` is the digest of its file."""

    version: int
    name: str
    sha256: str


HAS_MIGRATIONS: Final = Value(bool, "select to_regclass('schema_migrations') is not null")
# DDL and locks are plain text, because PostgreSQL does not plan them.
CREATE_MIGRATIONS: Final = """
create table if not exists schema_migrations (
    version    int    primary key,
    name       text   not null,
    sha256     text   not null,
    applied_at bigint not null
)
"""
# The mode is not "access exclusive", because /readyz of running servers reads the table at the same
# time.
LOCK_MIGRATIONS: Final = "lock table schema_migrations in exclusive mode"
# Lets a transaction stay open while another connection builds an index. As plain text it also
# releases the snapshot of the previous statement, for which building the index would wait.
ALLOW_IDLE_TRANSACTION: Final = "set local idle_in_transaction_session_timeout = 0"
MIGRATIONS: Final = Query(
    Applied, "select version, name, sha256 from schema_migrations order by version"
)
RECORD_MIGRATION: Final = Command(
    """
    insert into schema_migrations (version, name, sha256, applied_at)
    values (:version, :name, :sha256, :now)
    """
)

# Plain text to be formatted, because names cannot be parameters.
CREATE_INDEX: Final = "create {unique}index {concurrently}{name} on {table} {definition}"
DROP_INDEX: Final = "drop index concurrently if exists {}"
DROP_PARTITIONED_INDEX: Final = "drop index {}"
# Each of these is false for an index or a table that does not exist.
IS_VALID_INDEX: Final = Value(
    bool,
    "select exists (select from pg_index where indexrelid = to_regclass(:name) and indisvalid)",
)
IS_PARTITIONED: Final = Value(
    bool,
    """
    select exists (select from pg_class where oid = to_regclass(:name) and relkind in ('p', 'I'))
    """,
)


class Partition(msgspec.Struct, frozen=True):
    """A leaf partition, which contains rows."""

    name: str  # already quoted if the name needs quotes
    oid: int


PARTITIONS: Final = Query(
    Partition,
    """
    select relid::text as name, relid::oid::bigint as oid
    from pg_partition_tree(to_regclass(:name)) where isleaf order by relid::oid
    """,
)

# ── replicas: positions in the write-ahead log, in bytes ───────────────────────────────────────

WRITTEN_POSITION: Final = Value(int, "select (pg_current_wal_lsn() - '0/0'::pg_lsn)::bigint")
REPLAYED_POSITION: Final = Value(int, "select (pg_last_wal_replay_lsn() - '0/0'::pg_lsn)::bigint")
CLUSTER_ID: Final = Value(int, "select system_identifier from pg_control_system()")
