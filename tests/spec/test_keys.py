"""Only valid API keys are accepted, from their allowed addresses (contract.md#access)."""

from collections.abc import Callable
from http.client import HTTPConnection
from typing import Final
from urllib.parse import urlsplit

import pytest

from opentill import merchants
from opentill.app import OPERATIONS
from opentill.core.errors import Invalid
from opentill.http.operations import Operation
from opentill.merchants import KeyFields
from support.api_server import ApiServer, Shop, serving

_UNAUTHORIZED: Final = (401, {"code": 401, "message": "Unauthorized"})


@pytest.fixture(scope="module")
def invalid_keys(api_server: ApiServer) -> dict[str, str | None]:
    """Return invalid keys: why the key is invalid → the header's value, None without the header."""
    shop = api_server.create_shop()
    now = api_server.app.clock()
    revoked, replaced, expiring = (
        api_server.create_shop(),
        api_server.create_shop(),
        api_server.create_shop(),
    )
    api_server.tx(lambda tx: merchants.revoke_key(tx, revoked.key_id, now))
    api_server.tx(lambda tx: merchants.regenerate_key(tx, replaced.key_id, now))
    expired_key = api_server.tx(
        lambda tx: merchants.create_key(
            tx, expiring.id, "production", now - 10, KeyFields(expires_at=now - 1)
        )
    )
    staging_key = api_server.tx(lambda tx: merchants.create_key(tx, shop.id, "staging", now))
    return {
        "none": None,
        "empty": "",
        "nonsense": "nonsense",
        "bearer": f"Bearer {shop.key}",
        "one character missing": shop.key[:-1],
        "one character changed": shop.key[:-1] + ("a" if shop.key[-1] != "a" else "b"),
        "letter case": shop.key.swapcase(),
        "prefix only": "svc_live_",
        "test prefix": shop.key.replace("live", "test"),
        "unknown": merchants.model.generate_key("production"),
        "of staging": staging_key.key,
        "revoked": revoked.key,
        "replaced": replaced.key,
        "expired": expired_key.key,
        "long": "svc_live_" + "a" * 8000,
    }


@pytest.mark.parametrize(
    "operation",
    [operation for operation in OPERATIONS if operation.auth],
    ids=lambda operation: f"{operation.method} {operation.path}",
)
def test_a_request_without_a_valid_key_is_401_without_details(
    api_server: ApiServer, operation: Operation, invalid_keys: dict[str, str | None]
) -> None:
    for key in invalid_keys.values():
        headers = {} if key is None else {"x-api-key": key}
        path = operation.path.replace("{id}", "prod_01m7y0m0jzefzv5n8efcf1hqw1")
        response = api_server.http.request(operation.method, path, headers=headers)
        assert (response.status_code, response.json()) == _UNAUTHORIZED


def test_a_key_in_the_query_or_another_header_is_ignored(shop: Shop) -> None:
    key = shop.key
    for headers, query in (
        ({"authorization": f"Bearer {key}"}, {}),
        ({"cookie": f"x-api-key={key}"}, {}),
        ({}, {"x-api-key": key}),
    ):
        response = shop.api_server.http.get("/v1/products", headers=headers, params=query)
        assert (response.status_code, response.json()) == _UNAUTHORIZED


@pytest.mark.parametrize("header_format", ["{} ", "{}\t", " \t{} \t ", "{}\xa0", "{} x"])
def test_only_spaces_and_tabs_around_a_key_are_ignored(shop: Shop, header_format: str) -> None:
    url = urlsplit(shop.api_server.url)
    connection = HTTPConnection(str(url.hostname), url.port, timeout=30)
    connection.putrequest("GET", "/v1/products")
    connection.putheader("X-API-Key", header_format.format(shop.key).encode("latin-1"))
    connection.endheaders()
    is_blank = not header_format.replace("{}", "").strip(" \t")
    assert connection.getresponse().status == (200 if is_blank else 401)
    connection.close()


