"""The queue for hashing passwords is bounded, and strangers hardly delay trusted persons."""

import asyncio
from collections.abc import Callable
from contextlib import ExitStack
from typing import Final

import pytest

from opentill.core.errors import TooManyAtOnce
from opentill.db.database import Db
from opentill.people import Browser, Credentials, limits, logins
from opentill.people.hash_queue import EACH, MOST, QUEUE, Group, HashQueue
from support.api_server import Shop
from support.people import PASSWORD, Visitor, create_person, heading_of, new_address

NOW: Final = 1_790_000_000_000


async def test_a_full_group_of_the_queue_refuses_immediately() -> None:
    queue = HashQueue(at_once=2, most=4, each=4)
    with ExitStack() as places:
        for number in range(4):
            places.enter_context(queue.reserve("strangers", f"192.0.2.{number}"))
        with pytest.raises(TooManyAtOnce) as refusal, queue.reserve("strangers", "192.0.2.9"):
            pass
        assert refusal.value.retry_after_s > 0
        with queue.reserve("trusted", "ada@example.com"):
            pass
    with queue.reserve("strangers", "192.0.2.9"):
        pass


async def test_one_address_cannot_fill_the_group_of_strangers() -> None:
    queue = HashQueue(at_once=2, most=4, each=2)
    with ExitStack() as places:
        for _ in range(2):
            places.enter_context(queue.reserve("strangers", "192.0.2.1"))
        with pytest.raises(TooManyAtOnce), queue.reserve("strangers", "192.0.2.1"):
            pass
        places.enter_context(queue.reserve("strangers", "192.0.2.2"))


async def test_a_trusted_hash_waits_for_at_most_one_hash_of_a_stranger() -> None:
    queue, order = HashQueue(at_once=1), list[str]()

    async def hash_one(group: Group, name: str) -> None:
        async with queue.turn(group):
            order.append(name)
            await asyncio.sleep(0)

    strangers = [hash_one("strangers", f"stranger {number}") for number in range(5)]
    await asyncio.gather(*strangers, hash_one("trusted", "ada"), hash_one("trusted", "bob"))
    assert order.index("ada") <= 2
    assert order.index("bob") <= 4
    assert len(order) == 7


async def test_a_cancelled_waiter_takes_no_turn() -> None:
    queue = HashQueue(at_once=1)
    async with queue.turn("trusted"):
        cancelled_tasks = [asyncio.create_task(_turn(queue, "strangers")) for _ in range(3)]
        last_task = asyncio.create_task(_turn(queue, "strangers"))
        await asyncio.sleep(0)
        for task in cancelled_tasks:
            task.cancel()
    await asyncio.wait_for(last_task, 1)
    await asyncio.gather(*cancelled_tasks, return_exceptions=True)
    async with asyncio.timeout(1), queue.turn("trusted"):
        pass


async def test_the_turn_of_a_waiter_that_is_cancelled_before_it_runs_goes_to_the_next() -> None:
    queue = HashQueue(at_once=1)
    async with queue.turn("trusted"):
        cancelled_task = asyncio.create_task(_turn(queue, "trusted"))
        next_task = asyncio.create_task(_turn(queue, "trusted"))
        await asyncio.sleep(0)
    cancelled_task.cancel()  # the task has got its turn, but has not run since
    await asyncio.wait_for(next_task, 1)
    assert cancelled_task.cancelled() or cancelled_task.done()


async def _turn(queue: HashQueue, group: Group) -> None:
    async with queue.turn(group):
        pass


async def test_a_login_refused_by_a_full_queue_is_not_counted(db: Db) -> None:
    email = new_address()
    credentials = Credentials(
        email=email, password=PASSWORD, browser=Browser("192.0.2.55", "Testfox")
    )
    with ExitStack() as places:
        for number in range(MOST):
            places.enter_context(QUEUE.reserve("strangers", f"198.51.100.{number}"))
        for _ in range(3):
            with pytest.raises(TooManyAtOnce):
                await logins.log_in(db, credentials, "key", NOW)
    for _ in range(6):  # no attempt was counted above: only the sixth one here starts a delay
        await limits.count(db, email, "192.0.2.55", NOW)


def test_strangers_who_fill_the_queue_get_429_and_a_known_browser_logs_in(
    shop: Shop, clock: Callable[[int], None]
) -> None:
    clock(shop.api_server.app.clock())
    ada = create_person(shop.api_server, shop.id, "owner")
    known_visitor = Visitor(shop.api_server, ada.email)
    assert known_visitor.log_in().status_code == 303
    with ExitStack() as places:
        for number in range(MOST):
            places.enter_context(QUEUE.reserve("strangers", f"198.51.100.{number}"))
        refused = Visitor(shop.api_server, ada.email).log_in()
        assert (refused.status_code, heading_of(refused)) == (429, "Log in")
        assert refused.headers["retry-after"]
        body = {"email": ada.email, "password": PASSWORD}
        response = shop.api_server.http.post("/v1/merchant/sessions", json=body)
        assert (response.status_code, response.json()["code"]) == (429, 42901)
        assert response.headers["retry-after"]
        assert known_visitor.log_in().status_code == 303


def test_concurrent_uses_of_one_link_leave_places_for_others(shop: Shop) -> None:
    with ExitStack() as places:
        for _ in range(EACH):
            places.enter_context(QUEUE.reserve("trusted", "ada@example.com"))
        with pytest.raises(TooManyAtOnce), QUEUE.reserve("trusted", "ada@example.com"):
            pass
        with QUEUE.reserve("trusted", "bob@example.com"):
            pass
