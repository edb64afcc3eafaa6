"""A merchant that uses every feature; see ``test_tenant_isolation``."""

import asyncio
from datetime import UTC
from functools import partial
from typing import Any, Final

import msgspec

from db.operated_business import OperatedBusiness
from opentill import (
    checkouts,
    disputes,
    epay,
    figures,
    ledger,
    mail,
    merchants,
    orders,
    payment_links,
    payouts,
    products,
    refunds,
    webhooks,
)
from opentill.db.database import Tx
from opentill.epay import credentials, notices
from opentill.integrity import rules, scheduler
from opentill.list_counts import FOREVER
from opentill.list_counts.jobs import roll_up
from opentill.list_counts.queries import Lists
from opentill.mail import jobs
from opentill.mail import queries as mail_queries
from opentill.orders.search import jobs as indexing
from opentill.webhooks import catchup
from opentill.webhooks.dispatch import Dispatcher
from support.epay_v2_shop import VECTORS
from support.statements import LISTS
from support.webhook_harness import wait_until

HAS_ATTEMPT: Final = "select exists (select from delivery_attempts where merchant_id = $1)"

DAY: Final = 86_400_000


class Business(OperatedBusiness):
    """A merchant that uses every feature, one method for each area."""

    def use_epay(self) -> None:
        """Place orders through the Epay API, run all its acts, send and resend notifications."""
        epay_shop, api_server = self.epay_shop, self.api_server
        placed = epay_shop.place_paid_order()
        epay_shop.call_api("order", out_trade_no=placed["out_trade_no"])
        form = epay_shop.form(money="10.5")
        for type_ in ("alipay", "wxpay"):  # the second request repeats the order
            epay_shop.post("mapi", epay_shop.sign(form | {"type": type_}))
        epay_shop.place_order(out_trade_no="N-1", money_type="USD")
        late = epay_shop.place_order(out_trade_no="N-2", type="creditcard")
        session_id = late["payurl"].rpartition("/")[2]
        api_server.tx(lambda tx: checkouts.expire(tx, self.id, session_id, "test", self.now))
        epay_shop.place_order(out_trade_no="N-2", type="creditcard")
        epay_shop.pay(late)
        self._pay_number_twice()
        for act, parameters in (
            ("query", {}), ("settle", {}), ("orders", {}), ("orders", {"status": "1"}),
            ("order", {"trade_no": placed["trade_no"]}),
            ("order", {"out_trade_no": placed["out_trade_no"]}),
            ("refund", {"trade_no": placed["trade_no"], "money": "1"}),
        ):  # fmt: skip
            epay_shop.call_api(act, **parameters)
        order_id = epay_shop.order_id(placed)
        epay_shop.send_notices(self.advance())
        api_server.tx(lambda tx: notices.resend(tx, self.id, order_id, self.now))
        api_server.tx(lambda tx: notices.find_notice(tx, self.id, order_id))
        epay_shop.inbox.answer = (500, b"no")
        epay_shop.send_notices(self.advance())
        epay_shop.inbox.answer = (200, b"success")
        api_server.tx(lambda tx: notices.list_notices(tx, self.id))
        api_server.run(notices.return_address(self.app, self.id, order_id))
        api_server.tx(lambda tx: credentials.rotate(tx, api_server.settings, self.id, self.now))
        self._use_epay_v2()
        api_server.tx(lambda tx: credentials.disable(tx, self.id, self.now))
        api_server.tx(lambda tx: epay.enable(tx, api_server.settings, self.id, self.now))

    def _use_epay_v2(self) -> None:
        epay_shop = self.epay_shop
        placed = epay_shop.create_paid()
        epay_shop.call("pay/refund", trade_no=placed["trade_no"], money="1", out_refund_no="V2-1")
        epay_shop.call("pay/refundquery", out_refund_no="V2-1")
        epay_shop.call("merchant/info")
        epay_shop.call("merchant/orders", status="1")
        for owner in ("platform", "merchant"):
            epay_shop.set_public_key(VECTORS[f"{owner}_public_key"])
        epay_shop.set_versions("V2")
        epay_shop.set_versions("BOTH")

    def send_events(self) -> None:
        """Create and change endpoints; list, deliver and resend events."""
        shop, api_server = self.shop, self.api_server
        endpoint = shop.create_endpoint(url=self.epay_shop.inbox.url)["id"]
        other = shop.create_endpoint(url=self.epay_shop.inbox.url, events=["payout.paid"])["id"]
        order = self.pay_order()
        api_server.run(self._dispatch_once())
        path = f"/v1/webhook-endpoints/{endpoint}"
        items = shop.data("GET", "/v1/events")["items"]
        shop.data("GET", "/v1/events?type=order.paid")
        shop.data("GET", "/v1/events?type=order.paid&resent=true")
        shop.data("GET", "/v1/events?cursor=latest")
        event = items[-1]["id"]
        shop.data("GET", f"/v1/events/{event}")
        shop.data("GET", "/v1/webhook-endpoints")
        shop.data("GET", path)
        for query in ("", "?status=PENDING", f"?eventId={event}", "?type=order.paid"):
            shop.data("GET", f"{path}/deliveries{query}")
        shop.data("POST", f"{path}/resend", json={"eventId": event})
        shop.data("POST", f"{path}/resend", json={"since": 0})
        shop.data("POST", f"{path}/test")
        api_server.tx(lambda tx: self._read_delivery_log(tx, endpoint, event))
        api_server.tx(
            lambda tx: webhooks.emit(
                tx, [webhooks.Event(self.id, "order.paid", {"order_id": order.id}, self.now)]
            )
        )
        api_server.tx(lambda tx: catchup.number(tx, self.id))
        shop.data("PATCH", path, json={"description": "x"})
        shop.data("POST", f"{path}/rotate-secret")
        shop.call("PATCH", path, json={"status": "DISABLED"})
        shop.call("PATCH", path, json={"status": "ENABLED"})
        shop.call("DELETE", f"/v1/webhook-endpoints/{other}")

    async def _read_delivery_log(self, tx: Tx, endpoint_id: str, event_id: str) -> None:
        """Read the data of the pages of endpoints and events."""
        endpoint, log_query = await webhooks.find(tx, self.id, endpoint_id), webhooks.LogQuery()
        await webhooks.list_deliveries(tx, endpoint, None, log_query)
        await webhooks.find_delivery(tx, endpoint, event_id)
        assert await webhooks.find_deliveries(tx, endpoint, [event_id])
        _, figures = await webhooks.summarize_deliveries(tx, self.id, [0])
        assert figures[endpoint_id].total
        await webhooks.list_events(tx, self.id, "order.paid", log_query)
        await webhooks.find_event(tx, self.id, event_id)
        assert endpoint_id in await webhooks.find_activity(tx, self.id)

    async def _dispatch_once(self) -> None:
        """Run the dispatcher until it has recorded an attempt."""
        app = self.app
        dispatcher = Dispatcher(app.db, app.outgoing, app.settings.secret_key, app.clock)
        stop = asyncio.Event()
        task = asyncio.create_task(dispatcher.run(stop))

        async def has_attempt() -> bool:
            async with app.db.connection() as tx:
                return bool(await tx.fetchval(HAS_ATTEMPT, self.id))

        try:
            await wait_until(has_attempt)
        finally:
            stop.set()
            await task

    def filter_lists(self) -> None:
        """Read each list by each combination of its filters, with values of an existing row."""
        for statements in LISTS.values():
            self.api_server.tx(partial(self._list, statements=statements))

    async def _list(self, tx: Tx, statements: Lists[Any]) -> None:
        unfiltered = {"merchant_id": self.id, "since": 0, "until": 2**62}
        rows = await statements[()].newest.all(tx, **unfiltered, limit=1000, offset=0)
        for filters, (newest, oldest, count) in statements.items():
            row = next(row for row in rows if None not in map(row.__getattribute__, filters))
            filter_values = unfiltered | {name: getattr(row, name) for name in filters}
            for statement in (newest, oldest):
                assert await statement.all(tx, **filter_values, limit=5, offset=0)
            assert await count.get(tx, **filter_values)

    async def _export_local_times(self, query: orders.ExportQuery) -> None:
        """Export orders with the times of a time zone."""
        resolved_query = await orders.resolve_query(self.app.db, self.id, query)
        file = orders.export_csv_limited(
            self.app.exports,
            self.app.db,
            self.id,
            resolved_query,
            livemode=True,
            zone="Asia/Kathmandu",
        )
        assert len(b"".join([chunk async for chunk in file]).splitlines()) > 1

    async def _read_rows_of_payments(self, tx: Tx, order_id: str) -> None:
        """Read what the rows of the lists of payments and the tabs of disputes show."""
        order = await orders.find(tx, self.id, order_id)
        assert order_id in await orders.decisive_attempts(tx, self.id, [order])
        assert order_id in await disputes.newest_of_orders(tx, self.id, [order_id])
        refunded = await tx.fetchval("select order_id from refunds where merchant_id = $1", self.id)
        assert refunded in await refunds.newest_of_orders(tx, self.id, [refunded])
        assert await refunds.list_of_orders(tx, self.id, [refunded], 5)
        assert await disputes.count_by_state(tx, self.id, (0, FOREVER))
        await disputes.sum_at_stake(tx, self.id)

    def search_orders(self) -> None:
        """Search orders by every term, before and after they are indexed; filter sessions."""
        shop, api_server = self.shop, self.api_server
        order = self.place_order()
        disputed = self.settle_order()
        shop.open_dispute(disputed.id)
        api_server.tx(lambda tx: self._read_rows_of_payments(tx, disputed.id))
        assert api_server.tx(
            lambda tx: orders.sum_product_sales(tx, self.id, disputed.product_id, 0)
        ).orders
        assert api_server.tx(lambda tx: orders.find_by_part(tx, self.id, disputed.id[-6:], 5))
        rows = {
            table: api_server.sql(f"select * from {table} where merchant_id = $1", self.id)
            for table in (
                "checkouts",
                "payment_attempts",
                "refunds",
                "disputes",
                "entries",
                "events",
            )
        }
        texts = [row["id"] for table_rows in rows.values() for row in table_rows[:3]]
        texts += [row["id"] for row in rows["entries"] if row["source_type"] == "order"][:1]
        texts += [row["id"] for row in rows["events"] if row["type"].startswith("order")][:1]
        (epay_order, *_) = api_server.sql(
            "select * from epay_orders where merchant_id = $1", self.id
        )
        texts += [orders.receipt_number(order.id)]
        texts += [order.id, "R-1", epay_order["out_trade_no"], "ann@example.com", "ann@ex", "9.99"]
        change = "update orders set customer_email = $2 where id = $1 returning id"
        for email in ("ann@example.com", "eve@example.com", "Ann@example.com"):
            api_server.sql(change, order.id, email)
            for text in texts:
                for filters in ("", f"&productId={self.product}", "&status=PENDING"):
                    shop.data("GET", f"/v1/orders?size=1&query={text}{filters}")
                    shop.data("GET", f"/v1/orders?size=1&page=3&query={text}{filters}")
            shop.get("/v1/orders/export?amount=9.99")
            shop.get("/v1/orders/export?status=PENDING&customerEmail=ann@example.com")
            shop.get(f"/v1/orders/export?productId={self.product}&status=PENDING")
            shop.data("GET", "/v1/orders?amount=9.99&customerEmail=ann@example.com&status=PENDING")
            for query in (orders.ExportQuery(), orders.ExportQuery(amount="9.99")):
                api_server.run(self._export_local_times(query))
            recent = api_server.tx(lambda tx: orders.recent_customers(tx, self.id, 1))
            api_server.run(
                orders.totals_of_recent(self.app.db, self.id, recent, ["ann@example.com"])
            )
            own_payouts = payouts.PayoutFilter(merchant_id=self.id)
            assert api_server.tx(partial(payouts.search_all, criteria=own_payouts, limit=5))
            for search in (products.search, payment_links.list_matching, payouts.list_matching):
                assert api_server.tx(lambda tx, search=search: search(tx, self.id, ""))
            api_server.run(orders.find_customers(self.app.db, self.id, "ann@"))
            api_server.run(orders.sums_of_customer(self.app.db, self.id, "ann@example.com"))
            api_server.run(orders.newest_of_customer(self.app.db, self.id, "ann@example.com", 5))
            api_server.run(orders.totals_of_customers(self.app.db, self.id, ["ann@example.com"]))
            api_server.run(indexing.index_merchant(self.app.db, self.id, many=2))
        late = self.place_order()
        shop.data("POST", f"/v1/checkouts/{late.checkout_id}/expire")
        shop.confirm(late.id)
        for product in ("", f"&productId={self.product}"):
            for status in ("", "&status=OPEN", "&status=COMPLETE", "&status=EXPIRED"):
                for page in ("", "&page=4", f"&startDate={self.now - 1000}"):
                    shop.data("GET", f"/v1/checkouts?size=1{page}{product}{status}")
        shop.data("GET", "/v1/checkouts?customerEmail=ann@example.com")

    def read_balance_pages(self) -> None:
        """Read the data of the dashboard's pages about the balance."""
        api_server, db = self.api_server, self.app.db

        for kind in (None, "FEE"):
            file = ledger.movements_file(db, self.id, kind, (0, FOREVER), UTC)
            assert api_server.run(self._length(file))
        rows, counts = api_server.run(ledger.list_rows(db, self.id, 1, 50, (0, FOREVER)))
        money = ledger.list_rows(db, self.id, 1, 50, (0, FOREVER), with_transfers=False)
        money_rows, money_counts = api_server.run(money)
        assert money_counts == counts
        assert (len(rows), len(money_rows)) == (min(counts.rows, 50), min(counts.money_rows, 50))
        window = (1, rows[0].created_at)  # its last hour is counted by reading it
        assert api_server.run(ledger.list_rows(db, self.id, 1, 50, window)) == (rows, counts)
        payments = [row.source_id for row in rows if row.type == "PAYMENT"]
        assert api_server.tx(lambda tx: ledger.list_fees(tx, self.id, payments))
        assert api_server.tx(lambda tx: ledger.list_types(tx, self.id))
        api_server.run(figures.find_coming(db, self.id, UTC, self.now))
        for most in (0, 50_000):
            assert api_server.run(figures.statements(db, self.id, (0, FOREVER), most))
        assert api_server.tx(lambda tx: payouts.sum_paid(tx, self.id))
        payout_id = api_server.tx(lambda tx: payouts.list_newest(tx, self.id, 1, 0))[0].id
        assert api_server.tx(lambda tx: ledger.list_entries_of(tx, self.id, "payout", payout_id))
        refund = api_server.sql("select id from refunds where merchant_id = $1", self.id)[0]["id"]
        assert api_server.tx(lambda tx: refunds.find_order_ids(tx, self.id, [refund]))

    def send_mail(self) -> None:
        """Queue, send, release, list, resend and cancel mails, and store a dead letter."""
        api_server, now = self.api_server, self.now
        settings = msgspec.structs.replace(
            api_server.settings, smtp_url="smtp://127.0.0.1:9", mail_from="pay@example.com"
        )
        actor = merchants.Actor("op", "wish")
        switches = {"receipts": True, "refunds": True, "digest": True}
        order = self.pay_order()
        for _ in range(2):
            api_server.run(jobs.queue_event_mails(self.app.db, settings, now))
        api_server.run(jobs.queue_digests(self.app.db, settings, now))
        api_server.tx(
            lambda tx: mail.change_preferences(tx, self.id, switches, "en", now, actor=actor)
        )
        api_server.run(jobs.queue_digests(self.app.db, settings, now))
        receipt = api_server.tx(
            lambda tx: mail.send_receipt(tx, settings, self.id, order.id, "one", now)
        )
        key = {"merchant_id": self.id, "id": receipt.id, "attempts": 1, "result": "", "now": now}

        async def attempt(tx: Tx) -> None:
            await mail_queries.CLAIM.all(tx, now=now, lease_until=now + DAY, limit=1000)
            await mail_queries.RELEASE.run(tx, **key, due_at=now)
            await mail_queries.CLAIM.all(tx, now=now, lease_until=now + DAY, limit=1000)
            await mail_queries.RECORD.run(tx, **key, status="SENT", due_at=None)

        api_server.tx(attempt)
        resent, repeated = (
            api_server.tx(lambda tx: mail.resend(tx, settings, self.id, receipt.id, "form", now))
            for _ in range(2)
        )
        assert resent.id == repeated.id
        waiting = {"merchant_id": self.id, "id": resent.id, "result": "refund reversed"}
        assert api_server.tx(lambda tx: mail_queries.CANCEL.get(tx, **waiting, now=now))
        assert api_server.tx(lambda tx: mail.list_of_merchant(tx, self.id, limit=50))
        to = receipt.recipient
        assert api_server.tx(lambda tx: mail.list_of_merchant(tx, self.id, recipient=to, limit=50))
        key = {"merchant_id": self.id, "currency": "USD"}
        api_server.tx(lambda tx: mail_queries.OPEN_PREPAID_NOTICE.run(tx, **key))
        api_server.tx(lambda tx: mail_queries.LOCK_PREPAID_NOTICE.one(tx, **key))
        low = {"level": "LOW", "number": 1}
        api_server.tx(lambda tx: mail_queries.SET_PREPAID_NOTICE.run(tx, **key, **low))
        letter = {"merchant_id": self.id, "number": 1, "event_id": "evt_1", "reason": "KeyError"}
        api_server.tx(lambda tx: mail_queries.STORE_DEAD_LETTER.run(tx, **letter, now=now))
        key = {"merchant_id": self.id, "number": 1}
        api_server.tx(lambda tx: mail_queries.DELETE_DEAD_LETTER.run(tx, **key))
        assert api_server.tx(lambda tx: mail.list_of_order(tx, self.id, order.id))

    def read_lists_and_check_books(self) -> None:
        """Read lists, totals, exports and statements, and check the merchant's books."""
        shop, api_server = self.shop, self.api_server
        span = f"startDate={self.now - 3 * DAY}&endDate={self.now + 3 * DAY}"
        for with_counts in (False, True):
            if with_counts:
                api_server.run(roll_up(self.app.db, at_least=1))
            for query in (
                "", "&status=PAID", f"&productId={self.product}",
                f"&productId={self.product}&status=PAID",
            ):  # fmt: skip
                for time_range in ("", f"&{span}", f"&startDate={self.now - 1000}"):
                    shop.data("GET", f"/v1/orders?size=5{query}{time_range}")
                    shop.data("GET", f"/v1/orders?size=1&page=9{query}{time_range}")
            for query in ("", "&type=FEE"):
                shop.data("GET", f"/v1/balance/transactions?size=5{query}")
        shop.data("GET", "/v1/balance")
        api_server.tx(lambda tx: ledger.find_balances(tx, [self.id]))
        order = shop.data("GET", "/v1/orders")["items"][0]["id"]
        api_server.tx(lambda tx: orders.history(tx, self.id, order))
        for path in ("/v1/orders/export", f"/v1/orders/export?{span}",
                     "/v1/balance/statement.csv", f"/v1/balance/statement.csv?{span}"):  # fmt: skip
            assert shop.get(path).status_code == 200
        for rule in rules.merchant_rules(self.id):
            api_server.tx(rule.check)
        api_server.run(scheduler.IncrementalCheck(self.app.db).turn(3))
        api_server.run(scheduler.IncrementalCheck(self.app.db).turn(1000))
