"""Refunds and notices of the epay gateway with worker, callback and operator."""

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


class Cluster:
    """A server whose only gateway is epay; tests run its jobs."""

    def __init__(self, server: Starlette, upstream: EpayServer) -> None:
        self.app = server.state.app
        self.db = self.app.db
        self.upstream = upstream
        self.url = server.state.settings.public_url
        self.merchant_id = ""

    async def open(self) -> checkouts.Session:
        """Open a session of 9.99 CNY."""
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

    async def start(
        self, session: checkouts.Session, method: str = "ALIPAY"
    ) -> orders.PaymentAttempt:
        """Start a payment like the payment page."""
        entered = checkouts.PayerInput(
            email="ada@example.com", name="", method=method, ip="203.0.113.7", locale="zh"
        )
        attempt = await checkouts.pay(
            self.db, self.app.gateways, session.id, entered, self.url, now_ms()
        )
        assert attempt is not None
        return attempt

    async def send_notice(self, notice: dict[str, str], how: str = "GET") -> httpx2.Response:
        """Send a notice like an Epay server."""
        async with httpx2.AsyncClient(trust_env=False) as client:
            where = f"{self.url}/gateways/epay/callback"
            if how == "GET":
                return await client.get(where, params=notice)
            return await client.post(where, data=notice)

    async def pay_order(self) -> orders.Order:
        """Return an order that was paid and notified."""
        session = await self.open()
        attempt = await self.start(session)
        answer = await self.send_notice(self.upstream.pay(attempt.id))
        assert (answer.status_code, answer.text) == (200, "success")
        return await self.order(session)

    async def order(self, session: checkouts.Session) -> orders.Order:
        async with self.db.connection() as tx:
            return await orders.find(tx, self.merchant_id, session.order_id)

    async def refund(self, order: orders.Order, amount: str | None = None) -> str:
        """Request a refund; return its id."""
        body = RefundBody(amount=amount)
        new_refund = await self.db.run(
            lambda tx: refunds.create(tx, self.merchant_id, order.id, body, now_ms())
        )
        return str(new_refund.id)

    async def send(self, times: int = 1) -> None:
        """Run the job that sends refunds, each time an hour later."""
        for _ in range(times):
            now = now_ms() + next(_hours) * 2 * HOUR_MS
            await jobs.send_due(self.db, self.app.gateways, self.url, now)

    async def status(self, refund_id: str) -> str:
        async with self.db.connection() as tx:
            return str((await refunds.find(tx, self.merchant_id, refund_id)).status)


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def served(
    postgres_url: str,
    template: str,
    pooler_url: Callable[[str], str],
    tmp_path_factory: pytest.TempPathFactory,
) -> AsyncIterator[tuple[Starlette, EpayServer]]:
    """One server and its upstream Epay server, for all tests of this module."""
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
async def cluster(served: tuple[Starlette, EpayServer]) -> AsyncIterator[Cluster]:
    """A new merchant, and an empty Epay server."""
    server, upstream = served
    for state in (upstream.orders, upstream.refunds, upstream.requests, upstream.faults):
        state.clear()
    upstream.order_changes, upstream.refund_response, upstream.reads = {}, None, "either"
    cluster = Cluster(server, upstream)
    yield cluster
    async with cluster.db.connection() as tx:
        assert await ledger_violations(tx) == []


@pytest.mark.parametrize("how", ["GET", "POST"])
async def test_a_notice_pays_an_order_and_a_repeated_one_changes_nothing(
    cluster: Cluster, how: str
) -> None:
    session = await cluster.open()
    attempt = await cluster.start(session)
    notice = cluster.upstream.pay(attempt.id)
    for _ in range(2):
        answer = await cluster.send_notice(notice, how)
        assert (answer.status_code, answer.text) == (200, "success")
        assert answer.headers["content-type"] == "text/plain"
    assert (await cluster.order(session)).status == "PAID"


async def test_a_payment_at_a_rainbow_server_needs_no_operator(
    cluster: Cluster,
) -> None:
    """Such a server reads the query string only and responds to refunds with code 0."""
    cluster.upstream.reads = "query"
    order = await cluster.pay_order()
    assert order.status == "PAID"
    cluster.upstream.refund_response = {
        "code": 0,
        "msg": "退款成功！退款金额￥2.00",
        "money": "2.00",
    }
    refund_id = await cluster.refund(order, "2.00")
    await cluster.send()
    assert await cluster.status(refund_id) == "SUCCEEDED"
    assert [money for _, money in cluster.upstream.refunds] == ["2.00"]


@pytest.mark.parametrize("payurl", ["", "weixin://wxpay/bizpayurl?pr=1"])
async def test_a_customer_can_pay_after_a_crash_lost_the_payment_page(
    cluster: Cluster, payurl: str
) -> None:
    """The order was placed, but the server died before it stored the URL."""
    upstream, session = cluster.upstream, await cluster.open()
    upstream.faults = [("mapi", "held")]
    started = asyncio.create_task(cluster.start(session))
    while not upstream.orders:
        await asyncio.sleep(0.01)
    started.cancel()
    await asyncio.wait([started])
    (lost,) = upstream.orders
    upstream.order_changes = {"payurl": payurl}
    now = now_ms() + 20_000
    await order_jobs.check_attempts(cluster.db, cluster.app.gateways, cluster.url, now)
    async with cluster.db.connection() as tx:
        attempt = await orders.find_attempt(tx, cluster.merchant_id, lost)
    assert (attempt.status, attempt.action_url) == ("ACTION_REQUIRED", payurl)

    page = f"/checkout/{session.id}"
    form = {"email": "ada@example.com", "name": "", "method": "ALIPAY", "lang": "en"}
    async with httpx2.AsyncClient(trust_env=False, base_url=cluster.url) as browser:
        answer = await browser.post(page, data=form, headers={"origin": cluster.url})
        way = await browser.get(answer.headers["location"])
        answer = await browser.post(page, data=form, headers={"origin": cluster.url})
        assert answer.headers["location"].startswith(f"{page}/continue/")
    (new,) = upstream.orders.keys() - {lost}  # the second form started no third
    assert f"{upstream.url}cashier/{upstream.orders[new]['trade_no']}" in way.text
    assert (await cluster.send_notice(upstream.pay(new))).status_code == 200
    assert (await cluster.order(session)).status == "PAID"
    assert (await cluster.send_notice(upstream.pay(lost))).status_code == 200  # who could, and why?
    async with cluster.db.connection() as tx:
        attempt = await orders.find_attempt(tx, cluster.merchant_id, lost)
    assert attempt.status == "DUPLICATE"  # to be given back


