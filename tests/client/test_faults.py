"""Connections that are cut before, in and after an answer: exactly one effect."""

import itertools
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

import httpx2
import pytest

from opentill.client import (
    AsyncClient,
    Client,
    ConnectionFailed,
    NotFound,
    OpenTillError,
    RateLimited,
    Retries,
    ServerError,
    operations,
)
from opentill.client.retries import RetriedRequest
from support.api_server import ApiServer, Shop
from support.cutting_proxy import Cut, Proxy, running_proxy

QUICK: Final = Retries(first_delay_s=0.01, longest_delay_s=0.02, total_s=120)
CUTS: Final[tuple[Cut, ...]] = ("before", "after", "half", "silent_before", "silent_after")


@pytest.fixture
def proxy(api_server: ApiServer) -> Iterator[Proxy]:
    with running_proxy(api_server.url) as proxy:
        yield proxy


def timeout_of(cut: Cut) -> float:
    """Return how long to wait for an answer: in vain if nobody is to say anything."""
    return 1.0 if cut.startswith("silent") else 30.0


def client_of(proxy: Proxy, shop: Shop, **options: Any) -> Client:
    options = {"retries": QUICK, "timeout_s": 2.0, "trust_env": False} | options
    return Client(proxy.url, shop.key, **options)


def keys(proxy: Proxy) -> list[bytes]:
    """Return the Idempotency-Key of every request that came."""
    lines = [line for request in proxy.requests for line in request.split(b"\r\n")]
    return [line for line in lines if line.lower().startswith(b"idempotency-key:")]


@pytest.mark.parametrize("cut", CUTS)
def test_a_refund_is_made_once_wherever_the_connection_is_cut(
    proxy: Proxy, shop: Shop, cut: Cut
) -> None:
    order = shop.create_paid_order()
    with client_of(proxy, shop, timeout_s=timeout_of(cut)) as client:
        proxy.plan = [cut, "after"]
        refund = client.refunds.create(order["id"], amount="1.00")
        assert [found.id for found in client.refunds.list(order["id"])] == [refund.id]
    sent = keys(proxy)
    assert len(sent) >= 3  # one more each time that the server is slower than the client waits
    assert len(set(sent)) == 1
    shop.api_server.check_books()


@pytest.mark.parametrize("cut", CUTS)
async def test_a_session_is_opened_once_wherever_the_connection_is_cut(
    proxy: Proxy, shop: Shop, cut: Cut
) -> None:
    tea = shop.create_product()["id"]
    proxy.plan = [cut, "after"]
    async with AsyncClient(
        proxy.url, shop.key, retries=QUICK, timeout_s=timeout_of(cut), trust_env=False
    ) as client:
        session = await client.checkouts.create(tea)
        orders = [order.checkout_session_id async for order in client.orders.list()]
    assert orders == [session.id]
    assert len(set(keys(proxy))) == 1


@pytest.mark.parametrize("cut", CUTS)
def test_reading_and_archiving_are_retried(proxy: Proxy, shop: Shop, cut: Cut) -> None:
    tea = shop.create_product()["id"]
    with client_of(proxy, shop, timeout_s=timeout_of(cut)) as client:
        proxy.plan = [cut, "before"]
        assert client.products.get(tea).id == tea
        proxy.plan = [cut, "before"]
        client.products.archive(tea)
    assert keys(proxy) == []


def test_a_delete_without_a_response_succeeds_when_retried(proxy: Proxy, shop: Shop) -> None:
    with client_of(proxy, shop) as client:
        endpoint = client.webhook_endpoints.create("https://shop.example.com/hook")
        proxy.plan = ["after"]
        client.webhook_endpoints.delete(endpoint.id)
        with pytest.raises(NotFound) as caught:
            client.webhook_endpoints.delete(endpoint.id)
    assert caught.value.maybe_done is False


async def test_an_async_delete_without_a_response_succeeds_when_retried(
    proxy: Proxy, shop: Shop
) -> None:
    async with AsyncClient(proxy.url, shop.key, retries=QUICK, trust_env=False) as client:
        endpoint = await client.webhook_endpoints.create("https://shop.example.com/hook")
        proxy.plan = ["after"]
        await client.webhook_endpoints.delete(endpoint.id)


def test_a_refusal_without_a_key_leaves_an_earlier_attempt_uncertain(shop: Shop) -> None:
    refused = httpx2.Response(403, json={"code": 40301, "message": "Forbidden"})
    answers = iter([httpx2.Response(502, text="<h1>Bad gateway</h1>"), refused])
    transport = httpx2.MockTransport(lambda _: next(answers))
    with (
        Client("http://pay.example", shop.key, retries=QUICK, transport=transport) as client,
        pytest.raises(OpenTillError) as caught,
    ):
        client.webhook_endpoints.delete("whe_01")
    assert (caught.value.status, caught.value.maybe_done) == (403, True)


@pytest.mark.parametrize("cut", ["before", "after"])
def test_a_patch_that_may_be_done_is_not_repeated(proxy: Proxy, shop: Shop, cut: Cut) -> None:
    tea = shop.create_product()["id"]
    with client_of(proxy, shop) as client:
        proxy.plan = [cut]
        with pytest.raises(ConnectionFailed) as caught:
            client.products.update(tea, price="5.00")
        assert caught.value.maybe_done is True
        assert len(proxy.requests) == 1


def test_the_error_of_the_last_attempt_has_maybe_done(proxy: Proxy, shop: Shop) -> None:
    order = shop.create_paid_order()
    few = Retries(attempts=2, first_delay_s=0.01)
    with client_of(proxy, shop, retries=few) as client:
        proxy.plan = ["after", "before"]
        with pytest.raises(ConnectionFailed) as caught:
            client.refunds.create(order["id"], amount="1.00")
        assert caught.value.maybe_done is True
        key = caught.value.idempotency_key
        client.refunds.create(order["id"], amount="1.00", idempotency_key=key)
        assert client.refunds.list(order["id"]).page().pagination.total == 1


