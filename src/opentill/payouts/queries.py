"""All SQL about payouts."""

from typing import Annotated

from msgspec import Meta

from opentill.db.query import Query, Value
from opentill.http.paging import PageQuery
from opentill.list_counts import lists
from opentill.payouts.model import DuePayout, Payout, Status

# The audit log's head is locked before it, see merchants/audit.py.
LOCK_AVAILABLE = Value(
    int,
    """
    select available from balances
    where merchant_id = :merchant_id and currency = :currency for update
    """,
)
BY_ID = Query(Payout, "select * from payouts where merchant_id = :merchant_id and id = :id")
BY_REFERENCE = Query(
    Payout, "select * from payouts where merchant_id = :merchant_id and reference = :reference"
)
# For the operator, who has only the payout's id: one index lookup for each merchant.
ANYWHERE = Query(
    Payout,
    """
    select p.* from merchants m
    cross join lateral (select * from payouts where merchant_id = m.id and id = :id) p
    """,
)
INSERT = Query(
    Payout,
    """
    insert into payouts (merchant_id, id, status, amount_minor, fee_minor, currency, reference,
        bank_reference, failure_reason, reason, created_by, approved_by, created_at, updated_at)
    values (:merchant_id, :id, :status, :amount_minor, :fee_minor, :currency, :reference, '', '',
        :reason, :created_by, :approved_by, :now, :now)
    returning *
    """,
)
# Take a transition; `:bank_reference` and `:failure_reason` are "" where there is none.
TRANSITION = Query(
    Payout,
    """
    update payouts set status = :target, updated_at = greatest(updated_at, :now::bigint),
        bank_reference = :bank_reference, failure_reason = :failure_reason,
        paid_at = case :target when 'PAID' then :now::bigint end,
        failed_at = case :target when 'FAILED' then :now::bigint end
    where merchant_id = :merchant_id and id = :id and status = :source
    returning *
    """,
)


class ListQuery(PageQuery, frozen=True, rename="camel"):
    """Which payouts to list."""

    status: Annotated[Status, Meta(description="PENDING, PAID or FAILED")] | None = None


LISTS = lists(Payout, "payouts", ListQuery)
# For the operator: of whichever merchant, newest first.
FAILED_SINCE = Query(
    Payout,
    """
    select * from payouts
    where merchant_id = :merchant_id and status = 'FAILED' and created_at >= :since
    order by created_at desc limit :limit
    """,
)
SEARCH = Query(
    Payout,
    """
    select * from payouts
    where (:merchant_id::text is null or merchant_id = :merchant_id)
        and (:status::text is null or status = :status)
    order by created_at desc, id desc limit :limit
    """,
)
# Merchants with money that can be paid out, most first; not those whose payouts are off.
DUE = Query(
    DuePayout,
    """
    select b.merchant_id, m.name as merchant_name, b.currency, b.available, (
        select max(p.created_at) from payouts p
        where p.merchant_id = b.merchant_id and p.currency = b.currency and p.status <> 'FAILED'
    ) as last_at
    from balances b join merchants m on m.id = b.merchant_id
    where b.available > 0 and m.payout_off is null
    order by b.currency, b.available desc, b.merchant_id limit :limit
    """,
)
