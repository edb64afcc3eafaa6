"""A merchant that sells, is paid and gives money back; see ``test_tenant_isolation``."""

import contextlib
from collections.abc import AsyncIterator, Iterator
from functools import partial
from typing import Any, Final, get_args

import msgspec

from db.tenant_examiner import Examiner
from opentill import (
    checkouts,
    disputes,
    gateways,
    ledger,
    orders,
    payment_links,
    products,
    refunds,
)
from opentill.checkouts import jobs as checkout_jobs
from opentill.figures import jobs as figure_jobs
from opentill.gateways.model import Card, GatewayPaymentEvent, PaymentOutcome, RefundOutcome
from opentill.list_counts import FOREVER
from opentill.orders import jobs as order_jobs
from opentill.orders.payments import confirmation, duplicates, outcomes
from opentill.orders.payments import service as payments
from opentill.orders.search import service as order_search
from opentill.orders.search.model import ExportCursor, OrderFilters
from opentill.orders.settlement import service as settlement
from opentill.payment_links import queries as link_queries
from opentill.refunds import jobs as refund_jobs
from support import prepaid, world
from support.api_server import ApiServer, Shop
from support.epay_shop import Inbox
from support.epay_v2_shop import EpayV2Shop
from support.people import TESTER

DAY: Final = 86_400_000


async def _all(rows: AsyncIterator[Any]) -> list[Any]:
    return [row async for row in rows]


