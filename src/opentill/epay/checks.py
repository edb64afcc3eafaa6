"""That Epay orders and what was submitted and told of them agree, for ``opentill ledger check``."""

from typing import Final

from opentill.core.db import Query
from opentill.ledger import Violation

RULES: Final = (
    Query(
        Violation,
        """
        select 'who placed an Epay order is told of it exactly when it was paid' as rule,
            coalesce(o.merchant_id, n.merchant_id) as merchant_id,
            coalesce(o.id, n.order_id) as subject,
            case when o.id is null then 'a notice of no paid Epay order' else 'no notice' end
                as detail
        from (
            select merchant_id, id from orders where source = 'EPAY' and paid_at is not null
        ) o full join order_notices n on n.merchant_id = o.merchant_id and n.order_id = o.id
        where o.id is null or n.order_id is null
        """,
    ),
    # It goes back in notices word for word, so it must be this order's and of this amount; here
    # nobody knows how many decimals the currency has.
    Query(
        Violation,
        """
        select 'an Epay order is what was submitted, and what was submitted an Epay order' as rule,
            coalesce(o.merchant_id, e.merchant_id) as merchant_id,
            coalesce(o.id, e.order_id) as subject,
            coalesce(o.amount_minor || ' ' || o.currency, 'no Epay order') || ': '
                || coalesce(e.money || ' ' || e.money_type, 'nothing') || ' submitted' as detail
        from (select * from orders where source = 'EPAY') o
        full join epay_orders e on e.merchant_id = o.merchant_id and e.order_id = o.id
        where o.id is null or e.order_id is null
            or (e.money_type, e.checkout_id) <> (o.currency, o.checkout_id)
            or o.amount_minor not in
                (e.money::numeric, e.money::numeric * 100, e.money::numeric * 1000)
        """,
    ),
)
