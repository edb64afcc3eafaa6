"""All SQL of reconciliation. It reads what other features keep and changes nothing."""

from typing import Final

from opentill.db.query import Query, Value
from opentill.reconciliation.model import Item

# Everything through a gateway that is or may become money. A duplicate that was given back is a
# payment and a refund, both under the attempt's id.
_ITEMS: Final = """
    select 'payment' as kind, a.merchant_id, a.id, a.provider_ref, '' as payment, a.amount_minor,
        a.currency, a.status,
        case when a.id = o.paid_attempt_id then o.paid_at else a.updated_at end as at
    from payment_attempts a join orders o on o.merchant_id = a.merchant_id and o.id = a.order_id
    where a.gateway = :gateway
    union all
    select 'refund', a.merchant_id, a.id, '', '', a.amount_minor, a.currency, a.status, a.updated_at
    from payment_attempts a where a.gateway = :gateway and a.status in ('DUPLICATE', 'GIVEN_BACK')
    union all
    select 'refund', r.merchant_id, r.id, r.provider_ref, '', r.amount_minor, r.currency, r.status,
        coalesce(r.succeeded_at, r.updated_at)
    from refunds r join payment_attempts a on a.merchant_id = r.merchant_id and a.id = r.attempt_id
    where a.gateway = :gateway
    union all
    select 'chargeback', d.merchant_id, d.id, coalesce(d.gateway_ref, ''), d.attempt_id,
        d.amount_minor, d.currency, d.status, coalesce(d.closed_at, d.updated_at)
    from disputes d where d.gateway = :gateway
    union all
    select 'recovery', d.merchant_id, d.id, coalesce(d.gateway_ref, ''), d.attempt_id,
        d.amount_minor, d.currency, d.status, d.updated_at
    from disputes d where d.gateway = :gateway and d.status in ('LOST', 'RECOVERED')
"""
# `:kind` and `:status` are the pairs that count as settled.
BETWEEN = Query(
    Item,
    f"""
    select * from ({_ITEMS}) as item
    where at between :since and :until
        and (kind, status) in (select * from unnest(:kind::text[], :status::text[]))
    """,  # noqa: S608 - a constant of ours
)
# By names that a report gave.
NAMED = Query(
    Item,
    f"""
    select * from ({_ITEMS}) as item
    where id = any(:names) or provider_ref = any(:names) or payment = any(:names)
    """,  # noqa: S608 - a constant of ours
)
KNOWN = Value(bool, "select exists (select from payment_attempts where gateway = :gateway)")
