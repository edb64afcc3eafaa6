"""All SQL about disputes, notes and evidence.

Whoever opens or ends a dispute must hold its order's lock.
"""

from typing import Annotated

from msgspec import Meta

from opentill.db.query import Command, Query, Value
from opentill.disputes.evidence_model import Evidence
from opentill.disputes.model import (
    Dispute,
    Note,
    Stake,
    StateCount,
    Status,
    Unmatched,
    WaitingCases,
)
from opentill.http.paging import PageQuery
from opentill.list_counts import lists, newest_by_status

BY_ID = Query(Dispute, "select * from disputes where merchant_id = :merchant_id and id = :id")
BY_REF = Query(
    Dispute,
    """
    select * from disputes
    where merchant_id = :merchant_id and gateway = :gateway and gateway_ref = :gateway_ref
    """,
)
LOCKED = Query(
    Dispute, "select * from disputes where merchant_id = :merchant_id and id = :id for update"
)
# Operators have only the dispute's id, so this statement does one index lookup per merchant.
ANYWHERE = Query(
    Dispute,
    """
    select d.* from merchants m
    cross join lateral (select * from disputes where merchant_id = m.id and id = :id) d
    """,
)
OF_IDS = Query(
    Dispute,
    """
    select * from disputes where merchant_id = :merchant_id and id = any (:ids::text[])
    """,
)
OF_ORDER = Query(
    Dispute,
    """
    select * from disputes where merchant_id = :merchant_id and order_id = :order_id
    order by created_at desc, id desc
    """,
)
NEWEST_OF_ORDERS = Query(
    Dispute,
    """
    select d.* from unnest(:order_id::text[]) as o (order_id)
    cross join lateral (
        select * from disputes where merchant_id = :merchant_id and order_id = o.order_id
        order by created_at desc, id desc limit 1
    ) d
    """,
)
SEARCH = Query(
    Dispute,
    """
    select * from disputes
    where (:merchant_id::text is null or merchant_id = :merchant_id)
        and (:status::text is null or status = :status)
    order by created_at desc, id desc limit :limit
    """,
)


# The number of open disputes without a response, up to a limit, and their next deadline.
WAITING = Query(
    WaitingCases,
    """
    select * from (
        select count(*) as disputes, min(id) as dispute_id,
            min(respond_by) filter (where respond_by >= :now) as respond_by
        from (
            select id, respond_by from disputes
            where merchant_id = :merchant_id and status = 'OPEN' and response is null limit :limit
        ) unanswered
    ) of_disputes, (
        select count(*) as failed_refunds, min(order_id) as refunded_order_id
        from (
            select order_id from refunds
            where merchant_id = :merchant_id and status = 'FAILED' and handled_at is null
            limit :limit
        ) failed
    ) of_refunds
    """,
)
# What a merchant can still lose with open disputes, by currency.
AT_STAKE = Query(
    Stake,
    """
    select debit_currency as currency, sum(debit_minor + fee_minor)::bigint as loss_minor
    from disputes
    where merchant_id = :merchant_id and status = 'OPEN'
        and (response is null or :with_contested::boolean and response = 'CONTESTED')
    group by debit_currency order by debit_currency
    """,
)
# A page of the open disputes of all merchants that have a deadline until `:due` and were opened in
# a range of time. The page begins after the deadline and id of the previous page's last dispute.
DUE = Query(
    Dispute,
    """
    select * from disputes
    where status = 'OPEN' and created_at between :since and :until
        and respond_by <= :due and (respond_by, id) > (:after_at::bigint, :after_id::text)
    order by respond_by, id limit :limit
    """,
)


# Disputes of all merchants, newest first; with a response, `NONE` for those without one.
OF_ALL = newest_by_status(
    Dispute, "disputes", "(:response::text is null or coalesce(response, 'NONE') = :response) and"
)
# The merchant of the dispute `d` has responded, and staff have not recorded since the merchant's
# last response, note or evidence that they forwarded it (`responses.py`). A note is no such record.
_WAITS_FOR_STAFF = """
    d.status = 'OPEN' and d.response is not null and not exists (
        select from order_history h
        where h.merchant_id = d.merchant_id and h.order_id = d.order_id
            and h.event = 'dispute_forwarded' and starts_with(h.cause, d.id)
            and h.at >= greatest(
                d.responded_at,
                (select max(e.at) from dispute_evidence e
                    where e.merchant_id = d.merchant_id and e.dispute_id = d.id),
                (select max(own.at) from dispute_notes own
                    where own.merchant_id = d.merchant_id and own.dispute_id = d.id
                        and own.by_merchant)
            )
    )
"""
# Open disputes of all merchants whose response waits for staff, the oldest response first.
UNFORWARDED = Query(
    Dispute,
    f"""
    select d.* from disputes d where {_WAITS_FOR_STAFF} order by d.responded_at, d.id limit :limit
    """,  # noqa: S608 - interpolates constants of this program only
)
# Those of a merchant's disputes whose response waits for staff.
UNFORWARDED_OF_IDS = Query(
    Dispute,
    f"""
    select d.* from disputes d
    where d.merchant_id = :merchant_id and d.id = any (:ids::text[]) and {_WAITS_FOR_STAFF}
    """,  # noqa: S608 - interpolates constants of this program only
)


