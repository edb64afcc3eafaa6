"""Requests are checked in order and limited (contract.md#api, contract.md#rate-limits)."""

import itertools
import re
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from http.client import HTTPConnection
from ipaddress import ip_network
from typing import Any, Final
from urllib.parse import urlsplit

import pytest

from opentill.app import OPERATIONS
from opentill.http.operations import Operation
from support.api_server import TEA, ApiServer, Shop, assert_refused, error_of, serving

_JSON: Final = {"content-type": "application/json"}
AGREEMENT: Final = "/v1/config/legal/merchant-services-agreement"
WITH_BODY: Final = [operation for operation in OPERATIONS if operation.method in {"POST", "PATCH"}]


def _named(operation: Operation) -> str:
    return f"{operation.method} {operation.path}"


def _path(operation: Operation) -> str:
    return operation.path.replace("{id}", "prod_01m7y0m0jzefzv5n8efcf1hqw1")


# ── routes, methods, bodies ──


@pytest.mark.parametrize(
    "path",
    ["/v1", "/v1/", "/v1/unknown", "/v2/products", "/v1/products/x/y", "/v1//products",
     "/V1/products", "/v1/products/", "/v1/orders/export/", "/nothing", "/v1/%2e%2e/products",
     "//v1/products"],
)  # fmt: skip
@pytest.mark.parametrize("method", ["GET", "POST", "DELETE"])
def test_an_unknown_path_is_not_found(shop: Shop, path: str, method: str) -> None:
    response = shop.call(method, f"{shop.api_server.url}{path}")
    assert response.status_code in ({404, 405} if path.endswith("s/") else {404}), response.text


METHODS: Final = ("GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS")
PATHS: Final = sorted({operation.path for operation in OPERATIONS})


@pytest.mark.parametrize("path", PATHS)
def test_an_unsupported_method_is_405_with_the_allowed_ones(shop: Shop, path: str) -> None:
    supported = {operation.method for operation in OPERATIONS if operation.path == path}
    for method in METHODS:
        if method in supported:
            continue
        response = shop.call(method, path.replace("{id}", "prod_01m7y0m0jzefzv5n8efcf1hqw1"))
        assert response.status_code == 405
        assert response.headers["allow"] == ", ".join(sorted(supported))
        if method != "HEAD":
            assert response.json() == {"code": 40501, "message": "Method not allowed"}


@pytest.mark.parametrize("path", ["/healthz", "/readyz", "/openapi.json"])
def test_an_unsupported_method_outside_the_api_is_405(api_server: ApiServer, path: str) -> None:
    response = api_server.http.post(path)
    assert (response.status_code, response.json()["code"]) == (405, 40501)
    assert "GET" in response.headers["allow"]


@pytest.mark.parametrize(
    "media_type",
    [None, "", "text/plain", "application/x-www-form-urlencoded", "multipart/form-data",
     "application/jsonp", "application/vnd.api+json", "application", "json", "text/json"],
)  # fmt: skip
@pytest.mark.parametrize("operation", WITH_BODY, ids=_named)
def test_a_body_with_another_content_type_is_415(
    shop: Shop, operation: Operation, media_type: str | None
) -> None:
    if operation.path.endswith("/expire"):
        return
    product, order = shop.create_product()["id"], shop.create_order()["id"]
    path = operation.path.replace("{id}", order if "orders" in operation.path else product)
    response = shop.call(
        operation.method, path, content=b'{"name":"x"}', headers={"content-type": media_type}
    )
    assert response.status_code == 415
    assert response.json() == {"code": 41501, "message": "Unsupported media type"}


@pytest.mark.parametrize(
    "media_type",
    [
        "application/json",
        "Application/JSON",
        "application/json; charset=utf-8",
        "application/json ;a=b",
    ],
)
def test_every_media_type_of_json_is_accepted(shop: Shop, media_type: str) -> None:
    headers = {"content-type": media_type}
    body = b'{"name":"Tea","price":"1","currency":"USD"}'
    assert shop.call("POST", "/v1/products", content=body, headers=headers).status_code == 201


