"""That Epay orders and what was submitted and told of them agree, for ``opentill ledger check``."""

from typing import Final

from opentill.db.query import Query
from opentill.ledger import Violation

RULES: Final = (
    Query(
        Violation,
        """
        select 'who placed an Epay order is told of it exactly when it was paid' as rule,
            o.merchant_id, o.id as subject, 'no notice' as detail
        from orders o
        where o.source = 'EPAY' and o.paid_at is not null and not exists (
            select from epay_notifications n
            where n.merchant_id = o.merchant_id and n.order_id = o.id)
        union all
        select 'who placed an Epay order is told of it exactly when it was paid', n.merchant_id,
            n.order_id, 'a notice of no paid Epay order'
        from epay_notifications n
        where not exists (
            select from orders o where o.merchant_id = n.merchant_id and o.id = n.order_id
                and o.source = 'EPAY' and o.paid_at is not null)
        """,
    ),
    # It goes back in notices word for word, so it must be this order's and of this amount; here
    # nobody knows how many decimals the currency has.
    Query(
        Violation,
        """
        select 'an Epay order is what was submitted, and what was submitted an Epay order' as rule,
            o.merchant_id, o.id as subject, o.amount_minor || ' ' || o.currency || ': '
                || coalesce(e.money || ' ' || e.money_type, 'nothing') || ' submitted' as detail
        from orders o
        left join epay_orders e on e.merchant_id = o.merchant_id and e.order_id = o.id
        where o.source = 'EPAY' and (e.order_id is null
            or (e.money_type, e.checkout_id) <> (o.currency, o.checkout_id)
            or o.amount_minor not in
                (e.money::numeric, e.money::numeric * 100, e.money::numeric * 1000))
        union all
        select 'an Epay order is what was submitted, and what was submitted an Epay order',
            e.merchant_id, e.order_id, 'no Epay order: ' || e.money || ' ' || e.money_type
                || ' submitted'
        from epay_orders e
        where not exists (
            select from orders o where o.merchant_id = e.merchant_id and o.id = e.order_id
                and o.source = 'EPAY')
        """,
    ),
)
