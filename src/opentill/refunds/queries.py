"""All SQL about refunds."""

from opentill.db.query import Command, Query, Value, waiting
from opentill.refunds.model import OfOrder, Refund

BY_ID = Query(Refund, "select * from refunds where merchant_id = :merchant_id and id = :id")
# For the operator, who has only the refund's id: one index lookup for each merchant.
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
COUNT_OF_ORDER = Value(
    int, "select count(*) from refunds where merchant_id = :merchant_id and order_id = :order_id"
)
ORDERS = Query(
    OfOrder,
    """
    select id, order_id from refunds where merchant_id = :merchant_id and id = any(:ids::text[])
    """,
)
INSERT = Query(
    Refund,
    """
    insert into refunds (merchant_id, id, order_id, attempt_id, status, amount_minor, currency,
        debit_minor, debit_currency, held_from, user_refund_usd_minor, merchant_debit_usd_minor,
        reason, refund_no, provider_ref, sent, try_at, tries, created_at, updated_at)
    values (:merchant_id, :id, :order_id, :attempt_id, 'PROCESSING', :amount_minor, :currency,
        :debit_minor, :debit_currency, :held_from, :user_refund_usd_minor,
        :merchant_debit_usd_minor, :reason, :refund_no, '', false, :now, 0, :now, :now)
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
# Claim refunds that are to be sent or asked about: whoever claims has them until `:lease_until`.
# With `:gateways` only those by these, or, if they are not `:included`, by all others.
_CLAIM = """
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
    """
CLAIM = Query(Refund, _CLAIM, distributed=waiting(_CLAIM))
# Committed right before the gateway is called, so that it is known later whether the gateway may
# have the refund. Returns whether it was sent before; nothing for a refund that has ended since.
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
# A first request that surely did not arrive: the next one counts as the first again.
NOT_SENT = Command(
    """
    update refunds set sent = false
    where merchant_id = :merchant_id and id = :id and status = 'PROCESSING'
    """,
)
# Of all merchants: made until a time and not ended by any report, sent or not, the oldest first.
UNREPORTED = Query(
    Refund,
    """
    select * from refunds where try_at is not null and created_at <= :until
    order by created_at, id limit :limit
    """,
)
OVERDRAFT = Value(int, "select overdraft_minor from merchants where id = :merchant_id")
MAKE_DUE = Command("update refunds set try_at = :now where try_at > :now")
COUNT_DUE = Value(
    int, "select count(*) from (select 1 from refunds where try_at <= :now limit 10000) due"
)
OLDEST_TRY = Value(int, "select min(try_at) from refunds where try_at is not null")
