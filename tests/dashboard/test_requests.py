"""The page of refused requests and ignored fields: what it shows, and how much is stored."""

import asyncio
import re
from collections.abc import Callable
from html import unescape
from typing import Any, Final

import msgspec
import pytest

from dashboard.pages import text_of
from opentill.core.errors import Unavailable
from opentill.http import ignored_log, refused
from opentill.http.ignored_log import AcceptedRequests
from opentill.http.refused import RefusedRequests
from support.api_server import ApiServer, Shop
from support.people import create_person

BODY: Final = b'{"code":40001,"message":"Validation failed","error":{"field":"a","reason":"b"}}'
DAY: Final = 86_400_000


def refused_buffer(server: ApiServer) -> RefusedRequests:
    buffer: RefusedRequests = server._server.state.refused
    return buffer


def read_page(shop: Shop, **query: str) -> str:
    """Write the buffered refused requests to the database; return the page's content."""
    server = shop.api_server
    server.run(refused_buffer(server).write(server.app.db))
    viewer = create_person(server, shop.id, "viewer")
    response = viewer.get(f"/dashboard/{shop.id}/developers/requests", params=query)
    assert response.status_code == 200
    return response.text.partition("<main")[2]


def test_a_refused_request_is_shown_with_its_reason_but_not_its_content(shop: Shop) -> None:
    accepted = shop.get("/v1/products")
    read = shop.call(
        "GET",
        "/v1/orders/svc_live_abcdefgh?customerEmail=ann@example.com&size=9007199&ann@b.example",
    )
    body = {"price": "1.00", "currency": "USD", "nmae": "hunter2"}
    write, replayed_write = (
        shop.call("POST", "/v1/products", json=body, headers={"idempotency-key": "one"})
        for _ in range(2)
    )
    assert replayed_write.headers["idempotent-replayed"] == "true"
    html = read_page(shop)
    for response in (read, write, replayed_write):
        assert response.headers["x-request-id"] in html
    assert accepted.headers["x-request-id"] not in html
    text = text_of(html)
    assert "POST /v1/products" in text
    assert "name is required" in text
    assert "Unknown fields: nmae" in text
    assert "customerEmail=…&amp;size=…&amp;…" in html
    assert shop.key[-4:] in text  # only the key's last characters are shown
    for secret in ("example.com", "b.example", "9007199", "hunter2", "abcdefgh", shop.key):
        assert secret not in html


def test_a_refused_request_shows_its_http_status_and_a_reason_in_every_language(shop: Shop) -> None:
    shop.get("/v1/nothing")
    shop.call("DELETE", "/v1/balance")
    shop.call("POST", "/v1/products", content="{}", headers={"content-type": "text/plain"})
    shop.call("POST", "/v1/products", content=b"x" * 70_000)
    for lang in ("en", "zh-Hans", "zh-Hant"):
        html = read_page(shop, lang=lang)
        for status in (404, 405, 415, 413):
            assert f">{status}</span>" in html
        assert "<div>–</div>" not in html
    assert "GET /v1/nothing" in text_of(read_page(shop, status="404"))
    assert "GET /v1/nothing" not in text_of(read_page(shop, status="413"))


def test_a_refused_request_has_a_page_with_its_response_and_none_of_its_content(
    shop: Shop,
) -> None:
    body = {"price": "hunter2", "name": "Tea", "currency": "USD"}
    refusal = shop.call("POST", "/v1/products", json=body)
    html = read_page(shop)
    (path,) = re.findall(r'class="row-link" href="([^"]*)"', html)
    assert path.endswith(refusal.headers["x-request-id"])
    viewer = create_person(shop.api_server, shop.id, "viewer")
    page = viewer.get(path)
    main = page.text.partition("<main")[2]
    (response,) = re.findall(r"<pre[^>]*>(.*?)</pre>", main, re.DOTALL)
    response = re.sub(r"</?span[^>]*>", "", response)
    assert msgspec.json.decode(unescape(response)) == refusal.json()
    (heading,) = re.findall(r"<h1>(.*?)</h1>", main, re.DOTALL)
    assert text_of(heading) == unescape(refusal.json()["error"]["reason"])
    assert text_of(main).count("POST /v1/products") == 1
    assert "Cause The request" in text_of(main)
    assert "hunter2" not in page.text
    other_shop = shop.api_server.create_shop()
    stranger = create_person(shop.api_server, other_shop.id, "owner")
    assert stranger.get(path.replace(shop.id, other_shop.id)).status_code == 404
    other_days = {"from": "2020-01-01", "to": "2020-01-02"}
    assert "No API errors match these filters." in read_page(shop, **other_days)


