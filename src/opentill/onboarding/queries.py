"""SQL that counts a merchant's work in progress (read-only)."""

from opentill.db.query import Query
from opentill.onboarding.model import Work

# Each count stops at `:limit`. A payment counts while it is in progress, or while its gateway may
# not have responded yet.
UNFINISHED_WORK = Query(
    Work,
    """
    select
        (select count(*) from (
            select 1 from orders o
            where o.merchant_id = :merchant_id and (o.status = 'CREATING'
                or o.status = 'PENDING' and exists (
                    select from payment_attempts a
                    where a.merchant_id = :merchant_id and a.order_id = o.id
                        and a.status in ('SUBMITTED', 'PENDING', 'ACTION_REQUIRED')))
            limit :limit) work) as payments,
        (select count(*) from (
            select 1 from refunds
            where merchant_id = :merchant_id and try_at is not null and status = 'PROCESSING'
            limit :limit) work) as refunds,
        (select count(*) from (
            select 1 from disputes where merchant_id = :merchant_id and status = 'OPEN'
            limit :limit) work) as disputes,
        (select count(*) from (
            select 1 from payouts where merchant_id = :merchant_id and status = 'PENDING'
            limit :limit) work) as payouts,
        (select count(*) from (
            select 1 from payout_requests where merchant_id = :merchant_id and status = 'WAITING'
            union all
            select 1 from adjustments where merchant_id = :merchant_id and status = 'WAITING'
            union all
            select 1 from approval_requests where merchant_id = :merchant_id and status = 'WAITING'
            limit :limit) work) as approvals,
        (select count(*) from (
            select 1 from orders where merchant_id = :merchant_id and status = 'PENDING'
            limit :limit) work) as sessions
    """,
)
