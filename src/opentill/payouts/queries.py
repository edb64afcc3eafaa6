"""All SQL about payouts."""

from opentill.core.db import Query, Value
from opentill.payouts.model import Payout

# Operators act on a merchant one after the other, so that a reference is looked up for sure. Not
# "for update": payments go on.
LOCK_MERCHANT = Value(str, "select id from merchants where id = $1 for no key update")
# The audit log's head is locked before it, see merchants/audit.py.
LOCK_AVAILABLE = Value(
    int, "select available from balances where merchant_id = $1 and currency = $2 for update"
)
BY_ID = Query(Payout, "select * from payouts where merchant_id = $1 and id = $2")
BY_REFERENCE = Query(Payout, "select * from payouts where merchant_id = $1 and reference = $2")
# For the operator, who has only the payout's id: one look into the index for each merchant.
ANYWHERE = Query(
    Payout,
    """
    select p.* from merchants m
    cross join lateral (select * from payouts where merchant_id = m.id and id = $1) p
    """,
)
INSERT = Query(
    Payout,
    """
    insert into payouts (merchant_id, id, status, amount_minor, fee_minor, currency, reference,
        bank_reference, failure_reason, reason, created_by, approved_by, created_at, updated_at)
    values ($1, $2, $3, $4, $5, $6, $7, '', '', $8, $9, $10, $11, $11)
    returning *
    """,
)
# Take a step: $3 from, $4 to, $5 now, $6 the bank's reference, $7 why it failed; "" where neither.
STEP = Query(
    Payout,
    """
    update payouts set status = $4, updated_at = greatest(updated_at, $5::bigint),
        bank_reference = $6, failure_reason = $7,
        paid_at = case $4 when 'PAID' then $5::bigint end,
        failed_at = case $4 when 'FAILED' then $5::bigint end
    where merchant_id = $1 and id = $2 and status = $3
    returning *
    """,
)
LIST = Query(
    Payout,
    """
    select * from payouts where merchant_id = $1
    order by created_at desc, id desc limit $2 offset $3
    """,
)
LIST_BY_STATUS = Query(
    Payout,
    """
    select * from payouts where merchant_id = $1 and status = $4
    order by created_at desc, id desc limit $2 offset $3
    """,
)
COUNT = Value(int, "select count(*) from payouts where merchant_id = $1")
COUNT_BY_STATUS = Value(int, "select count(*) from payouts where merchant_id = $1 and status = $2")
# For the operator: of whichever merchant, newest first.
SEARCH = Query(
    Payout,
    """
    select * from payouts
    where ($1::text is null or merchant_id = $1) and ($2::text is null or status = $2)
    order by created_at desc, id desc limit $3
    """,
)
