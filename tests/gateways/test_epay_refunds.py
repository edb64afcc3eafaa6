"""Refunds and notifications of the Epay gateway, with the worker, callbacks and the operator."""

import asyncio
import itertools
from collections.abc import AsyncIterator, Callable
from decimal import Decimal
from pathlib import Path
from typing import Final

import httpx2
import pytest
import pytest_asyncio
from starlette.applications import Starlette

from opentill import app, checkouts, merchants, orders, rates, refunds
from opentill.checkouts.model import SessionBody
from opentill.core.settings import Settings
from opentill.db.clock import now_ms
from opentill.orders import jobs as order_jobs
from opentill.products import service as products
from opentill.products.model import ProductBody
from opentill.refunds import jobs
from opentill.refunds.model import RefundBody
from support import epay_gateway_server
from support.api_server import SECRETS
from support.books import ledger_violations
from support.commands import Commands, ForkServer
from support.databases import cloned_database
from support.epay_gateway_server import KEY, PID, EpayServer
from support.page_server import serving
from support.pooler import POOLED
from support.ports import free_socket, url_of

pytestmark = pytest.mark.asyncio(loop_scope="module")

HOUR_MS: Final = 3_600_000
_hours: Final = itertools.count(1)


class EpayDeployment:
    """A server whose only gateway is an Epay server; tests run the worker's jobs."""

    def __init__(self, server: Starlette, upstream: EpayServer) -> None:
        self.app = server.state.app
        self.db = self.app.db
        self.upstream = upstream
        self.url = server.state.settings.public_url
        self.merchant_id = ""

    async def open_session(self) -> checkouts.Session:
        """Open a session over 9.99 CNY."""
        if not self.merchant_id:
            merchant = await self.db.run(
                lambda tx: merchants.create(tx, name="Tea", settlement_currency="CNY", now=now_ms())
            )
            self.merchant_id = merchant.id
        body = ProductBody(name="Tea", price="9.99", currency="CNY")
        product = await self.db.run(
            lambda tx: products.create(tx, self.merchant_id, body, now_ms())
        )
        session_body = SessionBody(product_id=product.id)
        session: checkouts.Session = await self.db.run(
            lambda tx: checkouts.open_session(tx, self.merchant_id, session_body, now_ms())
        )
        return session

    async def start_payment(
        self, session: checkouts.Session, method: str = "ALIPAY"
    ) -> orders.PaymentAttempt:
        """Start a payment as the payment page does."""
        payer = checkouts.PayerInput(
            email="ada@example.com", name="", method=method, ip="203.0.113.7", locale="zh"
        )
        attempt = await checkouts.pay(
            self.db, self.app.gateways, session.id, payer, self.url, now_ms()
        )
        assert attempt is not None
        return attempt

    async def send_notification(
        self, notification: dict[str, str], method: str = "GET"
    ) -> httpx2.Response:
        """Send a notification as an Epay server does."""
        async with httpx2.AsyncClient(trust_env=False) as client:
            callback_url = f"{self.url}/gateways/epay/callback"
            if method == "GET":
                return await client.get(callback_url, params=notification)
            return await client.post(callback_url, data=notification)

    async def pay_order(self) -> orders.Order:
        """Create an order and pay it; return it after its notification."""
        session = await self.open_session()
        attempt = await self.start_payment(session)
        response = await self.send_notification(self.upstream.pay(attempt.id))
        assert (response.status_code, response.text) == (200, "success")
        return await self.find_order(session)

    async def find_order(self, session: checkouts.Session) -> orders.Order:
        async with self.db.connection() as tx:
            return await orders.find(tx, self.merchant_id, session.order_id)

    async def refund(self, order: orders.Order, amount: str | None = None) -> str:
        """Request a refund; return its id."""
        body = RefundBody(amount=amount)
        new_refund = await self.db.run(
            lambda tx: refunds.create(tx, self.merchant_id, order.id, body, now_ms())
        )
        return str(new_refund.id)

    async def send_refunds(self, times: int = 1) -> None:
        """Run the job that sends refunds, each time two hours later."""
        for _ in range(times):
            now = now_ms() + next(_hours) * 2 * HOUR_MS
            await jobs.send_due(self.db, self.app.gateways, self.url, now)

    async def refund_status(self, refund_id: str) -> str:
        async with self.db.connection() as tx:
            return str((await refunds.find(tx, self.merchant_id, refund_id)).status)


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def server_and_upstream(
    postgres_url: str,
    template: str,
    pooler_url: Callable[[str], str],
    tmp_path_factory: pytest.TempPathFactory,
) -> AsyncIterator[tuple[Starlette, EpayServer]]:
    """A server and the Epay server that is its gateway, for all tests of this module."""
    with cloned_database(postgres_url, template) as address:
        async with epay_gateway_server.running_epay_server() as upstream:
            listener = free_socket()
            url = url_of(listener)
            settings = Settings(
                database_url=pooler_url(address),
                data_dir=tmp_path_factory.mktemp("epay-refunds"),
                public_url=url,
                gateways=("epay",),
                gateway_options={"epay_url": upstream.url, "epay_pid": PID, "epay_key": KEY},
                limit_ip_per_minute=0,
                limit_checkouts_per_minute=0,
                limit_payments_per_minute=0,
                db_prepared=not POOLED,
                **SECRETS,
            )
            server = app.create_app(settings)
            async with serving(server, listener):
                await server.state.app.db.run(
                    lambda tx: rates.put(tx, "CNY", "USD", Decimal("0.14"), now_ms() - HOUR_MS)
                )
                yield server, upstream