def test_a_body_of_64_kib_is_accepted_and_one_byte_more_is_413(shop: Shop) -> None:
    body = b'{"name":"Tea","price":"1","currency":"USD","unknown":"%s"}'
    largest = body % (b"x" * (64 * 1024 - len(body) + 2))
    assert len(largest) == 64 * 1024
    for content, is_chunked in itertools.product((largest, largest + b" "), (False, True)):
        chunks = iter([content[:1000], content[1000:]]) if is_chunked else content
        response = shop.call("POST", "/v1/products", content=chunks, headers=_JSON)
        if content is largest:
            assert response.status_code == 201
        else:
            assert response.status_code == 413
            assert response.json() == {"code": 41301, "message": "Payload too large"}


@pytest.mark.parametrize("length", ["0" * 5000 + "2", "0" * 20 + "2"])
@pytest.mark.parametrize(
    ("path", "media_type", "status"),
    [
        ("/v1/merchant/sessions", "application/json", 413),
        ("/gateways/sandbox/callback", "application/json", 413),
        ("/login", "application/x-www-form-urlencoded", 413),
        # The Epay API reports errors with status 200.
        ("/epay/mapi.php", "application/x-www-form-urlencoded", 200),
    ],
)
def test_a_content_length_of_many_digits_is_refused(
    api_server: ApiServer, path: str, media_type: str, status: int, length: str
) -> None:
    """Python converts at most 4,300 digits to an integer."""
    address = urlsplit(api_server.url)
    with closing(HTTPConnection(address.hostname or "", address.port, timeout=30)) as connection:
        connection.putrequest("POST", path)
        connection.putheader("Content-Length", length)
        connection.putheader("Content-Type", media_type)
        connection.putheader("Origin", api_server.url)
        connection.endheaders(b"{}")
        response = connection.getresponse()
        assert response.status == status
        assert (status == 200) == (b"64 KiB" in response.read())


def test_every_response_has_a_unique_request_id(shop: Shop) -> None:
    paths = ("/v1/products", "/v1/nothing", "/healthz", "/docs", "/openapi.json", "/checkout/x")
    ids = [shop.get(path).headers["x-request-id"] for path in paths * 2]
    assert len(set(ids)) == len(ids)
    response = shop.call("GET", "/v1/products", headers={"x-request-id": "mine"})
    assert re.fullmatch("req_[0-9a-z]{26}", response.headers["x-request-id"])


# ── rate limits ──
# The tests distinguish clients by X-Forwarded-For, which a trusted proxy sets.

_addresses: Final = itertools.count(1)


@pytest.fixture(scope="module")
def limited(api_server: ApiServer) -> Iterator[ApiServer]:
    """A server with low limits behind a trusted proxy."""
    changes = {
        "limit_ip_per_minute": 5,
        "limit_checkouts_per_minute": 2,
        "trusted_proxies": (ip_network("127.0.0.0/8"),),
    }
    with serving(api_server.settings, **changes) as running:
        yield running


@pytest.fixture
def caller(limited: ApiServer) -> Iterator[tuple[Shop, dict[str, str], Callable[[int], None]]]:
    """A merchant, headers with an unused address, and a function that sets the clock."""
    now = limited.app.clock()
    address = {"x-forwarded-for": f"198.51.100.{next(_addresses)}"}

    def advance(ms: int) -> None:
        limited.app.clock = lambda: now + ms

    original = limited.app.clock
    advance(0)
    yield limited.create_shop(), address, advance
    limited.app.clock = original


def _assert_limited(response: Any, limit: int, wait: int) -> None:
    assert response.status_code == 429
    assert response.json() == {"code": 42901, "message": "Too many requests"}
    assert response.headers["retry-after"] == str(wait)
    assert response.headers["ratelimit-policy"] == f'"default";q={limit};w=60'
    assert response.headers["ratelimit"] == f'"default";r=0;t={wait}'


def test_the_limit_of_an_address_has_a_sliding_window(caller: Any) -> None:
    shop, address, advance = caller
    for ms in (0, 10_000, 20_000, 20_001, 20_002):
        advance(ms)
        assert shop.call("GET", "/v1/products", headers=address).status_code == 200
    _assert_limited(shop.call("GET", "/v1/products", headers=address), 5, 40)
    advance(59_999)
    _assert_limited(shop.call("GET", "/v1/products", headers=address), 5, 1)
    advance(60_000)
    assert shop.call("GET", "/v1/products", headers=address).status_code == 200
    _assert_limited(shop.call("GET", "/v1/products", headers=address), 5, 10)


