"""The integrity rules as data: a sentence for each, and the statement that finds violations.

contract.md#ledger-rules. Each statement returns merchant, subject and detail of every violation. It
also runs for a single merchant, so two sides are compared by left joins: PostgreSQL does not push a
condition on the merchant down into a full join.
"""

from typing import Final

from opentill import figures
from opentill.adjustments.model import MOVES
from opentill.db.query import WHOLE_TABLE_S, Query, Value
from opentill.integrity import event_queries, prepaid_queries
from opentill.integrity.count_queries import TOTALS_OF_LISTS
from opentill.ledger import Violation, rule_sql

_OF_MERCHANT_S: Final = 3600.0  # time limit of a rule about one merchant, however many rows it has
_UNPAID: Final = "('CREATING', 'PENDING', 'FAILED', 'CLOSED', 'REVOKED')"
# SQL for two properties of ``orders.Order``: whether its money is in pending, and how much.
_STANDS: Final = """(o.paid_at is not null and o.settled_at is null and not o.paid_directly
    and (o.settle_at is not null or o.status not in ('REFUNDED', 'CHARGEBACK')))"""
_UNSETTLED: Final = "(o.net_settled_minor - o.refund_debit_minor - o.charged_back_minor)"
# The table of adjustments as rows of values.
_MOVES: Final = ", ".join(
    f"('{m.kind}', '{m.account}', {m.sign}, '{m.posting}', '{m.source}', '{m.target}')"
    for m in MOVES
)