class ListQuery(PageQuery, frozen=True, rename="camel"):
    """Which disputes to list."""

    status: (
        Annotated[Status, Meta(description="a dispute status: OPEN, WON, LOST or RECOVERED")] | None
    ) = None
    order_id: Annotated[str, Meta(description="the id of one of your orders")] | None = None


LISTS = lists(Dispute, "disputes", ListQuery)
# A page of all disputes of a range of time: open ones before decided ones.
OPEN_FIRST = Query(
    Dispute,
    """
    select * from disputes
    where merchant_id = :merchant_id and created_at between :since and :until
    order by status <> 'OPEN', created_at desc, id desc limit :limit offset :offset
    """,
)
# A page of the open disputes of a range of time with a response, `NONE` for those without one; the
# earliest deadline first.
OPEN_WITH_RESPONSE = Query(
    Dispute,
    """
    select * from disputes
    where merchant_id = :merchant_id and status = 'OPEN' and created_at between :since and :until
        and coalesce(response, 'NONE') = :response
    order by respond_by nulls last, created_at desc, id desc limit :limit offset :offset
    """,
)
COUNT_BY_STATE = Query(
    StateCount,
    """
    select status, case when status = 'OPEN' then response end as response, count(*) as number
    from disputes
    where merchant_id = :merchant_id and created_at between :since and :until
    group by 1, 2
    """,
)
# The next disputes of a range of time, oldest first, after `:since` and `:last_id`.
AFTER = Query(
    Dispute,
    """
    select * from disputes
    where merchant_id = :merchant_id and (created_at, id) > (:since::bigint, :last_id::text)
        and created_at <= :until and (:status::text is null or status = :status)
        and (:response::text is null or coalesce(response, 'NONE') = :response)
    order by created_at, id limit :limit
    """,
)
INSERT = Query(
    Dispute,
    """
    insert into disputes (merchant_id, id, order_id, attempt_id, gateway, gateway_ref, status,
        amount_minor, currency, debit_minor, fee_minor, debit_currency, disputed_from, offset_minor,
        reason, respond_by, created_at, updated_at)
    values (:merchant_id, :id, :order_id, :attempt_id, :gateway, :gateway_ref, 'OPEN',
        :amount_minor, :currency, :debit_minor, :fee_minor, :debit_currency, :disputed_from, 0,
        :reason, :respond_by, :now, :now)
    returning *
    """,
)
SET_RESPOND_BY = Query(
    Dispute,
    """
    update disputes set respond_by = :respond_by, updated_at = greatest(updated_at, :now)
    where merchant_id = :merchant_id and id = :id and status = 'OPEN'
    returning *
    """,
)
# A contested dispute may still be accepted, but an accepted one not contested: the operator may
# have informed the bank.
SET_RESPONSE = Query(
    Dispute,
    """
    update disputes set response = :response, responded_at = :now, responded_by = :who,
        updated_at = greatest(updated_at, :now)
    where merchant_id = :merchant_id and id = :id and status = 'OPEN'
        and (response is null or (response = 'CONTESTED' and :response = 'ACCEPTED'))
    returning *
    """,
)
# `:offset_minor` is the part of the reserve that covers a loss.
TRANSITION = Query(
    Dispute,
    """
    update disputes set status = :target, updated_at = greatest(updated_at, :now),
        closed_at = coalesce(closed_at, :now), offset_minor = :offset_minor
    where merchant_id = :merchant_id and id = :id and status = :source
    returning *
    """,
)
NOTES = Query(
    Note,
    """
    select * from dispute_notes
    where merchant_id = :merchant_id and dispute_id = :dispute_id order by number
    """,
)
# Updating the dispute's row locks it, so that no two notes get the same number.
ADD_NOTE = Query(
    Note,
    """
    with dispute as (
        update disputes set updated_at = greatest(updated_at, :now)
        where merchant_id = :merchant_id and id = :dispute_id returning id
    )
    insert into dispute_notes (merchant_id, dispute_id, number, at, who, note, by_merchant)
    select :merchant_id, id,
        1 + (select count(*) from dispute_notes
            where merchant_id = :merchant_id and dispute_id = :dispute_id),
        :now, :who, :note, :by_merchant
    from dispute
    returning *
    """,
)

