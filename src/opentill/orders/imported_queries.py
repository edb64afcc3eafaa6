"""All SQL about imported orders."""

from opentill.db.query import Command, Query
from opentill.orders.imported_model import ImportedState

STATES = Query(
    ImportedState,
    """
    select o.merchant_id, o.id, o.status, o.refunded_minor
    from unnest((select :merchant_id::text[]), :id::text[]) as requested (merchant_id, id)
    join orders o on o.merchant_id = requested.merchant_id and o.id = requested.id
    """,
)
# Insert orders with their sessions and history, and a successful attempt of each paid one. Their
# terms are those of the merchant, without a fee: the old server has taken it.
INSERT = Command(
    """
    with imported as materialized (
        select * from unnest((select :merchant_id::text[]), :id::text[], :checkout_id::text[],
                :product_id::text[], :name::text[], :status::text[], :amount_minor::bigint[],
                :refunded_minor::bigint[], :created_at::bigint[], :paid_at::bigint[],
                :payment_method::text[], :attempt_id::text[], :gateway::text[],
                :provider_ref::text[], :payer_ip::text[], :client_reference::text[],
                :metadata::text[])
            as i (merchant_id, id, checkout_id, product_id, name, status, amount_minor,
                refunded_minor, created_at, paid_at, payment_method, attempt_id, gateway,
                provider_ref, payer_ip, client_reference, metadata)
    ), listed as (
        insert into directory (id, merchant_id) select checkout_id, merchant_id from imported
    ), sessions as (
        insert into checkouts (merchant_id, id, product_id, order_id, amount_minor, currency,
            status, method, customer_email, display_merchant_name, expires_at, created_at,
            updated_at, client_reference)
        select i.merchant_id, i.checkout_id, i.product_id, i.id, i.amount_minor,
            m.settlement_currency, case when i.paid_at is null then 'EXPIRED' else 'COMPLETE' end,
            i.payment_method, '', m.name, i.created_at, i.created_at,
            coalesce(i.paid_at, i.created_at), i.client_reference
        from imported i join merchants m on m.id = i.merchant_id
    ), placed as (
        insert into orders (merchant_id, id, checkout_id, product_id, product_name,
            product_description, source, status, history_number, currency, amount_minor,
            platform_fee_rate, platform_fee_minor, settled_currency, exchange_rate,
            gross_settled_minor, net_settled_minor, refund_fee_policy, customer_email, payer_ip,
            refunded_minor, refund_held_minor, refund_debit_minor, reserve_rate, reserve_minor,
            reserve_status, metadata, created_at, updated_at, terms_version, fees,
            settlement_delay_days, settlement_calendar, reserve_days, dispute_fee_minor,
            client_reference, livemode, payment_method, paid_attempt_id, paid_at, settled_at,
            due_at, imported)
        select i.merchant_id, i.id, i.checkout_id, i.product_id, i.name, '', 'EPAY', i.status, 1,
            m.settlement_currency, i.amount_minor, 0, 0, m.settlement_currency, 1, i.amount_minor,
            i.amount_minor, 'KEPT', '', i.payer_ip, i.refunded_minor, i.refunded_minor, 0, 0, 0,
            'NONE', i.metadata, i.created_at, coalesce(i.paid_at, i.created_at), m.terms_version,
            '[]', 0, 'EVERY_DAY', 0, m.dispute_fee_minor, i.client_reference,
            case when i.paid_at is not null then true end,
            case when i.paid_at is not null then i.payment_method end,
            case when i.paid_at is not null then i.attempt_id end, i.paid_at, i.paid_at,
            i.paid_at, true
        from imported i join merchants m on m.id = i.merchant_id
    ), attempts as (
        insert into payment_attempts (merchant_id, id, order_id, gateway, method, status,
            amount_minor, currency, provider_ref, action_url, qr_text, reason, locale, payer_ip,
            checks, created_at, updated_at)
        select i.merchant_id, i.attempt_id, i.id, i.gateway, i.payment_method, 'SUCCEEDED',
            i.amount_minor, m.settlement_currency, i.provider_ref, '', '', '', '', i.payer_ip, 0,
            i.created_at, i.paid_at
        from imported i join merchants m on m.id = i.merchant_id where i.paid_at is not null
    )
    insert into order_history (merchant_id, order_id, number, at, event, to_status, cause)
    select merchant_id, id, 1, :now, :event, status, :cause from imported
    """,
)
