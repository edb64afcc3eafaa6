"""No statement reads or changes another merchant's rows, even if they have the same ids.

One merchant uses every feature, through the API, the Epay API, the worker's jobs and the operator's
functions. Meanwhile ``db.tenant_examiner`` runs each statement again beside merchants with the same
ids. A statement on merchants' rows that was not run fails the test, unless ``EXPLAINED`` has it.
"""

import asyncio
import contextlib
from collections.abc import AsyncIterator, Iterator
from datetime import UTC
from functools import partial
from typing import Any, Final, get_args

import msgspec
import pytest

from db.tenant_examiner import NAMES, Examiner
from opentill import (
    adjustments,
    checkouts,
    disputes,
    epay,
    figures,
    gateways,
    ledger,
    mail,
    merchants,
    onboarding,
    orders,
    payment_links,
    payouts,
    products,
    refunds,
    webhooks,
)
from opentill.checkouts import jobs as checkout_jobs
from opentill.db.database import Tx
from opentill.db.query import Value
from opentill.disputes import jobs as dispute_jobs
from opentill.epay import credentials, notices
from opentill.figures import dispute_rates
from opentill.figures import jobs as figure_jobs
from opentill.gateways.model import Card, GatewayPaymentEvent, PaymentOutcome, RefundOutcome
from opentill.http import ignored_log, refused
from opentill.integrity import rules, scheduler
from opentill.list_counts import FOREVER
from opentill.list_counts.jobs import roll_up
from opentill.list_counts.queries import Lists
from opentill.mail import jobs
from opentill.mail import queries as mail_queries
from opentill.orders import jobs as order_jobs
from opentill.orders.payments import confirmation, duplicates, outcomes
from opentill.orders.payments import service as payments
from opentill.orders.search import jobs as indexing
from opentill.orders.search import service as order_search
from opentill.orders.search.model import ExportCursor, OrderFilters
from opentill.orders.settlement import service as settlement
from opentill.payment_links import queries as link_queries
from opentill.refunds import jobs as refund_jobs
from opentill.webhooks import catchup
from opentill.webhooks.dispatch import Dispatcher
from support import epay_numbers, world
from support.api_server import ApiServer, Shop
from support.epay_shop import EpayShop, Inbox
from support.people import TESTER
from support.pictures import PICTURE
from support.statements import EVERYWHERE, LISTS
from support.webhook_harness import wait_until

HAS_ATTEMPT: Final = "select exists (select from delivery_attempts where merchant_id = $1)"
DAY: Final = 86_400_000