def test_an_unreachable_server_did_nothing(proxy: Proxy, shop: Shop) -> None:
    few = Retries(attempts=3, first_delay_s=0.01)
    with Client("http://127.0.0.1:9", shop.key, retries=few, trust_env=False) as client:
        with pytest.raises(ConnectionFailed) as caught:
            client.products.create(name="Tea", price="1.00", currency="USD")
        assert caught.value.maybe_done is False


def test_retries_stop_after_the_total_time(proxy: Proxy, shop: Shop) -> None:
    brief = Retries(attempts=100, first_delay_s=0.01, total_s=0.3)
    with client_of(proxy, shop, retries=brief) as client:
        proxy.plan = ["silent_before"] * 100
        with pytest.raises(ConnectionFailed):
            client.balance.get()
        assert len(proxy.requests) <= 3


def test_an_interrupted_download_raises_and_leaves_no_file(
    proxy: Proxy, shop: Shop, tmp_path: Path
) -> None:
    shop.create_order()
    with client_of(proxy, shop) as client:
        proxy.plan = ["before", "half"]
        with pytest.raises(ConnectionFailed, match="broke off"):
            client.orders.export().save(tmp_path / "orders.csv")
        assert list(tmp_path.iterdir()) == []
        assert client.orders.export().save(tmp_path / "orders.csv") > 0


def test_many_threads_with_one_key_have_one_effect(api_server: ApiServer, shop: Shop) -> None:
    order = shop.create_paid_order()
    refund_ids: list[str] = []

    def refund(client: Client) -> None:
        refund = client.refunds.create(order["id"], amount="1.00", idempotency_key="RMA-7")
        refund_ids.append(refund.id)

    with Client(api_server.url, shop.key, retries=QUICK, trust_env=False) as client:
        threads = [threading.Thread(target=refund, args=[client]) for _ in range(8)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    assert len(refund_ids) == 8
    assert len(set(refund_ids)) == 1


# What a server or a proxy says, how often it is asked, and the error of the last answer.
ANSWERS: Final = [
    ("POST", 500, 1, True),
    ("POST", 502, 3, True),
    ("POST", 503, 3, True),
    ("POST", 504, 3, True),
    ("PATCH", 502, 1, True),
    ("GET", 502, 3, False),
    ("GET", 500, 1, False),
]


@pytest.mark.parametrize(("verb", "status", "tries", "maybe_done"), ANSWERS)
def test_responses_of_a_proxy_are_retried(
    verb: str, status: int, tries: int, maybe_done: bool, shop: Shop
) -> None:
    numbers = itertools.count()

    def answer(_: httpx2.Request) -> httpx2.Response:
        next(numbers)
        return httpx2.Response(status, text="<h1>Bad gateway</h1>")

    few = Retries(attempts=3, first_delay_s=0.01)
    transport = httpx2.MockTransport(answer)
    with Client("http://pay.example", shop.key, retries=few, transport=transport) as client:
        calls = {
            "POST": lambda: client.products.create(name="Tea", price="1", currency="USD"),
            "PATCH": lambda: client.products.update("prod_01", price="1"),
            "GET": client.balance.get,
        }
        with pytest.raises(ServerError) as caught:
            calls[verb]()
    assert next(numbers) == tries
    assert caught.value.maybe_done is maybe_done


def test_the_client_waits_for_a_busy_key() -> None:
    answers = iter(
        [
            httpx2.Response(409, json={"code": 40901, "message": "Conflict"}),
            httpx2.Response(429, headers={"retry-after": "0"}, text="slow"),
            httpx2.Response(
                404, json={"code": 40401, "message": "Not Found"}, headers={"x-request-id": "r"}
            ),
        ]
    )
    transport = httpx2.MockTransport(lambda _: next(answers))
    with (
        Client("http://pay.example", retries=QUICK, transport=transport) as client,
        pytest.raises(OpenTillError) as caught,
    ):
        client.refunds.create("order_01")
    assert (caught.value.status, caught.value.request_id) == (404, "r")


def limited(retry_after_s: int) -> httpx2.Response:
    return httpx2.Response(429, headers={"retry-after": str(retry_after_s)}, text="slow")


def test_the_client_waits_for_two_windows_of_the_rate_limit() -> None:
    retried = RetriedRequest(operations.get_balance(), Retries(), 30.0)
    assert [retried.delay_after_refusal(limited(61), b"slow") for _ in range(2)] == [61.0, 61.0]


def test_no_attempt_starts_at_the_end_of_the_total_time() -> None:
    retried = RetriedRequest(operations.get_balance(), Retries(total_s=60.0), 30.0)
    assert retried.delay_after_refusal(limited(53), b"slow") == 53.0
    with pytest.raises(RateLimited):
        retried.delay_after_refusal(limited(55), b"slow")


@pytest.mark.parametrize(
    "header", ["soon", "Fri, 99 Feb 2024 99:00:00 GMT", f"Mon, 01 Jan 2024 00:00:00 +{'9' * 20}"]
)
def test_an_invalid_retry_after_is_ignored(header: str) -> None:
    refused = httpx2.Response(429, headers={"retry-after": header}, text="slow")
    transport = httpx2.MockTransport(lambda _: refused)
    with (
        Client("http://pay.example", retries=QUICK, transport=transport) as client,
        pytest.raises(RateLimited) as caught,
    ):
        client.balance.get()
    assert caught.value.retry_after is None