@pytest.mark.parametrize("operation", OPERATIONS, ids=_named)
def test_the_address_limit_of_an_operation_is_checked_first(
    caller: Any, operation: Operation
) -> None:
    shop, address, _ = caller
    for _ in range(5):  # failed authentications count towards the limit too
        response = shop.api_server.http.get("/v1/balance", headers=address)
        assert response.status_code == 401
    for headers in (address, address | {"x-api-key": shop.key}):
        response = shop.api_server.http.request(
            operation.method, _path(operation), headers=headers, content=b"x" * 100_000
        )
        _assert_limited(response, 5, 60)


def test_the_agreement_and_unknown_paths_count_towards_the_limit(caller: Any) -> None:
    shop, address, _ = caller
    for path in (AGREEMENT, "/v1/nothing", AGREEMENT, "/v1/", AGREEMENT):
        assert shop.api_server.http.get(path, headers=address).status_code in {200, 404}
    _assert_limited(shop.api_server.http.get(AGREEMENT, headers=address), 5, 60)
    for path in (
        "/healthz",
        "/readyz",
        "/docs",
        "/checkout/x",
        "/legal/merchant-services-agreement",
    ):
        assert shop.api_server.http.get(path, headers=address).status_code in {200, 404}


def test_concurrent_requests_are_limited_exactly(caller: Any) -> None:
    shop, address, _ = caller
    barrier = threading.Barrier(20)

    def send(_: int) -> int:
        barrier.wait()
        return int(shop.call("GET", "/v1/products", headers=address).status_code)

    with ThreadPoolExecutor(20) as pool:
        statuses = list(pool.map(send, range(20)))
    assert (statuses.count(200), statuses.count(429)) == (5, 15)


def test_the_session_limit_of_a_merchant_covers_all_its_addresses(caller: Any) -> None:
    shop, address, advance = caller
    product = shop.data("POST", "/v1/products", json=TEA, headers=address)["id"]
    other_shop = shop.api_server.create_shop()

    def open_session(merchant: Shop, address: str, product: str) -> Any:
        body = {"productId": product}
        headers = {"x-forwarded-for": address}
        return merchant.call("POST", "/v1/checkouts", json=body, headers=headers)

    assert open_session(shop, "203.0.113.1", product).status_code == 201
    advance(30_000)
    # A refused session counts towards the limit as well.
    assert_refused(open_session(shop, "203.0.113.2", "unknown"), "productId")
    _assert_limited(open_session(shop, "203.0.113.3", product), 2, 30)
    # The limit is checked before the body.
    _assert_limited(open_session(shop, "203.0.113.4", ""), 2, 30)
    assert_refused(open_session(other_shop, "203.0.113.5", product), "productId")
    advance(60_000)
    assert open_session(shop, "203.0.113.6", product).status_code == 201


def test_ipv6_clients_are_limited_by_their_64_prefix(caller: Any) -> None:
    shop, _, _ = caller
    net = f"2001:db8:0:{next(_addresses):x}"
    for n in range(5):
        headers = {"x-forwarded-for": f"{net}::{n}"}
        assert shop.call("GET", "/v1/products", headers=headers).status_code == 200
    _assert_limited(
        shop.call("GET", "/v1/products", headers={"x-forwarded-for": f"{net}:1::"}), 5, 60
    )
    headers = {"x-forwarded-for": f"2001:db8:1:{next(_addresses):x}::1"}
    assert shop.call("GET", "/v1/products", headers=headers).status_code == 200


def test_x_forwarded_for_of_an_untrusted_peer_is_ignored(api_server: ApiServer) -> None:
    with serving(api_server.settings, limit_ip_per_minute=3) as running:
        shop = running.create_shop()
        statuses = [
            shop.call(
                "GET", "/v1/products", headers={"x-forwarded-for": f"198.51.100.{n}"}
            ).status_code
            for n in range(100, 104)
        ]
    assert statuses == [200, 200, 200, 429]


# ── order of the checks ──

_NO_KEY: Final = {"x-api-key": None}