@pytest_asyncio.fixture(loop_scope="module")
async def deployment(
    server_and_upstream: tuple[Starlette, EpayServer],
) -> AsyncIterator[EpayDeployment]:
    """A deployment with a new merchant and an empty Epay server."""
    server, upstream = server_and_upstream
    for state in (upstream.orders, upstream.refunds, upstream.requests, upstream.faults):
        state.clear()
    upstream.order_changes, upstream.refund_response, upstream.reads = {}, None, "either"
    deployment = EpayDeployment(server, upstream)
    yield deployment
    async with deployment.db.connection() as tx:
        assert await ledger_violations(tx) == []


@pytest.mark.parametrize("method", ["GET", "POST"])
async def test_a_notification_pays_an_order_and_a_repeated_one_changes_nothing(
    deployment: EpayDeployment, method: str
) -> None:
    session = await deployment.open_session()
    attempt = await deployment.start_payment(session)
    notification = deployment.upstream.pay(attempt.id)
    for _ in range(2):
        response = await deployment.send_notification(notification, method)
        assert (response.status_code, response.text) == (200, "success")
        assert response.headers["content-type"] == "text/plain"
    assert (await deployment.find_order(session)).status == "PAID"


async def test_a_payment_and_refund_at_a_rainbow_server_need_no_operator(
    deployment: EpayDeployment,
) -> None:
    """Such a server reads only the query string, and responds to refunds with code 0."""
    deployment.upstream.reads = "query"
    order = await deployment.pay_order()
    assert order.status == "PAID"
    deployment.upstream.refund_response = {
        "code": 0,
        "msg": "退款成功！退款金额￥2.00",
        "money": "2.00",
    }
    refund_id = await deployment.refund(order, "2.00")
    await deployment.send_refunds()
    assert await deployment.refund_status(refund_id) == "SUCCEEDED"
    assert [money for _, money in deployment.upstream.refunds] == ["2.00"]


@pytest.mark.parametrize("payurl", ["", "weixin://wxpay/bizpayurl?pr=1"])
async def test_a_customer_can_pay_after_a_crash_lost_the_payment_page(
    deployment: EpayDeployment, payurl: str
) -> None:
    """The order was placed, but the server was killed before it stored the payment URL."""
    upstream, session = deployment.upstream, await deployment.open_session()
    upstream.faults = [("mapi", "held")]
    payment = asyncio.create_task(deployment.start_payment(session))
    while not upstream.orders:
        await asyncio.sleep(0.01)
    payment.cancel()
    await asyncio.wait([payment])
    (lost_id,) = upstream.orders
    upstream.order_changes = {"payurl": payurl}
    now = now_ms() + 20_000
    await order_jobs.check_attempts(deployment.db, deployment.app.gateways, deployment.url, now)
    async with deployment.db.connection() as tx:
        attempt = await orders.find_attempt(tx, deployment.merchant_id, lost_id)
    assert (attempt.status, attempt.action_url) == ("ACTION_REQUIRED", payurl)

    page = f"/checkout/{session.id}"
    form = {"email": "ada@example.com", "name": "", "method": "ALIPAY", "lang": "en"}
    async with httpx2.AsyncClient(trust_env=False, base_url=deployment.url) as browser:
        response = await browser.post(page, data=form, headers={"origin": deployment.url})
        redirect_page = await browser.get(response.headers["location"])
        response = await browser.post(page, data=form, headers={"origin": deployment.url})
        assert response.headers["location"].startswith(f"{page}/continue/")
    (new_id,) = upstream.orders.keys() - {lost_id}  # the second submission places exactly one order
    assert f"{upstream.url}cashier/{upstream.orders[new_id]['trade_no']}" in redirect_page.text
    assert (await deployment.send_notification(upstream.pay(new_id))).status_code == 200
    assert (await deployment.find_order(session)).status == "PAID"
    assert (await deployment.send_notification(upstream.pay(lost_id))).status_code == 200
    async with deployment.db.connection() as tx:
        attempt = await orders.find_attempt(tx, deployment.merchant_id, lost_id)
    assert attempt.status == "DUPLICATE"  # the worker will send this second payment back


