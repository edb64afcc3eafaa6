"""SQL of what staff see of gateways and queues, over all merchants."""

from opentill.db.query import Query, Value
from opentill.orders.model import PaymentAttempt, Unanswered

COUNT_SETTLEMENTS = Value(
    int, "select count(*) from (select 1 from orders where settle_at <= :now limit 10000) due"
)
COUNT_RELEASES = Value(
    int,
    """
    select count(*) from (
        select 1 from orders where reserve_status = 'HELD' and status <> 'DISPUTED'
            and reserve_release_at <= :now limit 10000
    ) due
    """,
)
# Attempts whose gateway has not said what became of them, among those that it is to be asked about.
UNANSWERED = Query(
    Unanswered,
    """
    select gateway, count(*) as number, min(created_at) as since from (
        select gateway, status, created_at from payment_attempts
        where check_at is not null order by check_at limit 10000
    ) asked
    where status = 'SUBMITTED' and created_at <= :until group by gateway
    """,
)
# Each gateway's last refusal among the newest attempts of every merchant.
LAST_REFUSED = Query(
    PaymentAttempt,
    """
    select distinct on (a.gateway) a.* from merchants m cross join lateral (
        select * from payment_attempts where merchant_id = m.id
        order by id desc limit :newest
    ) a
    where a.status in ('DECLINED', 'REFUSED') order by a.gateway, a.updated_at desc
    """,
    # Each merchant has one first version of its terms, on the node of the merchant.
    distributed="""
    select distinct on (a.gateway) a.* from merchant_terms m cross join lateral (
        select * from payment_attempts where merchant_id = m.merchant_id
        order by id desc limit :newest
    ) a
    where m.version = 1 and a.status in ('DECLINED', 'REFUSED')
    order by a.gateway, a.updated_at desc
    """,
)
