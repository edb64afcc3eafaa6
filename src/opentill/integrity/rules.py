"""Whether the books are right: the ledger's own rules, and that the features' rows explain them.

contract.md#ledger-rules. Above the features: it reads all of them and none may know the others.
Each rule is a statement that returns the places where it does not hold. It is also asked of one
merchant alone (integrity/scheduler.py), so both sides are compared by left joins and not by a full
one, into which PostgreSQL takes no condition on the merchant.
"""

from collections import deque
from collections.abc import Mapping, Sequence
from typing import Any, Final

from opentill import ledger
from opentill.db.database import Db, Tx
from opentill.db.jobs import run_all
from opentill.db.query import MOMENT, Query
from opentill.integrity.adjustment_rules import RULES as OPERATOR_RULES
from opentill.integrity.epay_rules import RULES as EPAY_RULES
from opentill.integrity.payout_rules import RULES as PAYOUT_RULES
from opentill.ledger import Violation
from opentill.orders import TRANSITIONS

_UNPAID: Final = "('CREATING', 'PENDING', 'FAILED', 'CLOSED', 'REVOKED')"
# As orders.Order says it: whether the order's money is in pending still, and how much it is.
_STANDS: Final = """(o.paid_at is not null and o.settled_at is null
    and (o.settle_at is not null or o.status not in ('REFUNDED', 'CHARGEBACK')))"""
_UNSETTLED: Final = "(o.net_settled_minor - o.refund_debit_minor - o.charged_back_minor)"

