"""SQL that counts direct payments, each once: those that a merchant's own account received."""

from typing import Final

from opentill.db.query import Query, Value
from opentill.orders.payments.model import DirectPayments, UncountedMerchant

# The predicate of the index `payment_attempts_direct_uncounted`.
_UNCOUNTED: Final = """
    status = 'SUCCEEDED' and prepaid_minor is not null and direct_counted_at is null
"""

# Marks direct payments as counted in the quarter hour in which they were paid; returns their sums.
COUNT_DIRECT = Query(
    DirectPayments,
    f"""
    with uncounted as materialized (
        select merchant_id, id from payment_attempts
        where merchant_id = :merchant_id and {_UNCOUNTED}
        order by updated_at limit :limit for update skip locked
    ), marked as (
        update payment_attempts a set direct_counted_at = o.paid_at / 900000 * 900000
        from uncounted u, orders o
        where a.merchant_id = :merchant_id and a.id = u.id
            and o.merchant_id = :merchant_id and o.id = a.order_id
        returning a.direct_counted_at as since, a.gateway, a.method,
            coalesce(a.card_brand, '') as brand, o.currency, o.settled_currency, o.amount_minor,
            o.gross_settled_minor
    )
    select since, gateway, method, brand, currency, settled_currency, count(*) as payments,
        sum(amount_minor)::bigint as volume_minor, sum(gross_settled_minor)::bigint as settled_minor
    from marked group by since, gateway, method, brand, currency, settled_currency order by since
    """,  # noqa: S608 - interpolates constants of this program only
)
# Finds the merchants after `:after` with uncounted direct payments, by one index lookup for each.
UNCOUNTED_MERCHANTS = Query(
    UncountedMerchant,
    f"""
    with recursive merchant (id) as (
        (select merchant_id from payment_attempts where merchant_id > :after and {_UNCOUNTED}
            order by merchant_id limit 1)
        union all
        select (select a.merchant_id from payment_attempts a
            where a.merchant_id > merchant.id and {_UNCOUNTED} order by a.merchant_id limit 1)
        from merchant where merchant.id is not null
    )
    select id as merchant_id from merchant where id is not null limit :limit
    """,  # noqa: S608 - interpolates constants of this program only
)
# When (Unix ms) the first uncounted direct payment of a merchant was made.
UNCOUNTED_SINCE = Value(
    int,
    f"""
    select min(updated_at) from payment_attempts where merchant_id = :merchant_id and {_UNCOUNTED}
    """,  # noqa: S608 - interpolates constants of this program only
)
