"""SQL that places orders, takes their transitions and writes their history."""

from collections.abc import Iterable, Mapping
from typing import Final

from opentill.db.query import Command, Query
from opentill.orders.model import Order, PaymentAttempt, Transitioned

# The columns of an order that a transition writes besides its status, with their types.
WRITTEN_COLUMNS: Final = {
    "customer_email": "text",
    "customer_name": "text",
    "payer_ip": "text",
    "payment_method": "text",
    "paid_attempt_id": "text",
    "paid_at": "bigint",
    "due_at": "bigint",
    "settle_at": "bigint",
    "settled_at": "bigint",
    "platform_fee_rate": "numeric",
    "platform_fee_minor": "bigint",
    "net_settled_minor": "bigint",
    "hkd_exchange_rate": "numeric",
    "livemode": "boolean",
    "refunded_minor": "bigint",
    "refund_held_minor": "bigint",
    "refund_debit_minor": "bigint",
    "charged_back_minor": "bigint",
    "reserve_minor": "bigint",
    "reserve_status": "text",
    "reserve_release_at": "bigint",
    "paid_directly": "boolean",
}


def _each(piece: str, written: Iterable[str] = WRITTEN_COLUMNS) -> str:
    """Repeat a piece of SQL for each column: ``{0}`` is its name, ``{1}`` its type."""
    return ", ".join(piece.format(name, WRITTEN_COLUMNS[name]) for name in written)


# Places an order with its session, the first row of its history and its directory entry, from a
# `model.NewOrder`. Writes nothing for a merchant that may not charge. Locking the merchant's row,
# as the foreign keys do anyway, makes a suspension and this statement wait for each other (decision
# 0082).
PLACE = Command(
    """
    with allowed as materialized (
        select id as merchant_id from merchants
        where id = :merchant_id and charge_off is null for key share
    ), listed as (
        insert into directory (id, merchant_id) select :id, merchant_id from allowed
    ), session as (
        insert into checkouts (merchant_id, id, product_id, order_id, amount_minor, currency,
            status, success_url, cancel_url, customer_email, customer_name, display_merchant_name,
            expires_at, created_at, updated_at, method, quantity, methods, locale,
            client_reference)
        select merchant_id, :id, :product_id, :order_id, :amount_minor, :currency, 'OPEN',
            :success_url, :cancel_url, :customer_email, :customer_name, :display_merchant_name,
            :expires_at, :now, :now, :method, :quantity, :methods, :locale, :client_reference
        from allowed
    ), placed as (
        insert into orders (merchant_id, id, checkout_id, product_id, product_name,
            product_description, product_image, source, status, history_number, currency,
            amount_minor, platform_fee_rate, platform_fee_minor, settled_currency, exchange_rate,
            usd_exchange_rate, gross_settled_minor, net_settled_minor, refund_fee_policy,
            customer_email, customer_name, payer_ip, refunded_minor, refund_held_minor,
            refund_debit_minor, reserve_rate, reserve_minor, reserve_status, metadata, created_at,
            updated_at, terms_version, fees, settlement_delay_days, settlement_calendar,
            reserve_days, dispute_fee_minor, quantity, client_reference)
        select merchant_id, :order_id, :id, :product_id, :product_name, :product_description,
            :product_image, :source, 'PENDING', 1, :currency, :amount_minor, :platform_fee_rate,
            :platform_fee_minor, :settled_currency, :exchange_rate, :usd_exchange_rate,
            :gross_settled_minor, :net_settled_minor, :refund_fee_policy, :customer_email,
            :customer_name, '', 0, 0, 0, :reserve_rate, 0, 'NONE', :metadata, :now, :now,
            :terms_version, :fees, :settlement_delay_days, :settlement_calendar, :reserve_days,
            :dispute_fee_minor, :quantity, :client_reference
        from allowed
    )
    insert into order_history (merchant_id, order_id, number, at, event, to_status, cause)
    select merchant_id, :order_id, 1, :now, 'opened', 'PENDING', :id from allowed
    """
)
# Adds the history row of one order's transition.
_HISTORY_OF_ONE: Final = """
        insert into order_history (merchant_id, order_id, number, at, event, from_status, to_status,
            cause)
        select merchant_id, id, history_number, updated_at, :event, :source, :target, :cause
        from moved
    """