# Prefixes of statements that this test does not require.
EXCLUDED: Final = (
    "integrity.queries.",
    "ledger.queries.RULES",
    "ledger.queries.UNKNOWN",
)
# Statements that this test need not run. The comments say why, or which tests run them.
EXPLAINED: Final = frozenset(
    f"{feature}.{name}"
    for feature, names in {
        # these read rows of all merchants, or one row by an id that is unique over all merchants
        "checkouts.queries": "BY_PUBLIC_ID DUE COUNT_DUE GATEWAY_TESTS",
        "disputes.queries": "ANYWHERE SEARCH OF_ALL UNFORWARDED CHANGE_REFUSAL",
        "payment_links.queries": "BY_SLUG ANYWHERE SEARCH NOTE_ENDED",
        "adjustments.queries": "ANYWHERE",
        # these run in tests/payouts, tests/db/test_row_locks.py and tests/console/test_books.py
        "payouts.queries": "ANYWHERE LOCK_AVAILABLE BY_REFERENCE RETURNED",
        "reconciliation.queries": "BETWEEN NAMED ADD_DIFFERENCES SUMS_OF_PAYOUTS ADD_BOOKING",
        # this runs in tests/reconciliation/test_period.py
        "reconciliation.queries ": "ADD_EARLY",
        # these read rows of all merchants, which tests/payouts/test_returned_accounts.py tests
        "payouts.queries   ": "HELD_SINCE CONFIRM_ACCOUNT",
        # these process a run with payouts of many merchants, which tests/payouts/test_runs.py tests
        "payouts.queries  ": "NEXT_DUE_MERCHANTS PUT_IN_FILE SUMS_OF_RUNS IN_RUN TRANSFERS"
        " ADD_TRANSFER IS_IN_RUN ACCOUNT ADD_ACCOUNT REQUEST_ANYWHERE WAITING_OF_RUN RUN_EXCEEDS"
        " MOVED_BY_RUN ACCOUNTS_OF_PAYOUTS",
        # these run in tests/approvals; all but the search by an id are limited to a merchant
        "approvals.queries": "ANYWHERE WAITING WAITING_OF_SUBJECT INSERT BY_ID DECIDE DECIDED",
        # these read rows of all merchants, which tests/ledger/test_general.py tests
        "ledger.queries ": "BALANCES_AT MERCHANTS_AFTER",
        "list_counts.queries": "CHANGED",
        "figures.queries": "BEHIND BEHIND_OF",
        # the worker runs these for all or several merchants, which tests/mail tests
        "mail.queries": "ANYWHERE NEWEST CLAIM EXPIRE_LEASES GIVE_UP PRUNE UNREAD_MERCHANTS"
        " AUDIT_ENTRIES NEW_LOGINS DIGEST_MERCHANTS"
        " DEAD_LETTERS PRUNE_DEAD_LETTERS DEAD_LETTERS_AFTER"
        " SKIP_UNREAD NEAR_DEADLINES"
        " QUEUE HEAD LOCK_HEAD HAS_CAUSE",  # the last four return 0 or no row here
        "people.queries  ": "INSERT_LOGIN LOGIN LOGIN_BY_ID LOGIN_OF_API LOCK_REFRESHED LOGINS",
        # long lists use these for pages after the thousandth, read from the oldest row
        "checkouts.queries  ": " ".join(
            f"PAGES{filters}{index}"
            for filters in (
                "",
                "_BY_PRODUCT_ID",
                "_BY_STATUS_BY_LATE",
                "_BY_STATUS_BY_LATE_BY_PRODUCT_ID",
            )
            for index in (1, 2)
        ),
        # these look for a person's rows at any merchant: tests/approvals,
        # tests/dashboard/test_team.py
        "merchants.queries      ": "SOLO_SUMS RECORD_SOLO_MOVEMENTS KEYS_MADE_BY",
        # these process rows of several merchants at once: tests/dashboard/test_requests.py
        "http.queries": "PRUNE INSERT_REFUSED TRIM_REFUSED PRUNE_REFUSED"
        " UPSERT_IGNORED TRIM_IGNORED PRUNE_IGNORED",
        "products.queries": "MERCHANT_OF",
        # commands run these: tests/cli/test_accounting.py
        "ledger.queries": "OVERDUE TRIAL_BALANCE",
        "figures.queries ": "PAID_BY_MERCHANT RANGE_SUMS",
        # staff run these: tests/console
        "figures.brand_queries": "DIFFER RECOUNT DISPUTES_OF_ALL PAYMENTS_OF_ALL",
        "figures.gateway_queries": "DIFFER RECOUNT",
        "ledger.queries   ": "VIOLATED PASSES CHECKS",
        "orders.payments.queries ": "LAST_REFUSED LAST_PAID",
        "epay.queries  ": "FAILED_NOTICES PAID_TWICE",
        "merchants.queries  ": "SEARCH_AUDIT",
        "people.queries   ": "STAFF_INVITATIONS WITHDRAW_OF_STAFF",
        "payouts.queries ": "DUE REQUESTS_DECIDED",
        "adjustments.queries  ": "DECIDED RECHARGES",
        # these are about applicants, who have no rows yet: tests/merchants/test_standing.py
        "merchants.queries   ": "INSERT_APPLICATION APPLICATION COUNT_APPLIED APPLIED_BY WAITING"
        " APPLIED_FROM WAITS_FROM",
        # this runs in tests/cli/test_orders.py
        "merchants.queries ": "OF_KEY",
        # the number of matches decides which of these runs: tests/orders/search/test_search.py
        "orders.search.queries": "WAITING BY_TERM1 BY_TERM3 BY_TERM4 BY_TERM_AND_MORE1"
        " BY_TERM_AND_MORE4 BY_COLUMNS_BY_PRODUCT_ID0 BY_COLUMNS_BY_PRODUCT_ID1"
        " BY_COLUMNS_BY_PRODUCT_ID2 BY_COLUMNS_BY_PRODUCT_ID3 BY_COLUMNS_BY_PRODUCT_ID4"
        " BY_COLUMNS_BY_STATUS4 BY_COLUMNS_BY_STATUS_BY_PRODUCT_ID0"
        " BY_COLUMNS_BY_STATUS_BY_PRODUCT_ID1 BY_COLUMNS_BY_STATUS_BY_PRODUCT_ID3"
        " BY_COLUMNS_BY_STATUS_BY_PRODUCT_ID4 "
        + " ".join(
            f"BY_SHOWN_BY_SHOWN{columns}{number}"
            for columns in ("", "_BY_PRODUCT_ID", "_BY_METHOD", "_BY_PRODUCT_ID_BY_METHOD")
            for number in (1, 3, 4)
        ),
        # these read parts of hours: tests/orders/search/test_search.py
        "orders.search.shown_queries": "EXCEPTIONS STATUSES",
        "merchants.queries": "INSERT_KEY REVOKE_KEY AUTHENTICATE_LIMITED AUTHENTICATE"
        " INSERT_AUDIT AUDIT_CHAIN NEWEST_AUDIT",
        # this is about a closed merchant: tests/onboarding
        "merchants.queries    ": "CLOSED_AT",
        "webhooks.queries": "ANYWHERE SEARCH PRUNE_ATTEMPTS PRUNE_DELIVERIES PRUNE_ENDPOINTS"
        " PRUNE_EVENTS DISABLE",
        "webhooks.dispatch_queries": "OLDEST",
        # this deletes the oldest of many attempts: tests/webhooks/test_dispatch.py
        "webhooks.dispatch_queries ": "FORGET_ATTEMPTS",
        # lists of thousands of rows use these: tests/webhooks/test_delivery_log.py, test_catchup.py
        "webhooks.queries ": "DELIVERIES_SCANNED_TO EVENTS_SCANNED_TO",
        "webhooks.catchup_queries": "EVENTS_READ_TO",
        "refunds.queries": "ANYWHERE GATEWAYS_DUE",
        # staff and processes read the accounts of all merchants, which tests/gateways tests
        "gateways.rules.queries": "INSERT",
        "gateways.accounts.queries": "STORED LIST BY_ID STORED_BY_ID IDS_OF INSERT",
        # these return 0 here
        "adjustments.queries ": "FROZEN",
        "checkouts.queries ": "ATTEMPTS",
        # Epay is set up with these before the merchant has rows: tests/epay/test_placing_orders.py
        "epay.queries": "MERCHANT_OF_PID LIST_PID INSERT ALL SET_TYPE",
        # these are for repeated requests, and for pruning: tests/epay/test_refunds.py
        "epay.queries ": "REFUND_OF_REQUEST PRUNE_REQUESTS",
        # false here, because nobody pays the number: tests/epay/test_numbers_again.py
        "epay.queries   ": "IS_BEING_PAID",
        # no account has a day limit here: tests/gateways/test_day_limits.py
        "orders.payments.queries    ": "RELEASE_LIMIT COUNT_AGAIN",
        "orders.transition_queries  ": "SUBMITTED_WITHIN_LIMIT",
        # this queries a gateway before it is due: tests/gateways/test_query_frequency.py
        "orders.payments.queries  ": "QUERY_SOON",
        # these are about members; tests/portal/test_permissions.py tests each role
        "people.queries": "MEMBERS MEMBER SET_ROLE WITHDRAW ALL_MEMBERS SET_MEMBER REMOVE_MEMBER"
        " OTHER_OWNERS WORKPLACES NOTE_VISIT INSERT_LINK LINK USE_LINK OPEN_RESET INVITATIONS",
        # these run in tests/agreement/test_acceptance.py
        "agreement.queries": "INSERT ACCEPTED ANY ALL",
        # commands run this: tests/cli/test_rates.py
        "rates.queries": "MISSING",
        # long exports use this: tests/orders/export/test_export.py
        "orders.export.queries": "EXPORT_EDGES AFTER",
        # these store a card that is reported after its payment: tests/orders/test_cards.py
        "orders.queries   ": "STORE_CARD REINDEX",
        # this marks a batch of any merchant: tests/orders/search/test_search.py
        "orders.search.queries ": "INDEX_AGAIN",
        # these are over all merchants: tests/console/test_search.py and test_payments.py
        "orders.search.across_merchants_queries": "NEWEST_OF_PLACES PENDING_OF_ALL"
        " OF_REFS NEWEST_OF_ALL "
        + " ".join(f"NEWEST_OF_ALL_BY_SHOWN_BY_{shown}0" for shown in orders.SHOWN_STATUSES),
        "payouts.queries    ": "OF_REFERENCE",
        # these are over all merchants: tests/console/test_payouts.py
        "payouts.overview_queries": "OF_ALL OF_AMOUNTS RUNS_OF_PAYOUTS",
        # this reads orders of many merchants by both ids: tests/console/test_disputes.py
        "orders.customers.queries": "OF_ORDERS",
        "products.queries ": "SEARCH_ALL",
        "merchants.queries        ": "ALL_NAMES",
        # this is for payments in a batch: tests/orders/payments/test_confirmation.py
        "orders.payments.queries": "ATTEMPTS_OF_GATEWAYS",
        # these run in tests/pages and tests/ledger
        "orders.queries": "MERCHANT_OF ANYWHERE FORGOTTEN OLD_HISTORY PRUNE_HISTORY LAST_ATTEMPT",
        "orders.settlement.queries": "DUE_MERCHANTS",
        "orders.payments.queries   ": "UNCOUNTED_MERCHANTS QUERY_NOW SCHEDULE_CHECK SET_CUSTOMER",
        # these find errors in the books: tests/ledger/test_incremental.py
        "ledger.incremental_queries": "NEXT WRONG UNKNOWN",
    }.items()
    for feature, names in [(feature.strip(), names)]
    for name in names.split()
)
REQUIRED: Final = [
    name
    for name, statement in EVERYWHERE.items()
    if "merchant_id" in statement.sql and name not in EXPLAINED and not name.startswith(EXCLUDED)
]


