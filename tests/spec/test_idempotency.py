"""Idempotency keys (contract.md#idempotency-keys)."""

import asyncio
import threading
from collections import Counter
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any, Final

import pytest

from opentill.db.database import Tx
from opentill.http import idempotency
from support.api_server import TEA, ApiServer, Shop, assert_refused, serving

DAY_MS: Final = 24 * 3600 * 1000


def _paths(shop: Shop) -> dict[str, tuple[str, Any]]:
    product = shop.create_product()["id"]
    return {
        "products": ("/v1/products", TEA),
        "checkouts": ("/v1/checkouts", {"productId": product}),
        "expire": (f"/v1/checkouts/{shop.create_session(product)['id']}/expire", None),
        "refunds": (
            f"/v1/orders/{shop.create_paid_order(product)['id']}/refunds",
            {"amount": "1.00"},
        ),
    }


@pytest.mark.parametrize("which", ["products", "checkouts", "expire", "refunds"])
def test_the_first_response_is_repeated_byte_for_byte(shop: Shop, which: str) -> None:
    path, body = _paths(shop)[which]
    before = _counts(shop)
    first = shop.post(path, body, key="key 1")
    assert first.status_code in {200, 201}
    assert "idempotent-replayed" not in first.headers
    after = _counts(shop)
    for _ in range(2):
        again = shop.post(path, body, key="key 1")
        assert (again.status_code, again.content) == (first.status_code, first.content)
        assert again.headers["idempotent-replayed"] == "true"
        assert again.headers["content-type"] == "application/json"
        assert again.headers["x-request-id"] != first.headers["x-request-id"]
    assert _counts(shop) == after
    assert which == "expire" or after != before
    if body is not None:
        other = shop.post(path, body, key="key 2")
        assert other.content != first.content


def _counts(shop: Shop) -> list[int]:
    lists = ("/v1/products", "/v1/orders", "/v1/balance/transactions")
    return [shop.data("GET", path)["pagination"]["total"] for path in lists]


@pytest.mark.parametrize(
    ("path", "body"),
    [
        ("/v1/products", TEA | {"name": "Coffee"}),
        ("/v1/products", {}),
        ("/v1/products?a=b", TEA),
        ("/v1/checkouts", TEA),
    ],
)
def test_the_same_key_with_another_request_is_422(shop: Shop, path: str, body: Any) -> None:
    first = shop.post("/v1/products", TEA, key="k")
    answer = shop.post(path, body, key="k")
    assert answer.status_code == 422
    assert answer.json() == {"code": 42201, "message": "Idempotency key reused"}
    assert "idempotent-replayed" not in answer.headers
    assert shop.post("/v1/products", TEA, key="k").content == first.content


def test_refusals_are_stored(shop: Shop) -> None:
    product = shop.create_product()
    body = {"productId": product["id"]}
    shop.call("DELETE", f"/v1/products/{product['id']}")
    first = shop.post("/v1/checkouts", body, key="k")
    assert_refused(first, "productId")
    again = shop.post("/v1/checkouts", body, key="k")
    assert (again.status_code, again.content) == (400, first.content)
    assert again.headers["idempotent-replayed"] == "true"
    order = shop.create_order()
    path = f"/v1/orders/{order['id']}/refunds"
    assert_refused(shop.post(path, {}, key="r"), "orderId")
    shop.confirm(order["id"])
    assert_refused(
        shop.post(path, {}, key="r"), "orderId"
    )  # stored, though the request would succeed now
    assert shop.post(path, {}, key="r2").status_code == 201
    missing = "/v1/orders/order_01m7y0m0jzefzv5n8efcf1hqw2/refunds"
    assert [shop.post(missing, {}, key="m").status_code for _ in range(2)] == [404, 404]


