"""All SQL about refunds of imported orders."""

from opentill.db.query import Command, Value

INSERT = Command(
    """
    insert into refunds (merchant_id, id, order_id, attempt_id, status, amount_minor, currency,
        debit_minor, debit_currency, held_from, user_refund_usd_minor, merchant_debit_usd_minor,
        reason, provider_ref, sent, tries, created_at, updated_at, succeeded_at)
    select i.merchant_id, i.id, i.order_id, i.attempt_id, 'SUCCEEDED', i.amount_minor, i.currency,
        0, i.currency, 'available', 0, 0, 'imported', '', true, 1, i.at, i.at, i.at
    from unnest((select :merchant_id::text[]), :id::text[], :order_id::text[], :attempt_id::text[],
            :amount_minor::bigint[], :currency::text[], :at::bigint[])
        as i (merchant_id, id, order_id, attempt_id, amount_minor, currency, at)
    """,
)
EXISTS = Value(
    bool, "select exists (select from refunds where merchant_id = :merchant_id and id = :id)"
)
NUMBER_TAKEN = Value(
    bool,
    """
    select exists (
        select from refunds where merchant_id = :merchant_id and refund_no = :refund_no)
    """,
)
AMOUNT = Value(
    int, "select amount_minor from refunds where merchant_id = :merchant_id and id = :id"
)
COPY = Command(
    """
    insert into refunds (merchant_id, id, order_id, attempt_id, status, amount_minor, currency,
        debit_minor, debit_currency, held_from, user_refund_usd_minor, merchant_debit_usd_minor,
        reason, refund_no, provider_ref, sent, tries, created_at, updated_at, succeeded_at)
    select merchant_id, :id, order_id, attempt_id, status, :amount_minor, currency, 0,
        debit_currency, held_from, 0, 0, reason, :refund_no, '', true, 1, :at, :at, :at
    from refunds where merchant_id = :merchant_id and id = :sum_id
    """,
)
REDUCE = Command(
    """
    update refunds set amount_minor = amount_minor - :part
    where merchant_id = :merchant_id and id = :id
    """,
)
DELETE = Command("delete from refunds where merchant_id = :merchant_id and id = :id")
