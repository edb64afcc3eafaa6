"""The page of refused requests: which are there, what is kept of them, and how many."""

import asyncio
import re
from collections.abc import Callable
from typing import Any, Final

import pytest

from opentill.core.errors import Unavailable
from opentill.http import ignored_log, refused
from opentill.http.ignored_log import AcceptedRequests
from opentill.http.refused import RefusedRequests
from support.api_server import ApiServer, Shop
from support.people import person

BODY: Final = b'{"code":40001,"message":"Validation failed","error":{"field":"a","reason":"b"}}'
DAY: Final = 86_400_000


def noted(server: ApiServer) -> RefusedRequests:
    found: RefusedRequests = server._server.state.refused
    return found


def page(shop: Shop, **query: str) -> str:
    server = shop.api_server
    server.run(noted(server).write(server.app.db))
    viewer = person(server, shop.id, "viewer")
    response = viewer.get(f"/dashboard/{shop.id}/developers/requests", params=query)
    assert response.status_code == 200
    return response.text.partition("<main")[2]


def words(html: str) -> str:
    return " ".join(re.sub(r"<[^>]+>", " ", html).split())


def test_a_refused_request_is_shown_with_its_reason_and_nothing_that_was_sent(shop: Shop) -> None:
    taken = shop.get("/v1/products")
    asked = shop.call(
        "GET",
        "/v1/orders/svc_live_abcdefgh?customerEmail=ann@example.com&size=9007199&ann@b.example",
    )
    body = {"price": "1.00", "currency": "USD", "nmae": "hunter2"}
    made = shop.call("POST", "/v1/products", json=body, headers={"idempotency-key": "one"})
    again = shop.call("POST", "/v1/products", json=body, headers={"idempotency-key": "one"})
    assert again.headers["idempotent-replayed"] == "true"
    html = page(shop)
    for answer in (asked, made, again):
        assert answer.headers["x-request-id"] in html
    assert taken.headers["x-request-id"] not in html
    seen = words(html)
    assert "POST /v1/products" in seen
    assert "name is required" in seen
    assert "Fields that nobody reads: nmae" in seen
    assert "customerEmail=…&amp;size=…&amp;…" in html
    assert shop.key[-4:] in seen  # the key's short form
    for text in ("example.com", "b.example", "9007199", "hunter2", "abcdefgh", shop.key):
        assert text not in html


def test_every_kind_of_refusal_is_shown_in_every_language(shop: Shop) -> None:
    shop.get("/v1/nothing")
    shop.call("DELETE", "/v1/balance")
    shop.call("POST", "/v1/products", content="{}", headers={"content-type": "text/plain"})
    shop.call("POST", "/v1/products", content=b"x" * 70_000)
    for lang in ("en", "zh-Hans", "zh-Hant"):
        html = page(shop, lang=lang)
        for status in (404, 405, 415, 413):
            assert f">{status}</span>" in html
        assert "<div>–</div>" not in html
    assert "GET /v1/nothing" in words(page(shop, status="404"))
    assert "GET /v1/nothing" not in words(page(shop, status="413"))


def test_requests_of_nobody_and_of_others_are_not_there(shop: Shop) -> None:
    other = shop.api_server.shop()
    assert other.get("/v1/other").status_code == 404
    assert shop.call("GET", "/v1/balance", headers={"x-api-key": None}).status_code == 401
    assert shop.call("GET", "/v1/balance", headers={"x-api-key": shop.key[:-1]}).status_code == 401
    assert "Nothing was refused" in page(shop)
    assert "/v1/other" in page(other)


def _note(server: ApiServer, merchant_id: str, number: int) -> None:
    scope: dict[str, Any] = {
        "app": server._server,
        "opentill_merchant": merchant_id,
        "opentill_key": "key_1",
        "method": "GET",
        "path": f"/v1/{number}" + "x\x00\ud800" * 1000,
        "query_string": b"a=1&" * 5000,
    }
    noted(server).record(scope, f"req_{number:08}", 400, BODY)


def test_a_flood_is_bounded_in_memory_and_on_disk_and_hides_no_other(shop: Shop) -> None:
    server, others = shop.api_server, [shop.api_server.shop().id for _ in range(6)]
    server.run(noted(server).write(server.app.db))
    memory = noted(server)

    async def flood() -> None:
        """Note what comes, in the server's thread, as requests do."""
        for number in range(2000):
            for merchant_id in others:
                _note(server, merchant_id, number)
            if number == 1000:
                _note(server, shop.id, number)
        assert sum(map(len, memory._by_merchant.values())) == memory._count <= 1000
        await memory.write(server.app.db)
        for number in range(2000, 2300):
            _note(server, others[0], number)
        await memory.write(server.app.db)

    server.run(flood())
    rows = server.sql(
        "select merchant_id, count(*), max(id), max(length(path)) as longest from refused_requests"
        " where merchant_id = any($1) group by 1",
        [shop.id, *others],
    )
    found = {row["merchant_id"]: row for row in rows}
    assert found[shop.id]["count"] == 1
    assert all(found[one]["count"] <= refused.MOST for one in others)
    assert (found[others[0]]["count"], found[others[0]]["max"]) == (refused.MOST, "req_00002299")
    assert max(row["longest"] for row in rows) <= 500


