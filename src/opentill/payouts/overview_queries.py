"""SQL about payouts for pages: those of all merchants, and the payout of a payment."""

from opentill.db.query import Query
from opentill.list_counts import newest_by_status
from opentill.payouts.model import Payout, PayoutTotal, RunOfPayout

# A page of payouts of all merchants or of one, newest first.
OF_ALL = newest_by_status(Payout, "payouts")
OF_MERCHANT = newest_by_status(Payout, "payouts", "merchant_id = :merchant_id and")
# The same for payouts with one of some amounts.
OF_AMOUNTS = Query(
    Payout,
    """
    select p.* from unnest(:amount_minor::bigint[], :currency::text[])
        as wanted (amount_minor, currency)
    cross join lateral (
        select * from payouts
        where amount_minor = wanted.amount_minor and currency = wanted.currency
            and (:merchant_id::text is null or merchant_id = :merchant_id)
            and status = any (:status::text[]) and created_at between :since and :until
            and (created_at, id) < (:before_at::bigint, :before_id::text)
        order by created_at desc, id desc limit :limit
    ) p
    order by p.created_at desc, p.id desc limit :limit
    """,
)
# The first payout in a currency from a time on.
FIRST_SINCE = Query(
    Payout,
    """
    select * from payouts
    where merchant_id = :merchant_id and created_at >= :since and currency = :currency
    order by created_at, id limit 1
    """,
)
# The runs of some payouts of any merchants. A payout outside a run has none.
RUNS_OF_PAYOUTS = Query(
    RunOfPayout,
    """
    select t.merchant_id, t.payout_id, t.run_id, r.reference, r.sent_at
    from unnest(:merchant_id::text[], :payout_id::text[]) as listed (merchant_id, payout_id)
    join payout_transfers t
        on t.merchant_id = listed.merchant_id and t.payout_id = listed.payout_id
    join payout_runs r on r.id = t.run_id
    """,
)
# What a merchant's payouts with a status come to, by currency.
TOTALS = Query(
    PayoutTotal,
    """
    select currency, count(*) as payouts, sum(amount_minor)::bigint as amount_minor,
        max(created_at) as newest_at
    from payouts where merchant_id = :merchant_id and status = :status group by currency
    """,
)