def test_a_refusal_stores_nothing_but_its_response(api_server: ApiServer) -> None:
    shop = api_server.create_shop(overdraft_minor=0)
    order = shop.create_paid_order()
    assert_refused(shop.post(f"/v1/orders/{order['id']}/refunds", {}, key="k"), "amount")
    assert shop.data("GET", f"/v1/orders/{order['id']}/refunds")["items"] == []
    assert shop.data("GET", "/v1/balance")["frozen"] == "0.00"
    assert shop.refund(order["id"], amount="9.59")["amount"] == "9.59"


@pytest.mark.parametrize(
    "key", ["k", "k" * 255, "with spaces and !\"#$%&'()*+,-./:;<=>?@[]^_`{|}~"]
)
def test_a_printable_key_is_accepted(shop: Shop, key: str) -> None:
    assert shop.post("/v1/products", TEA, key=key).status_code == 201


@pytest.mark.parametrize("key", [b"", b"k" * 256, b"\xc3\xa9", b"a\tb", b"\x80"])
def test_an_invalid_key_is_refused(shop: Shop, key: bytes) -> None:
    headers: Any = {"idempotency-key": key}
    assert_refused(shop.call("POST", "/v1/products", json=TEA, headers=headers), "Idempotency-Key")


def test_merchants_do_not_share_keys(shop: Shop, api_server: ApiServer) -> None:
    other = api_server.create_shop()
    first = shop.post("/v1/products", TEA, key="k")
    second = other.post("/v1/products", TEA | {"name": "Other"}, key="k")
    assert second.status_code == 201
    assert "idempotent-replayed" not in second.headers
    assert first.json()["data"]["id"] != second.json()["data"]["id"]


def test_other_methods_ignore_a_key(shop: Shop) -> None:
    path = f"/v1/products/{shop.create_product()['id']}"
    for price in ("1.00", "2.00"):
        answer = shop.call("PATCH", path, json={"price": price}, headers={"idempotency-key": "k"})
        assert answer.json()["data"]["price"] == price
    for _ in range(2):
        answer = shop.call("GET", path, headers={"idempotency-key": "k"})
        assert "idempotent-replayed" not in answer.headers


def test_a_response_is_stored_for_seven_days(shop: Shop, clock: Callable[[int], None]) -> None:
    now = shop.api_server.app.clock()
    clock(now)
    first = shop.post("/v1/products", TEA, key="k")
    clock(now + 7 * DAY_MS - 1000)
    assert shop.post("/v1/products", TEA, key="k").content == first.content
    clock(now + 7 * DAY_MS + 1000)
    fresh = shop.post("/v1/products", TEA | {"name": "New"}, key="k")
    assert fresh.status_code == 201
    assert "idempotent-replayed" not in fresh.headers


def test_only_old_keys_are_pruned(shop: Shop) -> None:
    shop.post("/v1/products", TEA, key="k")
    now = shop.api_server.app.clock()

    def count_keys() -> int:
        sql = "select from idempotency_keys where merchant_id = $1"
        return len(shop.api_server.sql(sql, shop.id))

    shop.api_server.tx(lambda tx: idempotency.prune(tx, now + 7 * DAY_MS - 60_000))
    assert count_keys() == 1
    shop.api_server.tx(lambda tx: idempotency.prune(tx, now + 7 * DAY_MS + 60_000))
    assert count_keys() == 0


def test_a_429_is_not_stored(api_server: ApiServer) -> None:
    with serving(api_server.settings, limit_checkouts_per_minute=1) as limited:
        shop = limited.create_shop()
        body = {"productId": shop.create_product()["id"]}
        shop.post("/v1/checkouts", body)
        assert shop.post("/v1/checkouts", body, key="k").status_code == 429
        now = limited.app.clock()
        limited.app.clock = lambda: now + 61_000
        answer = shop.post("/v1/checkouts", body, key="k")
        assert answer.status_code == 201
        assert "idempotent-replayed" not in answer.headers