def test_they_go_after_seven_days(shop: Shop, clock: Callable[[int], None]) -> None:
    server, now = shop.api_server, shop.api_server.app.clock()
    clock(now)
    shop.get("/v1/early")
    clock(now + 7 * DAY - 1)
    shop.get("/v1/late")
    assert "/v1/early" in page(shop)
    clock(now + 7 * DAY)
    seen = page(shop)
    assert "/v1/early" not in seen
    assert "/v1/late" in seen
    while server.tx(lambda tx: refused.prune(tx, now + 7 * DAY)):
        pass
    rows = server.sql("select path from refused_requests where merchant_id = $1", shop.id)
    assert [row["path"] for row in rows] == ["/v1/late"]


class Away:
    """A database that is away."""

    async def run(self, _work: object) -> None:
        """Do nothing."""
        raise Unavailable


def test_what_cannot_be_written_is_kept_in_its_order(shop: Shop) -> None:
    server, memory = shop.api_server, noted(shop.api_server)
    server.run(memory.write(server.app.db))
    for number in range(150):
        _note(server, shop.id, number)
    with pytest.raises(Unavailable):
        asyncio.run(memory.write(Away()))  # type: ignore[arg-type]
    for number in range(150, 250):
        _note(server, shop.id, number)
    server.run(memory.write(server.app.db))
    rows = server.sql("select id from refused_requests where merchant_id = $1 order by id", shop.id)
    assert [row["id"] for row in rows] == [f"req_{number:08}" for number in range(50, 250)]


# ── accepted, with fields that nobody reads ──


def accepted_of(server: ApiServer) -> AcceptedRequests:
    found: AcceptedRequests = server._server.state.accepted
    return found


def test_ignored_fields_of_accepted_requests_are_shown_once_with_how_often(shop: Shop) -> None:
    server = shop.api_server
    body = {"name": "Tea", "price": "1.00", "currency": "USD", "sku": "hunter2"}
    once = {"idempotency-key": "one"}
    answers = [
        shop.call("POST", "/v1/products", json=body),
        shop.call("POST", "/v1/products", json=body, headers=once),
        shop.call("POST", "/v1/products", json=body, headers=once),  # a replay
        shop.call("POST", "/v1/products", json={**body, "svc_live_abcdefgh": 1}),
    ]
    assert {answer.status_code for answer in answers} == {201}
    shop.call("POST", "/v1/products", json={"name": "Tea", "price": "1.00", "currency": "USD"})
    server.run(accepted_of(server).write(server.app.db))
    html = page(shop)
    assert re.search(r"POST /v1/products req_\w+ sku 3 ", words(html))
    assert answers[2].headers["x-request-id"] in html
    assert "hunter2" not in html
    assert "abcdefgh" not in html
    assert "sku" not in page(server.shop())
    rows = server.sql(
        "select requests from ignored_fields where merchant_id = $1 and fields = 'sku'", shop.id
    )
    assert rows == [{"requests": 3}]


def test_ignored_fields_are_bounded_and_go_after_seven_days(shop: Shop) -> None:
    server, now = shop.api_server, shop.api_server.app.clock()
    memory = accepted_of(server)
    other = server.shop()
    for one in range(3):
        for number in range(60):
            body = {"name": "Tea", "price": "1.00", "currency": "USD", f"f{one}_{number}": 1}
            assert shop.call("POST", "/v1/products", json=body).status_code == 201
        assert other.call(
            "PATCH", f"/v1/products/{other.product()['id']}", json={"x": 1}
        ).is_success
        server.run(memory.write(server.app.db))
    found = server.sql(
        "select merchant_id, count(*) from ignored_fields where merchant_id = any($1) group by 1",
        [shop.id, other.id],
    )
    assert {row["merchant_id"]: row["count"] for row in found} == {
        shop.id: ignored_log.MOST,
        other.id: 1,
    }
    while server.tx(lambda tx: ignored_log.prune(tx, now - 1 + 7 * DAY)):
        pass
    assert server.sql("select from ignored_fields where merchant_id = $1", shop.id)
    while server.tx(lambda tx: ignored_log.prune(tx, now + 60_000 + 7 * DAY)):
        pass
    assert not server.sql("select from ignored_fields where merchant_id = $1", shop.id)


def test_ignored_fields_that_cannot_be_written_are_kept(shop: Shop) -> None:
    server = shop.api_server
    memory = accepted_of(server)
    body = {"name": "Tea", "price": "1.00", "currency": "USD", "sku": 1}
    shop.call("POST", "/v1/products", json=body)
    with pytest.raises(Unavailable):
        asyncio.run(memory.write(Away()))  # type: ignore[arg-type]
    shop.call("POST", "/v1/products", json=body)
    server.run(memory.write(server.app.db))
    rows = server.sql("select requests from ignored_fields where merchant_id = $1", shop.id)
    assert rows == [{"requests": 2}]