def test_requests_of_other_merchants_or_without_a_valid_key_are_not_listed(shop: Shop) -> None:
    other_shop = shop.api_server.create_shop()
    assert other_shop.get("/v1/other").status_code == 404
    assert shop.call("GET", "/v1/balance", headers={"x-api-key": None}).status_code == 401
    assert shop.call("GET", "/v1/balance", headers={"x-api-key": shop.key[:-1]}).status_code == 401
    assert "No API errors" in read_page(shop)
    assert "/v1/other" in read_page(other_shop)


def record(server: ApiServer, merchant_id: str, number: int) -> None:
    """Record a refused request whose id and path contain a number."""
    scope: dict[str, Any] = {
        "app": server._server,
        "opentill_merchant": merchant_id,
        "opentill_key": "key_1",
        "method": "GET",
        "path": f"/v1/{number}" + "x\x00\ud800" * 1000,
        "query_string": b"a=1&" * 5000,
    }
    refused_buffer(server).record(scope, f"req_{number:08}", 400, BODY)


def test_a_flood_of_refused_requests_is_bounded_and_displaces_no_other_merchants_requests(
    shop: Shop,
) -> None:
    server, flooding_ids = shop.api_server, [shop.api_server.create_shop().id for _ in range(6)]
    buffer = refused_buffer(server)
    server.run(buffer.write(server.app.db))

    async def flood() -> None:
        """Record requests in the server's thread."""
        for number in range(2000):
            for merchant_id in flooding_ids:
                record(server, merchant_id, number)
            if number == 1000:
                record(server, shop.id, number)
        assert sum(map(len, buffer._by_merchant.values())) == buffer._count <= 1000
        await buffer.write(server.app.db)
        for number in range(2000, 2300):
            record(server, flooding_ids[0], number)
        await buffer.write(server.app.db)

    server.run(flood())
    rows = server.sql(
        "select merchant_id, count(*), max(id), max(length(path)) as longest from refused_requests"
        " where merchant_id = any($1) group by 1",
        [shop.id, *flooding_ids],
    )
    by_merchant = {row["merchant_id"]: row for row in rows}
    assert by_merchant[shop.id]["count"] == 1
    assert all(by_merchant[merchant_id]["count"] <= refused.MOST for merchant_id in flooding_ids)
    last_flood = by_merchant[flooding_ids[0]]
    assert (last_flood["count"], last_flood["max"]) == (refused.MOST, "req_00002299")
    assert max(row["longest"] for row in rows) <= 500


def test_refused_requests_are_deleted_after_seven_days(
    shop: Shop, clock: Callable[[int], None]
) -> None:
    server, now = shop.api_server, shop.api_server.app.clock()
    clock(now)
    shop.get("/v1/early")
    clock(now + 7 * DAY - 1)
    shop.get("/v1/late")
    assert "/v1/early" in read_page(shop)
    clock(now + 7 * DAY)
    html = read_page(shop)
    assert "/v1/early" not in html
    assert "/v1/late" in html
    while server.tx(lambda tx: refused.prune(tx, now + 7 * DAY)):
        pass
    rows = server.sql("select path from refused_requests where merchant_id = $1", shop.id)
    assert [row["path"] for row in rows] == ["/v1/late"]


class UnavailableDatabase:
    """A database that cannot be reached."""

    async def run(self, _work: object) -> None:
        """Fail to connect."""
        raise Unavailable