# The columns that describe a file, without its content.
_EVIDENCE = "merchant_id, id, dispute_id, number, name, kind, size, sha256, who, at"
EVIDENCE = Query(
    Evidence,
    f"""
    select {_EVIDENCE} from dispute_evidence
    where merchant_id = :merchant_id and dispute_id = :dispute_id order by at, number
    """,  # noqa: S608 - interpolates constants of this program only
)
EVIDENCE_CONTENT = Value(
    bytes, "select content from dispute_evidence where merchant_id = :merchant_id and id = :id"
)
# The caller must hold the dispute's lock, so that no two files get the same number.
ADD_EVIDENCE = Query(
    Evidence,
    f"""
    insert into dispute_evidence ({_EVIDENCE}, content)
    values (:merchant_id, :id, :dispute_id, :number, :name, :kind, :size, :sha256, :who, :at,
        :content)
    returning {_EVIDENCE}
    """,  # noqa: S608 - interpolates constants of this program only
)
# The database refuses it once the merchant has responded.
REMOVE_EVIDENCE = Command(
    "delete from dispute_evidence where merchant_id = :merchant_id and id = :id"
)
TOUCH = Command(
    """
    update disputes set updated_at = greatest(updated_at, :now)
    where merchant_id = :merchant_id and id = :id
    """,
)

UNMATCHED = Query(
    Unmatched,
    """
    select * from unmatched_disputes
    where merchant_id = :merchant_id and gateway = :gateway and gateway_ref = :gateway_ref
    for update
    """,
)
# Store an event that cannot be applied, or a later event about the same dispute.
STORE_UNMATCHED = Command(
    """
    insert into unmatched_disputes (merchant_id, gateway, gateway_ref, order_id, attempt_id, status,
        amount_minor, currency, reason, respond_by, refusal, try_at, tries, created_at, updated_at,
        closed_before)
    values (:merchant_id, :gateway, :gateway_ref, :order_id, :attempt_id, :status, :amount_minor,
        :currency, :reason, :respond_by, :refusal, :now::bigint + 60000, 0, :now, :now,
        :closed_before)
    on conflict (merchant_id, gateway, gateway_ref) do update
    set status = :status, amount_minor = :amount_minor, currency = :currency, reason = :reason,
        respond_by = :respond_by, refusal = :refusal, try_at = :now::bigint + 60000, tries = 0,
        closed_at = null, closed_by = null, closed_before = :closed_before,
        updated_at = greatest(unmatched_disputes.updated_at, :now)
    """,
)
# An event that still cannot be applied may now fail for another reason.
CHANGE_REFUSAL = Command(
    """
    update unmatched_disputes set refusal = :refusal
    where merchant_id = :merchant_id and gateway = :gateway and gateway_ref = :gateway_ref
        and closed_at is null
    """,
)
# `:closed_by` is the operator, or says why the event is closed automatically.
CLOSE_UNMATCHED = Query(
    Unmatched,
    """
    update unmatched_disputes set closed_at = :now, closed_by = :closed_by,
        updated_at = greatest(updated_at, :now)
    where merchant_id = :merchant_id and gateway = :gateway and gateway_ref = :gateway_ref
        and closed_at is null
    returning *
    """,
)
# Claim events that are due to be tried again, at growing intervals, or at once if the order was
# paid after the last try: then the event had overtaken the payment. A minute is allowed for clocks
# that differ. An event whose predecessor was closed is never applied: staff decide about it.
CLAIM_UNMATCHED = Query(
    Unmatched,
    """
    update unmatched_disputes u
    set tries = u.tries + 1, try_at = :now::bigint + (60000::bigint << least(u.tries + 1, 6))
    from (
        select merchant_id, gateway, gateway_ref, tries from unmatched_disputes stored
        where closed_at is null and closed_before is null and (try_at <= :now or exists (
            select from orders o
            where o.merchant_id = stored.merchant_id and o.id = stored.order_id
                and o.paid_at <= :now
                and o.paid_at > case stored.tries when 0 then stored.updated_at - 60000
                    else stored.try_at - (60000::bigint << least(stored.tries, 6)) end))
        order by try_at limit :limit for update of stored skip locked
    ) due
    where (u.merchant_id, u.gateway, u.gateway_ref)
        = (due.merchant_id, due.gateway, due.gateway_ref)
        and u.closed_at is null and u.tries = due.tries
    returning u.*
    """,
)
MAKE_DUE = Command(
    "update unmatched_disputes set try_at = :now where closed_at is null and try_at > :now"
)
SEARCH_UNMATCHED = Query(
    Unmatched,
    """
    select * from unmatched_disputes
    where closed_at is null and (:merchant_id::text is null or merchant_id = :merchant_id)
    order by created_at desc, gateway_ref limit :limit
    """,
)
COUNT_UNMATCHED = Value(
    int,
    """
    select count(*) from unmatched_disputes
    where closed_at is null and status = any(:statuses::text[])
    """,
)