class PaidBusiness:
    """A merchant with sessions, payments, refunds and settlements, one method for each area."""

    def __init__(self, api_server: ApiServer, inbox: Inbox, examiner: Examiner) -> None:
        self.api_server = api_server
        self.app = api_server.app
        self.now = api_server.app.clock() // 1000 * 1000
        api_server.app.clock = lambda: self.now
        self.epay_shop = EpayV2Shop(api_server, inbox, reserve_rate=world.Decimal("0.1"))
        self.shop: Shop = self.epay_shop.shop
        self.id = self.shop.id
        examiner.merchant = self.id
        self.shop.create_payout(500_000)
        self.product = self.shop.create_product()["id"]

    def advance(self, by_ms: int = 1000) -> int:
        """Advance the clock; return the new time."""
        self.now += by_ms
        return self.now

    def place_order(self) -> orders.Order:
        """Place an order."""
        order_id = self.shop.create_order(self.product)["id"]
        return self.api_server.tx(lambda tx: orders.find(tx, self.id, order_id))

    def pay_order(self) -> orders.Order:
        """Place an order, and apply the gateway's report of its payment."""
        order = self.place_order()
        return self.api_server.tx(lambda tx: world.pay_order(tx, order, self.now))

    def settle_order(self) -> orders.Order:
        """Place, pay and settle an order."""
        order = self.pay_order()
        return self.api_server.tx(lambda tx: world.settle_order(tx, order, self.now))

    @contextlib.contextmanager
    def unreachable_gateways(self) -> Iterator[Any]:
        """Open gateways whose bank is unreachable."""
        settings = msgspec.structs.replace(
            self.api_server.settings, sandbox_url="http://127.0.0.1:9"
        )
        loaded_gateways = gateways.load(settings.gateways, settings)
        yield loaded_gateways
        for gateway in loaded_gateways.values():
            self.api_server.run(gateway.close())

    def use_products(self) -> None:
        """Create, read, change, list, archive and restore products."""
        shop = self.shop
        shop.data("PATCH", f"/v1/products/{self.product}", json={"name": "Tea, green"})
        archived = shop.create_product()["id"]
        shop.call("DELETE", f"/v1/products/{archived}")
        for path in (f"/v1/products/{archived}", "/v1/products", "/v1/products?status=ARCHIVED"):
            shop.data("GET", path)
        self.api_server.tx(
            lambda tx: products.restore(tx, self.id, archived, self.now, actor=TESTER)
        )
        assert self.api_server.tx(lambda tx: products.has_any(tx, self.id))
        assert self.api_server.tx(lambda tx: products.find_newest_active(tx, self.id))

    def use_sessions(self) -> None:
        """Open, repeat, read and expire checkout sessions; open a gateway test."""
        shop = self.shop
        body = {"productId": self.product}
        session = shop.post("/v1/checkouts", body, key="same").json()["data"]
        shop.post("/v1/checkouts", body, key="same")
        shop.data("GET", f"/v1/checkouts/{session['id']}")
        self.api_server.tx(lambda tx: orders.set_method(tx, self.id, session["id"], "ALIPAY"))
        shop.data("POST", f"/v1/checkouts/{session['id']}/expire")
        order = self.place_order()
        self.api_server.tx(lambda tx: checkouts.check_attempts(tx, self.id, order.id))
        test = self.api_server.tx(
            lambda tx: checkouts.open_gateway_test(
                tx,
                {"sandbox": self.app.gateways["sandbox"]},
                self.id,
                checkouts.GatewayTest(
                    gateway="sandbox", method="CREDIT_CARD", currency="USD", amount="1"
                ),
                TESTER,
                self.now,
                self.app.settings,
            )
        )
        assert self.api_server.tx(lambda tx: checkouts.is_gateway_test(tx, self.id, test.order_id))
        payer = checkouts.PayerInput(
            email="ada@example.com", name="", method="CREDIT_CARD", ip="", locale="en"
        )
        with self.unreachable_gateways() as unreachable:
            pay = partial(checkouts.pay, self.app.db, unreachable, test.id, payer)
            assert self.api_server.run(pay(self.api_server.url, self.now))
        assert self.api_server.tx(lambda tx: checkouts.find_sales(tx, self.id, [self.product]))
        assert self.api_server.tx(lambda tx: orders.find_many(tx, self.id, [order.id]))
        self.api_server.run(checkout_jobs.expire_due(self.app.db, self.now + 2 * DAY))

    def use_payment_links(self) -> None:
        """Sell items, and create, read, change, open and pay a payment link."""
        shop, api_server = self.shop, self.api_server
        item = {"name": "Cart", "price": "5.00", "currency": "USD"}
        body = {"productId": self.product, "paymentMethods": ["CREDIT_CARD"]}
        for item_or_body in ({"item": item}, body):
            shop.data("POST", "/v1/checkouts", json=item_or_body)
        created = shop.data("POST", "/v1/payment-links", json={"productId": self.product})
        path = f"/v1/payment-links/{created['id']}"
        shop.data("PATCH", path, json={"maxUses": 5})
        link = api_server.tx(lambda tx: payment_links.find(tx, self.id, created["id"]))
        selection = payment_links.Selection(visitor="192.0.2.1")
        _, session = (  # the second session counts the first as a use
            api_server.tx(
                lambda tx: payment_links.open_session(
                    tx, self.app.gateways, link, selection, api_server.settings, self.now
                )
            )
            for _ in range(2)
        )
        idle = {"merchant_id": self.id, "payment_link_id": link.id, "before": self.now * 2}
        assert api_server.tx(lambda tx: link_queries.HAS_IDLE.get(tx, **idle))
        assert api_server.tx(lambda tx: link_queries.LOCK_IDLE.get(tx, **idle))
        assert api_server.tx(lambda tx: link_queries.AWAIT_IDLE.get(tx, **idle))
        assert api_server.tx(
            lambda tx: payment_links.find_open_session(tx, link, session.id, self.now)
        )
        assert api_server.tx(lambda tx: products.find_many(tx, self.id, [self.product]))
        shop.confirm(session.order_id)
        assert api_server.tx(
            lambda tx: payment_links.list_newest_paid(tx, self.id, link.id, 5)
        ) == [session.order_id]
        shop.data("GET", path)

    def confirm_payments(self) -> None:
        """Submit, decline, confirm and query attempts; return a duplicate payment."""
        api_server = self.api_server
        order = self.place_order()
        first = api_server.tx(lambda tx: world.submit_attempt(tx, order, self.now))
        api_server.tx(lambda tx: world.report_payment(tx, first, "DECLINED", self.now, reason="no"))
        second = api_server.tx(lambda tx: world.submit_attempt(tx, order, self.advance()))
        api_server.tx(lambda tx: world.report_payment(tx, second, "ACTION_REQUIRED", self.now))
        api_server.tx(
            lambda tx: orders.confirm_manually(tx, self.id, order.id, "op", "seen", self.now)
        )
        self.advance()
        amount = world.Money(order.amount_minor, order.currency)
        api_server.tx(
            lambda tx: world.report_payment(tx, second, "SUCCEEDED", self.now, amount=amount)
        )
        (duplicate,) = (
            attempt
            for attempt in api_server.tx(lambda tx: world.read_attempts(tx, order))
            if attempt.status == "DUPLICATE"
        )
        return_duplicate = partial(duplicates.return_duplicate, self.app.db)
        api_server.run(
            return_duplicate(self.app.gateways, duplicate, api_server.url, self.advance())
        )
        with self.unreachable_gateways() as unreachable:
            api_server.run(return_duplicate(unreachable, duplicate, api_server.url, self.now))
        self._confirm_batch()
        manual = self.place_order()
        api_server.tx(lambda tx: world.submit_attempt(tx, manual, self.now, gateway="manual"))
        self.shop.confirm(manual.id)
        self._query_attempt()

    def pay_directly(self) -> None:
        """Pay through an account of the merchant, and read what that leaves in the balance."""
        api_server = self.api_server
        api_server.tx(lambda tx: prepaid.adjust(tx, self.id, "topup", 10_000))
        for outcome in ("SUCCEEDED", "DECLINED"):
            order = self.place_order()
            attempt = api_server.tx(
                lambda tx, order=order: prepaid.submit_direct(tx, order, self.advance())
            )
            assert attempt is not None
            api_server.tx(
                lambda tx, attempt=attempt, outcome=outcome: world.report_payment(
                    tx, attempt, outcome, self.now
                )
            )
        assert api_server.tx(lambda tx: orders.find_uncounted_since(tx, self.id))
        api_server.run(figure_jobs.count_all(self.app.db))
        assert api_server.tx(lambda tx: ledger.list_newest_of_prepaid(tx, self.id, 5))
        assert api_server.tx(lambda tx: ledger.find_free_prepaid(tx, self.id, "USD"))
        state = api_server.tx(lambda tx: ledger.find_prepaid_state(tx, self.id, "USD", self.now))
        assert state.fees_minor
        assert api_server.tx(
            lambda tx: ledger.find_highest_top_up(tx, self.id, "USD", 0, state.entries)
        )

    def _confirm_batch(self) -> None:
        # No report is about this order, so it stays unpaid.
        self._send_to_gateway(self.place_order())
        reports = [self._report(self.place_order()) for _ in range(2)]
        confirmed = self.api_server.tx(lambda tx: confirmation.confirm_many(tx, reports, self.now))
        assert confirmed == {report.key for report in reports}

    def _send_to_gateway(self, order: orders.Order) -> None:
        payer = orders.Payer(email="ann@example.com", name="Ann", ip="192.0.2.7", locale="en")
        start = partial(
            payments.start_unlocked,
            order=order, gateway="sandbox", method="CREDIT_CARD", payer=payer, now=self.now,
        )  # fmt: skip
        attempt = self.api_server.tx(start)
        assert attempt is not None
        outcome = PaymentOutcome(status="ACTION_REQUIRED", action_url="https://bank.example/1")
        order = payments.after_intent(order)
        accept = partial(
            outcomes.accept, order=order, attempt=attempt, outcome=outcome, now=self.now
        )
        assert self.api_server.tx(accept) is not None

    def _report(self, order: orders.Order) -> confirmation.Report:
        attempt = self.api_server.tx(lambda tx: world.submit_attempt(tx, order, self.now))
        gateway_event = GatewayPaymentEvent(
            attempt_id=attempt.id,
            outcome=PaymentOutcome(status="SUCCEEDED", card=Card(brand="visa", last4="4242")),
        )
        return confirmation.Report(attempt.gateway, gateway_event)

    def _query_attempt(self) -> None:
        order = self.place_order()
        attempt = self.api_server.tx(lambda tx: world.submit_attempt(tx, order, self.now))
        self.api_server.run(
            order_jobs.check_attempts(
                self.app.db, self.app.gateways, self.api_server.url, attempt.check_at or 0
            )
        )
        self.shop.revoke(self.place_order().id)

    def _reverse_duplicate_return(self) -> None:
        """Report that a duplicate payment was sent back, and then that the money came back."""
        order = self.place_order()
        duplicate = self.api_server.tx(lambda tx: world.pay_order_twice(tx, order, self.advance()))
        for status in ("SUCCEEDED", "REFUSED"):
            outcome = RefundOutcome(status=status)
            self.api_server.tx(
                partial(
                    orders.apply_duplicate_return,
                    attempt=duplicate,
                    outcome=outcome,
                    now=self.now,
                )
            )

    def refund_orders(self) -> None:
        """Create, repeat, send, refuse and complete refunds, also of duplicate payments."""
        self._reverse_duplicate_return()
        shop, api_server = self.shop, self.api_server
        order = self.settle_order()
        body = {"amount": "1.00", "refundNo": "R-1", "reason": "late"}
        first = shop.refund(order.id, **body)
        assert shop.refund(order.id, **body)["id"] == first["id"]
        api_server.run(
            refund_jobs.send_due(self.app.db, self.app.gateways, api_server.url, self.advance())
        )
        other = shop.refund(self.pay_order().id, amount="1.00")
        with self.unreachable_gateways() as unreachable:
            api_server.run(
                refund_jobs.send_due(self.app.db, unreachable, api_server.url, self.advance())
            )
        for refund_id, end in ((first["id"], "SUCCEEDED"), (other["id"], "REFUSED")):
            refund = api_server.tx(partial(refunds.find, merchant_id=self.id, refund_id=refund_id))
            if refund.status == "PROCESSING":
                api_server.tx(
                    lambda tx, refund=refund, end=end: world.report_refund(
                        tx, refund, end, self.now
                    )
                )
        remainder = api_server.tx(lambda tx: world.create_refund(tx, order, now=self.advance()))
        failed_order = self.settle_order()
        self.end_refund(failed_order, "REFUSED")
        partly_refunded = self.settle_order()
        self.end_refund(partly_refunded, "SUCCEEDED")
        self.list_by_refunds()
        self.list_by_status_and_method()
        api_server.tx(lambda tx: world.report_refund(tx, remainder, "SUCCEEDED", self.now))
        self.end_refund(failed_order, "SUCCEEDED")  # this handles the refund that failed
        failed = self.end_refund(failed_order, "REFUSED")
        api_server.tx(
            lambda tx: refunds.mark_handled(
                tx, self.id, failed.id, who="op", how="in cash", now=self.now
            )
        )
        shop.data("GET", f"/v1/refunds/{first['id']}")
        shop.data("GET", f"/v1/orders/{order.id}/refunds")

    def end_refund(self, order: orders.Order, status: Any) -> refunds.Refund:
        """Refund a part of an order, and report the end of the refund."""
        refund = self.api_server.tx(
            lambda tx: world.create_refund(tx, order, "1.00", now=self.advance())
        )
        self.api_server.tx(lambda tx: world.report_refund(tx, refund, status, self.now))
        return refund

    def list_by_refunds(self) -> None:
        """List and export orders by the progress of their refunds; count failed refunds."""
        db = self.app.db
        progresses: tuple[orders.RefundProgress, ...] = get_args(orders.RefundProgress)
        choice = orders.ListChoice(shown=progresses)
        rows, _ = self.api_server.run(orders.list_page(db, self.id, orders.OrdersQuery(), choice))
        filters = OrderFilters(merchant_id=self.id, since=0, until=FOREVER, shown=progresses)
        after = order_search.list_after(db, filters, None, ExportCursor(0, ""), 1000)
        assert len(self.api_server.run(after)) == len(rows) > 0
        for progress in progresses:
            assert self.api_server.tx(
                lambda tx, progress=progress: orders.count_by_refunds(tx, self.id, progress)
            )
        cases = self.api_server.tx(lambda tx: disputes.count_waiting(tx, self.id, self.now))
        assert cases.failed_refunds

    def list_by_status_and_method(self) -> None:
        """List and export orders of several statuses, by method and product; count by status."""
        db, order = self.app.db, self.pay_order()
        assert order.payment_method is not None
        for method in (None, order.payment_method):
            for product_id in (None, order.product_id):
                choice = orders.ListChoice(shown=("PAID",), method=method)
                query = orders.OrdersQuery(product_id=product_id)
                rows, _ = self.api_server.run(orders.list_page(db, self.id, query, choice))
                filters = OrderFilters(
                    merchant_id=self.id, since=0, until=FOREVER, shown=choice.shown,
                    method=method, product_id=product_id,
                )  # fmt: skip
                after = order_search.list_after(db, filters, None, ExportCursor(0, ""), 1000)
                exported = self.api_server.run(after)
                assert order.id in {row.id for row in rows} & {row.id for row in exported}
        for method in (None, order.payment_method):
            for fields in ({}, {"product_id": order.product_id}, {"start_date": 1}):
                query, choice = orders.OrdersQuery(**fields), orders.ListChoice(method=method)
                counted = self.api_server.run(orders.list_counted(db, self.id, query, choice))
                assert counted.counts is not None
                assert counted.counts["PAID"] > 0

    def settle_orders(self) -> None:
        """Add a note, settle one order and all due ones, and release reserves."""
        api_server = self.api_server
        first, due = self.pay_order(), self.pay_order()
        api_server.tx(lambda tx: orders.add_note(tx, self.id, first.id, "rang", "op", self.now))
        api_server.tx(lambda tx: orders.notes_of(tx, first))
        api_server.tx(lambda tx: orders.settle_one(tx, self.id, first.id, self.now, "early"))
        due_at = (due.due_at or 0) + 1
        api_server.tx(
            lambda tx: _all(settlement.preview_settlements(tx, due_at, self.id, None, early=False))
        )
        api_server.tx(lambda tx: settlement.settle_batch(tx, self.id, due_at))
        api_server.run(settlement.settle_due(self.app.db, due_at, self.id))
        api_server.run(settlement.release_reserves(self.app.db, due_at + 400 * DAY))
