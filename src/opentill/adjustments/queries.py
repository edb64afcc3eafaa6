"""All SQL about adjustments."""

from opentill.adjustments.model import Adjustment, CurrencySum
from opentill.db.query import Query, Value

BY_ID = Query(Adjustment, "select * from adjustments where merchant_id = :merchant_id and id = :id")
BY_REFERENCE = Query(
    Adjustment,
    "select * from adjustments where merchant_id = :merchant_id and reference = :reference",
)
# Operators give only the adjustment's id, so this statement does one index lookup per merchant.
ANYWHERE = Query(
    Adjustment,
    """
    select a.* from merchants m
    cross join lateral (select * from adjustments where merchant_id = m.id and id = :id) a
    """,
)
INSERT = Query(
    Adjustment,
    """
    insert into adjustments (merchant_id, id, kind, status, amount_minor, currency, account,
        order_id, reference, reason, asked_by, created_at, decided_at)
    values (:merchant_id, :id, :kind, :status, :amount_minor, :currency, :account, :order_id,
        :reference, :reason, :asked_by, :now, case when :status = 'DONE' then :now::bigint end)
    returning *
    """,
)
DECIDE = Query(
    Adjustment,
    """
    update adjustments set status = :status, decided_by = :decided_by,
        rejection = :rejection, decided_at = greatest(created_at, :now::bigint)
    where merchant_id = :merchant_id and id = :id and status = 'WAITING'
    returning *
    """,
)
WAITING = Query(
    Adjustment,
    """
    select * from adjustments
    where status = 'WAITING' and (:merchant_id::text is null or merchant_id = :merchant_id)
    order by created_at, id
    """,
)
# Adjustments of all merchants that a second person approved or rejected.
DECIDED = Query(
    Adjustment,
    """
    select * from adjustments where decided_by is not null
    order by decided_at desc, id limit :limit
    """,
)
NEWEST = Query(
    Adjustment,
    "select * from adjustments where merchant_id = :merchant_id order by id desc limit :limit",
)
# Not paged: operators make few corrections of an order.
OF_ORDER = Query(
    Adjustment,
    """
    select * from adjustments
    where merchant_id = :merchant_id and order_id = :order_id order by created_at, id
    """,
)
RECHARGES = Query(
    CurrencySum,
    """
    select currency, sum(amount_minor)::bigint as amount_minor from adjustments
    where kind in ('recharge', 'topup') and status = 'DONE' group by currency
    """,
)
# The amount that operators have frozen and not unfrozen.
FROZEN = Value(
    int,
    """
    select coalesce(sum(
        case kind when 'freeze' then amount_minor else -amount_minor end), 0)::bigint
    from adjustments
    where merchant_id = :merchant_id and currency = :currency and status = 'DONE'
        and kind in ('freeze', 'unfreeze')
    """,
)
