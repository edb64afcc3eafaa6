"""A request repeated with its idempotency key has one effect (contract.md#idempotency-keys)."""

import asyncio
import threading
from collections.abc import Callable
from typing import Any, Final

import pytest

from opentill.db.database import Tx
from opentill.http import idempotency
from support.api_server import TEA, ApiServer, Shop, assert_refused, serving

DAY_MS: Final = 24 * 3600 * 1000


def _requests(shop: Shop) -> dict[str, tuple[str, Any]]:
    """Return the path and body of a valid request, by resource."""
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


@pytest.mark.parametrize("resource", ["products", "checkouts", "expire", "refunds"])
def test_the_first_response_is_repeated_byte_for_byte(shop: Shop, resource: str) -> None:
    path, body = _requests(shop)[resource]
    before = _counts(shop)
    original = shop.post(path, body, key="key 1")
    assert original.status_code in {200, 201}
    assert "idempotent-replayed" not in original.headers
    after = _counts(shop)
    for _ in range(2):
        replayed = shop.post(path, body, key="key 1")
        assert (replayed.status_code, replayed.content) == (original.status_code, original.content)
        assert replayed.headers["idempotent-replayed"] == "true"
        assert replayed.headers["content-type"] == "application/json"
        assert replayed.headers["x-request-id"] != original.headers["x-request-id"]
    assert _counts(shop) == after
    assert resource == "expire" or after != before
    if body is not None:
        with_other_key = shop.post(path, body, key="key 2")
        assert with_other_key.content != original.content


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
    original = shop.post("/v1/products", TEA, key="k")
    response = shop.post(path, body, key="k")
    assert response.status_code == 422
    assert response.json() == {"code": 42201, "message": "Idempotency key reused"}
    assert "idempotent-replayed" not in response.headers
    assert shop.post("/v1/products", TEA, key="k").content == original.content


def test_a_refusal_is_stored_and_replayed(shop: Shop) -> None:
    product = shop.create_product()
    body = {"productId": product["id"]}
    shop.call("DELETE", f"/v1/products/{product['id']}")
    original = shop.post("/v1/checkouts", body, key="k")
    assert_refused(original, "productId")
    replayed = shop.post("/v1/checkouts", body, key="k")
    assert (replayed.status_code, replayed.content) == (400, original.content)
    assert replayed.headers["idempotent-replayed"] == "true"
    order = shop.create_order()
    path = f"/v1/orders/{order['id']}/refunds"
    assert_refused(shop.post(path, {}, key="r"), "orderId")
    shop.confirm(order["id"])
    assert_refused(shop.post(path, {}, key="r"), "orderId")
    # With a new key, the same request has an effect.
    assert shop.post(path, {}, key="r2").status_code == 201
    missing = "/v1/orders/order_01m7y0m0jzefzv5n8efcf1hqw2/refunds"
    assert [shop.post(missing, {}, key="m").status_code for _ in range(2)] == [404, 404]


def test_a_refused_request_changes_nothing(api_server: ApiServer) -> None:
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
    other_shop = api_server.create_shop()
    response = shop.post("/v1/products", TEA, key="k")
    other_response = other_shop.post("/v1/products", TEA | {"name": "Other"}, key="k")
    assert other_response.status_code == 201
    assert "idempotent-replayed" not in other_response.headers
    assert response.json()["data"]["id"] != other_response.json()["data"]["id"]


def test_other_methods_ignore_a_key(shop: Shop) -> None:
    path = f"/v1/products/{shop.create_product()['id']}"
    for price in ("1.00", "2.00"):
        response = shop.call("PATCH", path, json={"price": price}, headers={"idempotency-key": "k"})
        assert response.json()["data"]["price"] == price
    for _ in range(2):
        response = shop.call("GET", path, headers={"idempotency-key": "k"})
        assert "idempotent-replayed" not in response.headers


def test_a_response_is_stored_for_seven_days(shop: Shop, clock: Callable[[int], None]) -> None:
    now = shop.api_server.app.clock()
    clock(now)
    original = shop.post("/v1/products", TEA, key="k")
    clock(now + 7 * DAY_MS - 1000)
    assert shop.post("/v1/products", TEA, key="k").content == original.content
    clock(now + 7 * DAY_MS + 1000)
    new_response = shop.post("/v1/products", TEA | {"name": "New"}, key="k")
    assert new_response.status_code == 201
    assert "idempotent-replayed" not in new_response.headers


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
        response = shop.post("/v1/checkouts", body, key="k")
        assert response.status_code == 201
        assert "idempotent-replayed" not in response.headers


def test_a_repetition_while_the_first_request_runs_is_409(
    shop: Shop, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(idempotency, "LONGEST_WAIT", "200ms")
    product_id = shop.post("/v1/products", TEA, key="first").json()["data"]["id"]
    running, is_done = threading.Event(), asyncio.Event()

    async def hold(tx: Tx) -> None:
        digest = idempotency.fingerprint("POST", "/v1/products?", b"")
        await idempotency.claim(tx, shop.id, "held", digest, shop.api_server.app.clock())
        running.set()
        await is_done.wait()

    holder = asyncio.run_coroutine_threadsafe(
        shop.api_server.app.db.run(hold), shop.api_server._loop
    )
    assert running.wait(10)
    response = shop.post("/v1/products", TEA, key="held")
    assert (response.status_code, response.json()) == (409, {"code": 40901, "message": "Conflict"})
    shop.api_server._loop.call_soon_threadsafe(is_done.set)
    holder.result(10)
    assert shop.get(f"/v1/products/{product_id}").status_code == 200


def test_a_locked_row_is_503_which_is_not_stored(
    shop: Shop, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(idempotency, "LONGEST_WAIT", "200ms")
    order = shop.create_paid_order()
    path = f"/v1/orders/{order['id']}/refunds"
    running, is_done = threading.Event(), asyncio.Event()

    async def hold(tx: Tx) -> None:
        await tx.fetch(
            "select from orders where merchant_id = $1 and id = $2 for update", shop.id, order["id"]
        )
        running.set()
        await is_done.wait()

    holder = asyncio.run_coroutine_threadsafe(
        shop.api_server.app.db.run(hold), shop.api_server._loop
    )
    assert running.wait(10)
    assert shop.post(path, {}, key="k").status_code == 503
    shop.api_server._loop.call_soon_threadsafe(is_done.set)
    holder.result(10)
    assert shop.post(path, {}, key="k").status_code == 201


@pytest.mark.parametrize("resource", ["products", "checkouts", "refunds"])
def test_a_post_interrupted_before_its_response_is_stored_has_no_effect(
    shop: Shop, monkeypatch: pytest.MonkeyPatch, resource: str
) -> None:
    """A retry with the same key has the one effect."""
    path, body = _requests(shop)[resource]
    before = _counts(shop)
    interruptions = 0

    async def interrupt(tx: Tx, *_: object) -> None:
        nonlocal interruptions
        interruptions += 1
        await tx.execute("select pg_terminate_backend(pg_backend_pid())")

    with monkeypatch.context() as patch:
        patch.setattr(idempotency, "store", interrupt)
        assert shop.post(path, body, key="cut").status_code == 503
    assert interruptions >= 1
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
    responses = {key: shop.post("/v1/products", body, key=key) for key, body in bodies.items()}
    for key, body in bodies.items():
        replayed = shop.post("/v1/products", body, key=key)
        assert replayed.headers["idempotent-replayed"] == "true"
        assert replayed.content == responses[key].content
    assert shop.data("GET", "/v1/products")["pagination"]["total"] == 2
