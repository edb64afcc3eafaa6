"""A request has exactly one effect, even if its connection is cut at any time."""

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


def timeout_for(cut: Cut) -> float:
    """Return the client's timeout: short if the cut leaves the connection silent."""
    return 1.0 if cut.startswith("silent") else 30.0


def connect_through(proxy: Proxy, shop: Shop, **options: Any) -> Client:
    options = {"retries": QUICK, "timeout_s": 2.0, "trust_env": False} | options
    return Client(proxy.url, shop.key, **options)


def sent_idempotency_keys(proxy: Proxy) -> list[bytes]:
    """Return the Idempotency-Key header of every request that reached the proxy."""
    lines = [line for request in proxy.requests for line in request.split(b"\r\n")]
    return [line for line in lines if line.lower().startswith(b"idempotency-key:")]


@pytest.mark.parametrize("cut", CUTS)
def test_a_refund_is_made_once_wherever_the_connection_is_cut(
    proxy: Proxy, shop: Shop, cut: Cut
) -> None:
    order = shop.create_paid_order()
    with connect_through(proxy, shop, timeout_s=timeout_for(cut)) as client:
        proxy.plan = [cut, "after"]
        refund = client.refunds.create(order["id"], amount="1.00")
        assert [row.id for row in client.refunds.list(order["id"])] == [refund.id]
    keys = sent_idempotency_keys(proxy)
    assert len(keys) >= 3  # a slow response makes the client send more requests
    assert len(set(keys)) == 1
    shop.api_server.check_books()


@pytest.mark.parametrize("cut", CUTS)
async def test_a_session_is_opened_once_wherever_the_connection_is_cut(
    proxy: Proxy, shop: Shop, cut: Cut
) -> None:
    tea = shop.create_product()["id"]
    proxy.plan = [cut, "after"]
    async with AsyncClient(
        proxy.url, shop.key, retries=QUICK, timeout_s=timeout_for(cut), trust_env=False
    ) as client:
        session = await client.checkouts.create(tea)
        orders = [order.checkout_session_id async for order in client.orders.list()]
    assert orders == [session.id]
    assert len(set(sent_idempotency_keys(proxy))) == 1


@pytest.mark.parametrize("cut", CUTS)
def test_get_and_delete_are_retried_without_an_idempotency_key(
    proxy: Proxy, shop: Shop, cut: Cut
) -> None:
    tea = shop.create_product()["id"]
    with connect_through(proxy, shop, timeout_s=timeout_for(cut)) as client:
        proxy.plan = [cut, "before"]
        assert client.products.get(tea).id == tea
        proxy.plan = [cut, "before"]
        client.products.archive(tea)
    assert sent_idempotency_keys(proxy) == []


def test_a_delete_without_a_response_succeeds_when_retried(proxy: Proxy, shop: Shop) -> None:
    with connect_through(proxy, shop) as client:
        endpoint = client.webhook_endpoints.create("https://shop.example.com/hook")
        proxy.plan = ["after"]
        client.webhook_endpoints.delete(endpoint.id)
        with pytest.raises(NotFound) as failure:
            client.webhook_endpoints.delete(endpoint.id)
    assert failure.value.maybe_done is False


async def test_an_async_delete_without_a_response_succeeds_when_retried(
    proxy: Proxy, shop: Shop
) -> None:
    async with AsyncClient(proxy.url, shop.key, retries=QUICK, trust_env=False) as client:
        endpoint = await client.webhook_endpoints.create("https://shop.example.com/hook")
        proxy.plan = ["after"]
        await client.webhook_endpoints.delete(endpoint.id)


def test_a_refused_retry_leaves_it_unknown_whether_the_earlier_attempt_succeeded(
    shop: Shop,
) -> None:
    refusal = httpx2.Response(403, json={"code": 40301, "message": "Forbidden"})
    responses = iter([httpx2.Response(502, text="<h1>Bad gateway</h1>"), refusal])
    transport = httpx2.MockTransport(lambda _: next(responses))
    with (
        Client("http://pay.example", shop.key, retries=QUICK, transport=transport) as client,
        pytest.raises(OpenTillError) as failure,
    ):
        client.webhook_endpoints.delete("whe_01")
    assert (failure.value.status, failure.value.maybe_done) == (403, True)


@pytest.mark.parametrize("cut", ["before", "after"])
def test_a_patch_that_may_have_succeeded_is_not_retried(proxy: Proxy, shop: Shop, cut: Cut) -> None:
    tea = shop.create_product()["id"]
    with connect_through(proxy, shop) as client:
        proxy.plan = [cut]
        with pytest.raises(ConnectionFailed) as failure:
            client.products.update(tea, price="5.00")
        assert failure.value.maybe_done is True
        assert len(proxy.requests) == 1


def test_the_error_says_whether_any_attempt_may_have_succeeded(proxy: Proxy, shop: Shop) -> None:
    order = shop.create_paid_order()
    retries = Retries(attempts=2, first_delay_s=0.01)
    with connect_through(proxy, shop, retries=retries) as client:
        proxy.plan = ["after", "before"]
        with pytest.raises(ConnectionFailed) as failure:
            client.refunds.create(order["id"], amount="1.00")
        assert failure.value.maybe_done is True
        key = failure.value.idempotency_key
        client.refunds.create(order["id"], amount="1.00", idempotency_key=key)
        assert client.refunds.list(order["id"]).page().pagination.total == 1


