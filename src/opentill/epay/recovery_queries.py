"""SQL about servers of shops: checks of them, and notifications that wait for one to recover."""

from typing import Final

from opentill.db.query import Command, Query
from opentill.epay.model import AddressToCheck, EarlyNotice

# The server of a notification, in lower case. An address may have the order's number in its path.
_SERVER: Final = "lower(substring(e.notify_url from '^[^:]*://[^/?#]*'))"
# The notifications of a merchant that wait for the server of `:order_id` after a failure, and that
# no worker is sending, oldest first. Each is sent early once after each of its failures.
_WAITING_FOR_SERVER: Final = f"""
    select near.order_id, near.due_at, near.created_at from (
        select * from epay_notifications
        where merchant_id = :merchant_id and due_at is not null order by due_at limit 1000
    ) near
    join epay_orders e on e.merchant_id = :merchant_id and e.order_id = near.order_id
    where near.tries > 0 and near.sent_early_failures is distinct from near.tries
        and coalesce(near.sending_until, 0) <= :now::bigint and {_SERVER} = (
            select {_SERVER} from epay_orders e
            where e.merchant_id = :merchant_id and e.order_id = :order_id)
    order by near.created_at, near.order_id limit 1
"""  # noqa: S608 - interpolates constants of this program only
# Claim the oldest notification that waits for a server, after that server has accepted another one.
# No row is returned while another worker sends one in this way, so that they arrive in order.
CLAIM_EARLY = Query(
    EarlyNotice,
    f"""
    with next as ({_WAITING_FOR_SERVER})
    update epay_notifications n set due_at = :lease_until::bigint, sending_until = :lease_until,
        sent_early_failures = tries
    from next
    where n.merchant_id = :merchant_id and n.order_id = next.order_id and n.state = 'WAITING'
        and coalesce(n.sending_until, 0) <= :now::bigint and not exists (
            select from epay_notifications other
            where other.merchant_id = :merchant_id
                and other.due_at between :now::bigint and :lease_until::bigint
                and other.sent_early_failures = other.tries and other.sending_until > :now::bigint)
    returning n.merchant_id, n.order_id, state, n.due_at, tries, answer as result, fault,
        n.created_at, updated_at, next.due_at as due_before
    """,  # noqa: S608 - interpolates constants of this program only
)
# The servers of a merchant's newest orders, each with its newest paid order, or with its newest
# order if none is paid.
ADDRESSES = Query(
    AddressToCheck,
    f"""
    select server, order_id from (
        select {_SERVER} as server, e.order_id, e.created_at, row_number() over (
            partition by {_SERVER}
            order by o.status in ('PAID', 'SETTLED') desc, e.created_at desc) as place
        from (
            select * from epay_orders where merchant_id = :merchant_id
            order by created_at desc, order_id desc limit 200
        ) e
        join orders o on o.merchant_id = :merchant_id and o.id = e.order_id
    ) newest
    where place = 1 order by created_at desc limit :limit
    """,  # noqa: S608 - interpolates constants of this program only
)
# Make the oldest notification that waits for the server of an order due. If it is accepted, the
# others follow (CLAIM_EARLY).
RELEASE_OLDEST = Command(
    f"""
    with next as ({_WAITING_FOR_SERVER})
    update epay_notifications n set due_at = :now from next
    where n.merchant_id = :merchant_id and n.order_id = next.order_id and n.state = 'WAITING'
        and n.due_at > :now::bigint and coalesce(n.sending_until, 0) <= :now::bigint
    """,  # noqa: S608 - interpolates constants of this program only
)
# Record an early try that failed: it was one more than the schedule has, so its time stays.
RECORD_EARLY_FAILURE = Command(
    """
    update epay_notifications set answer = :result, fault = :fault, updated_at = :now,
        due_at = :due_at::bigint, sending_until = null
    where merchant_id = :merchant_id and order_id = :order_id and state = 'WAITING'
        and tries = :tries
    """,
)
