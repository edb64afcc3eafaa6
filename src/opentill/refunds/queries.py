"""All SQL about refunds."""

from opentill.db.jobs import DueGateway
from opentill.db.query import Command, Query, Value
from opentill.refunds.model import Refund, RefundCase, RefundOrder

BY_ID = Query(Refund, "select * from refunds where merchant_id = :merchant_id and id = :id")
# For the operator, who has only the refund's id. One index lookup per merchant.
ANYWHERE = Query(
    Refund,
    """
    select r.* from merchants m
    cross join lateral (select * from refunds where merchant_id = m.id and id = :id) r
    """,
)
BY_NUMBER = Query(
    Refund, "select * from refunds where merchant_id = :merchant_id and refund_no = :refund_no"
)
OF_ORDER = Query(
    Refund,
    """
    select * from refunds where merchant_id = :merchant_id and order_id = :order_id
    order by created_at desc, id desc limit :limit offset :offset
    """,
)
NEWEST_OF_ORDERS = Query(
    Refund,
    """
    select r.* from unnest(:order_id::text[]) as o (order_id)
    cross join lateral (
        select * from refunds where merchant_id = :merchant_id and order_id = o.order_id
        order by created_at desc, id desc limit 1
    ) r
    """,
)
OF_ORDERS = Query(
    Refund,
    """
    select * from refunds where merchant_id = :merchant_id and order_id = any (:order_id::text[])
    order by created_at desc, id desc limit :limit
    """,
)
COUNT_OF_ORDER = Value(
    int, "select count(*) from refunds where merchant_id = :merchant_id and order_id = :order_id"
)
ORDER_IDS = Query(
    RefundOrder,
    """
    select id, order_id from refunds where merchant_id = :merchant_id and id = any(:ids::text[])
    """,
)
INSERT = Query(
    Refund,
    """
    insert into refunds (merchant_id, id, order_id, attempt_id, status, amount_minor, currency,
        debit_minor, debit_currency, held_from, user_refund_usd_minor, merchant_debit_usd_minor,
        reason, refund_no, provider_ref, sent, try_at, tries, created_at, updated_at,
        fee_returned_minor)
    values (:merchant_id, :id, :order_id, :attempt_id, 'PROCESSING', :amount_minor, :currency,
        :debit_minor, :debit_currency, :held_from, :user_refund_usd_minor,
        :merchant_debit_usd_minor, :reason, :refund_no, '', false, :now, 0, :now, :now,
        :fee_returned_minor)
    returning *
    """,
)
# The parts of an order's fee that its refunds give back to the prepaid balance.
RETURNED_FEES = Value(
    int,
    """
    select coalesce(sum(fee_returned_minor), 0)::bigint from refunds
    where merchant_id = :merchant_id and order_id = :order_id and status <> 'FAILED'
    """,
)
# Insert a refund made at the provider as SUCCEEDED, because OpenTill learns of it only afterwards.
INSERT_MADE_AT_GATEWAY = Query(
    Refund,
    """
    insert into refunds (merchant_id, id, order_id, attempt_id, status, amount_minor, currency,
        debit_minor, debit_currency, held_from, user_refund_usd_minor, merchant_debit_usd_minor,
        reason, provider_ref, sent, tries, created_at, updated_at, succeeded_at, source,
        fee_returned_minor)
    values (:merchant_id, :id, :order_id, :attempt_id, 'SUCCEEDED', :amount_minor, :currency,
        :debit_minor, :debit_currency, :held_from, :user_refund_usd_minor,
        :merchant_debit_usd_minor, :reason, :provider_ref, true, 0, :now, :now, :now, 'GATEWAY',
        :fee_returned_minor)
    returning *
    """,
)
OF_ATTEMPT = Query(
    Refund,
    """
    select * from refunds
    where merchant_id = :merchant_id and order_id = :order_id and attempt_id = :attempt_id
        and provider_ref = :provider_ref
    """,
)
# Reverse a refund. Changes nothing if the report names another refund at the provider than this
# one, because such a report says nothing about this refund's money.
REVERSE = Query(
    Refund,
    """
    update refunds set status = 'FAILED', error_message = :error_message,
        updated_at = greatest(updated_at, :now::bigint), failed_at = :now::bigint
    where merchant_id = :merchant_id and id = :id and status = 'SUCCEEDED'
        and (:provider_ref = '' or provider_ref in ('', :provider_ref))
    returning *
    """,
)
FINISH = Query(
    Refund,
    """
    update refunds set status = :status, try_at = null, error_message = :error_message,
        updated_at = greatest(updated_at, :now::bigint),
        provider_ref = case when :provider_ref = '' then provider_ref else :provider_ref end,
        succeeded_at = case when :status = 'SUCCEEDED' then :now::bigint end,
        failed_at = case when :status = 'FAILED' then :now::bigint end
    where merchant_id = :merchant_id and id = :id and status = 'PROCESSING'
    returning *
    """,
)
# Claim refunds that are due to be sent, until `:lease_until`. If `:gateways` is given, claim only
# refunds by these gateways if `:included`, else only refunds by all other gateways.
CLAIM = Query(
    Refund,
    """
    update refunds r set try_at = :lease_until, tries = tries + 1
    from (
        select w.merchant_id, w.id from refunds w
        where w.try_at <= :now and (:gateways::text[] is null or (
            select a.gateway = any(:gateways) from payment_attempts a
            where a.merchant_id = w.merchant_id and a.id = w.attempt_id) = :included::boolean)
        order by w.try_at limit :limit for update skip locked
    ) due
    where r.merchant_id = due.merchant_id and r.id = due.id and r.try_at <= :now
    returning r.*
    """,
)
# The gateways other than `:gateways` with due refunds, among the 500 that have waited longest.
GATEWAYS_DUE = Query(
    DueGateway,
    """
    select distinct gateway from (
        select a.gateway from refunds r
        join payment_attempts a on a.merchant_id = r.merchant_id and a.id = r.attempt_id
        where r.try_at <= :now and a.gateway <> all(:gateways::text[])
        order by r.try_at limit 500
    ) due
    """,
)
# Record that the gateway may have the refund; committed right before the gateway is called. Returns
# whether the refund was sent before, or no row if it has ended since it was claimed.
SENDING = Value(
    bool,
    """
    update refunds r set sent = true
    from (
        select merchant_id, id, sent from refunds
        where merchant_id = :merchant_id and id = :id and status = 'PROCESSING' for update
    ) before
    where r.merchant_id = :merchant_id and r.id = before.id
    returning before.sent
    """,
)
TRY_AGAIN = Command(
    """
    update refunds set try_at = :try_at
    where merchant_id = :merchant_id and id = :id and status = 'PROCESSING'
    """,
)
# Record that the first request surely did not arrive, so that the next one counts as the first.
NOT_SENT = Command(
    """
    update refunds set sent = false
    where merchant_id = :merchant_id and id = :id and status = 'PROCESSING'
    """,
)
# Refunds of all merchants that were created until a time and have not ended, whether or not they
# were sent.
UNREPORTED = Query(
    Refund,
    """
    select * from refunds where try_at is not null and created_at <= :until
    order by created_at, id limit :limit
    """,
)

