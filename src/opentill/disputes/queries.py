"""All SQL about disputes and their notes. Their order is locked by whoever changes one."""

from opentill.core.db import Command, Query, Value
from opentill.disputes.model import Dispute, Note, Unmatched

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

UNMATCHED = Query(
    Unmatched,
    """
    select * from unmatched_disputes
    where merchant_id = $1 and gateway = $2 and gateway_ref = $3 for update
    """,
)
# Keep news that cannot be applied, or what is heard of it later; $11 now.
KEEP_UNMATCHED = Command(
    """
    insert into unmatched_disputes (merchant_id, gateway, gateway_ref, order_id, attempt_id, status,
        amount_minor, currency, reason, refusal, try_at, tries, created_at, updated_at)
    values ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11::bigint + 60000, 0, $11, $11)
    on conflict (merchant_id, gateway, gateway_ref) do update
    set status = $6, amount_minor = $7, currency = $8, reason = $9, refusal = $10,
        try_at = $11::bigint + 60000, tries = 0, closed_at = null, closed_by = null,
        updated_at = greatest(unmatched_disputes.updated_at, $11)
    """,
)
# $4 now, $5 who, or what became of it.
CLOSE_UNMATCHED = Query(
    Unmatched,
    """
    update unmatched_disputes set closed_at = $4, closed_by = $5,
        updated_at = greatest(updated_at, $4)
    where merchant_id = $1 and gateway = $2 and gateway_ref = $3 and closed_at is null
    returning *
    """,
)
# News that is due to be tried again, ever more seldom, and at once when the order was paid since it
# was tried last: then it had overtaken its payment. $1 now, $2 how many. The minute is for clocks
# that differ.
CLAIM_UNMATCHED = Query(
    Unmatched,
    """
    update unmatched_disputes u
    set tries = u.tries + 1, try_at = $1::bigint + (60000::bigint << least(u.tries + 1, 6))
    from (
        select merchant_id, gateway, gateway_ref from unmatched_disputes kept
        where closed_at is null and (try_at <= $1 or exists (
            select from orders o
            where o.merchant_id = kept.merchant_id and o.id = kept.order_id and o.paid_at <= $1
                and o.paid_at > case kept.tries when 0 then kept.updated_at - 60000
                    else kept.try_at - (60000::bigint << least(kept.tries, 6)) end))
        order by try_at limit $2 for update of kept skip locked
    ) due
    where (u.merchant_id, u.gateway, u.gateway_ref)
        = (due.merchant_id, due.gateway, due.gateway_ref)
    returning u.*
    """,
)
WAKE = Command("update unmatched_disputes set try_at = $1 where closed_at is null and try_at > $1")
SEARCH_UNMATCHED = Query(
    Unmatched,
    """
    select * from unmatched_disputes
    where closed_at is null and ($1::text is null or merchant_id = $1)
    order by created_at desc, gateway_ref limit $2
    """,
)
COUNT_UNMATCHED = Value(
    int,
    "select count(*) from unmatched_disputes where closed_at is null and status = any($1::text[])",
)
