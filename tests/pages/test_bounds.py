"""The payment form is limited for each IP address and for each order (decision 0030)."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import httpx2
import msgspec
import pytest
from starlette.applications import Starlette

from opentill import checkouts, orders
from opentill.checkouts.model import MAX_ATTEMPTS
from opentill.core.errors import Invalid
from opentill.db import rate_limits
from opentill.db.database import Tx
from support.page_server import OpenSession
from support.world import report_payment, submit_attempt

FORM = {"email": "maria@example.com", "name": "", "method": "CREDIT_CARD"}
TEXTS = {
    "en": ("Too many requests", "Too many payment attempts"),
    "zh-Hans": ("请求过于频繁", "尝试次数过多"),
    "zh-Hant": ("請求過於頻繁", "嘗試次數過多"),
}


@asynccontextmanager
async def _limit_payments(page_server: Starlette, limit: int) -> AsyncIterator[None]:
    app = page_server.state.app
    async with app.db.connection() as tx:
        await rate_limits.forget(tx)
    before = app.settings
    app.settings = msgspec.structs.replace(before, limit_payments_per_minute=limit)
    try:
        yield
    finally:
        app.settings = before


async def test_forms_over_the_limit_of_an_address_are_refused(
    page_server: Starlette, open_session: OpenSession
) -> None:
    url = page_server.state.settings.public_url
    sessions = [await open_session() for _ in range(2)]
    pages = [f"{url}/checkout/{session.id}" for session in sessions]
    unknown = f"{url}/checkout/cs_00000000000000000000000000000000"
    async with httpx2.AsyncClient() as client:
        async with _limit_payments(page_server, 5):
            statuses = [
                (await client.post(page, data=FORM)).status_code
                for page in (pages[0], pages[1], unknown, pages[0], pages[0], pages[0], unknown)
            ]
            assert statuses == [303, 303, 404, 303, 303, 429, 429]
            for lang, (title, _) in TEXTS.items():
                refused = await client.post(f"{pages[1]}?lang={lang}", data=FORM)
                assert refused.status_code == 429
                assert f"<h1>{title}</h1>" in refused.text
                assert 1 <= int(refused.headers["retry-after"]) <= 61
            # Only forms count towards the limit.
            assert (await client.get(pages[0])).status_code == 200
        async with _limit_payments(page_server, 0):
            assert (await client.post(pages[0], data=FORM)).status_code == 303
    attempts = "select count(*) from payment_attempts where merchant_id = $1"
    async with page_server.state.app.db.connection() as tx:
        assert await tx.fetchval(attempts, sessions[0].merchant_id) == 2


async def test_attempts_over_the_limit_of_an_order_are_refused(
    page_server: Starlette, open_session: OpenSession
) -> None:
    session = await open_session()
    app = page_server.state.app
    now = app.clock()

    async def create_declined_attempt(tx: Tx) -> None:
        order = await orders.find(tx, session.merchant_id, session.order_id)
        await report_payment(
            tx, await submit_attempt(tx, order, now), "DECLINED", now, reason="declined"
        )

    for _ in range(MAX_ATTEMPTS - 1):
        await app.db.run(create_declined_attempt)
    page = f"{page_server.state.settings.public_url}/checkout/{session.id}"
    async with httpx2.AsyncClient() as client:
        # This is the last allowed attempt.
        assert (await client.post(page, data=FORM)).status_code == 303
        repeated = await client.post(page, data=FORM)  # the response leads to the attempt under way
        assert "/continue/att_" in repeated.headers["location"]
        for lang, (_, text) in TEXTS.items():
            refused = await client.post(page, data={**FORM, "method": "ALIPAY", "lang": lang})
            assert refused.status_code == 400
            assert text in refused.text
    async with app.db.connection() as tx:
        with pytest.raises(Invalid, match="attempts must be at most 50 for one order"):
            await checkouts.check_attempts(tx, session.merchant_id, session.order_id)
        attempt = await orders.last_attempt(tx, session.merchant_id, session.order_id)
    assert attempt is not None
    await app.db.run(lambda tx: report_payment(tx, attempt, "SUCCEEDED", app.clock()))
    async with app.db.connection() as tx:  # the payment of the last attempt was accepted
        order = await orders.find(tx, session.merchant_id, session.order_id)
    assert order.status == "PAID"
