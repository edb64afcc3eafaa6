"""The SQL of the CSV export: where its stretches end, and the lines of one."""

from opentill.core.settings import SANDBOX
from opentill.db.query import Query, Value
from opentill.orders import csvsql
from opentill.orders.model import OPERATOR, ExportCursor

# Where stretches of a list of orders end that are about so many bytes long as CSV, each by its last
# order. The sizes of long texts are known without reading them.
EXPORT_EDGES = Query(
    ExportCursor,
    """
    select created_at, id from (
        select created_at, id, size,
            sum(size) over (order by created_at, id rows unbounded preceding) as bytes
        from (
            select created_at, id, 350 + octet_length(metadata) + octet_length(customer_email)
                + coalesce(octet_length(customer_name), 0) as size
            from orders
            where merchant_id = :merchant_id
                and (created_at, id) > (:after_at::bigint, :after_id::text)
                and created_at <= :until
            order by created_at, id limit :limit
        ) sized
    ) summed
    where bytes / :bytes::bigint > (bytes - size) / :bytes::bigint
    order by created_at, id
    """,
)
# The lines of a stretch of orders as CSV: what export.row makes of each, byte for byte. `:livemode`
# is whether real money can be paid in this deployment (livemode.known). An amount of three decimals
# ends in a zero (money.show).
EXPORT = Value(
    bytes,
    f"""
    select convert_to(string_agg(line, '' order by created_at, id), 'UTF8')
    from (
        select created_at, id, concat_ws(',', id, checkout_id, product_id,
            {csvsql.quoted("email")}, {csvsql.quoted("coalesce(name, '')")},
            round(amount_minor * unit, 2), currency, trim_scale(platform_fee_rate),
            round(platform_fee_minor * unit, 2),
            round((amount_minor - platform_fee_minor) * unit, 2),
            round(net_settled_minor * settled_unit, 2), settled_currency,
            trim_scale(exchange_rate), coalesce(trim_scale(hkd_exchange_rate)::text, ''),
            coalesce(payment_method, ''), status, coalesce(paid_at::text, ''),
            coalesce(settled_at::text, ''), {csvsql.quoted("shown_metadata")}, created_at,
            case refunded_minor when 0 then 'NONE,0' when amount_minor
                then 'FULL,' || round(refunded_minor * unit, 2)
                else 'PARTIAL,' || round(refunded_minor * unit, 2) end,
            {csvsql.utc("created_at")}, coalesce({csvsql.utc("paid_at")}, ''),
            (case when livemode is not null then livemode
                when paid_attempt_id is null then :livemode
                else coalesce((
                    select nullif(gateway, '{OPERATOR}') <> '{SANDBOX}' from payment_attempts a
                    where a.merchant_id = o.merchant_id and a.id = o.paid_attempt_id), :livemode)
                end)::text
        ) || e'\\r\\n' as line
        from (
            select *, {csvsql.unit("currency")} as unit,
                {csvsql.unit("settled_currency")} as settled_unit,
                {csvsql.inert("customer_email")} as email, {csvsql.inert("customer_name")} as name,
                {csvsql.inert_json("metadata")} as shown_metadata
            from orders
            where merchant_id = :merchant_id
                and (created_at, id) > (:after_at::bigint, :after_id::text)
                and (created_at, id) <= (:until_at::bigint, :until_id::text)
            offset 0 -- or what it computes would be computed wherever it is used
        ) o
    ) as stretch
    """,  # noqa: S608 - columns of ours
)