# Each rule's sentence, and the statement that finds its violations.
_RULES: Final = {
    "an order has its PAYMENT exactly when the platform was paid": f"""
    select o.merchant_id, o.id as subject,
        o.status || ', paid at ' || coalesce(o.paid_at::text, 'no time') || ', '
            || coalesce(e.amount_minor || ' ' || e.currency, 'nothing') || ' posted of '
            || o.gross_settled_minor || ' ' || o.settled_currency as detail
    from orders o left join entries e on e.merchant_id = o.merchant_id
        and e.source_type = 'order' and e.source_id = o.id and e.type = 'PAYMENT'
    where (o.paid_at is null) <> (o.status in {_UNPAID})
        or (o.paid_at is null or o.paid_directly or o.imported) <> (e.id is null)
        or (o.paid_at is null and o.paid_directly)
        or (e.amount_minor, e.currency) <> (o.gross_settled_minor, o.settled_currency)
    """,  # noqa: S608 - interpolates constants of this program only
    "an order has the FEE of its gross less its net exactly when it was paid": """
    select o.merchant_id, o.id as subject,
        coalesce(e.amount_minor, 0) || ' posted of '
            || o.gross_settled_minor - o.net_settled_minor as detail
    from orders o left join entries e on e.merchant_id = o.merchant_id
        and e.source_type = 'order' and e.source_id = o.id and e.type = 'FEE'
    where coalesce(e.amount_minor, 0) <> case when o.paid_at is null then 0
            else o.gross_settled_minor - o.net_settled_minor end
        or e.currency <> o.settled_currency
        or (e.from_account = 'prepaid') <> o.paid_directly
    """,
    **prepaid_queries.RULES,
    "a paid order was paid by exactly one attempt": """
    select o.merchant_id, o.id as subject,
        count(a.id) || ' succeeded, paid by ' || coalesce(o.paid_attempt_id, 'none') as detail
    from orders o left join payment_attempts a on a.merchant_id = o.merchant_id
        and a.order_id = o.id and a.status = 'SUCCEEDED'
    group by o.merchant_id, o.id
    having count(a.id) <> (o.paid_at is not null)::int
        or max(a.id) is distinct from o.paid_attempt_id
    """,
    "an order counts its refunds, and they are at most what was paid": """
    select o.merchant_id, o.id as subject,
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
    "a refund is frozen, then refunded or unfrozen, and returned if it is reversed": """
    select r.merchant_id, r.id as subject,
        r.status || ' of ' || r.debit_minor || ' by ' || r.source || ': frozen ' || e.frozen
            || ', refunded ' || e.refunded || ', unfrozen ' || e.unfrozen || ', returned '
            || e.returned || ', fee ' || e.fee_back || ' back and ' || e.fee_again
            || ' again of ' || r.fee_returned_minor as detail
    from refunds r
    join orders o on o.merchant_id = r.merchant_id and o.id = r.order_id
    cross join lateral (
        select
            coalesce(sum(e.amount_minor) filter (where e.type = 'FREEZE'), 0) as frozen,
            coalesce(sum(e.amount_minor) filter (where
                e.type = 'REFUND' and e.to_account = 'gateway'), 0) as refunded,
            coalesce(sum(e.amount_minor) filter (where
                e.type = 'REFUND' and e.from_account = 'gateway'), 0) as returned,
            coalesce(sum(e.amount_minor) filter (where e.type = 'UNFREEZE'), 0) as unfrozen,
            coalesce(sum(e.amount_minor) filter (where
                e.type = 'FEE' and e.to_account = 'prepaid'), 0) as fee_back,
            coalesce(sum(e.amount_minor) filter (where
                e.type = 'FEE' and e.from_account = 'prepaid'), 0) as fee_again,
            count(*) filter (where e.type not in ('FREEZE', 'REFUND', 'UNFREEZE', 'FEE')
                or e.currency <> r.debit_currency
                or (e.type = 'FREEZE' and e.from_account <> r.held_from)
                or (e.type = 'REFUND' and e.to_account = 'gateway' and e.from_account <>
                    case r.source when 'GATEWAY' then r.held_from else 'frozen' end)) as odd
        from entries e where e.merchant_id = r.merchant_id
            and e.source_type = 'refund' and e.source_id = r.id
    ) e
    where e.odd > 0 or r.currency <> o.currency or r.debit_currency <> o.settled_currency
        or (e.frozen, e.refunded, e.unfrozen, e.returned) <> (
            case r.source when 'GATEWAY' then 0 else r.debit_minor end,
            case when r.succeeded_at is not null then r.debit_minor else 0 end,
            case when r.status = 'FAILED' and r.succeeded_at is null then r.debit_minor else 0 end,
            case when r.status = 'FAILED' and r.succeeded_at is not null then r.debit_minor
                else 0 end)
        or (e.fee_back, e.fee_again) <> (
            case when r.succeeded_at is not null then r.fee_returned_minor else 0 end,
            case when r.status = 'FAILED' and r.succeeded_at is not null then r.fee_returned_minor
                else 0 end)
        or (o.paid_directly and r.debit_minor <> 0)
        or (not o.paid_directly and r.fee_returned_minor <> 0)
    """,
    "a dispute has the entries of its status, and an entry its dispute": """
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
    select x.merchant_id, x.id as subject,
        x.type || ' of ' || coalesce(e.amount_minor, 0) || ' instead of ' || x.amount as detail
    from expected x left join written e
        on (e.merchant_id, e.source_id, e.currency, e.type, e.from_account, e.to_account)
        = (x.merchant_id, x.id, x.currency, x.type, x.source, x.target)
    where x.amount is distinct from e.amount_minor
    union all
    select e.merchant_id, e.source_id, e.type || ' of ' || e.amount_minor || ' instead of 0'
    from written e where not exists (
        select from expected x
        where (e.merchant_id, e.source_id, e.currency, e.type, e.from_account, e.to_account)
            = (x.merchant_id, x.id, x.currency, x.type, x.source, x.target))
    """,
    "an order is DISPUTED by one open dispute, and a CHARGEBACK by one that was lost": """
    select o.merchant_id, o.id as subject,
        o.status || ', charged back ' || o.charged_back_minor || ': ' || coalesce(d.open, 0)
            || ' open, ' || coalesce(d.lost, 0) || ' lost, of ' || coalesce(d.loss, 0) as detail
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
    # This sums the order's own entries and the entries of its refunds and disputes.
    "an order stands in pending until it is settled, and in reserve while that is held": f"""
    select o.merchant_id, o.id as subject,
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
        or (o.paid_at is null or o.paid_directly) <> (o.due_at is null)
    """,  # noqa: S608 - interpolates constants of this program only
    "each balance is what orders, refunds, disputes and the operator keep there": f"""
    select merchant_id, currency as subject,
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
    """,  # noqa: S608 - interpolates constants of this program only
    "every entry of an order or refund has one": """
    select e.merchant_id,
        e.id as subject, e.source_type || ' ' || e.source_id || ' is not there' as detail
    from (
        select e.* from entries e where e.source_type = 'order' and not exists (
            select from orders o where o.merchant_id = e.merchant_id and o.id = e.source_id)
        union all
        select e.* from entries e where e.source_type = 'refund' and not exists (
            select from refunds r where r.merchant_id = e.merchant_id and r.id = e.source_id)
    ) e
    """,
    "a session is open as long as its order can be paid": f"""
    select o.merchant_id, o.id as subject,
        o.status || ' with a session that is ' || c.status as detail
    from orders o
    join checkouts c on c.merchant_id = o.merchant_id and c.id = o.checkout_id
    where case c.status
        when 'OPEN' then o.status not in ('CREATING', 'PENDING')
        when 'COMPLETE' then o.status in {_UNPAID}
        else o.status in ('CREATING', 'PENDING') end
    """,  # noqa: S608 - interpolates constants of this program only
    "the totals of lists are the numbers of their rows": TOTALS_OF_LISTS,
    "a payout has left with its fee, and is back with it exactly when it failed": """
    select p.merchant_id, p.id as subject,
        p.status || ' of ' || p.amount_minor || ', fee ' || p.fee_minor || ': out ' || e.sent
            || ', fee ' || e.fee || ', back ' || e.back || ', fee back ' || e.fee_back
            || ', others ' || e.odd as detail
    from payouts p cross join lateral (
        select
            coalesce(sum(e.amount_minor) filter (where
                (e.type, e.from_account) = ('PAYOUT', 'available')), 0) as sent,
            coalesce(sum(e.amount_minor) filter (where
                (e.type, e.from_account) = ('FEE', 'available')), 0) as fee,
            coalesce(sum(e.amount_minor) filter (where
                (e.type, e.from_account) = ('PAYOUT', 'bank')), 0) as back,
            coalesce(sum(e.amount_minor) filter (where (e.type, e.from_account, e.to_account)
                = ('BALANCE_CORRECTION', 'platform', 'available')), 0) as fee_back,
            count(*) filter (where e.currency <> p.currency
                or (e.type, e.from_account, e.to_account) not in (
                    ('PAYOUT', 'available', 'bank'), ('FEE', 'available', 'platform'),
                    ('PAYOUT', 'bank', 'available'),
                    ('BALANCE_CORRECTION', 'platform', 'available'))) as odd
        from entries e where e.merchant_id = p.merchant_id
            and e.source_type = 'payout' and e.source_id = p.id
    ) e
    where e.odd > 0 or (e.sent, e.fee, e.back, e.fee_back) <> (p.amount_minor, p.fee_minor,
        case p.status when 'FAILED' then p.amount_minor else 0 end,
        case p.status when 'FAILED' then p.fee_minor else 0 end)
    """,
    "every entry of a payout has one": """
    select e.merchant_id, e.id as subject,
        'payout ' || e.source_id || ' is not there' as detail
    from entries e where e.source_type = 'payout' and not exists (
        select from payouts p where p.merchant_id = e.merchant_id and p.id = e.source_id)
    """,
    "an adjustment has its one entry exactly when it is done": f"""
    select o.merchant_id, o.id as subject,
        o.kind || ' of ' || o.amount_minor || ' ' || o.currency || ' is ' || o.status || ': '
            || coalesce(e.type || ' of ' || e.amount_minor || ' ' || e.currency || ' from '
                || e.from_account || ' to ' || e.to_account, 'no entry') as detail
    from adjustments o
    left join (values {_MOVES}) as t (kind, account, sign, type, from_account, to_account)
        on (t.kind, t.account, t.sign) = (o.kind, o.account, sign(o.amount_minor)::int)
    left join entries e on e.merchant_id = o.merchant_id
        and e.source_type = 'operator' and e.source_id = o.id
    where (o.status = 'DONE') <> (e.id is not null)
        or (e.type, e.from_account, e.to_account, e.amount_minor, e.currency) is distinct from
            (t.type, t.from_account, t.to_account, abs(o.amount_minor), o.currency)
            and e.id is not null
    """,  # noqa: S608 - interpolates constants of this program only
    "every entry of an operator has its movement": """
    select e.merchant_id,
        e.id as subject, 'movement ' || e.source_id || ' is not there' as detail
    from entries e where e.source_type = 'operator' and not exists (
        select from adjustments o
        where o.merchant_id = e.merchant_id and o.id = e.source_id)
    """,
    "operators unfreeze only what operators froze": """
    select merchant_id,
        currency as subject,
        'frozen by operators: ' || sum(case kind when 'freeze' then amount_minor
            else -amount_minor end) as detail
    from adjustments where status = 'DONE' and kind in ('freeze', 'unfreeze')
    group by merchant_id, currency
    having sum(case kind when 'freeze' then amount_minor else -amount_minor end) < 0
    """,
    "an Epay order has a notification exactly when it was paid": """
    select o.merchant_id, o.id as subject,
        'no notification' as detail
    from orders o
    where o.source = 'EPAY' and o.paid_at is not null and not exists (
        select from epay_notifications n
        where n.merchant_id = o.merchant_id and n.order_id = o.id)
    union all
    select n.merchant_id,
        n.order_id, 'a notification of no paid Epay order'
    from epay_notifications n
    where not exists (
        select from orders o where o.merchant_id = n.merchant_id and o.id = n.order_id
            and o.source = 'EPAY' and o.paid_at is not null)
    """,
    # Notices repeat `money` word for word, so it must be the amount of the order. SQL does not know
    # how many decimals the currency has, so the amount may have 0, 2 or 3.
    "an Epay order is what was submitted, and what was submitted an Epay order": """
    select o.merchant_id, o.id as subject,
        o.amount_minor || ' ' || o.currency || ': '
            || coalesce(e.money || ' ' || e.money_type, 'nothing') || ' submitted' as detail
    from orders o
    left join epay_orders e on e.merchant_id = o.merchant_id and e.order_id = o.id
    where o.source = 'EPAY' and (e.order_id is null
        or (e.money_type, e.checkout_id) <> (o.currency, o.checkout_id)
        or o.amount_minor not in
            (e.money::numeric, e.money::numeric * 100, e.money::numeric * 1000))
    union all
    select e.merchant_id, e.order_id, 'no Epay order: ' || e.money || ' ' || e.money_type
            || ' submitted'
    from epay_orders e
    where not exists (
        select from orders o where o.merchant_id = e.merchant_id and o.id = e.order_id
            and o.source = 'EPAY')
    """,
    "orders under one Epay number ask for the same, and only the last can still be paid": """
    select e.merchant_id, e.order_id as subject,
        'submission ' || e.submission || ' of ' || e.out_trade_no || ' for ' || e.money || ' '
            || e.money_type || ', the one before '
            || coalesce(o.status || ' for ' || before.money || ' ' || before.money_type, 'missing')
            as detail
    from epay_orders e
    left join epay_orders before on before.merchant_id = e.merchant_id
        and before.out_trade_no = e.out_trade_no and before.submission = e.submission - 1
    left join orders o on o.merchant_id = before.merchant_id and o.id = before.order_id
    where e.submission > 1 and (before.order_id is null or o.status in ('PENDING', 'CREATING')
        or e.old_trade_no is null and (e.name, e.money::numeric, e.money_type, e.notify_url,
            e.return_url, e.param) <> (before.name, before.money::numeric, before.money_type,
                before.notify_url, before.return_url, before.param))
    """,
}
# ``:source``, ``:event`` and ``:target`` are the columns of the table of an order's transitions.
_HISTORY: Final = """
    select o.merchant_id,
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
        or (h.number = 1 and case when o.imported then (h.event, h.to_status) not in (
            ('imported', 'SETTLED'), ('imported', 'REFUNDED'), ('imported', 'CLOSED'))
            else (h.event, h.to_status) <> ('opened', 'PENDING') end)
        or (h.number > 1 and h.from_status <> h.to_status and not exists (
            select from unnest(:source::text[], :event::text[], :target::text[])
                as s (source, event, target)
            where (s.source, s.event, s.target) = (h.from_status, h.event, h.to_status)))
    """


