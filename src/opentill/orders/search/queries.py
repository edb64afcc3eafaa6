"""SQL that finds orders by search terms, ids and numbers, and SQL of the index of terms."""

from typing import Final, NamedTuple

from opentill.db.query import Command, Query, Value
from opentill.orders.export_columns import LINE_SIZE
from opentill.orders.model import Order
from opentill.orders.search.model import (
    Bucket,
    Candidate,
    ChangedOrder,
    CountChange,
    MerchantPlace,
    SearchedMerchant,
    ShownCount,
    SizedOrder,
)
from opentill.orders.search.shown_queries import CONDITIONS, SHOWN

# ── Indexing ──────────────────────────────────────────────────────────────────────────────────

# The next merchants after `:after` with orders to be indexed, and the number of changes of each, at
# most `:most`.
WAITING = Query(
    SearchedMerchant,
    """
    with recursive merchant (id) as (
        (select merchant_id from search_changes where merchant_id > :after
            order by merchant_id limit 1)
        union all
        select (select c.merchant_id from search_changes c where c.merchant_id > merchant.id
            order by c.merchant_id limit 1)
        from merchant where merchant.id is not null
    )
    select id as merchant_id, (
        select count(*) from (
            select from search_changes c where c.merchant_id = merchant.id limit :most
        ) few
    ) as changes
    from merchant where id is not null limit :limit
    """,
)
ADD_HEAD = Command(
    "insert into search_heads (merchant_id) values (:merchant_id) on conflict do nothing"
)
# Lets one worker at a time index a merchant's orders: returns nothing while another one does.
LOCK_HEAD = Value(
    str,
    """
    select merchant_id from search_heads where merchant_id = :merchant_id for update skip locked
    """,
)
# Removes all changes of some orders from the queue, and returns these orders as they are now.
TAKE = Query(
    ChangedOrder,
    """
    with taken as (
        delete from search_changes where merchant_id = :merchant_id and order_id = any (array(
            select distinct order_id from (
                select order_id from search_changes where merchant_id = :merchant_id
                order by order_id limit :limit) few))
        returning order_id, was
    )
    select o.id, o.created_at, o.customer_email, o.customer_name, o.amount_minor, o.currency,
        o.metadata, o.client_reference, a.card_last4, t.were, t.is_new
    from (
        select order_id, array_remove(array_agg(was), null) as were, bool_or(was is null) as is_new
        from taken group by order_id
    ) t
    join orders o on o.merchant_id = :merchant_id and o.id = t.order_id
    left join payment_attempts a on a.merchant_id = :merchant_id and a.id = o.paid_attempt_id
    """,
)
# The rows of orders that are new to the index.
ADD = Command(
    """
    insert into search_terms (merchant_id, term, place, created_at, order_id)
    select :merchant_id, new.* from unnest(:term::text[], :place::text[], :created_at::bigint[],
        :order_id::text[]) as new (term, place, created_at, order_id)
    order by term, place, created_at, order_id
    """,
)
# Adds the words of customers; `:term` and `:place` are those of their email addresses.
ADD_WORDS = Command(
    """
    insert into search_words (merchant_id, word, term, place)
    select :merchant_id, new.* from unnest(:word::text[], :term::text[], :place::text[])
        as new (word, term, place)
    order by word, term, place
    on conflict do nothing
    """,
)
# Removes and adds index rows of orders; returns the change of the number of rows by day.
REPLACE = Query(
    CountChange,
    """
    with removed as (
        delete from search_terms t
        using unnest(:old_term::text[], :old_place::text[], :old_created_at::bigint[],
            :old_order_id::text[]) as old (old_term, old_place, old_created_at, old_order_id)
        where t.merchant_id = :merchant_id and t.term = old_term and t.place = old_place
            and t.created_at = old_created_at and t.order_id = old_order_id
        returning t.term, t.place, t.created_at
    ), added as (
        insert into search_terms (merchant_id, term, place, created_at, order_id)
        select :merchant_id, new.* from unnest(:term::text[], :place::text[],
            :created_at::bigint[], :order_id::text[]) as new (term, place, created_at, order_id)
        on conflict do nothing
        returning term, place, created_at
    )
    select term, place, created_at / 86400000 * 86400000 as since, sum(rows)::bigint as rows
    from (
        select term, place, created_at, 1 as rows from added
        union all select term, place, created_at, -1 from removed
    ) change
    group by 1, 2, 3
    """,
)
# Adds the changes to the counts per day, of terms and places that are counted. A term and place for
# which `:looked_at` is true is counted from now on if it has `:many` rows or more.
COUNT = Command(
    """
    with change as (
        select change.*, exists (
            select from search_counts c where c.merchant_id = :merchant_id
                and c.term = change.term and c.place = change.place) as counted
        from unnest(:term::text[], :place::text[], :since::bigint[], :rows::bigint[],
            :looked_at::boolean[]) as change (term, place, since, rows, looked_at)
    ), many as (
        select distinct term, place from change where looked_at and not counted and (
            select count(*) from (
                select from search_terms t where t.merchant_id = :merchant_id
                    and t.term = change.term and t.place = change.place limit :many) few
            ) >= :many
    )
    insert into search_counts (merchant_id, term, place, since, rows)
    select :merchant_id, term, place, since, rows from change where counted and rows <> 0
    union all
    select :merchant_id, t.term, t.place, t.created_at / 86400000 * 86400000, count(*)
    from many join search_terms t on t.merchant_id = :merchant_id and t.term = many.term
        and t.place = many.place
    group by t.term, t.place, t.created_at / 86400000
    order by 2, 3, 4
    on conflict (merchant_id, term, place, since)
        do update set rows = search_counts.rows + excluded.rows
    """,
)

