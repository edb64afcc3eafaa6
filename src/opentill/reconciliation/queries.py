"""All SQL of reconciliation. It only reads the tables of other features."""

from typing import Final

from opentill.db.query import Command, Query, Value
from opentill.reconciliation.model import (
    Item,
    ItemName,
    OpenDifference,
    StoredFile,
    SumOfPayouts,
)

# All items of a gateway that have moved money or still may. A duplicate payment is a payment and a
# refund, both under the attempt's id. `at` is when the item happened, which later changes do not
# affect: for a second payment it is read from the order's history, for a recovery from the ledger.
_ITEMS: Final = """
    select 'payment' as kind, a.merchant_id, a.id, a.provider_ref, '' as payment, a.amount_minor,
        a.currency, a.status,
        case when a.id = o.paid_attempt_id then o.paid_at else a.updated_at end as at
    from payment_attempts a join orders o on o.merchant_id = a.merchant_id and o.id = a.order_id
    where a.gateway = :gateway and a.status not in ('DUPLICATE', 'GIVEN_BACK')
    union all
    select 'payment', a.merchant_id, a.id, a.provider_ref, '', a.amount_minor, a.currency, a.status,
        coalesce(h.at, a.updated_at)
    from payment_attempts a left join order_history h on h.merchant_id = a.merchant_id
        and h.order_id = a.order_id and h.event = 'duplicate_payment'
        and starts_with(h.cause, a.id)
    where a.gateway = :gateway and a.status in ('DUPLICATE', 'GIVEN_BACK')
    union all
    select 'refund', a.merchant_id, a.id, '', '', a.amount_minor, a.currency, a.status, a.updated_at
    from payment_attempts a where a.gateway = :gateway and a.status in ('DUPLICATE', 'GIVEN_BACK')
    union all
    select 'refund', r.merchant_id, r.id, r.provider_ref, '', r.amount_minor, r.currency,
        case when r.succeeded_at is null then r.status else 'SUCCEEDED' end,
        coalesce(r.succeeded_at, r.updated_at)
    from refunds r join payment_attempts a on a.merchant_id = r.merchant_id and a.id = r.attempt_id
    where a.gateway = :gateway
    union all
    select 'refund_failure', r.merchant_id, r.id, r.provider_ref, '', r.amount_minor, r.currency,
        'REVERSED', r.failed_at
    from refunds r join payment_attempts a on a.merchant_id = r.merchant_id and a.id = r.attempt_id
    where a.gateway = :gateway and r.status = 'FAILED' and r.succeeded_at is not null
    union all
    select 'chargeback', d.merchant_id, d.id, coalesce(d.gateway_ref, ''), d.attempt_id,
        d.amount_minor, d.currency, d.status,
        case when :at_once::boolean then d.created_at else coalesce(d.closed_at, d.updated_at) end
    from disputes d where d.gateway = :gateway
    union all
    select 'recovery', d.merchant_id, d.id, coalesce(d.gateway_ref, ''), d.attempt_id,
        d.amount_minor, d.currency, d.status,
        case when d.status = 'WON' then d.closed_at else coalesce(e.created_at, d.updated_at) end
    from disputes d left join entries e on e.merchant_id = d.merchant_id
        and e.source_type = 'dispute' and e.source_id = d.id and e.type = 'CHARGEBACK_RECOVERY'
    where d.gateway = :gateway and d.status in ('WON', 'LOST', 'RECOVERED')
"""
# The items between two times whose money has moved: their kind and status are one of the pairs in
# `:kind` and `:status`.
BETWEEN = Query(
    Item,
    f"""
    select * from ({_ITEMS}) as item
    where at between :since and :until
        and (kind, status) in (select * from unnest(:kind::text[], :status::text[]))
    """,  # noqa: S608 - interpolates constants of this program only
)
# The items to which the references of a report may belong.
NAMED = Query(
    Item,
    f"""
    select * from ({_ITEMS}) as item
    where id = any(:names) or provider_ref = any(:names) or payment = any(:names)
    """,  # noqa: S608 - interpolates constants of this program only
)
HAS_PAYMENTS = Value(
    bool, "select exists (select 1 from payment_attempts where gateway = :gateway)"
)


# ── Files, and the inbox ──

