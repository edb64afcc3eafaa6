"""SQL about payment attempts: their checks, outcomes, duplicates, counts and batches."""

from opentill.db.jobs import DueGateway
from opentill.db.query import Command, Query, Value
from opentill.gateways.success_rates import EndedAttempt
from opentill.orders.model import Order, PaymentAttempt
from opentill.orders.payments.model import (
    DayTotal,
    DepositAddress,
    EndedReservation,
    FailedAttempts,
    LastPaid,
    SharedNumber,
    UnansweredAttempts,
    UncountedMerchant,
)

# Whether the customer canceled an attempt, and no bank declined it: ``is_customer_cancellation`` of
# the database, as plain SQL, which a planner inlines; the codes are those of ``web/declines.py``.
_IS_CANCELED = (
    "(split_part(reason, ':', 1) in ('canceled', 'cancelled', 'customer_declined', "
    "'transfer_rejected'))"
)

# Find attempts of any merchants by gateway and id. After this statement, the transaction waits at
# most half a second for each lock, so that one merchant does not delay the others. PostgreSQL uses
# one plan for any number of attempts (decision 0111).
ATTEMPTS_OF_GATEWAYS = Query(
    PaymentAttempt,
    """
    with patience as materialized (select set_config('lock_timeout', '500ms', true))
    select a.* from patience
    cross join unnest((select :gateway::text[]), :id::text[]) as report (gateway, id)
    join directory d on d.id = report.id
    join payment_attempts a on a.merchant_id = d.merchant_id and a.id = d.id
        and a.gateway = report.gateway
    """,
)
# Locks many orders in the order of their ids, as every transaction does. The subquery hides the
# length of the arrays from PostgreSQL, which therefore keeps one plan (decision 0111).
LOCK_MANY = Query(
    Order,
    """
    select o.*
    from unnest((select :merchant_id::text[]), :id::text[]) as locked (merchant_id, id)
    join orders o on o.merchant_id = locked.merchant_id and o.id = locked.id
    order by o.merchant_id, o.id for update of o
    """,
)