# ── Failed refunds that need attention ──

# The caller must hold the order's lock.
HANDLE = Query(
    Refund,
    """
    update refunds set handled_at = :now, handled_by = :handled_by
    where merchant_id = :merchant_id and id = :id and status = 'FAILED' and handled_at is null
    returning *
    """,
)
# A refund that succeeds handles the oldest failed one of the same amount, if it was created after
# that failure; and all failed ones of its order if nothing is left to refund.
HANDLE_REPEATED = Command(
    """
    update refunds set handled_at = :now, handled_by = :id
    where merchant_id = :merchant_id and order_id = :order_id and status = 'FAILED'
        and handled_at is null
        and (:is_full::boolean or id = (
            select id from refunds
            where merchant_id = :merchant_id and order_id = :order_id and status = 'FAILED'
                and handled_at is null and amount_minor = :amount_minor
                and failed_at <= :created_at
            order by failed_at, id limit 1))
    """,
)
# Failed refunds of all merchants that nobody has handled, without those that have a case for staff.
FAILED = Query(
    Refund,
    """
    select * from refunds
    where status = 'FAILED' and handled_at is null and succeeded_at is null
    order by failed_at desc, id limit :limit
    """,
)
OVERDRAFT = Value(int, "select overdraft_minor from merchants where id = :merchant_id")
MAKE_DUE = Command("update refunds set try_at = :now where try_at > :now")
COUNT_DUE = Value(
    int, "select count(*) from (select 1 from refunds where try_at <= :now limit 10000) due"
)
OLDEST_TRY = Value(int, "select min(try_at) from refunds where try_at is not null")