def test_50_parallel_requests_with_one_key_have_one_effect(shop: Shop) -> None:
    order = shop.create_paid_order()
    path = f"/v1/orders/{order['id']}/refunds"
    gate = threading.Barrier(50)

    def refund(_: int) -> tuple[int, bytes]:
        gate.wait()
        answer = shop.post_until_decided(path, {"amount": "0.10"}, key="once")
        return answer.status_code, answer.content

    with ThreadPoolExecutor(50) as pool:
        answers = Counter(pool.map(refund, range(50)))
    created = [content for status, content in answers if status == 201]
    assert len(created) == 1
    assert {status for status, _ in answers} <= {201, 409}
    assert shop.data("GET", path)["pagination"]["total"] == 1


def test_requests_during_the_first_one_are_409(shop: Shop, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(idempotency, "LONGEST_WAIT", "200ms")
    first = shop.post("/v1/products", TEA, key="first").json()["data"]["id"]
    running, done = threading.Event(), asyncio.Event()

    async def hold(tx: Tx) -> None:
        digest = idempotency.fingerprint("POST", "/v1/products?", b"")
        await idempotency.claim(tx, shop.id, "held", digest, shop.api_server.app.clock())
        running.set()
        await done.wait()

    holder = asyncio.run_coroutine_threadsafe(
        shop.api_server.app.db.run(hold), shop.api_server._loop
    )
    assert running.wait(10)
    answer = shop.post("/v1/products", TEA, key="held")
    assert (answer.status_code, answer.json()) == (409, {"code": 40901, "message": "Conflict"})
    shop.api_server._loop.call_soon_threadsafe(done.set)
    holder.result(10)
    assert shop.get(f"/v1/products/{first}").status_code == 200


def test_a_locked_row_is_503_which_is_not_stored(
    shop: Shop, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(idempotency, "LONGEST_WAIT", "200ms")
    order = shop.create_paid_order()
    path = f"/v1/orders/{order['id']}/refunds"
    running, done = threading.Event(), asyncio.Event()

    async def hold(tx: Tx) -> None:
        await tx.fetch(
            "select from orders where merchant_id = $1 and id = $2 for update", shop.id, order["id"]
        )
        running.set()
        await done.wait()

    holder = asyncio.run_coroutine_threadsafe(
        shop.api_server.app.db.run(hold), shop.api_server._loop
    )
    assert running.wait(10)
    assert shop.post(path, {}, key="k").status_code == 503
    shop.api_server._loop.call_soon_threadsafe(done.set)
    holder.result(10)
    assert shop.post(path, {}, key="k").status_code == 201


@pytest.mark.parametrize("which", ["products", "checkouts", "refunds"])
def test_a_post_interrupted_before_its_response_is_stored_has_no_effect(
    shop: Shop, monkeypatch: pytest.MonkeyPatch, which: str
) -> None:
    """A retry with the same key has one effect, wherever the first request was interrupted."""
    path, body = _paths(shop)[which]
    before = _counts(shop)
    cuts = 0

    async def cut(tx: Tx, *_: object) -> None:
        nonlocal cuts
        cuts += 1
        await tx.execute("select pg_terminate_backend(pg_backend_pid())")

    with monkeypatch.context() as patch:
        patch.setattr(idempotency, "store", cut)
        assert shop.post(path, body, key="cut").status_code == 503
    assert cuts >= 1
    assert _counts(shop) == before
    response = shop.post(path, body, key="cut")
    assert response.status_code == 201
    assert "idempotent-replayed" not in response.headers
    after = _counts(shop)
    assert after != before
    assert shop.post(path, body, key="cut").content == response.content
    assert _counts(shop) == after


def test_each_key_has_its_own_response(shop: Shop) -> None:
    bodies = {key: {"name": key, "price": "1.00", "currency": "USD"} for key in ("k-1", "k-2")}
    first = {key: shop.post("/v1/products", body, key=key) for key, body in bodies.items()}
    for key, body in bodies.items():
        again = shop.post("/v1/products", body, key=key)
        assert again.headers["idempotent-replayed"] == "true"
        assert again.content == first[key].content
    assert shop.data("GET", "/v1/products")["pagination"]["total"] == 2