RULES: Final = (
    Query(
        Violation,
        f"""
        select 'an order has its PAYMENT exactly when it was paid' as rule, o.merchant_id,
            o.id as subject,
            o.status || ', paid at ' || coalesce(o.paid_at::text, 'no time') || ', '
                || coalesce(e.amount_minor || ' ' || e.currency, 'nothing') || ' posted of '
                || o.gross_settled_minor || ' ' || o.settled_currency as detail
        from orders o left join entries e on e.merchant_id = o.merchant_id
            and e.source_type = 'order' and e.source_id = o.id and e.type = 'PAYMENT'
        where (o.paid_at is null) <> (o.status in {_UNPAID})
            or (o.paid_at is null) <> (e.id is null)
            or (e.amount_minor, e.currency) <> (o.gross_settled_minor, o.settled_currency)
        """,  # noqa: S608 - a constant of ours
    ),
    Query(
        Violation,
        """
        select 'an order has the FEE of its gross less its net exactly when it was paid' as rule,
            o.merchant_id, o.id as subject,
            coalesce(e.amount_minor, 0) || ' posted of '
                || o.gross_settled_minor - o.net_settled_minor as detail
        from orders o left join entries e on e.merchant_id = o.merchant_id
            and e.source_type = 'order' and e.source_id = o.id and e.type = 'FEE'
        where coalesce(e.amount_minor, 0) <> case when o.paid_at is null then 0
                else o.gross_settled_minor - o.net_settled_minor end
            or e.currency <> o.settled_currency
        """,
    ),
    Query(
        Violation,
        """
        select 'a paid order was paid by exactly one attempt' as rule, o.merchant_id,
            o.id as subject,
            count(a.id) || ' succeeded, paid by ' || coalesce(o.paid_attempt_id, 'none') as detail
        from orders o left join payment_attempts a on a.merchant_id = o.merchant_id
            and a.order_id = o.id and a.status = 'SUCCEEDED'
        group by o.merchant_id, o.id
        having count(a.id) <> (o.paid_at is not null)::int
            or max(a.id) is distinct from o.paid_attempt_id
        """,
    ),
    Query(
        Violation,
        """
        select 'an order counts its refunds, and they are at most what was paid' as rule,
            o.merchant_id, o.id as subject,
            'refunded ' || o.refunded_minor || ' of ' || r.refunded || ', held '
                || o.refund_held_minor || ' of ' || r.held || ', debit ' || o.refund_debit_minor
                || ' of ' || r.debit as detail
        from orders o cross join lateral (
            select coalesce(sum(amount_minor) filter (where status = 'SUCCEEDED'), 0) as refunded,
                coalesce(sum(amount_minor) filter (where status <> 'FAILED'), 0) as held,
                coalesce(sum(debit_minor) filter (where status <> 'FAILED'), 0) as debit,
                count(*) as refunds
            from refunds r where r.merchant_id = o.merchant_id and r.order_id = o.id
        ) r
        where (o.refunded_minor, o.refund_held_minor, o.refund_debit_minor)
                <> (r.refunded, r.held, r.debit)
            or r.held > o.amount_minor or r.debit > o.gross_settled_minor
            or (o.paid_at is null and r.refunds > 0)
            or (o.status = 'REFUNDED' and o.refunded_minor <> o.amount_minor)
            or (o.status in ('PAID', 'SETTLED') and o.refunded_minor = o.amount_minor)
        """,
    ),
    Query(
        Violation,
        """
        select 'a refund is frozen while it is processing, then refunded or unfrozen' as rule,
            r.merchant_id, r.id as subject,
            r.status || ' of ' || r.debit_minor || ': frozen ' || e.frozen || ', refunded '
                || e.refunded || ', unfrozen ' || e.unfrozen as detail
        from refunds r
        join orders o on o.merchant_id = r.merchant_id and o.id = r.order_id
        cross join lateral (
            select
                coalesce(sum(e.amount_minor) filter (where e.type = 'FREEZE'), 0) as frozen,
                coalesce(sum(e.amount_minor) filter (where e.type = 'REFUND'), 0) as refunded,
                coalesce(sum(e.amount_minor) filter (where e.type = 'UNFREEZE'), 0) as unfrozen,
                count(*) filter (where e.type not in ('FREEZE', 'REFUND', 'UNFREEZE')
                    or e.currency <> r.debit_currency
                    or (e.type = 'FREEZE' and e.from_account <> r.held_from)) as odd
            from entries e where e.merchant_id = r.merchant_id
                and e.source_type = 'refund' and e.source_id = r.id
        ) e
        where e.odd > 0 or r.currency <> o.currency or r.debit_currency <> o.settled_currency
            or (e.frozen, e.refunded, e.unfrozen) <> (r.debit_minor,
                case r.status when 'SUCCEEDED' then r.debit_minor else 0 end,
                case r.status when 'FAILED' then r.debit_minor else 0 end)
        """,
    ),
    Query(
        Violation,
        """
        with expected as not materialized (
            select d.merchant_id, d.id, d.debit_currency as currency, p.*
            from disputes d cross join lateral (
                select d.disputed_from = 'SETTLED' as settled,
                    d.status in ('LOST', 'RECOVERED') as lost, case d.disputed_from
                        when 'SETTLED' then 'available' else 'pending' end as origin
            ) at cross join lateral (
                values
                    ('FREEZE', 'available', 'frozen', at.settled, d.debit_minor),
                    ('UNFREEZE', 'frozen', 'available', at.settled and d.status <> 'OPEN',
                        d.debit_minor),
                    ('CHARGEBACK', at.origin, 'gateway', at.lost, d.debit_minor),
                    ('CHARGEBACK_FEE', at.origin, 'platform', at.lost, d.fee_minor),
                    ('ROLLING_RESERVE_OFFSET', 'reserve', 'available', at.lost, d.offset_minor),
                    ('CHARGEBACK_RECOVERY', 'gateway', 'available', d.status = 'RECOVERED',
                        d.debit_minor),
                    ('ROLLING_RESERVE_RECOVERY', 'available', 'reserve', d.status = 'RECOVERED',
                        d.offset_minor)
            ) as p (type, source, target, there, amount)
            where p.there and p.amount > 0
        ), written as not materialized (
            select * from entries
            where source_type = 'dispute' and type <> 'ROLLING_RESERVE_RELEASE'
        )
        select 'a dispute has the entries of its status, and an entry its dispute' as rule,
            x.merchant_id, x.id as subject,
            x.type || ' of ' || coalesce(e.amount_minor, 0) || ' instead of ' || x.amount as detail
        from expected x left join written e
            on (e.merchant_id, e.source_id, e.currency, e.type, e.from_account, e.to_account)
            = (x.merchant_id, x.id, x.currency, x.type, x.source, x.target)
        where x.amount is distinct from e.amount_minor
        union all
        select 'a dispute has the entries of its status, and an entry its dispute',
            e.merchant_id, e.source_id, e.type || ' of ' || e.amount_minor || ' instead of 0'
        from written e where not exists (
            select from expected x
            where (e.merchant_id, e.source_id, e.currency, e.type, e.from_account, e.to_account)
                = (x.merchant_id, x.id, x.currency, x.type, x.source, x.target))
        """,
    ),
    Query(
        Violation,
        """
        select 'an order is DISPUTED by one open dispute, and a CHARGEBACK by one that was lost'
                as rule, o.merchant_id, o.id as subject,
            o.status || ', charged back ' || o.charged_back_minor || ': ' || d.open || ' open, '
                || d.lost || ' lost, of ' || d.loss as detail
        from orders o left join (
            select merchant_id, order_id, count(*) filter (where status = 'OPEN') as open,
                count(*) filter (where status = 'LOST') as lost,
                coalesce(sum(debit_minor + fee_minor) filter (where status = 'LOST'), 0) as loss,
                bool_or(status in ('OPEN', 'LOST') and disputed_from = 'PAID') as unsettled,
                max(offset_minor - debit_minor - fee_minor) as over
            from disputes group by merchant_id, order_id
        ) d on d.merchant_id = o.merchant_id and d.order_id = o.id
        where (o.status = 'DISPUTED')::int <> coalesce(d.open, 0)
            or (o.status = 'CHARGEBACK')::int <> coalesce(d.lost, 0)
            or o.charged_back_minor <> coalesce(d.loss, 0)
            or (o.status in ('DISPUTED', 'CHARGEBACK') and d.unsettled <> (o.settled_at is null))
            or d.over > 0
        """,
    ),
    # The order's own entries and those of its refunds and disputes, together.
    Query(
        Violation,
        f"""
        select 'an order stands in pending until it is settled, and in reserve while that is held'
                as rule, o.merchant_id, o.id as subject,
            o.status || ', settled at ' || coalesce(o.settled_at::text, 'no time') || ', reserve '
                || o.reserve_status || ': pending ' || coalesce(e.pending, 0) || ' of '
                || case when {_STANDS} then {_UNSETTLED} else 0 end || ', reserve '
                || coalesce(e.reserve, 0) || ' of ' || o.reserve_minor as detail
        from orders o left join (
            select e.merchant_id, coalesce(r.order_id, d.order_id, e.source_id) as order_id,
                sum((e.to_account = 'pending')::int * e.amount_minor
                    - (e.from_account = 'pending')::int * e.amount_minor) as pending,
                sum((e.to_account = 'reserve')::int * e.amount_minor
                    - (e.from_account = 'reserve')::int * e.amount_minor) as reserve,
                count(*) filter (where e.type = 'ROLLING_RESERVE') as reserves
            from entries e
            left join refunds r on e.source_type = 'refund' and r.merchant_id = e.merchant_id
                and r.id = e.source_id
            left join disputes d on e.source_type = 'dispute' and d.merchant_id = e.merchant_id
                and d.id = e.source_id
            where e.source_type in ('order', 'refund', 'dispute')
            group by 1, 2
        ) e on e.merchant_id = o.merchant_id and e.order_id = o.id
        where coalesce(e.pending, 0) <> case when {_STANDS} then {_UNSETTLED} else 0 end
            or coalesce(e.reserve, 0)
                <> case o.reserve_status when 'HELD' then o.reserve_minor else 0 end
            or coalesce(e.reserves, 0) <> (o.reserve_status <> 'NONE')::int
            or (o.reserve_status = 'NONE') <> (o.reserve_minor = 0)
            or (o.reserve_status = 'NONE') <> (o.reserve_release_at is null)
            or (o.settle_at is not null) <> ({_STANDS} and o.status <> 'DISPUTED')
            or (o.paid_at is null) <> (o.due_at is null)
        """,  # noqa: S608 - constants of ours
    ),
    Query(
        Violation,
        f"""
        select 'each balance is what orders, refunds, disputes and the operator keep there' as rule,
            merchant_id, currency as subject,
            'pending ' || sum(pending) || ', frozen ' || sum(frozen) || ', reserve ' || sum(reserve)
                || ' more than that' as detail
        from (
            select merchant_id, currency, pending, frozen, reserve from balances
            union all
            select o.merchant_id, o.settled_currency,
                case when {_STANDS} then -({_UNSETTLED}) else 0 end, 0,
                case o.reserve_status when 'HELD' then -o.reserve_minor else 0 end
            from orders o where o.paid_at is not null
            union all
            select merchant_id, debit_currency, 0, -debit_minor, 0
            from refunds where status = 'PROCESSING'
            union all
            select merchant_id, debit_currency, 0, -debit_minor, 0
            from disputes where status = 'OPEN' and disputed_from = 'SETTLED'
            union all
            select merchant_id, currency, 0,
                case kind when 'freeze' then -amount_minor else amount_minor end, 0
            from adjustments where status = 'DONE' and kind in ('freeze', 'unfreeze')
            union all
            select merchant_id, currency,
                case e.from_account when 'pending' then amount_minor else -amount_minor end, 0, 0
            from entries e
            where source_type = 'operator' and 'pending' in (from_account, to_account)
        ) as kept
        group by merchant_id, currency
        having (sum(pending), sum(frozen), sum(reserve)) <> (0, 0, 0)
        """,  # noqa: S608 - constants of ours
    ),
    Query(
        Violation,
        """
        select 'every entry of an order or refund has one' as rule, e.merchant_id,
            e.id as subject, e.source_type || ' ' || e.source_id || ' is not there' as detail
        from (
            select e.* from entries e where e.source_type = 'order' and not exists (
                select from orders o where o.merchant_id = e.merchant_id and o.id = e.source_id)
            union all
            select e.* from entries e where e.source_type = 'refund' and not exists (
                select from refunds r where r.merchant_id = e.merchant_id and r.id = e.source_id)
        ) e
        """,
    ),
    Query(
        Violation,
        f"""
        select 'a session is open as long as its order can be paid' as rule, o.merchant_id,
            o.id as subject, o.status || ' with a session that is ' || c.status as detail
        from orders o
        join checkouts c on c.merchant_id = o.merchant_id and c.id = o.checkout_id
        where case c.status
            when 'OPEN' then o.status not in ('CREATING', 'PENDING')
            when 'COMPLETE' then o.status in {_UNPAID}
            else o.status in ('CREATING', 'PENDING') end
        """,  # noqa: S608 - a constant of ours
    ),
    # Both sides by hour, with the changes that the counts do not hold yet; then for longer spans.
    Query(
        Violation,
        """
        select 'the totals of lists are the numbers of their rows' as rule, merchant_id,
            list || ' ' || span as subject,
            kind || coalesce(' of ' || nullif(part, ''), '') || ' since ' || since || ': '
                || sum(counted) || ' counted, ' || sum(there) || ' there' as detail
        from (
            select merchant_id, list, part, span, since, kind, rows as counted, 0 as there
            from list_counts
            union all
            select merchant_id, list, p.part, s.span, s.since, kind, counted, there
            from (
                select merchant_id, list, part, at / 3600000 * 3600000 as hour, kind,
                    sum(counted) as counted, sum(there) as there
                from (
                    select merchant_id, list, part, at, kind, rows as counted, 0 as there
                    from list_changes where kind is not null
                    union all
                    select merchant_id, list, part, at, was, -rows, 0
                    from list_changes where was is not null
                    union all
                    select merchant_id, 'orders', product_id, created_at, status, 0, 1 from orders
                    union all
                    select merchant_id, 'entries', '', created_at, type, 0, 1 from entries
                ) as each_row
                group by 1, 2, 3, 4, 5
            ) as hours
            cross join lateral (select hours.part union select '') as p (part)
            cross join lateral (
                values ('all', 0), ('day', hour / 86400000 * 86400000), ('hour', hour)
            ) as s (span, since)
        ) as both_sides
        group by merchant_id, list, part, span, since, kind
        having sum(counted) <> sum(there)
        """,
    ),
    *PAYOUT_RULES,
    *OPERATOR_RULES,
    *EPAY_RULES,
)