# ── Searching by terms ────────────────────────────────────────────────────────────────────────

# The pending orders of a merchant: the index lacks some of their terms.
PENDING = Query(
    Candidate,
    """
    select o.id, o.created_at, o.status, o.product_id, o.customer_email, o.customer_name,
        o.amount_minor, o.currency, o.metadata, o.client_reference, a.card_last4,
        s.status as session_status, o.refunded_minor, o.refund_held_minor, o.refund_failed,
        o.closed_as, o.attempt_failed, o.payment_method, c.is_new
    from (
        select order_id, bool_or(was is null) as is_new from search_changes
        where merchant_id = :merchant_id group by order_id
    ) c
    join orders o on o.merchant_id = :merchant_id and o.id = c.order_id
    join checkouts s on s.merchant_id = :merchant_id and s.id = o.checkout_id
    left join payment_attempts a on a.merchant_id = :merchant_id and a.id = o.paid_attempt_id
    """,
)
# Orders by their ids.
NAMED = Query(
    Candidate,
    """
    select o.id, o.created_at, o.status, o.product_id, o.customer_email, o.customer_name,
        o.amount_minor, o.currency, o.metadata, o.client_reference, a.card_last4,
        s.status as session_status, o.refunded_minor, o.refund_held_minor, o.refund_failed,
        o.closed_as, o.attempt_failed, o.payment_method, false as is_new
    from unnest(:id::text[]) as named (id)
    join orders o on o.merchant_id = :merchant_id and o.id = named.id
    join checkouts s on s.merchant_id = :merchant_id and s.id = o.checkout_id
    left join payment_attempts a on a.merchant_id = :merchant_id and a.id = o.paid_attempt_id
    """,
)
# The places (fields of orders, see `terms.py`) in which some terms occur, by loose index scans.
PLACES = Query(
    MerchantPlace,
    """
    select m.merchant_id, searched.term, places.place
    from unnest(:merchant_id::text[]) as m (merchant_id)
    cross join unnest(:term::text[]) as searched (term)
    cross join lateral (
        with recursive scan (place) as (
            (select place from search_terms
                where merchant_id = m.merchant_id and term = searched.term
                order by place limit 1)
            union all
            select (select t.place from search_terms t
                where t.merchant_id = m.merchant_id and t.term = searched.term
                    and t.place > scan.place
                order by t.place limit 1)
            from scan where scan.place is not null
        )
        select place from scan where place is not null
    ) places
    """,
)
# The terms and places of customers at some merchants with a word from `:word` to before `:before`:
# at most `:limit` of each merchant. A customer has few words, so that `:rows` words suffice.
WORDS = Query(
    MerchantPlace,
    """
    select m.merchant_id, customer.term, customer.place
    from unnest(:merchant_id::text[]) as m (merchant_id)
    cross join lateral (
        select distinct few.term, few.place from (
            select w.term, w.place from search_words w
            where w.merchant_id = m.merchant_id and w.word >= :word and w.word < :before
            limit :rows
        ) few limit :limit
    ) customer
    """,
)
# How many index rows some terms and places have from `:since` to `:until`. If a term is counted,
# only the edges are read; the stored counts of the whole days from `:day` to before `:days_end` are
# added.
COUNTS = Query(
    Bucket,
    """
    select * from (select bucket.term, bucket.place, case
        when exists (
            select from search_counts c where c.merchant_id = :merchant_id
                and c.term = bucket.term and c.place = bucket.place)
        then coalesce((
                select sum(c.rows) from search_counts c where c.merchant_id = :merchant_id
                    and c.term = bucket.term and c.place = bucket.place
                    and c.since >= :day and c.since < :days_end), 0)
            + (select count(*) from search_terms t where t.merchant_id = :merchant_id
                and t.term = bucket.term and t.place = bucket.place
                and t.created_at between :since and least(:until, :day - 1))
            + (select count(*) from search_terms t where t.merchant_id = :merchant_id
                and t.term = bucket.term and t.place = bucket.place
                and t.created_at between greatest(:since, :days_end, :day) and :until)
        else (select count(*) from search_terms t where t.merchant_id = :merchant_id
            and t.term = bucket.term and t.place = bucket.place
            and t.created_at between :since and :until)
        end::bigint as rows
    from unnest(:term::text[], :place::text[]) as bucket (term, place)) counted
    where rows > 0
    """,
)
# How many index rows some orders have for some terms and places.
INDEXED_OF = Value(
    int,
    """
    select count(*) from unnest(:term::text[], :place::text[]) as bucket (term, place)
    cross join unnest(:created_at::bigint[], :order_id::text[]) as apart (created_at, order_id)
    join search_terms t on t.merchant_id = :merchant_id and t.term = bucket.term
        and t.place = bucket.place and t.created_at = apart.created_at
        and t.order_id = apart.order_id
    where t.created_at between :since and :until
    """,
)

