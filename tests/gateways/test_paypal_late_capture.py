"""A PayPal order whose session ends while it is captured is paid, also if no webhook arrives."""

import asyncio
import json
import signal
import subprocess
import sys
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from opentill import checkouts, orders
from opentill.db.database import Db, Tx
from opentill.gateways import Captures, PaymentOutcome
from opentill.gateways.paypal import PayPalGateway
from opentill.orders import Order, PaymentAttempt
from opentill.orders.jobs import check_attempts
from support import world
from support.paypal_shop import PayPalShop
from support.transactions import db
from support.world import HOUR, NOW

__all__ = ["db"]
END = NOW + 24 * HOUR
MINUTE = 60_000


@pytest.fixture
async def gateway(paypal_shop: PayPalShop) -> AsyncIterator[PayPalGateway]:
    """A gateway that does not wait for a capture."""
    created = paypal_shop.gateway()
    created._patience_s = 0.05
    yield created
    await created.close()


class Late:
    """An approved attempt of an order; the webhooks about its capture are lost."""

    def __init__(self, db: Db, gateway: PayPalGateway, attempt: PaymentAttempt) -> None:
        """Use ``approve`` instead."""
        self.db, self.gateway, self.attempt = db, gateway, attempt

    async def end_session(self) -> None:
        """End the order's session, as the worker does at its time."""
        order = await self.order()
        await self.db.run(
            lambda tx: checkouts.expire(
                tx, order.merchant_id, order.checkout_id, "its time is over", END
            )
        )
        assert (await self.order()).status == "CLOSED"

    async def work(self, now: int) -> str:
        """Query due attempts as the worker does; return the attempt's status."""
        await check_attempts(self.db, {"paypal": self.gateway}, "https://till.example", now)
        key = (self.attempt.merchant_id, self.attempt.id)
        return (await self.db.read(lambda tx: orders.find_attempt(tx, *key))).status

    async def order(self) -> Order:
        """Return the order."""
        key = (self.attempt.merchant_id, self.attempt.order_id)
        return await self.db.read(lambda tx: orders.find(tx, *key))


async def approve(db: Db, shop: PayPalShop, gateway: PayPalGateway) -> Late:
    """Begin a payment and approve it on PayPal's page."""

    async def begin(tx: Tx) -> PaymentAttempt:
        order = await world.create_order(tx, "9.99", "EUR", settlement_currency="EUR")
        return await world.submit_attempt(tx, order, END - MINUTE, gateway="paypal")

    attempt = await db.run(begin)
    start = len(shop.receiver.received)
    outcome = await gateway.pay(shop.request(attempt_id=attempt.id))
    key = (attempt.merchant_id, attempt.id)
    await db.run(lambda tx: orders.apply_outcome(tx, *key, outcome, END - MINUTE, gateway="paypal"))
    await asyncio.to_thread(shop.approve, outcome.action_url)
    await asyncio.to_thread(shop.wait_for_notices, start)
    return Late(db, gateway, await db.read(lambda tx: orders.find_attempt(tx, *key)))


async def test_paypal_takes_the_money_itself(gateway: PayPalGateway) -> None:
    assert isinstance(gateway, Captures)


async def test_a_capture_that_outlasts_its_session_pays_the_order(
    db: Db, paypal_shop: PayPalShop, gateway: PayPalGateway, monkeypatch: pytest.MonkeyPatch
) -> None:
    late = await approve(db, paypal_shop, gateway)
    send, arrives = gateway._transport.send, asyncio.Event()

    async def send_slowly(method: Any, path: str, *words: Any, **options: Any) -> Any:
        if path.endswith("/capture"):
            await arrives.wait()
        return await send(method, path, *words, **options)

    monkeypatch.setattr(gateway._transport, "send", send_slowly)
    # The customer returns in the last moment, and the request is on its way for some seconds. The
    # process ends before the response, which nobody reads.
    capturing = await gateway.find_payment(late.attempt.id, late.attempt.provider_ref)
    assert (capturing.status, capturing.reason) == ("PENDING", "capturing")
    await late.end_session()
    assert await late.work(END + 1) == "ACTION_REQUIRED"
    arrives.set()
    await asyncio.gather(*gateway._captures)
    assert (await late.order()).status == "CLOSED"
    assert await late.work(END + 3 * MINUTE) == "SUCCEEDED"
    assert (await late.order()).status == "PAID"


async def test_a_process_killed_between_capture_and_record_loses_no_payment(
    db: Db, database_url: str, paypal_shop: PayPalShop, gateway: PayPalGateway
) -> None:
    late = await approve(db, paypal_shop, gateway)
    make_due = "update payment_attempts set check_at = $1 where id = $2"
    await db.run(lambda tx: tx.execute(make_due, END - MINUTE, late.attempt.id))
    script = Path(__file__).with_name("killed_capture.py")
    words = (database_url, json.dumps(paypal_shop.options()), str(END - 1))
    process = await asyncio.create_subprocess_exec(
        sys.executable, str(script), *words, stdout=subprocess.PIPE
    )
    assert process.stdout is not None
    assert await asyncio.wait_for(process.stdout.readline(), 60) == b"captured\n"
    process.kill()
    assert await process.wait() == -signal.SIGKILL
    assert (await late.order()).status == "PENDING"  # nothing was recorded
    await late.end_session()
    assert await late.work(END + 3 * MINUTE) == "SUCCEEDED"
    assert (await late.order()).status == "PAID"
    assert await late.work(END + 10 * MINUTE) == "SUCCEEDED"


async def test_an_order_that_was_not_captured_is_declined_minutes_after_its_session(
    db: Db, paypal_shop: PayPalShop, gateway: PayPalGateway
) -> None:
    late = await approve(db, paypal_shop, gateway)
    await late.end_session()
    for now in (END + 1, END + 3 * MINUTE, END + 5 * MINUTE - 1):
        assert await late.work(now) == "ACTION_REQUIRED"
    assert await late.work(END + 20 * MINUTE) == "DECLINED"
    order = await asyncio.to_thread(
        paypal_shop.call, "GET", f"/v2/checkout/orders/{late.attempt.provider_ref}"
    )
    assert order.json()["status"] == "APPROVED"
    after = await late.order()
    assert (after.status, after.closed_as) == ("CLOSED", "DECLINED")


async def test_a_customer_who_returns_after_the_end_does_not_pay(
    db: Db, paypal_shop: PayPalShop, gateway: PayPalGateway
) -> None:
    late = await approve(db, paypal_shop, gateway)
    await late.end_session()
    order = await late.order()
    page = await checkouts.find_page_view(db, order.checkout_id)
    assert page is not None
    await checkouts.refresh_attempt(db, {"paypal": gateway}, page, late.attempt.id, END + 1)
    assert (await late.order()).status == "CLOSED"
    queried = await gateway.expire(late.attempt.id, late.attempt.provider_ref)
    assert queried == PaymentOutcome(status="DECLINED", reason="closed")