def test_refused_requests_that_could_not_be_written_stay_in_memory_in_order(shop: Shop) -> None:
    server, buffer = shop.api_server, refused_buffer(shop.api_server)
    server.run(buffer.write(server.app.db))
    for number in range(150):
        record(server, shop.id, number)
    with pytest.raises(Unavailable):
        asyncio.run(buffer.write(UnavailableDatabase()))  # type: ignore[arg-type]
    for number in range(150, 250):
        record(server, shop.id, number)
    server.run(buffer.write(server.app.db))
    rows = server.sql("select id from refused_requests where merchant_id = $1 order by id", shop.id)
    assert [row["id"] for row in rows] == [f"req_{number:08}" for number in range(50, 250)]


def accepted_buffer(server: ApiServer) -> AcceptedRequests:
    buffer: AcceptedRequests = server._server.state.accepted
    return buffer


def test_ignored_fields_are_listed_once_with_the_number_of_requests(shop: Shop) -> None:
    server = shop.api_server
    body = {"name": "Tea", "price": "1.00", "currency": "USD", "sku": "hunter2"}
    key = {"idempotency-key": "one"}
    responses = [
        shop.call("POST", "/v1/products", json=body),
        shop.call("POST", "/v1/products", json=body, headers=key),
        shop.call(
            "POST", "/v1/products", json=body, headers=key
        ),  # the key of the previous request makes this a replay
        shop.call("POST", "/v1/products", json={**body, "svc_live_abcdefgh": 1}),
    ]
    assert {response.status_code for response in responses} == {201}
    shop.call("POST", "/v1/products", json={"name": "Tea", "price": "1.00", "currency": "USD"})
    server.run(accepted_buffer(server).write(server.app.db))
    html = read_page(shop)
    assert re.search(r"POST /v1/products req_\w+ sku 3 ", text_of(html))
    assert responses[2].headers["x-request-id"] in html
    assert "hunter2" not in html
    assert "abcdefgh" not in html
    assert "sku" not in read_page(server.create_shop())
    rows = server.sql(
        "select requests from ignored_fields where merchant_id = $1 and fields = 'sku'", shop.id
    )
    assert rows == [{"requests": 3}]


def test_ignored_fields_are_bounded_and_deleted_after_seven_days(shop: Shop) -> None:
    server, now = shop.api_server, shop.api_server.app.clock()
    buffer = accepted_buffer(server)
    other_shop = server.create_shop()
    for write in range(3):
        for number in range(60):
            body = {"name": "Tea", "price": "1.00", "currency": "USD", f"f{write}_{number}": 1}
            assert shop.call("POST", "/v1/products", json=body).status_code == 201
        assert other_shop.call(
            "PATCH", f"/v1/products/{other_shop.create_product()['id']}", json={"x": 1}
        ).is_success
        server.run(buffer.write(server.app.db))
    rows = server.sql(
        "select merchant_id, count(*) from ignored_fields where merchant_id = any($1) group by 1",
        [shop.id, other_shop.id],
    )
    assert {row["merchant_id"]: row["count"] for row in rows} == {
        shop.id: ignored_log.MOST,
        other_shop.id: 1,
    }
    while server.tx(lambda tx: ignored_log.prune(tx, now - 1 + 7 * DAY)):
        pass
    assert server.sql("select from ignored_fields where merchant_id = $1", shop.id)
    while server.tx(lambda tx: ignored_log.prune(tx, now + 60_000 + 7 * DAY)):
        pass
    assert not server.sql("select from ignored_fields where merchant_id = $1", shop.id)


def test_ignored_fields_that_could_not_be_written_stay_in_memory(shop: Shop) -> None:
    server = shop.api_server
    buffer = accepted_buffer(server)
    body = {"name": "Tea", "price": "1.00", "currency": "USD", "sku": 1}
    shop.call("POST", "/v1/products", json=body)
    with pytest.raises(Unavailable):
        asyncio.run(buffer.write(UnavailableDatabase()))  # type: ignore[arg-type]
    shop.call("POST", "/v1/products", json=body)
    server.run(buffer.write(server.app.db))
    rows = server.sql("select requests from ignored_fields where merchant_id = $1", shop.id)
    assert rows == [{"requests": 2}]
