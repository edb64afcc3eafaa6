"""All SQL about refunds."""

from opentill.core.db import Command, Query, Value
from opentill.refunds.model import Refund

BY_ID = Query(Refund, "select * from refunds where merchant_id = $1 and id = $2")
LOCKED = Query(Refund, "select * from refunds where merchant_id = $1 and id = $2 for update")
# For the operator, who has only the refund's id: one look into the index for each merchant.
ANYWHERE = Query(
    Refund,
    """
    select r.* from merchants m
    cross join lateral (select * from refunds where merchant_id = m.id and id = $1) r
    """,
)
BY_NUMBER = Query(Refund, "select * from refunds where merchant_id = $1 and refund_no = $2")
OF_ORDER = Query(
    Refund,
    """
    select * from refunds where merchant_id = $1 and order_id = $2
    order by created_at desc, id desc limit $3 offset $4
    """,
)
COUNT_OF_ORDER = Value(int, "select count(*) from refunds where merchant_id = $1 and order_id = $2")
# Accept a refund and hold its part of the order, in one statement.
INSERT = Query(
    Refund,
    """
    with held as (
        update orders set refund_held_minor = refund_held_minor + $5::bigint,
            refund_debit_minor = refund_debit_minor + $7::bigint,
            updated_at = greatest(updated_at, $14::bigint)
        where merchant_id = $1 and id = $3
    )
    insert into refunds (merchant_id, id, order_id, attempt_id, status, amount_minor, currency,
        debit_minor, debit_currency, held_from, user_refund_usd_minor, merchant_debit_usd_minor,
        reason, refund_no, provider_ref, sent, try_at, tries, created_at, updated_at)
    values ($1, $2, $3, $4, 'PROCESSING', $5, $6, $7, $8, $9, $10, $11, $12, $13, '', false, $14, 0,
        $14, $14)
    returning *
    """,
)
# $3 status, $4 now, $5 error, $6 the gateway's reference.
FINISH = Query(
    Refund,
    """
    update refunds set status = $3, try_at = null, error_message = $5,
        updated_at = greatest(updated_at, $4::bigint),
        provider_ref = case $6 when '' then provider_ref else $6 end,
        succeeded_at = case $3 when 'SUCCEEDED' then $4::bigint end,
        failed_at = case $3 when 'FAILED' then $4::bigint end
    where merchant_id = $1 and id = $2 and status = 'PROCESSING'
    returning *
    """,
)
SUCCEED_ORDER = Command(
    """
    update orders set refunded_minor = refunded_minor + $3,
        updated_at = greatest(updated_at, $4)
    where merchant_id = $1 and id = $2
    """,
)
RELEASE_ORDER = Command(
    """
    update orders set refund_held_minor = refund_held_minor - $3,
        refund_debit_minor = refund_debit_minor - $4, updated_at = greatest(updated_at, $5)
    where merchant_id = $1 and id = $2
    """,
)
# Claim refunds that are to be sent or asked about: whoever claims has them until the time in $2.
# With $4 only those by these gateways, or, if $5 is false, by all others.
CLAIM = Query(
    Refund,
    """
    update refunds r set try_at = $2, tries = tries + 1
    from (
        select w.merchant_id, w.id from refunds w
        where w.try_at <= $1 and ($4::text[] is null or (
            select a.gateway = any($4) from attempts a
            where a.merchant_id = w.merchant_id and a.id = w.attempt_id) = $5::boolean)
        order by w.try_at limit $3 for update skip locked
    ) due
    where r.merchant_id = due.merchant_id and r.id = due.id
    returning r.*
    """,
)
# Committed right before the gateway is called, so that it is known whether it may know the refund.
# Returns whether it might have before; nothing for a refund that has ended since it was claimed.
SENDING = Value(
    bool,
    """
    update refunds r set sent = true
    from (
        select merchant_id, id, sent from refunds
        where merchant_id = $1 and id = $2 and status = 'PROCESSING' for update
    ) before
    where r.merchant_id = before.merchant_id and r.id = before.id
    returning before.sent
    """,
)
TRY_AGAIN = Command(
    "update refunds set try_at = $3 where merchant_id = $1 and id = $2 and status = 'PROCESSING'",
)
# Of a first sending that surely did not arrive: the next one is the first again.
NOT_SENT = Command(
    """
    update refunds set sent = false where merchant_id = $1 and id = $2 and status = 'PROCESSING'
    """,
)
EXISTS_ORDER = Value(bool, "select exists (select from orders where merchant_id = $1 and id = $2)")
OVERDRAFT = Value(int, "select overdraft_minor from merchants where id = $1")
WAKE = Command("update refunds set try_at = $1 where try_at > $1")
