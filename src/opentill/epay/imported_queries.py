"""All SQL about what comes over from an old Epay server."""

from opentill.db.query import Command, Value

INSERT_CREDENTIALS = Command(
    """
    insert into epay_credentials (merchant_id, pid, sealed_key, state, created_at, updated_at,
        versions, public_key, public_key_at)
    values (:merchant_id, :pid, :sealed_key, 'DISABLED', :now, :now, :versions, :public_key,
        :public_key_at)
    """,
)
REPLACE_KEYS = Command(
    """
    update epay_credentials set sealed_key = :sealed_key, versions = :versions,
        public_key = :public_key, public_key_at = :public_key_at, updated_at = :now
    where merchant_id = :merchant_id and state = 'DISABLED'
    """,
)
# The submissions of a number continue those that are stored.
INSERT_ORDERS = Command(
    """
    insert into epay_orders (merchant_id, out_trade_no, submission, order_id, checkout_id, type,
        name, money, money_type, notify_url, return_url, param, created_at, requested_type, version,
        old_trade_no)
    select i.merchant_id, i.out_trade_no,
        coalesce((select max(submission) from epay_orders e
            where e.merchant_id = i.merchant_id and e.out_trade_no = i.out_trade_no), 0)
            + row_number() over (partition by i.merchant_id, i.out_trade_no
                order by i.created_at, i.old_trade_no),
        i.order_id, i.checkout_id, i.type, i.name, i.money, i.money_type, i.notify_url,
        i.return_url, i.param, i.created_at, i.requested_type, i.version, i.old_trade_no
    from unnest((select :merchant_id::text[]), :out_trade_no::text[], :order_id::text[],
            :checkout_id::text[], :type::text[], :name::text[], :money::text[], :money_type::text[],
            :notify_url::text[], :return_url::text[], :param::text[], :created_at::bigint[],
            :requested_type::text[], :version::integer[], :old_trade_no::text[])
        as i (merchant_id, out_trade_no, order_id, checkout_id, type, name, money, money_type,
            notify_url, return_url, param, created_at, requested_type, version, old_trade_no)
    """,
)
# A notice that is not delivered waits as FAILED until its merchant is switched on.
INSERT_NOTICES = Command(
    """
    insert into epay_notifications (merchant_id, order_id, state, due_at, tries, answer, created_at,
        updated_at)
    select merchant_id, order_id, case state when 'WAITING' then 'FAILED' else state end, null, 0,
        result, :now, :now
    from unnest((select :merchant_id::text[]), :order_id::text[], :state::text[], :result::text[])
        as i (merchant_id, order_id, state, result)
    where state is not null
    """,
)
START_NOTICES = Command(
    """
    update epay_notifications set state = 'WAITING', due_at = :now::bigint,
        updated_at = :now::bigint
    where merchant_id = :merchant_id and state = 'FAILED' and tries = 0
        and answer = 'not acknowledged at the old server'
    """,
)
# Orders of all imported merchants: staff name an order by its number alone.
ORDER_OF_NUMBER = Value(
    str,
    """
    select e.order_id from epay_credentials c
    join epay_orders e on e.merchant_id = c.merchant_id and e.old_trade_no = :number
    order by e.order_id limit 1
    """,
)
HAS_V2 = Value(bool, "select exists (select from epay_credentials where public_key is not null)")