def test_an_unreachable_server_has_surely_not_acted(proxy: Proxy, shop: Shop) -> None:
    retries = Retries(attempts=3, first_delay_s=0.01)
    with Client("http://127.0.0.1:9", shop.key, retries=retries, trust_env=False) as client:
        with pytest.raises(ConnectionFailed) as failure:
            client.products.create(name="Tea", price="1.00", currency="USD")
        assert failure.value.maybe_done is False


def test_retries_stop_after_the_total_time(proxy: Proxy, shop: Shop) -> None:
    retries = Retries(attempts=100, first_delay_s=0.01, total_s=0.3)
    with connect_through(proxy, shop, retries=retries) as client:
        proxy.plan = ["silent_before"] * 100
        with pytest.raises(ConnectionFailed):
            client.balance.get()
        assert len(proxy.requests) <= 3


def test_an_interrupted_download_raises_and_leaves_no_file(
    proxy: Proxy, shop: Shop, tmp_path: Path
) -> None:
    shop.create_order()
    with connect_through(proxy, shop) as client:
        proxy.plan = ["before", "half"]
        with pytest.raises(ConnectionFailed, match="broke off"):
            client.orders.export().save(tmp_path / "orders.csv")
        assert list(tmp_path.iterdir()) == []
        assert client.orders.export().save(tmp_path / "orders.csv") > 0


def test_concurrent_requests_with_one_idempotency_key_create_one_refund(
    api_server: ApiServer, shop: Shop
) -> None:
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


# Each row: HTTP method, status of the responses, number of attempts, `maybe_done` of the last
# error.
FAILED_RESPONSES: Final = [
    ("POST", 500, 1, True),
    ("POST", 502, 3, True),
    ("POST", 503, 3, True),
    ("POST", 504, 3, True),
    ("PATCH", 502, 1, True),
    ("GET", 502, 3, False),
    ("GET", 500, 1, False),
]


@pytest.mark.parametrize(("method", "status", "attempts", "maybe_done"), FAILED_RESPONSES)
def test_failures_of_a_server_or_proxy_are_retried_unless_they_may_have_an_effect(
    method: str, status: int, attempts: int, maybe_done: bool, shop: Shop
) -> None:
    counter = itertools.count()

    def respond(_: httpx2.Request) -> httpx2.Response:
        next(counter)
        return httpx2.Response(status, text="<h1>Bad gateway</h1>")

    retries = Retries(attempts=3, first_delay_s=0.01)
    transport = httpx2.MockTransport(respond)
    with Client("http://pay.example", shop.key, retries=retries, transport=transport) as client:
        calls = {
            "POST": lambda: client.products.create(name="Tea", price="1", currency="USD"),
            "PATCH": lambda: client.products.update("prod_01", price="1"),
            "GET": client.balance.get,
        }
        with pytest.raises(ServerError) as failure:
            calls[method]()
    assert next(counter) == attempts
    assert failure.value.maybe_done is maybe_done


def test_the_client_waits_while_its_idempotency_key_is_in_use() -> None:
    responses = iter(
        [
            httpx2.Response(409, json={"code": 40901, "message": "Conflict"}),
            httpx2.Response(429, headers={"retry-after": "0"}, text="slow"),
            httpx2.Response(
                404, json={"code": 40401, "message": "Not Found"}, headers={"x-request-id": "r"}
            ),
        ]
    )
    transport = httpx2.MockTransport(lambda _: next(responses))
    with (
        Client("http://pay.example", retries=QUICK, transport=transport) as client,
        pytest.raises(OpenTillError) as failure,
    ):
        client.refunds.create("order_01")
    assert (failure.value.status, failure.value.request_id) == (404, "r")


def rate_limited_response(retry_after_s: int) -> httpx2.Response:
    return httpx2.Response(429, headers={"retry-after": str(retry_after_s)}, text="slow")


def test_the_client_waits_twice_for_the_whole_window_of_the_rate_limit() -> None:
    retried_request = RetriedRequest(operations.get_balance(), Retries(), 30.0)
    assert [
        retried_request.delay_after_refusal(rate_limited_response(61), b"slow") for _ in range(2)
    ] == [61.0, 61.0]


def test_the_client_does_not_wait_beyond_its_total_time() -> None:
    retried_request = RetriedRequest(operations.get_balance(), Retries(total_s=60.0), 30.0)
    assert retried_request.delay_after_refusal(rate_limited_response(53), b"slow") == 53.0
    with pytest.raises(RateLimited):
        retried_request.delay_after_refusal(rate_limited_response(55), b"slow")


@pytest.mark.parametrize(
    "header", ["soon", "Fri, 99 Feb 2024 99:00:00 GMT", f"Mon, 01 Jan 2024 00:00:00 +{'9' * 20}"]
)
def test_an_invalid_retry_after_is_ignored(header: str) -> None:
    refusal = httpx2.Response(429, headers={"retry-after": header}, text="slow")
    transport = httpx2.MockTransport(lambda _: refusal)
    with (
        Client("http://pay.example", retries=QUICK, transport=transport) as client,
        pytest.raises(RateLimited) as failure,
    ):
        client.balance.get()
    assert failure.value.retry_after is None
