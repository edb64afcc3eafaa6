"""All SQL about list counts (decision 0028)."""

from collections.abc import Mapping, Sequence
from itertools import chain, combinations
from typing import Generic, NamedTuple, Protocol, TypeVar

import msgspec

from opentill.core import ids
from opentill.db.query import Query, Value
from opentill.http.paging import PageQuery, filters
from opentill.list_counts.model import FOREVER, Busy, PartCount

S = TypeVar("S", bound=msgspec.Struct)


class ListStatements(NamedTuple, Generic[S]):
    """The statements that read a list of a merchant's rows with certain filters.

    Their parameters are ``merchant_id``, ``since`` and ``until`` (inclusive) and the filters; those
    that read rows also have ``limit`` and ``offset``.
    """

    newest: Query[S]
    oldest: Query[S]
    counted: Value[int]  # reads the rows to count them


Lists = Mapping[tuple[str, ...], ListStatements[S]]  # a key is the names of the filters in use


def lists(struct: type[S], table: str, query: type[PageQuery], *, only: str = "true") -> Lists[S]:
    """Build the statements of a list for each combination of its filters.

    ``only`` is a condition on the table's columns; other rows are not in the list.

    Called at import with names from the source, never with parts of a request (decision 0050). Each
    combination is a separate statement, so that an index serves it.
    """
    names = filters(query)
    subsets = (combinations(names, number) for number in range(len(names) + 1))
    return {
        subset: _statements(struct, table, subset, only) for subset in chain.from_iterable(subsets)
    }


def _statements(
    struct: type[S], table: str, columns: tuple[str, ...], only: str
) -> ListStatements[S]:
    where = "merchant_id = :merchant_id and created_at between :since and :until" + "".join(
        f" and {column} = :{column}" for column in columns
    )
    if only != "true":
        where += f" and {only}"
    page = "limit :limit offset :offset"
    rows = f"select * from {table} where {where}"  # noqa: S608 - interpolates constants of this program only
    return ListStatements(
        Query(struct, f"{rows} order by created_at desc, id desc {page}"),
        Query(struct, f"{rows} order by created_at, id {page}"),
        Value(int, f"select count(*) from {table} where {where}"),  # noqa: S608 - interpolates constants of this program only
    )