async def _all(rows: AsyncIterator[Any]) -> list[Any]:
    return [row async for row in rows]


class Business:
    """A merchant that uses every feature, one method for each area."""

    def __init__(self, api_server: ApiServer, inbox: Inbox, examiner: Examiner) -> None:
        self.api_server = api_server
        self.app = api_server.app
        self.now = api_server.app.clock() // 1000 * 1000
        api_server.app.clock = lambda: self.now
        self.epay_shop = EpayShop(api_server, inbox, reserve_rate=world.Decimal("0.1"))
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

    # ── one method for each area of the product ──

    def use_products(self) -> None:
        """Create, read, change, list and archive products."""
        shop = self.shop
        shop.data("PATCH", f"/v1/products/{self.product}", json={"name": "Tea, green"})
        archived = shop.create_product()["id"]
        shop.call("DELETE", f"/v1/products/{archived}")
        for path in (f"/v1/products/{archived}", "/v1/products", "/v1/products?status=ARCHIVED"):
            shop.data("GET", path)
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
        assert self.api_server.tx(lambda tx: refunds.count_failed(tx, self.id))

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
        counts = self.api_server.tx(lambda tx: orders.count_by_status(tx, self.id))
        assert counts["PAID"] > 0
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

    def dispute_orders(self) -> None:
        """Open, annotate, win, lose and recover disputes; match and dismiss unmatched reports."""
        api_server = self.api_server
        order, other = self.settle_order(), self.settle_order()
        dispute = self.shop.open_dispute(order.id)
        api_server.tx(
            lambda tx: disputes.add_note(tx, self.id, dispute.id, "letter", "op", self.now)
        )
        assert api_server.tx(lambda tx: disputes.find_order_ids(tx, self.id, [dispute.id]))
        api_server.tx(lambda tx: disputes.list_notes(tx, dispute))
        actor = merchants.Actor("op", "letter")
        for content in (b"%PDF-1 one %%EOF", b"%PDF-1 two %%EOF", b"%PDF-1 two %%EOF"):
            api_server.run(
                disputes.add_evidence(
                    self.app.db,
                    self.id,
                    dispute.id,
                    "a.pdf",
                    content,
                    actor=actor,
                    now=self.advance(),
                )
            )
        (evidence, removed) = api_server.tx(lambda tx: disputes.list_evidence(tx, dispute))
        api_server.tx(
            lambda tx: disputes.remove_evidence(
                tx, self.id, dispute.id, removed.id, actor=actor, now=self.now
            )
        )
        api_server.tx(lambda tx: disputes.read_evidence(tx, self.id, evidence.id))
        api_server.tx(lambda tx: disputes.set_deadline(tx, self.id, dispute.id, DAY, self.now))
        api_server.tx(
            lambda tx: disputes.respond(
                tx, self.id, dispute.id, "CONTESTED", who="op", now=self.now
            )
        )
        for status in (None, "OPEN", "TO_RESPOND", "UNDER_REVIEW"):
            page = disputes.page(self.app.db, self.id, status, (0, FOREVER), 1, 50)
            api_server.run(page)
        api_server.tx(lambda tx: disputes.sum_at_stake(tx, self.id))
        file = disputes.export_csv(self.app.db, self.id, None, (0, FOREVER), UTC)
        assert api_server.run(self._length(file))
        for event in ("lost", "recovered"):
            api_server.tx(
                lambda tx, event=event: disputes.decide(
                    tx, self.id, dispute.id, event, who="op", reason="bank", now=self.now
                )
            )
        api_server.tx(lambda tx: ledger.list_entries_of(tx, self.id, "dispute", dispute.id))
        api_server.tx(lambda tx: world.report_dispute(tx, other, "OPENED", self.now, ref="D-1"))
        api_server.tx(lambda tx: world.report_dispute(tx, other, "OPENED", self.now, ref="D-2"))
        api_server.tx(lambda tx: disputes.list_unmatched(tx, self.id))
        api_server.tx(lambda tx: world.report_dispute(tx, other, "WON", self.advance(), ref="D-1"))
        api_server.run(dispute_jobs.match(self.app.db, self.advance(120_000)))
        api_server.tx(lambda tx: world.report_dispute(tx, other, "OPENED", self.now, ref="D-3"))
        (unmatched, *_) = api_server.tx(lambda tx: disputes.list_unmatched(tx, self.id))
        api_server.tx(
            lambda tx: disputes.dismiss(
                tx, self.id, unmatched.gateway, unmatched.gateway_ref, "op", self.now
            )
        )
        api_server.tx(lambda tx: disputes.summarize_unanswered(tx, self.id, self.now))
        self.refund_at_the_provider()
        for path in ("/v1/disputes", f"/v1/disputes/{dispute.id}"):
            self.shop.data("GET", path)

    def read_contents(self, payout_id: str) -> None:
        """Read what a payout contains."""

        async def read(tx: Tx) -> figures.PayoutContents:
            contents = await figures.find_payout_contents(tx, self.id, payout_id)
            assert contents is not None
            assert await figures.list_payout_items(tx, self.id, contents, 1, 50)
            return contents

        async def read_all(contents: figures.PayoutContents) -> int:
            items = figures.all_payout_items(self.app.db, self.id, contents)
            return len([item async for item in items])

        assert self.api_server.run(read_all(self.api_server.tx(read)))

    def refund_at_the_provider(self) -> None:
        """Report refunds that were made at the provider, reversed, or fit no order."""
        api_server = self.api_server
        paid = self.shop.create_paid_order()
        order = api_server.tx(lambda tx: orders.find(tx, self.id, paid["id"]))
        for number, minor in enumerate((100, 10**6)):
            for status in ("SUCCEEDED", "SUCCEEDED", "REFUSED") if not number else ("SUCCEEDED",):
                api_server.tx(
                    lambda tx, status=status, minor=minor, number=number: world.report_refund_event(
                        tx, order, status, self.now, minor=minor, ref=f"rf_{number}"
                    )
                )
        api_server.tx(
            lambda tx: world.report_refund_event(tx, order, "SUCCEEDED", self.now, ref="rf_2")
        )
        # The order is refunded now, which changes the reason why the refund is unmatched.
        api_server.tx(
            lambda tx: world.report_refund_event(
                tx, order, "SUCCEEDED", self.now, minor=10**6, ref="rf_1"
            )
        )
        api_server.run(refund_jobs.match(self.app.db, self.advance(120_000)))
        (case, *_) = api_server.tx(lambda tx: refunds.list_open(tx, self.id))
        api_server.tx(
            lambda tx: refunds.dismiss(tx, self.id, case.gateway, case.gateway_ref, "op", self.now)
        )

    def run_the_operators_functions(self) -> None:
        """Create and decide payouts and adjustments; change terms, keys and the profile."""
        api_server = self.api_server
        for end in ("paid", "failed"):
            payout = self.shop.create_payout()
            if end == "paid":
                api_server.tx(
                    lambda tx, p=payout: payouts.pay(tx, p.id, "B1", "sent", "op", self.now)
                )
            else:
                api_server.tx(lambda tx, p=payout: payouts.fail(tx, p.id, "closed", "op", self.now))
        self.shop.create_payout()
        for path in ("/v1/payouts", "/v1/payouts?status=PAID", f"/v1/payouts/{payout.id}"):
            self.shop.data("GET", path)
        self.read_contents(payout.id)
        api_server.tx(lambda tx: payouts.search(tx, self.id, "PAID"))
        api_server.tx(lambda tx: payouts.failed_since(tx, self.id, 0))
        for is_approved in (True, False):
            payout_request = payouts.PayoutRequest(
                amount_minor=1, reference=world.new_reference(), reason="why", by="tester"
            )
            create_request = partial(
                payouts.request, merchant_id=self.id, requested=payout_request,
                above=world.Decimal(0), now=self.now,
            )  # fmt: skip
            waiting = api_server.tx(create_request)
            assert api_server.tx(create_request).id == waiting.id
            if is_approved:
                api_server.tx(partial(payouts.approve, request_id=waiting.id, by="b", now=self.now))
            else:
                actor = merchants.Actor("b", "no")
                api_server.tx(
                    partial(payouts.reject, request_id=waiting.id, actor=actor, now=self.now)
                )
        adjustment_request = partial(
            adjustments.AdjustmentRequest, amount_minor=50, reason="why", by="tester"
        )
        limits: dict[adjustments.Kind, int | None]
        limits = {"freeze": None, "unfreeze": None, "recharge": 0, "fee": 0}
        for kind, limit in limits.items():
            requested = adjustment_request(kind=kind, reference=world.new_reference())
            above = None if limit is None else world.Decimal(limit)
            adjustment, repeated = (
                api_server.tx(
                    lambda tx, r=requested, a=above: adjustments.request(
                        tx, self.id, r, a, self.now
                    )
                )
                for _ in range(2)
            )
            assert repeated.id == adjustment.id
            if adjustment.status == "WAITING":
                api_server.tx(lambda tx: adjustments.list_waiting(tx, self.id))
                api_server.tx(
                    lambda tx, m=adjustment: adjustments.approve(tx, m.id, "second", self.now)
                )
        correction = adjustment_request(
            kind="correct", reference=world.new_reference(), order_id=self.pay_order().id
        )
        api_server.tx(lambda tx: adjustments.request(tx, self.id, correction, None, self.now))
        api_server.tx(
            lambda tx: merchants.change(tx, self.id, self.now, who="op", reason="x", name="N")
        )
        api_server.tx(
            lambda tx: merchants.change(
                tx, self.id, self.now, who="op", reason="x", overdraft_minor=5
            )
        )
        for logo in (PICTURE, None):
            api_server.tx(partial(self._profile, logo=logo))
        self.change_status()
        api_server.tx(lambda tx: merchants.history(tx, self.id))
        key = api_server.tx(lambda tx: merchants.create_key(tx, self.id, "production", self.now))
        api_server.tx(lambda tx: merchants.rename_key(tx, self.id, key.id, "Till", self.now))
        api_server.tx(lambda tx: merchants.keys(tx, self.id))
        self.shop.get("/v1/nothing")
        api_server.run(api_server._server.state.refused.write(self.app.db))
        assert api_server.tx(lambda tx: refused.newest(tx, self.id, self.now))
        self.shop.data("PATCH", f"/v1/products/{self.product}", json={"sku": "1"})
        api_server.run(api_server._server.state.accepted.write(self.app.db))
        assert api_server.tx(lambda tx: ignored_log.newest(tx, self.id, self.now))

    def change_status(self) -> None:
        """Suspend and resume the merchant, switch a capability, add a note, find blockers."""
        actor, tx = merchants.Actor("op", "x"), self.api_server.tx
        for event in ("suspended", "resumed"):
            tx(
                partial(
                    merchants.change_status,
                    merchant_id=self.id,
                    event=event,
                    actor=actor,
                    now=self.now,
                )
            )
        for on in (False, True):
            switch = partial(merchants.set_capability, merchant_id=self.id, capability="refund")
            tx(partial(switch, on=on, actor=actor, now=self.now))
        tx(lambda tx: merchants.add_note(tx, self.id, "called", actor, self.now))
        tx(lambda tx: merchants.status_history(tx, self.id))
        tx(lambda tx: merchants.closed_at(tx, self.id))
        merchant = tx(lambda tx: merchants.find(tx, self.id))
        assert tx(lambda tx: onboarding.unfinished(tx, merchant)).blockers

    async def _profile(self, tx: Tx, logo: bytes | None) -> None:
        """Change the profile, and set the logo or remove it."""
        actor = merchants.Actor("op", "x")
        changes = {"display_name": "N", "legal_name": "L"} if logo else {"display_name": None}
        await merchants.change_profile(tx, self.id, changes, self.now, actor=actor)
        assert (await merchants.seller_at(tx, self.id, self.now)).legal_name == "L"
        digest = (await merchants.find(tx, self.id)).logo_sha256 or ""
        if logo is None:
            await merchants.remove_logo(tx, self.id, self.now, actor=actor, seen=digest)
        else:
            await merchants.set_logo(tx, self.id, logo, self.now, actor=actor, seen=digest)
            digest = (await merchants.find(tx, self.id)).logo_sha256 or ""
            assert (await merchants.find_logo(tx, self.id, digest)).content == logo

    def count_figures(self) -> None:
        """Read figures before and after paid orders and declined attempts are counted."""
        for _ in range(2):
            self.pay_order()
            order = self.place_order()
            attempt = self.api_server.tx(
                lambda tx, order=order: world.submit_attempt(tx, order, self.now)
            )
            self.api_server.tx(
                lambda tx, attempt=attempt: world.report_payment(tx, attempt, "DECLINED", self.now)
            )
            self.api_server.run(figures.read(self.app.db, self.id, UTC, self.now))
            self.api_server.tx(lambda tx: orders.list_newest(tx, self.id, 10))
            self.api_server.run(figure_jobs.count_all(self.app.db))
            self.api_server.run(figures.read(self.app.db, self.id, UTC, self.advance()))
        month = dispute_rates.month_of(self.now)
        assert self.api_server.run(figures.read_rates(self.app.db, self.id, month, month))

    def read_payment_page(self) -> None:
        """Read the data of the dashboard's page of a payment."""
        self.shop.create_endpoint(url=self.epay_shop.inbox.url)
        order = self.settle_order()
        self.shop.open_dispute(order.id)
        adjustment = adjustments.AdjustmentRequest(
            kind="correct", amount_minor=5, reason="why", by="tester",
            reference=world.new_reference(), order_id=order.id,
        )  # fmt: skip
        causes: list[tuple[ledger.Cause, str]] = [("order", order.id), ("refund", "re_none")]

        async def read(tx: Tx) -> None:
            await adjustments.request(tx, self.id, adjustment, None, self.now)
            assert await adjustments.list_of_order(tx, self.id, order.id)
            assert await adjustments.list_newest(tx, self.id, 20)
            assert await ledger.find_entries(tx, self.id, causes)
            assert await disputes.list_for_order(tx, self.id, order.id)
            times = [row.at for row in await orders.history(tx, self.id, order.id)]
            events = await webhooks.find_order_events(tx, self.id, order.id, times, movable=True)
            assert await webhooks.find_deliveries_of(tx, self.id, [event.id for event in events])

        self.api_server.tx(read)

    def _pay_number_twice(self) -> None:
        """Pay an Epay number by its second order, and then by its first."""
        first = self.epay_shop.place_order(out_trade_no="N-3", type="creditcard")
        attempt = epay_numbers.start_attempt(self.epay_shop, first)
        declined = PaymentOutcome(status="DECLINED")
        self._apply(attempt, declined)
        session_id = first["payurl"].rpartition("/")[2]
        self.api_server.tx(lambda tx: checkouts.expire(tx, self.id, session_id, "test", self.now))
        self.epay_shop.pay(self.epay_shop.place_order(out_trade_no="N-3", type="creditcard"))
        outcome = PaymentOutcome(status="SUCCEEDED")
        gateway_event = GatewayPaymentEvent(attempt_id=attempt.id, outcome=outcome)
        report = orders.Report("sandbox", gateway_event)
        self.api_server.tx(lambda tx: confirmation.confirm_many(tx, [report], self.now))
        self._apply(attempt, outcome)

    def _apply(self, attempt: orders.PaymentAttempt, outcome: PaymentOutcome) -> None:
        self.api_server.tx(
            lambda tx: orders.apply_outcome(
                tx, self.id, attempt.id, outcome, self.now, gateway="sandbox"
            )
        )

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
        api_server.tx(lambda tx: credentials.disable(tx, self.id, self.now))
        api_server.tx(lambda tx: epay.enable(tx, api_server.settings, self.id, self.now))

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
        assert await disputes.count_by_state(tx, self.id, (0, FOREVER))

    def search_orders(self) -> None:
        """Search orders by every term, before and after they are indexed; filter sessions."""
        shop, api_server = self.shop, self.api_server
        order = self.place_order()
        disputed = self.settle_order()
        shop.open_dispute(disputed.id)
        api_server.tx(lambda tx: self._read_rows_of_payments(tx, disputed.id))
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
            api_server.tx(lambda tx: orders.recent_customers(tx, self.id, 20))
            own_payouts = payouts.PayoutFilter(merchant_id=self.id)
            assert api_server.tx(partial(payouts.search_all, criteria=own_payouts, limit=5))
            for search in (products.search, payment_links.list_matching, payouts.list_matching):
                assert api_server.tx(lambda tx, search=search: search(tx, self.id, ""))
            api_server.run(orders.find_customers(self.app.db, self.id, "ann@"))
            api_server.run(orders.sums_of_customer(self.app.db, self.id, "ann@example.com"))
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

    async def _length(self, file: AsyncIterator[bytes]) -> int:
        return sum([len(chunk) async for chunk in file])

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