def _rule(holds: str, sql: str, *, one_merchant: bool = False) -> Query[Violation]:
    """Return a rule's statement; PostgreSQL pushes the merchant condition down where it can."""
    of_merchant = " where merchant_id = :merchant_id" if one_merchant else ""
    text = rule_sql(holds, sql, of_merchant)
    return Query(Violation, text, timeout_s=_OF_MERCHANT_S if one_merchant else WHOLE_TABLE_S)


_ALL: Final = {**_RULES, **figures.RULES}
RULES: Final = tuple(_rule(*each) for each in _ALL.items())
MERCHANT_RULES: Final = tuple(_rule(*each, one_merchant=True) for each in _ALL.items())
_HISTORY_SENTENCE: Final = "the history leads to the status, by transitions of the table"
HISTORY: Final = _rule(_HISTORY_SENTENCE, _HISTORY)
MERCHANT_HISTORY: Final = _rule(_HISTORY_SENTENCE, _HISTORY, one_merchant=True)
EVENTS: Final = _rule(event_queries.SENTENCE, event_queries.EVENTS)
MERCHANT_EVENTS: Final = _rule(event_queries.SENTENCE, event_queries.EVENTS, one_merchant=True)
# The sentences of the rules about a merchant, in the order of ``rules.merchant_rules``.
MERCHANT_SENTENCES: Final = (*_ALL, _HISTORY_SENTENCE, event_queries.SENTENCE)

# Whether a balance is the merchant's first: the rules about the merchant are checked after it.
IS_FIRST: Final = Value(
    bool,
    "select not exists (select from balances"
    " where merchant_id = :merchant_id and currency < :currency)",
)