# ── Pages, counts and exports ─────────────────────────────────────────────────────────────────
# A statement reads the rows of the driver: a term, or a status or product, whichever has the fewest
# orders. It looks up the other conditions for each of these rows. Matches among the pending orders
# (`beside`) are added, and the index rows of pending orders (`apart`) are ignored.


class SearchStatements(NamedTuple):
    """The statements that read the orders of a search, for one choice of the rows read first."""

    newest: Query[Order]
    oldest: Query[Order]
    after: Query[SizedOrder]  # the orders after a cursor, oldest first
    counted: Value[int]
    shown: Query[ShownCount]  # how many orders there are of each status that pages show


# Condition: the order has this status, product, method and session status, and one of these
# statuses that pages show; null and none allow any.
_FITS: Final = f"""
    and exists (
        select from orders o where o.merchant_id = :merchant_id and o.id = t.order_id
            and (:status::text is null or o.status = :status)
            and (:product_id::text is null or o.product_id = :product_id)
            and (cardinality(:shown::text[]) = 0 or {SHOWN} = any (:shown::text[]))
            and (:method::text is null or o.payment_method = :method)
            and (:session_status::text is null or :session_status = (
                select s.status from checkouts s
                where s.merchant_id = :merchant_id and s.id = o.checkout_id)))
"""  # noqa: S608 - interpolates constants of this program only
# A condition: the order fulfills all `:conditions` other conditions, each by one of its terms and
# places.
_ALSO: Final = """
    and (select count(distinct also.number)
        from unnest(:number::int[], :also_term::text[], :also_place::text[])
            as also (number, also_term, also_place)
        join search_terms a on a.merchant_id = :merchant_id and a.term = also_term
            and a.place = also_place and a.created_at = {created_at} and a.order_id = {id}
    ) = :conditions::int
"""
_AFTER: Final = "and ({created_at}, {id}) > (:after_at::bigint, :after_id::text)"
_BUCKETS: Final = """
    select hit.created_at, hit.order_id as id
    from unnest(:term::text[], :place::text[]) as bucket (term, place)
    cross join lateral (
        select t.created_at, t.order_id from search_terms t
        where t.merchant_id = :merchant_id and t.term = bucket.term and t.place = bucket.place
            and t.created_at between :since and :until and t.order_id <> all (:apart::text[])
            {more} {order}
    ) hit
"""
_ORDERS: Final = """
    (select o.created_at, o.id from orders o
    where o.merchant_id = :merchant_id {columns} and o.created_at between :since and :until
        and o.id <> all (:apart::text[]) {more} {order})
"""
# Each status that pages show is read by index scans of its own, because only then its rows are in
# the list's order.
_ORDERS_OF_SHOWN: Final = " union all ".join(
    _ORDERS.replace(
        "{columns}",
        f"and '{name}' = any (:shown::text[]) and {condition} {{columns}}"
        " and (:status::text is null or o.status = :status)",
    )
    for name, conditions in CONDITIONS.items()
    for condition in conditions
)
_PENDING_ORDERS: Final = """
    union all select * from unnest(:created_at::bigint[], :id::text[]) as beside (created_at, id)
"""