def _update_order(written: Iterable[str] = (), condition: str = "") -> str:
    """Build the update of an order's status and of these columns.

    It changes nothing if the order has changed since it was read, or unless the condition is met.
    """
    columns = "".join(f", {name} = :{name}" for name in written)
    return f"""
        update orders set status = :target, history_number = history_number + 1,
            updated_at = greatest(updated_at, :now::bigint){columns}
        where merchant_id = :merchant_id and id = :order_id and status = :source
            and history_number = :history_number {condition}
        returning merchant_id, id, history_number, updated_at
    """  # noqa: S608 - interpolates constants of this program only


# Takes the transition of one locked order. Returns nothing if the order, or the attempt that paid
# it, has changed since it was read. The parameters are scalars: with arrays PostgreSQL would plan
# the statement anew each time, and read many rows while its statistics are out of date (decision
# 0048).
TRANSITION = Query(
    Transitioned,
    f"""
    with paid as (
        update payment_attempts set status = 'SUCCEEDED', reason = :reason, check_at = null,
            provider_ref = case when :provider_ref::text = '' then provider_ref
                else :provider_ref::text end,
            card_brand = :card_brand, card_last4 = :card_last4,
            updated_at = greatest(updated_at, :now::bigint)
        where merchant_id = :merchant_id and id = :attempt_id::text and status = :attempt_before
        returning id
    ), moved as (
        update orders set status = :target, history_number = history_number + 1,
            updated_at = greatest(updated_at, :now::bigint), {_each("{0} = :{0}")}
        where merchant_id = :merchant_id and id = :order_id and status = :source
            and history_number = :history_number
            and (:attempt_id::text is null or exists (select from paid))
        returning merchant_id, id, history_number, updated_at, source, checkout_id, customer_email
    ), history as ({_HISTORY_OF_ONE}), session as (
        update checkouts set status = :session::text, updated_at = :now::bigint,
            expires_at = case when :event = 'expired' then least(expires_at, :now::bigint)
                else expires_at end
        where merchant_id = :merchant_id and id = (select checkout_id from moved)
            and status = 'OPEN' and :session::text is not null
    ), notified as (
        -- Shops of the Epay API are notified (epay/jobs.py).
        insert into epay_notifications (merchant_id, order_id, state, due_at, tries, answer,
            created_at, updated_at)
        select merchant_id, id, 'WAITING', :now::bigint, 0, '', :now::bigint, :now::bigint
        from moved where source = 'EPAY' and :event = 'confirmed'
    ), indexed as (
        -- The card's last digits are a search term (search/queries.py).
        insert into search_changes (merchant_id, order_id, was)
        select merchant_id, id, customer_email from moved where :card_last4 is not null
    ), released as (
        -- Gateways are asked to close the pages of other attempts.
        update payment_attempts set check_at = :now::bigint, checks = 0
        where merchant_id = :merchant_id and order_id = (select id from moved)
            and id is distinct from :attempt_id::text
            and status = 'ACTION_REQUIRED' and check_at > :now::bigint
            and :source in ('CREATING', 'PENDING') and :target not in ('CREATING', 'PENDING')
    )
    select merchant_id, id from moved
    """,  # noqa: S608 - interpolates constants of this program only
)
# Like TRANSITION, for transitions to CREATING and PENDING. These write only the payer's columns of
# an order, and change neither the session nor another attempt. Leaving these parts out saves time,
# because PostgreSQL must prepare each part even if it changes nothing (decision 0112).
OF_UNPAID: Final = ("customer_email", "customer_name", "payer_ip")
UNPAID = Query(
    Transitioned,
    f"""
    with moved as ({_update_order(OF_UNPAID)}), history as ({_HISTORY_OF_ONE})
    select merchant_id, id from moved
    """,  # noqa: S608 - interpolates constants of this program only
)
# The two transitions that a submitted payment form causes, each with its attempt in one statement,
# which is a transaction of its own (decision 0119). Both write nothing if `history_number` shows
# that the order has changed since it was read. While the order does not change after the first of
# them, the attempt remains SUBMITTED.
_INSERT_ATTEMPT: Final = """
    insert into payment_attempts (merchant_id, id, order_id, gateway, method, status, amount_minor,
        currency, provider_ref, action_url, qr_text, reason, locale, payer_ip, check_at, checks,
        created_at, updated_at, limit_day, route, prepaid_minor, prepaid_held)
    select merchant_id, :attempt_id, id, :gateway, :method, 'SUBMITTED', :amount_minor, :currency,
        '', '', '', '', :locale, :payer_ip, :check_at, 0, :now, :now, :limit_day, :route,
        :prepaid_minor::bigint, coalesce(:prepaid_minor::bigint, 0) > 0
    from moved
    returning *
"""
SUBMITTED = Query(
    PaymentAttempt,
    f"""
    with moved as ({_update_order(OF_UNPAID)}), history as ({_HISTORY_OF_ONE}), listed as (
        insert into directory (id, merchant_id) select :attempt_id, merchant_id from moved
    )
    {_INSERT_ATTEMPT}
    """,  # noqa: S608 - interpolates constants of this program only
)
# Parts of the statements for attempts that need a place within a day limit or a reserved fee. They
# write nothing if there is none. The order is locked first, as everywhere, then the balance, then
# the total of the day; each is changed only if the order has not changed. Other payments wait for
# the locked rows, until the statement is committed.
_LOCKED: Final = """
        select id from orders
        where merchant_id = :merchant_id and id = :order_id and status = :source
            and history_number = :history_number
        for update
"""
# Adds the payment to the total of `:limit_day` of the account; `{after}` is the part that must
# have a row. If the limit was removed, the total still counts.
_COUNTED: Final = """
        insert into gateway_day_totals as total (account_id, currency, day, payments, sum_minor)
        select :gateway, :currency, :limit_day, 1, :amount_minor from {after}
        where not exists (
            select from gateway_account_limits
            where account_id = :gateway and currency = :currency and :amount_minor > day_minor
        )
        on conflict (account_id, currency, day) do update
        set payments = total.payments + 1, sum_minor = total.sum_minor + excluded.sum_minor
        where not exists (
            select from gateway_account_limits l
            where l.account_id = total.account_id and l.currency = total.currency
                and (total.payments >= l.day_number
                    or total.sum_minor + excluded.sum_minor > l.day_minor)
        )
        returning account_id
"""
_HAS_FEE: Final = """
            b.merchant_id = :merchant_id and b.currency = :settled_currency
            and b.prepaid - b.prepaid_reserved >= :prepaid_minor::bigint
"""
# Locks the balance if it has the fee, so that the total of the day is not changed in vain.
_FUNDED: Final = f"""
        select b.merchant_id from balances b, locked where {_HAS_FEE} for update of b
"""  # noqa: S608 - interpolates constants of this program only
_RESERVED: Final = f"""
        update balances b set prepaid_reserved = b.prepaid_reserved + :prepaid_minor::bigint
        from {{after}} where {_HAS_FEE} returning b.merchant_id
"""  # noqa: S608 - interpolates constants of this program only