# The values are the columns of the table of steps.
HISTORY: Final = Query(
    Violation,
    """
    select 'the history leads to the status, by steps of the table' as rule, o.merchant_id,
        o.id as subject, coalesce('row ' || h.number || ': ' || coalesce(h.from_status, 'nothing')
            || ' to ' || h.to_status || ' by ' || h.event, 'no history') as detail
    from orders o left join (
        select h.*,
            lag(number, 1, 0) over rows as number_before,
            lag(to_status) over rows as status_before,
            lag(at) over rows as at_before,
            lead(number) over rows is null as last,
            -- Its first rows may have been pruned, see orders/jobs.py.
            number > 1 and lag(number) over rows is null
                and at < extract(epoch from now()) * 1000 - 365 * 86400000::bigint as pruned
        from order_history h
        window rows as (partition by merchant_id, order_id order by number)
    ) h on h.merchant_id = o.merchant_id and h.order_id = o.id
    where h.number is null
        or (h.number <> h.number_before + 1 and not h.pruned)
        or (h.from_status is distinct from h.status_before and not h.pruned)
        or h.at < h.at_before
        or (h.last and (h.number, h.to_status) <> (o.history_number, o.status))
        or (h.number = 1 and (h.event, h.to_status) <> ('opened', 'PENDING'))
        or (h.number > 1 and h.from_status <> h.to_status and not exists (
            select from unnest(:source::text[], :event::text[], :target::text[])
                as s (source, event, target)
            where (s.source, s.event, s.target) = (h.from_status, h.event, h.to_status)))
    """,
)