SET_CUSTOMER = Command(
    """
    update orders set customer_name = :customer_name,
        customer_email = case when :customer_email = '' then customer_email else :customer_email end
    where merchant_id = :merchant_id and id = :id and status = 'PENDING'
    """,
)
# An order's latest attempt through the gateway `manual`, whose payments the operator confirms.
MANUAL_ATTEMPT = Query(
    PaymentAttempt,
    """
    select * from payment_attempts where merchant_id = :merchant_id and order_id = :order_id
        and gateway = 'manual' and status in ('SUBMITTED', 'ACTION_REQUIRED', 'PENDING')
    order by created_at desc, id desc limit 1
    """,
)
UPDATE_ATTEMPT = Query(
    PaymentAttempt,
    """
    update payment_attempts set status = :status,
        provider_ref = case when :provider_ref = '' then provider_ref else :provider_ref end,
        action_url = case when :action_url = '' then action_url else :action_url end,
        qr_text = case when :qr_text = '' then qr_text else :qr_text end,
        reason = :reason, check_at = :check_at, updated_at = greatest(updated_at, :now)
    where merchant_id = :merchant_id and id = :id
    returning *
    """,
)
# Claims attempts that are due for a query, until `:lease_until`. `:included` says whether these
# are the attempts through `:gateways`, or those through all other gateways. If `:gateways` is null,
# all due attempts are claimed.
CLAIM_ATTEMPTS = Query(
    PaymentAttempt,
    """
    update payment_attempts a set check_at = :lease_until, checks = checks + 1
    from (
        select merchant_id, id from payment_attempts
        where check_at <= :now and (:gateways::text[] is null
            or (gateway = any(:gateways)) = :included::boolean)
        order by check_at limit :limit for update skip locked
    ) due
    where a.merchant_id = due.merchant_id and a.id = due.id and a.check_at <= :now
    returning a.*
    """,
)
# The gateways other than `:gateways` with due attempts, among the 500 that have waited longest.
GATEWAYS_DUE = Query(
    DueGateway,
    """
    select distinct gateway from (
        select gateway from payment_attempts
        where check_at <= :now and gateway <> all(:gateways::text[])
        order by check_at limit 500
    ) due
    """,
)
# Marks a duplicate payment before its gateway is asked to send it back. A later request then
# informs the gateway that an earlier one may have arrived. The mark is removed if the earlier
# request surely did not arrive.
MARK_RETURN_SENT = Command(
    """
    update payment_attempts set reason = 'giving_back'
    where merchant_id = :merchant_id and id = :id and status = 'DUPLICATE'
        and reason <> 'giving_back'
    """,
)
UNMARK_RETURN_SENT = Command(
    """
    update payment_attempts set reason = ''
    where merchant_id = :merchant_id and id = :id and status = 'DUPLICATE'
    """,
)
# Duplicate payments of all merchants that are not sent back yet, the oldest first: `updated_at` is
# when the attempt became a duplicate. Those whose return the gateway has refused, which have no
# further check, are included at once.
DUPLICATES = Query(
    PaymentAttempt,
    """
    select * from payment_attempts where status = 'DUPLICATE'
        and (updated_at <= :until or check_at is null)
    order by updated_at, id limit :limit
    """,
)
# Writes nothing if the status or the time of the check changed since the attempt was claimed.
SCHEDULE_CHECK = Command(
    """
    update payment_attempts set check_at = :check_at
    where merchant_id = :merchant_id and id = :id and status = :status and check_at = :claimed_until
    """,
)
STOP_RETURN = Command(
    """
    update payment_attempts set check_at = null, reason = :reason
    where merchant_id = :merchant_id and id = :id
    """,
)
# Like STOP_RETURN, for a gateway that first reported that it had sent the money back, and then that
# this failed.
REOPEN_RETURN = Command(
    """
    update payment_attempts
    set status = 'DUPLICATE', check_at = null, reason = :reason,
        updated_at = greatest(updated_at, :now)
    where merchant_id = :merchant_id and id = :id and status = 'GIVEN_BACK'
    """,
)
# Claims the right to query an attempt now, unless it was claimed less than `:every_ms` ago. A claim
# that is more than `:every_ms` in the future was stored before the clock was set back, and is
# ignored.
CLAIM_QUERY = Command(
    """
    update payment_attempts set asked_at = :now::bigint
    where merchant_id = :merchant_id and id = :id
        and (asked_at is null or abs(:now::bigint - asked_at) >= :every_ms::bigint)
    """,
)
# Makes the worker query an attempt `:every_ms` after the last query, since the payment may have
# changed after it. An attempt without a next check does not get one. The coalesce keeps PostgreSQL
# from using the index of due attempts, so that it finds the row by its id.
QUERY_SOON = Command(
    """
    update payment_attempts set check_at = asked_at + :every_ms::bigint
    where merchant_id = :merchant_id and id = :id
        and coalesce(check_at, 0) - asked_at > :every_ms::bigint
    """,
)
QUERY_NOW = Command(
    """
    update payment_attempts set check_at = :now, updated_at = greatest(updated_at, :now)
    where merchant_id = :merchant_id and id = :id and check_at is null
    """,
)
# Marks failed attempts as counted in the quarter hour of their end, and removes the mark from those
# whose money arrived after all; see `failed_attempts.py`. Returns the signed changes of the counts.
COUNT_FAILED = Query(
    FailedAttempts,
    f"""
    with uncounted as materialized (
        select merchant_id, id, counted_at as was,
            case when status not in ('DECLINED', 'REFUSED', 'VOIDED') then null
                when {_IS_CANCELED} then 0
                else updated_at / 900000 * 900000 end as at
        from payment_attempts
        where merchant_id = :merchant_id
            and (status in ('DECLINED', 'REFUSED', 'VOIDED')) <> (counted_at is not null)
        order by updated_at limit :limit for update skip locked
    ), marked as (
        update payment_attempts a set counted_at = u.at from uncounted u
        where a.merchant_id = :merchant_id and a.id = u.id
        returning coalesce(u.at, u.was) as since, a.gateway, a.method, a.currency,
            case when coalesce(u.at, u.was) = 0 then 0 when u.at is null then -1 else 1 end
                as failed
    )
    select since, gateway, method, currency, sum(failed) as failed, count(*) as attempts
    from marked group by since, gateway, method, currency order by since
    """,  # noqa: S608 - interpolates constants of this program only
)
# Finds the merchants after `:after` with uncounted attempts, by one index lookup for each merchant.
UNCOUNTED_MERCHANTS = Query(
    UncountedMerchant,
    """
    with recursive merchant (id) as (
        (select merchant_id from payment_attempts where merchant_id > :after
                and (status in ('DECLINED', 'REFUSED', 'VOIDED')) <> (counted_at is not null)
            order by merchant_id limit 1)
        union all
        select (select a.merchant_id from payment_attempts a where a.merchant_id > merchant.id
                and (status in ('DECLINED', 'REFUSED', 'VOIDED')) <> (counted_at is not null)
            order by a.merchant_id limit 1)
        from merchant where merchant.id is not null
    )
    select id as merchant_id from merchant where id is not null limit :limit
    """,
)
# The earliest end (Unix ms) of an attempt of a merchant whose count is wrong: it failed and is not
# counted, or is counted although its money arrived.
UNCOUNTED_SINCE = Value(
    int,
    """
    select min(updated_at) from payment_attempts where merchant_id = :merchant_id
        and (status in ('DECLINED', 'REFUSED', 'VOIDED')) <> (counted_at is not null)
    """,
)
# Whether a payment would exceed the limit of its account and day; null if there is no limit.
LIMIT_IS_EXHAUSTED = Value(
    bool,
    """
    select coalesce(coalesce(t.payments, 0) >= l.day_number, false)
        or coalesce(coalesce(t.sum_minor, 0) + :amount_minor::bigint > l.day_minor, false)
    from gateway_account_limits l
    left join gateway_day_totals t on t.account_id = l.account_id and t.currency = l.currency
        and t.day = :limit_day
    where l.account_id = :account_id and l.currency = :currency
    """,
)
# Removes an attempt from the total of its account and day, unless it was paid or removed before.
RELEASE_LIMIT = Command(
    """
    with released as (
        update payment_attempts set limit_released = true
        where merchant_id = :merchant_id and id = :id and limit_day is not null
            and not limit_released and status not in ('SUCCEEDED', 'DUPLICATE', 'GIVEN_BACK')
        returning gateway, currency, limit_day, amount_minor
    )
    update gateway_day_totals t
    set payments = t.payments - 1, sum_minor = t.sum_minor - r.amount_minor
    from released r
    where t.account_id = r.gateway and t.currency = r.currency and t.day = r.limit_day
    """,
)
# Adds attempts that were removed from their totals again.
COUNT_AGAIN = Command(
    """
    with counted as (
        update payment_attempts a set limit_released = false
        from unnest((select :merchant_id::text[]), :id::text[]) as paid (merchant_id, id)
        where a.merchant_id = paid.merchant_id and a.id = paid.id and a.limit_released
        returning a.gateway, a.currency, a.limit_day, a.amount_minor
    ), sums as (
        select gateway, currency, limit_day, count(*) as payments, sum(amount_minor) as sum_minor
        from counted group by gateway, currency, limit_day
    )
    update gateway_day_totals t
    set payments = t.payments + s.payments, sum_minor = t.sum_minor + s.sum_minor
    from sums s
    where t.account_id = s.gateway and t.currency = s.currency and t.day = s.limit_day
    """,
)
# Marks that the fees of attempts are no longer reserved; returns those that were.
END_RESERVATIONS = Query(
    EndedReservation,
    """
    update payment_attempts a set prepaid_held = false
    from unnest((select :merchant_id::text[]), :id::text[]) as ended (merchant_id, id)
    where a.merchant_id = ended.merchant_id and a.id = ended.id and a.prepaid_held
    returning a.merchant_id, a.id, a.prepaid_minor as fee_minor
    """,
)
# The newest attempts through accounts in the database that were paid or failed. Those that failed
# long after they began were not refused: their customers left.
ENDED_ATTEMPTS = Query(
    EndedAttempt,
    f"""
    select id, gateway, method, status, reason, created_at, updated_at from payment_attempts
    where status in ('SUCCEEDED', 'DECLINED', 'REFUSED')
        and (gateway like 'ga\\_%' or gateway like 'gat\\_%')
        and updated_at > :after::bigint
        and (status = 'SUCCEEDED'
            or updated_at - created_at < 900000 and not {_IS_CANCELED})
    order by updated_at desc limit :limit
    """,  # noqa: S608 - interpolates constants of this program only
)
ENDED_ATTEMPTS_OF_ENVIRONMENT = Query(
    EndedAttempt,
    f"""
    select id, gateway, method, status, reason, created_at, updated_at from payment_attempts
    where status in ('SUCCEEDED', 'DECLINED', 'REFUSED')
        and gateway not like 'ga\\_%' and gateway not like 'gat\\_%'
        and updated_at > :after::bigint
        and (status = 'SUCCEEDED'
            or updated_at - created_at < 900000 and not {_IS_CANCELED})
    order by updated_at desc limit :limit
    """,  # noqa: S608 - interpolates constants of this program only
)
DAY_TOTALS = Query(
    DayTotal,
    """
    select account_id, currency, payments, sum_minor from gateway_day_totals
    where day = :day and account_id = any(:account_ids::text[]) order by account_id, currency
    """,
)
MAKE_DUE = Command("update payment_attempts set check_at = :now where check_at > :now")
COUNT_DUE = Value(
    int,
    "select count(*) from (select 1 from payment_attempts where check_at <= :now limit 10000) due",
)
# When the first attempt is due for a query; one lookup in the index of due attempts.
OLDEST_CHECK = Value(int, "select min(check_at) from payment_attempts where check_at is not null")