def test_no_statement_reads_or_changes_another_merchants_rows_with_the_same_ids(
    examined: tuple[ApiServer, Examiner], inbox: Inbox
) -> None:
    api_server, examiner = examined
    with examiner.examining():
        business = Business(api_server, inbox, examiner)
        business.use_products()
        business.use_sessions()
        business.use_payment_links()
        business.confirm_payments()
        business.send_events()
        business.refund_orders()
        business.settle_orders()
        business.dispute_orders()
        business.read_payment_page()
        business.run_the_operators_functions()
        business.count_figures()
        business.send_mail()
        business.use_epay()
        business.read_lists_and_check_books()
        business.read_balance_pages()
        business.search_orders()
        business.filter_lists()
    assert not examiner.problems, "\n".join(examiner.problems)
    missing = [name for name in REQUIRED if name not in examiner.examined]
    assert not missing, " ".join(missing)


def test_a_statement_without_a_condition_on_the_merchant_is_reported(
    examined: tuple[ApiServer, Examiner], inbox: Inbox, monkeypatch: pytest.MonkeyPatch
) -> None:
    api_server, _ = examined
    leak = Value(
        int, "select count(*) from products where merchant_id = :merchant_id or name <> ''"
    )
    monkeypatch.setitem(NAMES, id(leak), "planted.LEAK")
    examiner = Examiner(str(api_server.settings.database_url))
    with examiner.examining():
        business = Business(api_server, inbox, examiner)
        business.use_products()
        assert not examiner.problems
        api_server.tx(lambda tx: leak.get(tx, merchant_id=business.id))
    assert any(line.startswith("planted.LEAK") for line in examiner.problems)
