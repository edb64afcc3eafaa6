"""A payment link with a number of uses: who holds them, and when they are free again."""

import asyncio
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any, Final
from urllib.parse import urlsplit

import pytest

from opentill import checkouts, orders, payment_links
from opentill.checkouts import Session
from opentill.checkouts import jobs as checkout_jobs
from opentill.db.database import Tx
from opentill.payment_links import jobs
from payment_links.links import FORM_ID, create_link, open_by_form, read_link
from support import world
from support.api_server import ApiServer, Shop
from support.isolation import SERIALIZABLE
from support.people import Visitor
from support.waits import find_waiting_session

MINUTE: Final = 60_000
HALF_AN_HOUR: Final = 30 * MINUTE


def order_of(shop: Shop, session_id: str) -> str:
    return str(shop.data("GET", f"/v1/checkouts/{session_id}")["orderId"])


def test_concurrent_customers_never_exceed_the_uses(shop: Shop) -> None:
    uses, customers = 3, 12
    created = create_link(shop, maxUses=uses)
    path = urlsplit(created["url"]).path

    def open_session(_: int) -> int:
        return Visitor(shop.api_server).post(path, {"lang": "en"}).status_code

    with ThreadPoolExecutor(customers) as threads:
        statuses = list(threads.map(open_session, range(customers)))
    assert sorted(statuses) == [303] * uses + [410] * (customers - uses)
    link = read_link(shop, created)
    assert (link["status"], link["openSessions"], link["payments"]) == ("USED_UP", uses, 0)


@pytest.mark.parametrize(("uses", "held"), [(1, 1), (2, 1), (5, 2), (100, 3), (None, 5)])
def test_one_visitor_never_holds_all_uses_of_a_link(
    shop: Shop, uses: int | None, held: int
) -> None:
    server, now = shop.api_server, shop.api_server.app.clock()
    created = create_link(shop, **({} if uses is None else {"maxUses": uses}))
    stored = server.tx(lambda tx: payment_links.find(tx, shop.id, created["id"]))

    async def open_session(visitor: str) -> Session | None:
        selection, app = payment_links.Selection(visitor=visitor), server.app
        try:
            return await app.db.run(
                lambda tx: payment_links.open_session(
                    tx, app.gateways, stored, selection, app.settings, now
                )
            )
        except (payment_links.TooManyHeld, payment_links.Unusable):
            return None

    async def open_five() -> list[Session]:
        results = await asyncio.gather(*(open_session("192.0.2.1") for _ in range(5)))
        return [session for session in results if session is not None]

    sessions = server.run(open_five())
    assert len(sessions) == held
    if uses == 5:
        assert server.run(open_session("192.0.2.2")) is not None
        shop.confirm(sessions[0].order_id)
        # The session is paid, so it no longer counts as held by the visitor.
        assert server.run(open_session("192.0.2.1")) is not None
        assert server.run(open_session("192.0.2.1")) is None
        shop.confirm(sessions[1].order_id)
        server.run(jobs.record_ended(server.app.db))
        sql = "select visitor from payment_link_uses where state = 'PAID' and merchant_id = $1"
        assert server.sql(sql, shop.id) == [{"visitor": None}] * 2


def test_an_idle_session_gives_its_use_to_the_next_customer(
    shop: Shop, clock: Callable[[int], None]
) -> None:
    server, now = shop.api_server, shop.api_server.app.clock()
    clock(now)
    created = create_link(shop, maxUses=3)
    path = urlsplit(created["url"]).path
    stored = server.tx(lambda tx: payment_links.find(tx, shop.id, created["id"]))

    def open_session(visitor: str, at: int) -> str | None:
        selection, app = payment_links.Selection(visitor=visitor), server.app
        try:
            return server.tx(
                lambda tx: payment_links.open_session(
                    tx, app.gateways, stored, selection, app.settings, at
                )
            ).id
        except payment_links.Unusable:
            return None

    paying, idle, recent = (open_session(f"192.0.2.{n}", now + n * MINUTE) or "" for n in range(3))
    order_id = order_of(shop, paying)

    async def begin_payment(tx: Tx) -> None:
        order = await orders.find(tx, shop.id, order_id)
        attempt = await world.submit_attempt(tx, order, now)
        await world.report_payment(
            tx, attempt, "ACTION_REQUIRED", now, action_url="https://bank.example"
        )

    server.tx(begin_payment)
    assert open_session("192.0.2.9", now + 6 * MINUTE - 1) is None
    clock(now + 6 * MINUTE - 1)
    assert Visitor(server).get(path).status_code == 410
    clock(now + 6 * MINUTE)
    assert Visitor(server).get(path).status_code == 200
    assert open_session("192.0.2.9", now + 6 * MINUTE) is not None
    statuses = [
        shop.data("GET", f"/v1/checkouts/{session_id}")["status"]
        for session_id in (paying, idle, recent)
    ]
    assert statuses == ["OPEN", "EXPIRED", "OPEN"]
    assert read_link(shop, created)["openSessions"] == 3
    assert open_session("192.0.2.10", now + 7 * MINUTE - 1) is None
    shop.data("PATCH", f"/v1/payment-links/{created['id']}", json={"maxUses": 2})
    # The new maximum is two uses, but three are taken.
    assert open_session("192.0.2.10", now + 20 * MINUTE) is None