# Count the attempts with an unknown outcome, among the 10,000 that are to be queried first.
UNANSWERED = Query(
    UnansweredAttempts,
    """
    select gateway, count(*) as number, min(created_at) as since from (
        select gateway, status, created_at from payment_attempts
        where check_at is not null order by check_at limit 10000
    ) queried
    where status = 'SUBMITTED' and created_at <= :until group by gateway
    """,
)
# Each gateway's last refusal among the newest attempts of every merchant.
LAST_REFUSED = Query(
    PaymentAttempt,
    f"""
    select distinct on (a.gateway) a.* from merchants m cross join lateral (
        select * from payment_attempts where merchant_id = m.id
        order by id desc limit :newest
    ) a
    where a.status in ('DECLINED', 'REFUSED') and not {_IS_CANCELED}
    order by a.gateway, a.updated_at desc
    """,  # noqa: S608 - interpolates constants of this program only
)

# When each gateway was last paid, among the newest attempts of every merchant.
LAST_PAID = Query(
    LastPaid,
    """
    select a.gateway, max(coalesce(o.paid_at, a.updated_at)) as at
    from merchants m cross join lateral (
        select * from payment_attempts where merchant_id = m.id
        order by id desc limit :newest
    ) a
    join orders o on o.merchant_id = a.merchant_id and o.id = a.order_id
    where a.status = 'SUCCEEDED' group by a.gateway
    """,
)