def known_steps() -> dict[str, list[Any]]:
    """Return the table of an order's steps by its columns, for ``HISTORY``."""
    return {
        "source": [step.source for step in TRANSITIONS],
        "event": [step.event for step in TRANSITIONS],
        "target": [step.target for step in TRANSITIONS],
    }


def _rules() -> Sequence[tuple[Query[Violation], Mapping[str, Any]]]:
    """Return all rules with their values; the dearest first, so that two finish together."""
    rules: list[tuple[Query[Violation], Mapping[str, Any]]] = [(rule, {}) for rule in RULES]
    return [(HISTORY, known_steps()), *ledger.rules(), *rules]


async def check_books(tx: Tx) -> tuple[int, list[Violation]]:
    """Check every rule of the books. Returns how many entries there are and what is wrong.

    To be run in one repeatable-read transaction, so that it sees the books of one moment.
    """
    violations: list[Violation] = []
    for rule, values in _rules():
        violations += await rule.all(tx, **values)
    return await ledger.count(tx), violations


async def check_all(db: Db) -> tuple[int, list[Violation]]:
    """Check the books as ``check_books`` does, two rules at a time, both of the same moment."""
    async with db.snapshot() as first, db.snapshot(await MOMENT.get(first)) as second:
        waiting = deque(_rules())
        violations: list[Violation] = []

        async def work(tx: Tx) -> None:
            while waiting:
                rule, values = waiting.popleft()
                violations.extend(await rule.all(tx, **values))

        await run_all(work(first), work(second))
        return await ledger.count(first), sorted(violations, key=repr)