async def test_a_forged_notification_pays_nothing_and_is_not_acknowledged(
    deployment: EpayDeployment,
) -> None:
    session = await deployment.open_session()
    attempt = await deployment.start_payment(session)
    order = deployment.upstream.orders[attempt.id]
    forged = [
        # The signature is valid, but the order is not paid.
        (deployment.upstream.notice(order), 400),
        (deployment.upstream.notice(order, key="another-key-of-somebody"), 400),
        (deployment.upstream.notice(order, pid="1002"), 400),
        ({}, 400),
        ({"out_trade_no": "x" * 5000}, 400),
    ]
    for notification, status in forged:
        for method in ("GET", "POST"):
            response = await deployment.send_notification(notification, method)
            assert response.status_code == status
            assert "success" not in response.text
    assert (await deployment.find_order(session)).status == "PENDING"


async def test_a_notification_that_cannot_be_confirmed_is_not_acknowledged(
    deployment: EpayDeployment,
) -> None:
    session = await deployment.open_session()
    attempt = await deployment.start_payment(session)
    deployment.upstream.faults = [("order", "html")]
    response = await deployment.send_notification(deployment.upstream.pay(attempt.id))
    # The status makes the Epay server send the notification again.
    assert response.status_code == 503
    assert (await deployment.find_order(session)).status == "PENDING"


async def test_a_payment_of_another_amount_does_not_pay_the_order(
    deployment: EpayDeployment,
) -> None:
    session = await deployment.open_session()
    attempt = await deployment.start_payment(session)
    deployment.upstream.orders[attempt.id]["money"] = "0.01"
    await deployment.send_notification(deployment.upstream.pay(attempt.id))
    assert (await deployment.find_order(session)).status == "PENDING"


@pytest.mark.parametrize("fault", ["cut", "500 after"])
async def test_a_full_refund_without_a_response_is_detected_and_made_once(
    deployment: EpayDeployment, fault: str
) -> None:
    order = await deployment.pay_order()
    deployment.upstream.faults = [("refund", fault)]
    refund_id = await deployment.refund(order)
    await deployment.send_refunds()
    assert await deployment.refund_status(refund_id) == "PROCESSING"
    await deployment.send_refunds(3)
    assert await deployment.refund_status(refund_id) == "SUCCEEDED"
    assert [money for _, money in deployment.upstream.refunds] == ["9.99"]


@pytest.mark.parametrize("result", ["done", "failed"])
async def test_a_partial_refund_without_a_response_is_ended_by_the_operator(
    deployment: EpayDeployment, fork_server: ForkServer, tmp_path: Path, result: str
) -> None:
    order = await deployment.pay_order()
    deployment.upstream.faults = [("refund", "cut")]
    refund_id = await deployment.refund(order, "2.00")
    await deployment.send_refunds(5)
    assert await deployment.refund_status(refund_id) == "PROCESSING"
    assert [money for _, money in deployment.upstream.refunds] == ["2.00"]
    commands = Commands(fork_server, deployment.app.settings.database_url, tmp_path)
    refund = commands.json(
        "refunds", result, refund_id, "--reason", "seen", OPENTILL_GATEWAYS="epay"
    )
    assert refund["status"] == {"done": "SUCCEEDED", "failed": "FAILED"}[result]
    await deployment.send_refunds(2)
    assert len(deployment.upstream.refunds) == 1


async def test_a_refund_that_the_server_did_not_process_is_sent_again(
    deployment: EpayDeployment,
) -> None:
    order = await deployment.pay_order()
    original_answer, deployment.upstream.run_operation = (
        deployment.upstream.run_operation,
        lambda *_: {"code": -3, "msg": "KEY"},
    )  # type: ignore[method-assign]
    refund_id = await deployment.refund(order, "2.00")
    await deployment.send_refunds(2)
    deployment.upstream.run_operation = original_answer  # type: ignore[method-assign]
    assert await deployment.refund_status(refund_id) == "PROCESSING"
    await deployment.send_refunds()
    assert await deployment.refund_status(refund_id) == "SUCCEEDED"
    assert len(deployment.upstream.refunds) == 1


async def test_a_duplicate_payment_is_returned_once_even_if_the_response_is_lost(
    deployment: EpayDeployment,
) -> None:
    session = await deployment.open_session()
    first_attempt = await deployment.start_payment(session)
    second_attempt = await deployment.start_payment(session, "WECHAT_PAY")
    assert first_attempt.id != second_attempt.id
    for attempt in (first_attempt, second_attempt):
        assert (
            await deployment.send_notification(deployment.upstream.pay(attempt.id))
        ).text == "success"
    deployment.upstream.faults = [("refund", "cut")]
    for _ in range(4):
        now = now_ms() + next(_hours) * 2 * HOUR_MS
        await order_jobs.check_attempts(deployment.db, deployment.app.gateways, deployment.url, now)
    assert deployment.upstream.refunds == [(second_attempt.id, "9.99")]
    async with deployment.db.connection() as tx:
        after = await orders.find_attempt(tx, deployment.merchant_id, second_attempt.id)
    assert after.status == "GIVEN_BACK"
