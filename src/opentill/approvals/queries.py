"""SQL about requests that wait for a second person."""

from opentill.approvals.model import WaitingAction
from opentill.db.query import Query

WAITING_OF_SUBJECT = Query(
    WaitingAction,
    """
    select * from approval_requests
    where merchant_id = :merchant_id and action = :action and subject = :subject
        and status = 'WAITING'
    """,
)
INSERT = Query(
    WaitingAction,
    """
    insert into approval_requests (merchant_id, id, action, status, subject, details, amount_minor,
        currency, reason, asked_by, created_at)
    values (:merchant_id, :id, :action, 'WAITING', :subject, :details, :amount_minor, :currency,
        :reason, :asked_by, :now)
    returning *
    """,
)
# Staff have only the request's id, so this statement does one index lookup per merchant.
ANYWHERE = Query(
    WaitingAction,
    """
    select a.* from merchants m
    cross join lateral (
        select * from approval_requests where merchant_id = m.id and id = :id) a
    """,
)
BY_ID = Query(
    WaitingAction,
    "select * from approval_requests where merchant_id = :merchant_id and id = :id",
)
WAITING = Query(
    WaitingAction,
    "select * from approval_requests where status = 'WAITING' order by created_at, id",
)
DECIDED = Query(
    WaitingAction,
    """
    select * from approval_requests where status <> 'WAITING'
    order by decided_at desc, id limit :limit
    """,
)
DECIDE = Query(
    WaitingAction,
    """
    update approval_requests set status = :status, decided_by = :decided_by,
        rejection = :rejection, decided_at = greatest(created_at, :now::bigint)
    where merchant_id = :merchant_id and id = :id and status = 'WAITING'
    returning *
    """,
)