_FILE: Final = (
    "id, source, sha256, name, status, rows, matched, found as difference_count, who, created_at,"
    " done_at"
)
FILE_BY_DIGEST = Query(
    StoredFile,
    f"select {_FILE} from reconciliation_files where source = :source and sha256 = :sha256",  # noqa: S608 - interpolates constants of this program only
)
FILES = Query(
    StoredFile,
    f"select {_FILE} from reconciliation_files order by created_at desc, id desc limit :limit",  # noqa: S608 - interpolates constants of this program only
)
ADD_FILE = Query(
    StoredFile,
    f"""
    insert into reconciliation_files (id, source, sha256, name, status, rows, matched, found, who,
        created_at)
    values (:id, :source, :sha256, :name, 'OPEN', 0, 0, 0, :who, :now)
    on conflict (source, sha256) do nothing
    returning {_FILE}
    """,  # noqa: S608 - interpolates constants of this program only
)
FINISH_FILE = Command(
    """
    update reconciliation_files
    set status = 'DONE', rows = :rows, matched = :matched, found = :difference_count,
        done_at = :now
    where id = :id and status = 'OPEN'
    """
)
ADD_DIFFERENCES = Command(
    """
    insert into reconciliation_differences (id, file_id, source, what, kind, reference, line,
        merchant_id, ours, theirs, created_at)
    select id, :file_id, :source, what, kind, reference, line, merchant_id, ours, theirs, :now
    from unnest(:id::text[], :what::text[], :kind::text[], :reference::text[], :line::bigint[],
            :merchant_id::text[], :ours::text[], :theirs::text[])
        as new (id, what, kind, reference, line, merchant_id, ours, theirs)
    on conflict (source, what, kind, reference, ours, theirs) do nothing
    """
)
ADD_BOOKING = Command(
    """
    insert into reconciliation_differences (id, file_id, source, what, kind, reference, line,
        merchant_id, ours, theirs, created_at, resolved_at, resolved_by, resolution)
    values (:id, :file_id, :source, :what, 'booking', :reference, :line, '', '', :theirs, :now,
        :now, :who, 'it concerns no payout')
    on conflict (source, what, kind, reference, ours, theirs) do nothing
    """
)
BOOKINGS = Query(
    OpenDifference,
    """
    select * from reconciliation_differences where kind = 'booking'
    order by created_at desc, id desc limit :limit
    """,
)
# Select the given amounts that are also the amount of a payout of any merchant, or of a whole bank
# file. A line that names no payout may be about one with the same amount.
SUMS_OF_PAYOUTS = Query(
    SumOfPayouts,
    """
    select amount_minor, currency from (
        select amount_minor, currency from payouts
        where status = 'PENDING' or (status = 'PAID' and paid_at >= :since)
        union
        select sum(p.amount_minor)::bigint, r.currency
        from payout_runs r join payout_transfers t on t.run_id = r.id and t.in_file
            join payouts p on p.merchant_id = t.merchant_id and p.id = t.payout_id
        where r.sent_at >= :since group by r.id, r.currency
    ) sums
    where (amount_minor, currency) in (
        select * from unnest(:amount_minor::bigint[], :currency::text[]))
    """,
)
DIFFERENCE = Query(OpenDifference, "select * from reconciliation_differences where id = :id")
# Differences with a reference. A difference of a payout has the reference of the payout.
OF_REFERENCE = Query(
    OpenDifference,
    """
    select * from reconciliation_differences
    where reference = :reference and what <> 'in an earlier report'
    order by created_at desc, id desc limit :limit
    """,
)
OPENED = Query(
    OpenDifference,
    """
    select * from reconciliation_differences
    where resolved_at is null and (:source::text is null or source = :source)
    order by created_at, id limit :limit
    """,
)
RESOLVED = Query(
    OpenDifference,
    """
    select * from reconciliation_differences
    where resolved_at is not null and kind <> 'booking' and what <> 'in an earlier report'
        and (:source::text is null or source = :source)
    order by resolved_at desc, id limit :limit
    """,
)
COUNT_OPEN = Value(int, "select count(*) from reconciliation_differences where resolved_at is null")
RESOLVE = Query(
    OpenDifference,
    """
    update reconciliation_differences
    set resolved_at = :now, resolved_by = :who, resolution = :resolution
    where id = :id and resolved_at is null
    returning *
    """,
)
# Reopen a difference, if it was resolved at `:resolved_at`. An equal time proves that the rejected
# adjustment resolved it, because both were written in one transaction.
REOPEN = Query(
    OpenDifference,
    """
    update reconciliation_differences
    set resolved_at = null, resolved_by = null, resolution = null, earlier = :earlier
    where id = :id and resolved_at = :resolved_at
    returning *
    """,
)
HAS_MISSING = Value(
    bool,
    """
    select exists (
        select from reconciliation_differences
        where resolved_at is null and source = :source and what = 'missing in report')
    """,
)
RESOLVE_MISSING = Command(
    """
    update reconciliation_differences
    set resolved_at = :now, resolved_by = :who, resolution = 'a later report has it'
    where resolved_at is null and source = :source and what = 'missing in report'
        and (kind, reference) in (select * from unnest(:kind::text[], :reference::text[]))
    """
)
# Items that a report has although our books have them after its end. They are no differences, and
# nobody has to resolve them.
ADD_EARLY = Command(
    """
    insert into reconciliation_differences (id, file_id, source, what, kind, reference, line,
        merchant_id, ours, theirs, created_at, resolved_at, resolved_by, resolution)
    select id, :file_id, :source, 'in an earlier report', kind, reference, null, merchant_id, ours,
        '', :now, :now, :who, 'a report has it before our time of it'
    from unnest(:id::text[], :kind::text[], :reference::text[], :merchant_id::text[], :ours::text[])
        as new (id, kind, reference, merchant_id, ours)
    on conflict (source, what, kind, reference, ours, theirs) do nothing
    """
)
FIND_EARLY = Query(
    ItemName,
    """
    select d.kind, d.reference
    from unnest(:kind::text[], :reference::text[]) as item (kind, reference)
    join reconciliation_differences d on d.source = :source and d.what = 'in an earlier report'
        and d.kind = item.kind and d.reference = item.reference
    """,
)