async def test_a_false_notice_pays_nothing_and_is_not_acknowledged(
    cluster: Cluster,
) -> None:
    session = await cluster.open()
    attempt = await cluster.start(session)
    order = cluster.upstream.orders[attempt.id]
    forged = [
        (cluster.upstream.notice(order), 400),  # well signed, but nobody has paid
        (cluster.upstream.notice(order, key="another-key-of-somebody"), 400),
        (cluster.upstream.notice(order, pid="1002"), 400),
        ({}, 400),
        ({"out_trade_no": "x" * 5000}, 400),
    ]
    for notice, status in forged:
        for how in ("GET", "POST"):
            answer = await cluster.send_notice(notice, how)
            assert answer.status_code == status
            assert "success" not in answer.text
    assert (await cluster.order(session)).status == "PENDING"


async def test_a_notice_that_cannot_be_confirmed_is_not_acknowledged(cluster: Cluster) -> None:
    session = await cluster.open()
    attempt = await cluster.start(session)
    cluster.upstream.faults = [("order", "html")]
    answer = await cluster.send_notice(cluster.upstream.pay(attempt.id))
    assert answer.status_code == 503  # to be told again
    assert (await cluster.order(session)).status == "PENDING"


async def test_a_wrong_amount_pays_nothing(cluster: Cluster) -> None:
    session = await cluster.open()
    attempt = await cluster.start(session)
    cluster.upstream.orders[attempt.id]["money"] = "0.01"
    await cluster.send_notice(cluster.upstream.pay(attempt.id))
    assert (await cluster.order(session)).status == "PENDING"


@pytest.mark.parametrize("fault", ["cut", "500 after"])
async def test_a_full_refund_without_a_response_is_found_and_done_once(
    cluster: Cluster, fault: str
) -> None:
    order = await cluster.pay_order()
    cluster.upstream.faults = [("refund", fault)]
    refund_id = await cluster.refund(order)
    await cluster.send()
    assert await cluster.status(refund_id) == "PROCESSING"
    await cluster.send(3)
    assert await cluster.status(refund_id) == "SUCCEEDED"
    assert [money for _, money in cluster.upstream.refunds] == ["9.99"]


@pytest.mark.parametrize("word", ["done", "failed"])
async def test_a_partial_refund_without_a_response_is_ended_by_the_operator(
    cluster: Cluster, fork_server: ForkServer, tmp_path: Path, word: str
) -> None:
    order = await cluster.pay_order()
    cluster.upstream.faults = [("refund", "cut")]
    refund_id = await cluster.refund(order, "2.00")
    await cluster.send(5)
    assert await cluster.status(refund_id) == "PROCESSING"
    assert [money for _, money in cluster.upstream.refunds] == ["2.00"]
    commands = Commands(fork_server, cluster.app.settings.database_url, tmp_path)
    ended = commands.json("refunds", word, refund_id, "--reason", "seen", OPENTILL_GATEWAYS="epay")
    assert ended["status"] == {"done": "SUCCEEDED", "failed": "FAILED"}[word]
    await cluster.send(2)
    assert len(cluster.upstream.refunds) == 1


async def test_an_unprocessed_refund_is_sent_again(cluster: Cluster) -> None:
    order = await cluster.pay_order()
    real, cluster.upstream.run_operation = (
        cluster.upstream.run_operation,
        lambda *_: {"code": -3, "msg": "KEY"},
    )  # type: ignore[method-assign]
    refund_id = await cluster.refund(order, "2.00")
    await cluster.send(2)
    cluster.upstream.run_operation = real  # type: ignore[method-assign]
    assert await cluster.status(refund_id) == "PROCESSING"
    await cluster.send()
    assert await cluster.status(refund_id) == "SUCCEEDED"
    assert len(cluster.upstream.refunds) == 1


async def test_a_duplicate_payment_is_refunded_once_even_if_the_response_is_lost(
    cluster: Cluster,
) -> None:
    session = await cluster.open()
    first, second = await cluster.start(session), await cluster.start(session, "WECHAT_PAY")
    assert first.id != second.id
    for attempt in (first, second):
        assert (await cluster.send_notice(cluster.upstream.pay(attempt.id))).text == "success"
    cluster.upstream.faults = [("refund", "cut")]
    for _ in range(4):
        now = now_ms() + next(_hours) * 2 * HOUR_MS
        await order_jobs.check_attempts(cluster.db, cluster.app.gateways, cluster.url, now)
    assert cluster.upstream.refunds == [(second.id, "9.99")]
    async with cluster.db.connection() as tx:
        after = await orders.find_attempt(tx, cluster.merchant_id, second.id)
    assert after.status == "GIVEN_BACK"
