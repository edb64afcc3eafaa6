"""All SQL about disputes and their notes. Their order is locked by whoever changes one."""

from opentill.core.db import Command, Query, Value
from opentill.disputes.model import Dispute, Note

BY_ID = Query(Dispute, "select * from disputes where merchant_id = $1 and id = $2")
BY_REF = Query(
    Dispute,
    "select * from disputes where merchant_id = $1 and gateway = $2 and gateway_ref = $3",
)
LOCKED = Query(Dispute, "select * from disputes where merchant_id = $1 and id = $2 for update")
# For the operator, who has only the dispute's id: one look into the index for each merchant.
ANYWHERE = Query(
    Dispute,
    """
    select d.* from merchants m
    cross join lateral (select * from disputes where merchant_id = m.id and id = $1) d
    """,
)
SEARCH = Query(
    Dispute,
    """
    select * from disputes
    where ($1::text is null or merchant_id = $1) and ($2::text is null or status = $2)
    order by created_at desc, id desc limit $3
    """,
)
LIST = Query(
    Dispute,
    """
    select * from disputes
    where merchant_id = $1 and ($4::text is null or status = $4)
        and ($5::text is null or order_id = $5)
    order by created_at desc, id desc limit $2 offset $3
    """,
)
COUNT = Value(
    int,
    """
    select count(*) from disputes
    where merchant_id = $1 and ($2::text is null or status = $2)
        and ($3::text is null or order_id = $3)
    """,
)
INSERT = Query(
    Dispute,
    """
    insert into disputes (merchant_id, id, order_id, attempt_id, gateway, gateway_ref, status,
        amount_minor, currency, debit_minor, fee_minor, debit_currency, disputed_from, offset_minor,
        reason, created_at, updated_at)
    values ($1, $2, $3, $4, $5, $6, 'OPEN', $7, $8, $9, $10, $11, $12, 0, $13, $14, $14)
    returning *
    """,
)
# $3 status before, $4 after, $5 now, $6 reserve used for the loss.
STEP = Query(
    Dispute,
    """
    update disputes set status = $4, updated_at = greatest(updated_at, $5),
        closed_at = coalesce(closed_at, $5), offset_minor = $6
    where merchant_id = $1 and id = $2 and status = $3
    returning *
    """,
)
# What a loss takes from an order: $3 debit and fee, $4 what becomes of its reserve, $5 now.
LOSE_ORDER = Command(
    """
    update orders set charged_back_minor = charged_back_minor + $3, reserve_status = $4,
        updated_at = greatest(updated_at, $5)
    where merchant_id = $1 and id = $2
    """,
)
# The loss is undone: $3 debit and fee, $4 now, $5 the reserve that is held again, 0 if none is.
RECOVER_ORDER = Command(
    """
    update orders set charged_back_minor = charged_back_minor - $3,
        settled_at = coalesce(settled_at, $4::bigint),
        updated_at = greatest(updated_at, $4::bigint),
        reserve_minor = case when $5::bigint > 0 then $5::bigint else reserve_minor end,
        reserve_status = case when $5::bigint > 0 then 'HELD' else reserve_status end
    where merchant_id = $1 and id = $2
    """,
)
HAS_ORDER = Value(bool, "select exists (select from orders where merchant_id = $1 and id = $2)")
NOTES = Query(
    Note,
    "select * from dispute_notes where merchant_id = $1 and dispute_id = $2 order by number",
)
# $3 now, $4 who, $5 note. The dispute's row keeps two notes from taking the same number.
ADD_NOTE = Query(
    Note,
    """
    with dispute as (
        update disputes set updated_at = greatest(updated_at, $3)
        where merchant_id = $1 and id = $2 returning id
    )
    insert into dispute_notes (merchant_id, dispute_id, number, at, who, note)
    select $1, id, 1 + (select count(*) from dispute_notes where merchant_id = $1
        and dispute_id = $2), $3, $4, $5
    from dispute
    returning *
    """,
)