# ── Orders that share a number of an Epay shop ──

_OF_NUMBER = """
    from epay_orders e
    join epay_orders b on b.merchant_id = e.merchant_id and b.out_trade_no = e.out_trade_no
    join orders o on o.merchant_id = b.merchant_id and o.id = b.order_id
    where e.merchant_id = :merchant_id and e.order_id = :id
"""
# Oldest first, as in `epay.queries.ORDERS_OF_NUMBER`, so that two transactions cannot deadlock.
LOCK_NUMBER = Query(
    SharedNumber,
    f"select o.merchant_id, o.id {_OF_NUMBER} order by b.submission for update of o",
)
OTHER_PAID_ORDER = Value(
    str,
    f"select o.id {_OF_NUMBER} and o.id <> e.order_id and o.paid_at is not null limit 1",
)
SHARED_NUMBERS = Query(
    SharedNumber,
    """
    select e.merchant_id, e.order_id as id
    from unnest(:merchant_id::text[], :id::text[]) as locked (merchant_id, id)
    join epay_orders e on e.merchant_id = locked.merchant_id and e.order_id = locked.id
    where exists (
        select from epay_orders b
        where b.merchant_id = e.merchant_id and b.out_trade_no = e.out_trade_no
            and b.submission <> e.submission
    )
    """,
)

_DEPOSIT_ADDRESS = """
    select address, account, chain_id, attempt_id, amount_minor, currency, due, expires_at,
        monitored_until, reserved_at
    from deposit_addresses
"""
DEPOSIT_ADDRESS = Query(DepositAddress, f"{_DEPOSIT_ADDRESS} where attempt_id = :attempt_id")
DEPOSIT_BY_ADDRESS = Query(DepositAddress, f"{_DEPOSIT_ADDRESS} where address = :address")
MONITORED_ADDRESSES = Query(
    DepositAddress,
    f"""
    {_DEPOSIT_ADDRESS}
    where account = :account and chain_id = :chain_id and monitored_until > :now
    order by reserved_at desc, address limit :limit
    """,
)
NEXT_DEPOSIT_NUMBER = Value(
    int,
    """
    insert into deposit_keys (key_id, next_number) values (:key_id, 1)
    on conflict (key_id) do update set next_number = deposit_keys.next_number + 1
    returning next_number - 1
    """,
)
RESERVE_ADDRESS = Command(
    """
    insert into deposit_addresses (address, account, chain_id, key_id, number, attempt_id,
        amount_minor, currency, due, expires_at, monitored_until, reserved_at)
    values (:address, :account, :chain_id, :key_id, :number, :attempt_id, :amount_minor, :currency,
        :due, :expires_at, :monitored_until, :reserved_at)
    """,
)
