"""All SQL about movements by hand."""

from opentill.core.db import Query, Value
from opentill.operator.model import ByHand

# Operators act on a merchant one after the other, so that a reference is looked up for sure. Not
# "for update": payments go on.
LOCK_MERCHANT = Value(str, "select id from merchants where id = $1 for no key update")
BY_ID = Query(ByHand, "select * from operator_movements where merchant_id = $1 and id = $2")
BY_REFERENCE = Query(
    ByHand, "select * from operator_movements where merchant_id = $1 and reference = $2"
)
# For the operator, who has only the movement's id: one look into the index for each merchant.
ANYWHERE = Query(
    ByHand,
    """
    select o.* from merchants m
    cross join lateral (
        select * from operator_movements where merchant_id = m.id and id = $1
    ) o
    """,
)
INSERT = Query(
    ByHand,
    """
    insert into operator_movements (merchant_id, id, kind, status, amount_minor, currency, account,
        order_id, reference, reason, asked_by, created_at, decided_at)
    values ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12,
        case $4 when 'DONE' then $12::bigint end)
    returning *
    """,
)
DECIDE = Query(
    ByHand,
    """
    update operator_movements set status = $3, decided_by = $4,
        decided_at = greatest(created_at, $5::bigint)
    where merchant_id = $1 and id = $2 and status = 'WAITING'
    returning *
    """,
)
WAITING = Query(
    ByHand,
    """
    select * from operator_movements
    where status = 'WAITING' and ($1::text is null or merchant_id = $1)
    order by created_at, id
    """,
)
# What operators froze and did not unfreeze yet.
FROZEN = Value(
    int,
    """
    select coalesce(sum(
        case kind when 'freeze' then amount_minor else -amount_minor end), 0)::bigint
    from operator_movements
    where merchant_id = $1 and currency = $2 and status = 'DONE' and kind in ('freeze', 'unfreeze')
    """,
)
EXISTS_ORDER = Value(bool, "select exists (select from orders where merchant_id = $1 and id = $2)")
