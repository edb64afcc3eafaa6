"""The statements of the CSV export: PostgreSQL writes parts of the file."""

from typing import Final

from opentill.db.query import Query, Value
from opentill.orders.export_columns import COLUMNS, LINE_SIZE, LOCAL_COLUMNS, Column, quote, unit
from opentill.orders.model import Order
from opentill.orders.search.model import ExportCursor

_INERT_TEXTS: Final = ", ".join(
    f"coalesce({column.text(column.sql)}, '') as inert_{column.sql}"
    for column in COLUMNS
    if column.text
)

# Divides a list of orders into parts of about `:bytes` bytes of CSV, and returns the last order of
# each. PostgreSQL knows the sizes of long texts without reading them.
EXPORT_EDGES = Query(
    ExportCursor,
    f"""
    select created_at, id from (
        select created_at, id, size,
            sum(size) over (order by created_at, id rows unbounded preceding) as bytes
        from (
            select created_at, id, {LINE_SIZE} as size
            from orders
            where merchant_id = :merchant_id
                and (created_at, id) > (:after_at::bigint, :after_id::text)
                and created_at <= :until
            order by created_at, id limit :limit
        ) sized
    ) summed
    where bytes / :bytes::bigint > (bytes - size) / :bytes::bigint
    order by created_at, id
    """,  # noqa: S608 - interpolates constants of this program only
)


def _lines(condition: str, columns: tuple[Column, ...] = COLUMNS) -> Value[bytes]:
    """Build the statement that writes the lines of some orders as CSV, oldest first."""
    cells = ", ".join(
        quote(f"inert_{column.sql}") if column.text else column.sql for column in columns
    )
    return Value(
        bytes,
        f"""
        select convert_to(string_agg(line, '' order by created_at, id), 'UTF8')
        from (
            select created_at, id, concat_ws(',', {cells}) || e'\\r\\n' as line
            from (
                select *, {unit("currency")} as unit,
                    {unit("settled_currency")} as settled_unit,
                    {_INERT_TEXTS}
                from orders
                where merchant_id = :merchant_id and {condition}
                offset 0 -- so that PostgreSQL computes each of these values only once
            ) o
        ) as part
        """,  # noqa: S608 - interpolates constants of this program only
    )


# Conditions of the two exports: a range of orders, and orders that a search has found. An order's
# status may have changed since the search, so it is compared again.
_BETWEEN: Final = (
    "(created_at, id) > (:after_at::bigint, :after_id::text)"
    " and (created_at, id) <= (:until_at::bigint, :until_id::text)"
)
_OF_IDS: Final = "id = any (:ids::text[]) and (:status::text is null or status = :status)"
EXPORT = _lines(_BETWEEN)
EXPORT_OF = _lines(_OF_IDS)
# The same two statements, with LOCAL_COLUMNS in addition.
LOCAL_EXPORT = _lines(_BETWEEN, (*COLUMNS, *LOCAL_COLUMNS))
LOCAL_EXPORT_OF = _lines(_OF_IDS, (*COLUMNS, *LOCAL_COLUMNS))
# The next orders of a range of time, for files with other columns.
AFTER = Query(
    Order,
    """
    select * from orders
    where merchant_id = :merchant_id and (created_at, id) > (:after_at::bigint, :after_id::text)
        and created_at <= :until
    order by created_at, id limit :limit
    """,
)