def test_checks_run_in_the_documented_order(caller: Any) -> None:
    shop, address, advance = caller
    product = shop.data("POST", "/v1/products", json=TEA, headers=address)["id"]
    advance(60_000)
    for _ in range(2):
        shop.call("POST", "/v1/checkouts", json={"productId": product}, headers=address)

    def error_code(**headers: Any) -> int:
        """Send an invalid body; return the code of the first check that fails."""
        all_headers = address | _JSON | headers
        response = shop.call("POST", "/v1/checkouts", content=b"\xff", headers=all_headers)
        return int(error_of(response)["code"])

    # The key is checked before the merchant's limit and the body.
    assert error_code(**_NO_KEY) == 401
    assert error_code() == 42901  # the merchant's limit is checked before the body
    assert error_code(**_NO_KEY) == 401
    # The address's limit is checked before the key.
    assert error_code(**_NO_KEY) == 42901
    advance(121_000)
    assert error_code() == 40001


def test_an_invalid_body_is_refused_before_business_rules(shop: Shop) -> None:
    order = shop.create_order()  # a PENDING order cannot be refunded
    path = f"/v1/orders/{order['id']}/refunds"
    assert_refused(shop.post(path, {"amount": "x"}), "amount")
    assert_refused(shop.post(path, {"amount": "99"}), "orderId")
    product = shop.create_product()
    shop.call("DELETE", f"/v1/products/{product['id']}")
    body = {"productId": product["id"], "customerName": 7}
    assert_refused(shop.post("/v1/checkouts", body), "customerName")


@pytest.mark.parametrize(
    ("content", "field"),
    [
        (b"", "body"),
        (b"x", "body"),
        (b"{", "body"),
        (b"[]", "body"),
        (b'"text"', "body"),
        (b"null", "body"),
        (b"7", "body"),
        (b"{} {}", "body"),
        (b"{'name':1}", "body"),
        (b'{"name":NaN}', "body"),
        (b'{"name":Infinity}', "body"),
        (b'{"a":01}', "body"),
        (b'{"a":"\x01"}', "body"),
        (b'{"a":"\x00"}', "body"),
        (b'{"name":"\xff"}', "body"),
        (b'{"name":"\xed\xa0\x80"}', "body"),
        (b"\xef\xbb\xbf{}", "body"),
        ('{"name":"x"}'.encode("utf-16"), "body"),
        (b'{"a":' + b"[" * 16 + b"]" * 16 + b"}", "body"),
        (b'{"name":"a","name":"b"}', "name"),
        (b'{"metadata":{"k":1,"k":1}}', "k"),
        (b'{"name":"\\u0000"}', "name"),
        (b'{"name":"\\ud800"}', "name"),
        (b'{"name":"\\udc00\\ud800"}', "name"),
        (b'{"metadata":{"\\u0000":1}}', "metadata"),
        (b'{"metadata":{"a":["\\ud800"]}}', "metadata"),
        (b'{"\\ud800":1}', "body"),
        (b'{"unknown":"\\u0000"}', "unknown"),
    ],
)
def test_malformed_json_is_refused(shop: Shop, content: bytes, field: str) -> None:
    assert_refused(shop.call("POST", "/v1/products", content=content, headers=_JSON), field)


def test_a_body_may_be_nested_15_levels_deep(shop: Shop) -> None:
    nested = b"[" * 14 + b"]" * 14
    body = b'{"name":"Tea","price":"1","currency":"USD","metadata":{"a":%s}}' % nested
    assert shop.call("POST", "/v1/products", content=body, headers=_JSON).status_code == 201
    # Brackets in a text do not count as nesting.
    body = b'{"name":"%s","price":"1","currency":"USD"}' % (b"[{" * 50)
    assert shop.call("POST", "/v1/products", content=body, headers=_JSON).status_code == 201


def test_a_body_designed_to_be_slow_is_refused_quickly(shop: Shop) -> None:
    for body in (
        b"[" * 17 + b'"' + b'\\"' * 32_000,
        b"[" * 17 + b"\\" * 64_000,
        b"[" * 65_000,
        b'{"a":' * 13_000,
        b'{"a":' + b"9" * 65_000 + b"}",
        b'{"a":1e' + b"9" * 65_000 + b"}",
        b'{"metadata":{' + b",".join(b'"%d":1' % n for n in range(6000)) + b"}}",
    ):
        started = time.process_time()  # process_time() ignores the load of other processes
        response = shop.call("POST", "/v1/products", content=body[: 64 * 1024], headers=_JSON)
        assert response.status_code == 400
        assert time.process_time() - started < 1