def _statements(source: str, names: dict[str, str], more: str) -> SearchStatements:
    """Build the statements for a source of rows.

    ``names`` are the source's columns for the time and id of orders, ``more`` is SQL of further
    conditions.
    """

    def rows(direction: str, after: str = "") -> str:
        order = "order by {created_at} {0}, {id} {0} limit :limit".format(direction, **names)
        return source.format(more=f"{more} {after}".format(**names), order=order)

    def page(direction: str) -> str:
        return f"""
        select o.* from (
            select created_at, id from ({rows(direction)} {_PENDING_ORDERS}) found
            order by created_at {direction}, id {direction} limit :size offset :offset
        ) page
        join orders o on o.merchant_id = :merchant_id and o.id = page.id
        order by page.created_at {direction}, page.id {direction}
        """  # noqa: S608 - interpolates constants of this program only

    after = f"""
    select page.created_at, page.id, {LINE_SIZE} as size from (
        select created_at, id from ({rows("asc", _AFTER)} {_PENDING_ORDERS}) found
        order by created_at, id limit :limit
    ) page
    join orders o on o.merchant_id = :merchant_id and o.id = page.id
    order by page.created_at, page.id
    """  # noqa: S608 - interpolates constants of this program only
    every = source.format(more=more.format(**names), order="")
    return SearchStatements(
        Query(Order, page("desc")),
        Query(Order, page("asc")),
        Query(SizedOrder, after),
        Value(int, f"select count(*) from ({every}) found"),  # noqa: S608 - interpolates constants of this program only
        Query(
            ShownCount,
            f"""
            select o.status, {SHOWN} as shown, count(*) as rows
            from (select created_at, id from ({every}) indexed {_PENDING_ORDERS}) found
            cross join lateral (
                select * from orders where merchant_id = :merchant_id and id = found.id limit 1
            ) o
            group by 1, 2
            """,  # noqa: S608 - interpolates constants of this program only
        ),
    )


_OF_TERM: Final = {"created_at": "t.created_at", "id": "t.order_id"}
_OF_ORDER: Final = {"created_at": "o.created_at", "id": "o.id"}
# Statements that first read the orders with a term; those of BY_TERM_AND_MORE also check further
# conditions.
BY_TERM: Final = _statements(_BUCKETS, _OF_TERM, "")
BY_TERM_AND_MORE: Final = _statements(_BUCKETS, _OF_TERM, _FITS + _ALSO)
# Names of columns of orders → statements that first read the orders with given values of these
# columns.
BY_COLUMNS: Final[dict[tuple[str, ...], SearchStatements]] = {
    columns: _statements(
        _ORDERS.replace("{columns}", "".join(f" and o.{name} = :{name}" for name in columns)),
        _OF_ORDER,
        _ALSO,
    )
    for columns in (("status",), ("product_id",), ("status", "product_id"))
}
_COLUMNS: Final = {
    "product_id": "and o.product_id = :product_id ",
    "method": "and o.payment_method = :method ",
}
# The same for orders with one of several statuses that pages show, and given values of other
# columns.
BY_SHOWN: Final[dict[tuple[str, ...], SearchStatements]] = {
    ("shown", *names): _statements(
        _ORDERS_OF_SHOWN.replace("{columns}", "".join(map(_COLUMNS.__getitem__, names))),
        _OF_ORDER,
        _ALSO,
    )
    for names in ((), ("product_id",), ("method",), ("product_id", "method"))
}
# Marks a batch of orders, from newest to oldest, of a merchant whose orders were indexed before
# migration 0054 as changed, so that they are indexed again. Returns their number; 0 for a merchant
# whose last batch was marked before, and null if there is no such merchant. Two workers that mark
# the same batch do no harm.
INDEX_AGAIN = Value(
    int,
    """
    with next as (
        select merchant_id, before_at, before_id from search_reindexing
        order by merchant_id limit 1
    ), batch as (
        select o.merchant_id, o.id, o.created_at, o.customer_email from next
        cross join lateral (
            select * from orders
            where merchant_id = next.merchant_id
                and (created_at, id) < (next.before_at, next.before_id)
            order by created_at desc, id desc limit :limit
        ) o
    ), marked as (
        insert into search_changes (merchant_id, order_id, was)
        select merchant_id, id, customer_email from batch
    ), moved as (
        update search_reindexing r set before_at = oldest.created_at, before_id = oldest.id
        from (select * from batch order by created_at, id limit 1) oldest
        where r.merchant_id = oldest.merchant_id
    ), ended as (
        delete from search_reindexing r using next
        where r.merchant_id = next.merchant_id and not exists (select from batch)
    )
    select (select count(*) from batch) from next
    """,
)
COUNT_WAITING = Value(
    int, "select count(*) from (select 1 from search_changes limit 10000) waiting"
)