def _submission(last: str, **parts: str) -> Query[PaymentAttempt]:
    """Build the statement that submits an order if each of these parts has a row."""
    before = ", ".join(f"{name} as materialized ({sql})" for name, sql in parts.items())
    return Query(
        PaymentAttempt,
        f"""
        with {before}, moved as ({_update_order(OF_UNPAID, f"and exists (select from {last})")}),
        history as ({_HISTORY_OF_ONE}), listed as (
            insert into directory (id, merchant_id) select :attempt_id, merchant_id from moved
        )
        {_INSERT_ATTEMPT}
        """,  # noqa: S608 - interpolates constants of this program only
    )


SUBMITTED_WITHIN_LIMIT = _submission(
    "counted", locked=_LOCKED, counted=_COUNTED.format(after="locked")
)
SUBMITTED_PREPAID = _submission(
    "reserved", locked=_LOCKED, reserved=_RESERVED.format(after="locked")
)
SUBMITTED_PREPAID_WITHIN_LIMIT = _submission(
    "reserved",
    locked=_LOCKED,
    funded=_FUNDED,
    counted=_COUNTED.format(after="funded"),
    reserved=_RESERVED.format(after="counted"),
)
# Whether the attempt's account has a day limit, and whether it takes a fee from the prepaid balance
# → the statement that submits it.
SUBMISSIONS: Final[Mapping[tuple[bool, bool], Query[PaymentAttempt]]] = {
    (False, False): SUBMITTED,
    (True, False): SUBMITTED_WITHIN_LIMIT,
    (False, True): SUBMITTED_PREPAID,
    (True, True): SUBMITTED_PREPAID_WITHIN_LIMIT,
}
ACCEPTED = Query(
    PaymentAttempt,
    f"""
    with moved as ({_update_order()}), history as ({_HISTORY_OF_ONE})
    update payment_attempts set status = :status, provider_ref = :provider_ref,
        action_url = :action_url, qr_text = :qr_text, reason = :reason, check_at = :check_at,
        updated_at = greatest(updated_at, :now::bigint)
    where merchant_id = :merchant_id and id = :attempt_id and status = 'SUBMITTED'
        and exists (select 1 from moved)
    returning *
    """,  # noqa: S608 - interpolates constants of this program only
)
# Like TRANSITION, for a batch of confirmations or of settlements. Each statement has only the
# columns that change, because more arrays and joins would cost much (decision 0048). `moved`
# returns the values of each change that later parts need, so that they need not join the arrays.
_OF_CONFIRMATIONS: Final = (
    "payer_ip",
    "payment_method",
    "paid_attempt_id",
    "paid_at",
    "due_at",
    "settle_at",
    "platform_fee_rate",
    "platform_fee_minor",
    "net_settled_minor",
    "livemode",
    "paid_directly",
)
_OF_SETTLEMENTS: Final = (
    "settle_at",
    "settled_at",
    "reserve_minor",
    "reserve_status",
    "reserve_release_at",
)
_HISTORY: Final = """
        insert into order_history (merchant_id, order_id, number, at, event, from_status, to_status,
            cause)
        select merchant_id, id, history_number, updated_at, event, source, target, cause from moved
"""
# PostgreSQL uses one plan of each statement for any number of orders (decision 0111).
CONFIRMATIONS = Query(
    Transitioned,
    f"""
    with changes as (
        select * from unnest((select :merchant_id::text[]), :order_id::text[],
            :history_number::int[], :source::text[], :target::text[], :event::text[],
            :cause::text[], :session::text[], :attempt_id::text[], :attempt_before::text[],
            :provider_ref::text[], :reason::text[], :card_brand::text[], :card_last4::text[],
            {_each(":{0}::{1}[]", _OF_CONFIRMATIONS)})
            as w (merchant_id, order_id, history_number, source, target, event, cause, session,
                attempt_id, attempt_before, provider_ref, reason, card_brand, card_last4,
                {_each("{0}", _OF_CONFIRMATIONS)})
    ), paid as (
        update payment_attempts a set status = 'SUCCEEDED', reason = w.reason, check_at = null,
            provider_ref = case when w.provider_ref = '' then a.provider_ref
                else w.provider_ref end,
            card_brand = w.card_brand, card_last4 = w.card_last4,
            updated_at = greatest(a.updated_at, :now::bigint)
        from changes w
        where a.merchant_id = w.merchant_id and a.id = w.attempt_id and a.status = w.attempt_before
        returning a.merchant_id, a.id
    ), moved as (
        update orders o set status = w.target, history_number = o.history_number + 1,
            updated_at = greatest(o.updated_at, :now::bigint),
            {_each("{0} = w.{0}", _OF_CONFIRMATIONS)}
        from changes w
        where o.merchant_id = w.merchant_id and o.id = w.order_id and o.status = w.source
            and o.history_number = w.history_number
            and (w.merchant_id, w.attempt_id) in (select merchant_id, id from paid)
        returning o.merchant_id, o.id, o.history_number, o.updated_at, o.source as placed_by,
            o.checkout_id, o.customer_email, w.source, w.target, w.event, w.cause, w.session,
            w.attempt_id, w.card_last4
    ), history as ({_HISTORY}), session as (
        update checkouts c set status = m.session, updated_at = :now::bigint
        from moved m
        where c.merchant_id = m.merchant_id and c.id = m.checkout_id and c.status = 'OPEN'
            and m.session is not null
    ), notified as (
        -- Shops of the Epay API are notified (epay/jobs.py).
        insert into epay_notifications (merchant_id, order_id, state, due_at, tries, answer,
            created_at, updated_at)
        select merchant_id, id, 'WAITING', :now::bigint, 0, '', :now::bigint, :now::bigint
        from moved where placed_by = 'EPAY'
    ), indexed as (
        -- The card's last digits are a search term (search/queries.py).
        insert into search_changes (merchant_id, order_id, was)
        select merchant_id, id, customer_email from moved where card_last4 is not null
    ), released as (
        -- Gateways are asked to close the pages of other attempts.
        update payment_attempts a set check_at = :now::bigint, checks = 0
        from moved m
        where a.merchant_id = m.merchant_id and a.order_id = m.id and a.id <> m.attempt_id
            and a.status = 'ACTION_REQUIRED' and a.check_at > :now::bigint
            and m.source in ('CREATING', 'PENDING')
    )
    select merchant_id, id from moved
    """,  # noqa: S608 - interpolates constants of this program only
)
SETTLEMENTS = Query(
    Transitioned,
    f"""
    with moved as (
        update orders o set status = w.target, history_number = o.history_number + 1,
            updated_at = greatest(o.updated_at, :now::bigint),
            {_each("{0} = w.{0}", _OF_SETTLEMENTS)}
        from unnest((select :merchant_id::text[]), :order_id::text[], :history_number::int[],
            :source::text[], :target::text[], :event::text[], :cause::text[],
            {_each(":{0}::{1}[]", _OF_SETTLEMENTS)})
            as w (merchant_id, order_id, history_number, source, target, event, cause,
                {_each("{0}", _OF_SETTLEMENTS)})
        where o.merchant_id = w.merchant_id and o.id = w.order_id and o.status = w.source
            and o.history_number = w.history_number
        returning o.merchant_id, o.id, o.history_number, o.updated_at, w.source, w.target, w.event,
            w.cause
    ), history as ({_HISTORY})
    select merchant_id, id from moved
    """,  # noqa: S608 - interpolates constants of this program only
)
# Event whose transitions are taken in batches → the statement that takes them.
MANY: Final[Mapping[str, Query[Transitioned]]] = {
    "confirmed": CONFIRMATIONS,
    "settled": SETTLEMENTS,
    "carried_over": SETTLEMENTS,
}
# Records an event that keeps the order's status, and adds to the sums of its refunds. If
# `:reserve_status` is null, the reserve's status stays as it is.
NOTE = Query(
    Order,
    """
    with changed as (
        update orders set history_number = history_number + 1,
            updated_at = greatest(updated_at, :now::bigint),
            refund_held_minor = refund_held_minor + :refund_held_minor::bigint,
            refund_debit_minor = refund_debit_minor + :refund_debit_minor::bigint,
            refunded_minor = refunded_minor + :refunded_minor::bigint,
            reserve_status = coalesce(:reserve_status, reserve_status)
        where merchant_id = :merchant_id and id = :id
        returning *
    ), history as (
        insert into order_history (merchant_id, order_id, number, at, event, from_status, to_status,
            cause)
        select merchant_id, id, history_number, updated_at, :event, status, status, :cause
        from changed
    )
    select * from changed
    """,
)
