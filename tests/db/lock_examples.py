"""Fills a database with at least one row for each statement that locks rows."""

from opentill import merchants, payment_links, payouts, webhooks
from opentill.core.settings import Settings
from opentill.db.database import Tx
from opentill.orders.search import queries as search_queries
from opentill.payment_links import LinkBody, LinkItemBody
from opentill.webhooks import catchup_queries
from opentill.webhooks import queries as webhook_queries
from support import payout_runs, world


async def fill(tx: Tx) -> None:
    """Insert at least one row for each case."""
    order = await world.create_order_in(tx, "PAID")
    await world.create_refund(tx, order, "1.00")
    await payout_runs.create_payee(tx)
    await payouts.start_run(tx, payout_runs.run_request("W-1"), world.NOW)
    await world.create_order_in(tx, "CREATING")
    await world.create_order_in(tx, "DISPUTED")
    disputed = await world.create_order_in(tx, "REFUNDED")
    await world.report_dispute(tx, disputed, "OPENED", minor=5)
    await world.report_refund_event(tx, disputed, "SUCCEEDED", minor=5)
    declined = await world.create_order(tx)
    await world.report_payment(tx, await world.submit_attempt(tx, declined), "DECLINED")
    await _fill_features(tx, order.merchant_id, order.id)
    await _fill_deposits(tx)
    await _fill_figures_and_logins(tx, order.merchant_id)


async def _fill_deposits(tx: Tx) -> None:
    key, address = "0" * 32, "0x" + "0" * 40
    await tx.execute("insert into deposit_keys values ($1, 1)", key)
    await tx.execute(
        "insert into deposit_addresses values"
        " ($1, 'evm', 1, $2, 0, 'att_1', 1, 'USD', 1, null, 0, 0)",
        address,
        key,
    )
    await tx.execute("insert into deposit_sums values ($1, 1, 0, null)", address)


async def _fill_features(tx: Tx, merchant_id: str, order_id: str) -> None:
    await webhook_queries.INSERT_ENDPOINT.first(
        tx,
        merchant_id=merchant_id,
        id="whe_1",
        url="https://shop.example",
        description="",
        types=[],
        secret=b"",
        now=world.NOW,
    )
    event = webhooks.Event(merchant_id, "order.paid", {}, world.NOW)
    await webhooks.emit(tx, [event])
    link = LinkBody(item=LinkItemBody(name="A gift", currency="USD", price="5"))
    stored_link = await payment_links.create(tx, {}, merchant_id, link, world.NOW)
    selection = payment_links.Selection()
    await payment_links.open_session(tx, {}, stored_link, selection, Settings(), world.NOW)
    await catchup_queries.OPEN_HEAD.run(tx, merchant_id=merchant_id)
    await search_queries.ADD_HEAD.run(tx, merchant_id=merchant_id)
    await tx.execute(
        """
        insert into epay_credentials values ($1, 100000000, '', 'ENABLED', $2, null, $2)
        """,
        merchant_id,
        world.NOW,
    )
    await tx.execute(
        """
        insert into epay_orders (merchant_id, out_trade_no, order_id, checkout_id, type, name,
            money, money_type, notify_url, return_url, param, created_at)
        select merchant_id, 'N-1', id, checkout_id, 'bank', 'Tea', '1', 'USD', '', '', '',
            created_at
        from orders where merchant_id = $1 and id = $2
        """,
        merchant_id,
        order_id,
    )
    await tx.execute(
        "insert into epay_notifications values ($1, $2, 'WAITING', $3, 0, '', $3, $3)",
        merchant_id,
        order_id,
        world.NOW,
    )
    await tx.execute(
        "insert into epay_signatures values ($1, $2, 'pay/query', $3)",
        merchant_id,
        b"s" * 32,
        world.NOW,
    )
    await tx.execute(
        "insert into epay_refunds select merchant_id, $2, id, $3 from refunds"
        " where merchant_id = $1 limit 1",
        merchant_id,
        b"r" * 32,
        world.NOW,
    )
    await tx.execute(
        "insert into rate_limit_windows"
        " values ('ip', '192.0.2.1', array[$1::bigint], array[1], $1)",
        world.NOW,
    )
    await tx.execute(
        "insert into idempotency_keys values ($1, 'k', '', 200, '', $2)", merchant_id, world.NOW
    )
    await tx.execute(
        "insert into refused_requests values ($1, $2, 'req_1', 'key_1', 'GET', '/', 404, 40401, '',"
        " '', '')",
        merchant_id,
        world.NOW,
    )
    await tx.execute(
        "insert into ignored_fields values ($1, 'POST', '/v1/products', 'sku', 1, $2, 'r', 'k')",
        merchant_id,
        world.NOW,
    )
    await merchants.create_key(tx, merchant_id, "production", world.NOW)
    await tx.execute("insert into mail_heads values ($1, 0, 0)", merchant_id)
    await tx.execute("insert into prepaid_notices values ($1, 'USD', 'LOW', 0)", merchant_id)
    for status in ("WAITING", "SENDING"):
        await tx.execute(
            "insert into mails values ($1, $2, 'test', $2, 'a@example.com', null, 'en', '{}', null,"
            " '<a@b>', $2, 1, $3, '', $3, $3)",
            merchant_id,
            status,
            world.NOW,
        )


async def _fill_figures_and_logins(tx: Tx, merchant_id: str) -> None:
    await tx.execute(
        "insert into figure_heads select merchant_id, currency, 0 from balances"
        " where merchant_id = $1",
        merchant_id,
    )
    await tx.execute("insert into attempt_figures values ($1, 0, 0)", merchant_id)
    await tx.execute(
        "update payment_attempts set prepaid_minor = 0"
        " where merchant_id = $1 and status = 'SUCCEEDED'",
        merchant_id,
    )
    await tx.execute(
        "insert into persons values ('per_1', 'ann@example.com', 'Ann', '$argon2id$', null, null,"
        " 0, $1, $1)",
        world.NOW,
    )
    await tx.execute("insert into staff values ('per_1', 'admin', $1)", world.NOW)
    await tx.execute(
        "insert into logins values ('ses_1', 'per_1', $1, $2, $2, $2, false, '', '', $3, $1)",
        b"t" * 32,
        world.NOW,
        merchant_id,
    )