# ── Cases for staff ──

CASE = Query(
    RefundCase,
    """
    select * from refund_cases
    where merchant_id = :merchant_id and gateway = :gateway and gateway_ref = :gateway_ref
    for update
    """,
)
# Open a case, or reopen it with the gateway's latest report.
STORE_CASE = Command(
    """
    insert into refund_cases (merchant_id, gateway, gateway_ref, kind, order_id, attempt_id,
        refund_id, status, amount_minor, currency, reason, refusal, try_at, tries, created_at,
        updated_at)
    values (:merchant_id, :gateway, :gateway_ref, :kind, :order_id, :attempt_id, :refund_id,
        :status, :amount_minor, :currency, :reason, :refusal, :now::bigint + 60000, 0, :now, :now)
    on conflict (merchant_id, gateway, gateway_ref) do update
    set status = :status, reason = :reason, refusal = :refusal, try_at = :now::bigint + 60000,
        tries = 0, closed_at = null, closed_by = null,
        updated_at = greatest(refund_cases.updated_at, :now)
    """,
)
# Store why a refund still cannot be applied, since the reason may have changed.
CHANGE_REFUSAL = Command(
    """
    update refund_cases set refusal = :refusal
    where merchant_id = :merchant_id and gateway = :gateway and gateway_ref = :gateway_ref
        and closed_at is null
    """,
)
# Close a case. `:closed_by` names the person who closed it, or says how its refund ended.
CLOSE_CASE = Query(
    RefundCase,
    """
    update refund_cases set closed_at = :now, closed_by = :closed_by,
        updated_at = greatest(updated_at, :now)
    where merchant_id = :merchant_id and gateway = :gateway and gateway_ref = :gateway_ref
        and closed_at is null
    returning *
    """,
)
# Claim refunds that are due to be applied again: at growing intervals, or at once if the order was
# paid after the last try, because then the refund was reported before its payment. The clocks of
# two machines may differ by a minute.
CLAIM_UNMATCHED = Query(
    RefundCase,
    """
    update refund_cases u
    set tries = u.tries + 1, try_at = :now::bigint + (60000::bigint << least(u.tries + 1, 6))
    from (
        select merchant_id, gateway, gateway_ref, tries from refund_cases stored
        where closed_at is null and kind = 'UNMATCHED' and status = 'SUCCEEDED'
            and (try_at <= :now or exists (
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
MAKE_CASES_DUE = Command(
    "update refund_cases set try_at = :now where closed_at is null and try_at > :now"
)
OPEN_CASES = Query(
    RefundCase,
    """
    select * from refund_cases
    where closed_at is null and (:merchant_id::text is null or merchant_id = :merchant_id)
    order by created_at desc, gateway_ref limit :limit
    """,
)
COUNT_UNMATCHED = Value(
    int, "select count(*) from refund_cases where closed_at is null and kind = 'UNMATCHED'"
)
