"""Orders through real adapters and their simulated providers, in one process."""

import asyncio
import re
import time
from collections.abc import Iterator
from contextlib import ExitStack
from decimal import Decimal
from typing import Any, Final
from urllib.parse import urlsplit

import pytest

from gateways import conforming_providers as conforming
from opentill import checkouts, context, orders, rates
from opentill.callbacks import apply_event
from opentill.callbacks.reading import resolve_events
from opentill.core.settings import Settings
from opentill.db.database import Db, Tx
from opentill.deposits import jobs as deposit_jobs
from opentill.gateways import Gateway, Gateways
from opentill.gateways.conformance import Callback, Provider
from opentill.gateways.deposits import takes_deposits
from opentill.gateways.epay_v2 import client as epay_v2_client
from opentill.gateways.epusdt import client as epusdt_client
from opentill.gateways.model import fetches_keys, is_notified
from opentill.orders import Order, PaymentAttempt
from opentill.orders import jobs as order_jobs
from opentill.outgoing.client import merchant_client
from support import world
from support.routing import create_account
from support.sandbox_chain import running_sandbox_chain

# Providers of the conformance suite, by the fixture of their site.
_SITES: Final[dict[str, tuple[str, Any]]] = {
    "sandbox": ("shop", conforming.SandboxProvider),
    "alipay": ("alipay_shop", conforming.AlipayProvider),
    "wechat_pay": ("wechat_pay_shop", conforming.WeChatPayProvider),
    "paypal": ("paypal_shop", conforming.PayPalProvider),
    "epusdt": ("epusdt_shop", conforming.EpusdtProvider),
    "bepusdt": ("epusdt_shop", conforming.BepusdtProvider),
    "epay_v2": ("epay_v2_shop", conforming.EpayV2Provider),
}
NAMES: Final = (*_SITES, "stripe", "epay", "evm")
_RATES: Final = {"CNY": Decimal("0.14"), "EUR": Decimal("1.10")}  # to US dollars
_ADDRESS: Final = re.compile(r"address=(0x[0-9a-fA-F]{40})")


def real_now() -> int:
    """Return real time, Unix ms."""
    return time.time_ns() // 1_000_000


class Sites:
    """The providers that a test asks for."""

    def __init__(
        self, request: pytest.FixtureRequest, factory: pytest.TempPathFactory, stack: ExitStack
    ) -> None:
        """``stack`` closes the servers that only this file starts."""
        self._request, self._factory, self._stack = request, factory, stack
        self._running: dict[str, Provider] = {}

    def get(self, name: str) -> Provider:
        """Return a provider, which is started once."""
        if name not in self._running:
            self._running[name] = self._start(name)
        return self._running[name]

    def _start(self, name: str) -> Provider:
        if name == "stripe":
            return self._stack.enter_context(conforming.running_stripe())
        if name == "epay":
            return self._stack.enter_context(conforming.running_epay())
        if name == "evm":
            folder = self._factory.mktemp("chain")
            return conforming.EvmProvider(self._stack.enter_context(running_sandbox_chain(folder)))
        fixture, provider = _SITES[name]
        new_provider: Provider = provider(self._request.getfixturevalue(fixture))
        return new_provider


@pytest.fixture
def sites(
    request: pytest.FixtureRequest,
    tmp_path_factory: pytest.TempPathFactory,
    monkeypatch: pytest.MonkeyPatch,
) -> Iterator[Sites]:
    """The providers of a test, whose adapters wait longer than in the conformance suite."""
    monkeypatch.setattr(conforming, "TIMEOUT_S", 5.0)
    # Business time passes in these tests, but the adapter reads real time.
    monkeypatch.setattr(epusdt_client, "_LOST_MS", 0)
    monkeypatch.setattr(epay_v2_client, "_LOST_MS", 0)
    with ExitStack() as stack:
        yield Sites(request, tmp_path_factory, stack)


def add_account(
    gateways: Gateways, name: str, provider: Provider, adapter: Gateway, **changes: Any
) -> None:
    """Add or change an account, whose id is the name."""
    account = create_account(name, gateway=adapter.name, **changes)
    methods = {provider.method: ()}
    gateways.put_account(account, adapter, methods, None)


async def create_order(db: Db, currency: str) -> Order:
    """Create an order of 9.99 of a new merchant."""

    async def work(tx: Tx) -> Order:
        now = real_now()
        if currency != "USD":
            await rates.put(tx, currency, "USD", _RATES[currency], now)
        shop = await world.create_merchant(tx, settlement_currency=currency)
        mug = await world.create_product(tx, shop.id, "9.99", currency)
        session = await world.create_session(tx, shop.id, mug.id, now)
        return await orders.find(tx, shop.id, session.order_id)

    return await db.run(work)


def public_url(provider: Provider) -> str:
    """Return the address below which the provider sends its callbacks."""
    parts = urlsplit(provider.callback_url)
    return f"{parts.scheme}://{parts.netloc}"


async def pay(
    db: Db, gateways: Gateways, order: Order, provider: Provider
) -> PaymentAttempt | None:
    """Submit the payment page's form with the provider's method."""
    payer = checkouts.PayerInput(
        email="ann@example.com", name="Ann", method=provider.method, ip="203.0.113.7", locale="en"
    )
    return await checkouts.pay(
        db, gateways, order.checkout_id, payer, public_url(provider), real_now()
    )


async def approve(provider: Provider, attempt: PaymentAttempt) -> None:
    """Pay as the customer, on the page or by the code of an attempt."""
    page = attempt.action_url or attempt.qr_text or ""
    if isinstance(provider, conforming.EvmProvider):
        match = _ADDRESS.search(page)
        assert match is not None, page
        provider.addresses[attempt.id] = match[1].lower()
    if isinstance(provider, conforming.PayPalProvider):
        provider.start = len(provider.shop.receiver.received)
    await asyncio.to_thread(provider.approve, attempt.id, page)


async def deliver_callbacks(
    db: Db, gateways: Gateways, account: str, provider: Provider, attempt_id: str
) -> None:
    """Apply the callbacks about an attempt, and look at the chain if there are none."""
    adapter, now = gateways[account], real_now()
    settings = Settings()
    app = context.App(
        settings=settings, db=db, outgoing=merchant_client(settings), gateways=gateways,
        clock=real_now,
    )  # fmt: skip
    if takes_deposits(adapter):
        await deposit_jobs.scan_all(db, gateways, now)
        await deposit_jobs.apply_due(db, account, now)
        return
    for callback in await asyncio.to_thread(_callbacks, provider, attempt_id):
        if fetches_keys(adapter):
            await adapter.fetch_keys(callback.headers)
        if callback.fields is None:
            events = adapter.read_callback(callback.headers, callback.body, now)
        else:
            assert is_notified(adapter)
            events = await adapter.read_notice(callback.fields)
        for event in events:
            for own_event in await resolve_events(adapter, event):
                await apply_event(app, account, own_event, now)


def _callbacks(provider: Provider, attempt_id: str) -> list[Callback]:
    if isinstance(provider, conforming.PayPalProvider):  # only the approval: we capture later
        notices = provider.shop.wait_for_notices(provider.start)
        return [Callback(headers=headers, body=body) for headers, body in notices]
    return list(provider.callbacks(attempt_id))


async def query(db: Db, gateways: Gateways, provider: Provider, minutes: int = 10) -> None:
    """Let the worker query open attempts, so many minutes later."""
    later = real_now() + minutes * 60_000
    await order_jobs.check_attempts(db, gateways, public_url(provider), later)