# Each row: a customer's request, and a lock that makes it wait while the idle session ends. The
# form waits for the order's row, which the worker has locked. The page first counts the link's
# uses, and then waits for the table of attempts.
SCHEDULES: Final = (
    pytest.param("post", "select from orders where merchant_id = $1 for update", id="form"),
    pytest.param("get", "lock table payment_attempts in access exclusive mode", id="page"),
)


@pytest.mark.parametrize(("method", "locking"), SCHEDULES)
@pytest.mark.parametrize("ends", [True, False], ids=["it ends", "a payment of it begins"])
def test_a_customer_waits_for_an_idle_session_that_is_ending_and_gets_its_use(
    shop: Shop, clock: Callable[[int], None], method: str, locking: str, *, ends: bool
) -> None:
    server, now = shop.api_server, shop.api_server.app.clock()
    visitor, later = Visitor(server), now + HALF_AN_HOUR + 1
    created = create_link(shop, maxUses=1)
    idle_id = open_by_form(Visitor(server), created)
    order_id = order_of(shop, idle_id)
    path = urlsplit(created["url"]).path
    (form_id,) = FORM_ID.findall(_read_page_at(server, clock, later, visitor, path))
    with ThreadPoolExecutor(1) as threads:

        async def end_session(tx: Tx) -> Any:
            await tx.execute(locking, *([shop.id] if "$1" in locking else []))
            form = [{"form_id": form_id, "lang": "en"}] if method == "post" else []
            response = threads.submit(getattr(visitor, method), path, *form)
            for _ in range(500):
                if await find_waiting_session(tx):
                    break
                await asyncio.sleep(0.02)
            else:
                pytest.fail("the customer does not wait")
            if ends:
                await checkouts.expire(tx, shop.id, idle_id, "its time is over", later)
            else:
                await world.submit_attempt(tx, await orders.find(tx, shop.id, order_id), later)
            return response

        response = server.tx(end_session).result()
    usable = 303 if method == "post" else 200
    # In a serializable transaction, the page still shows the state before the session ended.
    is_snapshot = SERIALIZABLE and method == "get"
    assert response.status_code == (usable if ends or is_snapshot else 410), response.text
    assert read_link(shop, created)["openSessions"] == (0 if ends and method == "get" else 1)
    server.check_books()


def _read_page_at(
    server: ApiServer, clock: Callable[[int], None], time: int, visitor: Visitor, path: str
) -> str:
    clock(time)
    response = visitor.get(path)
    assert response.status_code == 200
    return str(response.text)


def test_a_visitor_with_too_many_unpaid_sessions_gets_a_page_with_instructions(
    shop: Shop,
) -> None:
    created = create_link(shop, maxUses=3)
    with shop.api_server.limited(limit_payments_per_minute=100):
        open_by_form(Visitor(shop.api_server), created)
        path = urlsplit(created["url"]).path
        response = Visitor(shop.api_server).post(path, {"lang": "en"})
    assert response.status_code == 429
    assert "You have unfinished payments" in response.text
    assert read_link(shop, created)["openSessions"] == 1


def test_an_expired_session_returns_its_use_and_a_paid_one_keeps_it(
    shop: Shop, clock: Callable[[int], None]
) -> None:
    api_server = shop.api_server
    now = api_server.app.clock()
    clock(now)
    created = create_link(shop, maxUses=1)
    path = urlsplit(created["url"]).path
    first_session = open_by_form(Visitor(api_server), created)
    session = shop.data("GET", f"/v1/checkouts/{first_session}")
    assert session["expiresAt"] - session["createdAt"] == HALF_AN_HOUR
    refusal = Visitor(api_server).get(path)
    assert refusal.status_code == 410
    assert "This link has already been used" in refusal.text
    clock(now + HALF_AN_HOUR)
    api_server.run(checkout_jobs.expire_due(api_server.app.db, now + HALF_AN_HOUR))
    second_session = open_by_form(Visitor(api_server), created)
    shop.confirm(order_of(shop, second_session))
    for is_recorded in (False, True):  # the second time, the worker has recorded the payment
        if is_recorded:
            api_server.run(jobs.record_ended(api_server.app.db))
        assert Visitor(api_server).get(path).status_code == 410
        link = read_link(shop, created)
        assert (link["openSessions"], link["payments"]) == (0, 1)
    # A late payment of the expired session is accepted and counted.
    shop.confirm(order_of(shop, first_session))
    link = read_link(shop, created)
    assert (link["payments"], link["sales"][0]["amount"]) == (2, "19.98")