def test_regenerating_a_key_replaces_it_immediately(shop: Shop) -> None:
    assert shop.get("/v1/products").status_code == 200
    now = shop.api_server.app.clock()
    new_key = shop.api_server.tx(lambda tx: merchants.regenerate_key(tx, shop.key_id, now))
    assert shop.get("/v1/products").status_code == 401
    shop.key = new_key.key
    assert shop.get("/v1/products").status_code == 200


def test_a_replaced_key_works_until_the_end_of_its_overlap_beside_the_new_one(
    shop: Shop, clock: Callable[[int], None]
) -> None:
    server, now, day = shop.api_server, shop.api_server.app.clock(), 24 * 3_600_000
    end = now + 30 * day  # of the key, which the new one inherits
    old = server.tx(
        lambda tx: merchants.create_key(tx, shop.id, "production", now, KeyFields(expires_at=end))
    )
    new = server.tx(lambda tx: merchants.regenerate_key(tx, old.id, now, overlap_hours=24))
    assert new.expires_at == end
    for moment, statuses in ((now + day - 1, [200, 200]), (now + day, [401, 200])):
        clock(moment)
        assert [
            server.http.get("/v1/products", headers={"x-api-key": key.key}).status_code
            for key in (old, new)
        ] == statuses
    # A key that ends before its overlap keeps its end, and an invalid overlap changes nothing.
    clock(end - 1)
    with pytest.raises(Invalid, match="overlapHours must be one of 0, 1, 24, 72, 168"):
        server.tx(lambda tx: merchants.regenerate_key(tx, new.id, end - 1, overlap_hours=2))
    last = server.tx(lambda tx: merchants.regenerate_key(tx, new.id, end - 1, overlap_hours=168))
    rows = {
        row["id"]: row
        for row in server.sql("select * from api_keys where merchant_id = $1", shop.id)
    }
    assert (rows[new.id]["expires_at"], rows[last.id]["expires_at"]) == (end, end)
    assert (rows[old.id]["replaced_by"], rows[new.id]["replaced_by"]) == (new.id, last.id)


def test_a_key_is_replaced_once(shop: Shop) -> None:
    server, now = shop.api_server, shop.api_server.app.clock()
    new = server.tx(lambda tx: merchants.regenerate_key(tx, shop.key_id, now, overlap_hours=1))
    with pytest.raises(Invalid, match=f"replace {new.id} instead"):
        server.tx(lambda tx: merchants.regenerate_key(tx, shop.key_id, now))
    assert shop.get("/v1/products").status_code == 200


def test_several_keys_of_a_merchant_are_valid_until_each_expires(
    shop: Shop, clock: Callable[[int], None]
) -> None:
    now = shop.api_server.app.clock()
    expiring_key = shop.api_server.tx(
        lambda tx: merchants.create_key(
            tx, shop.id, "production", now, KeyFields(expires_at=now + 60_000)
        )
    )
    headers = {"x-api-key": expiring_key.key}
    for moment, status in ((now + 59_999, 200), (now + 60_000, 401)):
        clock(moment)
        assert shop.api_server.http.get("/v1/products", headers=headers).status_code == status
        assert shop.get("/v1/products").status_code == 200


def test_a_staging_deployment_accepts_only_staging_keys(api_server: ApiServer) -> None:
    with serving(api_server.settings, environment="staging") as staging_server:
        shop = staging_server.create_shop()
        assert shop.key.startswith("svc_stg_")
        assert shop.get("/v1/products").status_code == 200
        live_shop = api_server.create_shop()
        live_shop.api_server = staging_server
        assert live_shop.get("/v1/products").status_code == 401


@pytest.mark.parametrize(
    ("allowed", "status"),
    [
        ((), 200),
        (("127.0.0.1",), 200),
        (("127.0.0.0/8", "::1"), 200),
        (("192.0.2.0/24",), 401),
        (("::/0",), 401),
    ],
)
def test_an_allowlist_admits_only_its_addresses(
    api_server: ApiServer, allowed: tuple[str, ...], status: int
) -> None:
    assert api_server.create_shop(ip_allowlist=allowed).get("/v1/products").status_code == status