# The number of rows of a list. A `:part` of "" means all parts, a null `:kind` all kinds.
TOTAL = Value(
    int,
    """
    select (
        coalesce((
            select sum(rows) from list_counts
            where merchant_id = :merchant_id and list = :list and part = :part
                and span = 'all' and since = 0 and (:kind::text is null or kind = :kind)), 0)
        + coalesce((
            select sum(case when kind is not null and (:kind::text is null or kind = :kind)
                    then rows else 0 end
                - case when was is not null and (:kind::text is null or was = :kind)
                    then rows else 0 end)
            from list_changes
            where merchant_id = :merchant_id and list = :list and (:part = '' or part = :part)), 0)
    )::bigint
    """,
)
# Like TOTAL, but for several parts, and grouped by part and kind.
TOTALS_OF_PARTS = Query(
    PartCount,
    """
    select part, kind, sum(rows)::bigint as rows from (
        select part, kind, rows from list_counts
        where merchant_id = :merchant_id and list = :list and part = any (:parts::text[])
            and span = 'all' and since = 0
        union all
        select c.part, one.kind, one.rows from list_changes c
        cross join lateral (values (c.kind, c.rows), (c.was, -c.rows)) as one (kind, rows)
        where c.merchant_id = :merchant_id and c.list = :list and c.part = any (:parts::text[])
            and one.kind is not null
    ) counted group by part, kind
    """,
)
# Like TOTAL, but for each kind of all parts.
TOTALS_OF_KINDS = Query(
    PartCount,
    """
    select '' as part, kind, sum(rows)::bigint as rows from (
        select kind, rows from list_counts
        where merchant_id = :merchant_id and list = :list and part = ''
            and span = 'all' and since = 0
        union all
        select one.kind, one.rows from list_changes c
        cross join lateral (values (c.kind, c.rows), (c.was, -c.rows)) as one (kind, rows)
        where c.merchant_id = :merchant_id and c.list = :list and one.kind is not null
    ) counted group by kind
    """,
)
# The number of rows in the whole hours from `:start` to before `:end`: stored counts of pieces of
# this time, each from `since` to before `before`, plus the changes that are not in the counts yet.
TOTAL_IN_HOURS = Value(
    int,
    """
    select (
        coalesce((
            select sum(c.rows)
            from unnest(:span::text[], :since::bigint[], :before::bigint[])
                as piece (span, since, before)
            join list_counts c on c.merchant_id = :merchant_id and c.list = :list and c.part = :part
                and c.span = piece.span and c.since >= piece.since and c.since < piece.before
            where :kind::text is null or c.kind = :kind), 0)
        + coalesce((
            select sum(case when kind is not null and (:kind::text is null or kind = :kind)
                    then rows else 0 end
                - case when was is not null and (:kind::text is null or was = :kind)
                    then rows else 0 end)
            from list_changes
            where merchant_id = :merchant_id and list = :list and (:part = '' or part = :part)
                and at >= :start and at < :end), 0)
    )::bigint
    """,
)
# Like TOTAL_IN_HOURS, but for each kind.
TOTALS_OF_KINDS_IN_HOURS = Query(
    PartCount,
    """
    select :part::text as part, kind, sum(rows)::bigint as rows from (
        select c.kind, c.rows
        from unnest(:span::text[], :since::bigint[], :before::bigint[])
            as piece (span, since, before)
        join list_counts c on c.merchant_id = :merchant_id and c.list = :list and c.part = :part
            and c.span = piece.span and c.since >= piece.since and c.since < piece.before
        union all
        select one.kind, one.rows from list_changes c
        cross join lateral (values (c.kind, c.rows), (c.was, -c.rows)) as one (kind, rows)
        where c.merchant_id = :merchant_id and c.list = :list
            and (:part = '' or c.part = :part) and c.at >= :start and c.at < :end
            and one.kind is not null
    ) counted group by kind
    """,
)
# The next merchants after `:after` that have changes, with their numbers of changes, which are
# counted up to `:most`.
CHANGED = Query(
    Busy,
    """
    with recursive merchant (id) as (
        (select merchant_id from list_changes where merchant_id > :after
            order by merchant_id limit 1)
        union all
        select (select c.merchant_id from list_changes c where c.merchant_id > merchant.id
            order by c.merchant_id limit 1)
        from merchant where merchant.id is not null
    )
    select id as merchant_id, (
        select count(*) from (
            select from list_changes c where c.merchant_id = merchant.id limit :most
        ) few
    ) as changes
    from merchant where id is not null limit :limit
    """,
)
# Move changes of a merchant into the counts; return how many. Changes that cancel out are not
# written. Concurrent executions wait for each other without deadlock, since they delete in the
# order of row locations and write counts in the order of keys; the second one finds no rows.
# Changes are summed before they are expanded to granularities and parts.
ROLL = Value(
    int,
    """
    with taken as (
        delete from list_changes
        where merchant_id = :merchant_id and ctid = any (array(
            select ctid from list_changes where merchant_id = :merchant_id limit :limit))
        returning *
    ), change as (
        select list, part, at, kind, sum(rows)::bigint as rows from (
            select list, part, at, kind, rows from taken where kind is not null
            union all
            select list, part, at, was, -rows from taken where was is not null
        ) one
        group by list, part, at, kind
        having sum(rows) <> 0
    ), counted as (
        insert into list_counts (merchant_id, list, part, span, since, kind, rows)
        select :merchant_id, c.list, p.part, s.span, s.since, c.kind, sum(c.rows) as rows
        from change c
        cross join lateral (select c.part union select '') as p (part)
        cross join lateral (
            values ('all', 0), ('day', at / 86400000 * 86400000), ('hour', at / 3600000 * 3600000)
        ) as s (span, since)
        group by c.list, p.part, s.span, s.since, c.kind
        having sum(c.rows) <> 0
        order by c.list, p.part, s.span, s.since, c.kind
        on conflict (merchant_id, list, part, span, since, kind)
            do update set rows = list_counts.rows + excluded.rows
    )
    select count(*) from taken
    """,
)


# ── lists of all merchants for staff, by status and days, newest first ─────────────────────────


class ListedRow(Protocol):
    """A row of such a list."""

    @property
    def id(self) -> str:
        """The row's id."""
        ...

    @property
    def created_at(self) -> int:
        """When the row was created, Unix ms."""
        ...


def newest_by_status(row: type[S], table: str, condition: str = "") -> Query[S]:
    """Build the statement that reads a page of a table, with a further condition.

    Each status is read from a range of an index, and the newest rows of all statuses are returned.
    """
    return Query(
        row,
        f"""
        select r.* from unnest(:status::text[]) as chosen (status)
        cross join lateral (
            select * from {table}
            where {condition} status = chosen.status and created_at between :since and :until
                and (created_at, id) < (:before_at::bigint, :before_id::text)
            order by created_at desc, id desc limit :limit
        ) r
        order by r.created_at desc, r.id desc limit :limit
        """,  # noqa: S608 - interpolates constants of this program only
    )


def page_values(
    statuses: Sequence[str], days: tuple[int, int], last: ListedRow | None, limit: int
) -> dict[str, object]:
    """Return the values of the statement; ``last`` is the last row of the previous page."""
    since, until = days
    return {
        "status": list(statuses),
        "since": since,
        "until": until,
        "before_at": FOREVER if last is None else last.created_at,
        "before_id": ids.LAST if last is None else last.id,
        "limit": limit,
    }
