"""The Python client against a real server: each group of methods, blocking and asynchronous."""

import codecs
import csv
import datetime as dt
import io
from decimal import Decimal
from pathlib import Path
from typing import Any

import httpx2
import pytest

from opentill import merchants
from opentill.client import (
    AsyncClient,
    Client,
    IdempotencyKeyReused,
    NotFound,
    NotPermitted,
    OrderPaid,
    RateLimited,
    RequestRefused,
    Retries,
    Unauthorized,
    UnexpectedResponse,
    ValidationFailed,
)
from opentill.client.events import EVENTS
from opentill.merchants import Actor
from opentill.webhooks.event_types import SENT_TYPES
from support.api_server import ApiServer, Shop, serving


@pytest.fixture
def client(api_server: ApiServer, shop: Shop) -> Any:
    with Client(api_server.url, shop.key, trust_env=False) as client:
        yield client


def test_the_client_reads_and_writes_every_resource(client: Client, shop: Shop) -> None:
    tea = client.products.create(name="Tea", price="9.99", currency="USD", metadata={"sku": "1"})
    assert (tea.price, tea.status, tea.metadata) == (Decimal("9.99"), "ACTIVE", {"sku": "1"})
    changed_product = client.products.update(tea.id, price=Decimal("10.50"), description="Green")
    assert client.products.get(tea.id) == changed_product
    assert client.products.update(tea.id, description=None).description == ""
    session = client.checkouts.create(tea.id, customer_email="ada@example.com")
    checkout = client.checkouts.get(session.id)
    assert checkout.url == session.url
    shop.confirm(checkout.order_id)
    order = client.orders.get(checkout.order_id)
    assert (order.status, order.amount) == ("PAID", Decimal("10.50"))
    refund = client.refunds.create(order.id, amount="2.00", refund_no="RMA-1")
    assert client.refunds.get(refund.id) == refund
    assert list(client.refunds.list(order.id)) == [refund]
    assert {entry.type for entry in client.balance_transactions.list()} == {
        "PAYMENT",
        "FEE",
        "FREEZE",
    }
    (fee,) = client.balance_transactions.list(type="FEE")
    assert fee.amount == -order.platform_fee
    assert client.balance.get().pending == order.net_amount - refund.merchant_debit_usd
    dispute = shop.open_dispute(shop.create_paid_order()["id"])
    assert [row.id for row in client.disputes.list(status="OPEN")] == [dispute.id]
    assert client.disputes.get(dispute.id).notes == []
    payout = shop.create_payout()
    assert client.payouts.get(payout.id) == next(iter(client.payouts.list(status="PENDING")))
    assert client.checkouts.expire(client.checkouts.create(tea.id).id).status == "EXPIRED"
    assert client.products.archive(tea.id) is None
    assert [p.id for p in client.products.list(status="ARCHIVED")] == [tea.id]
    assert client.agreement.get().agreement_version == "1.0"


async def test_the_asynchronous_client_reads_writes_and_exports(
    api_server: ApiServer, shop: Shop, tmp_path: Path
) -> None:
    async with AsyncClient(api_server.url, shop.key, trust_env=False) as client:
        tea = await client.products.create(name="Tea", price=10, currency="USD")
        session = await client.checkouts.create(tea.id)
        order_id = (await client.checkouts.get(session.id)).order_id
        assert [order.id async for order in client.orders.list(size=1)] == [order_id]
        assert [page.pagination.total async for page in client.products.list().pages()] == [1]
        assert (await client.orders.list().page()).items[0].amount == 10
        size = await client.orders.export().save(tmp_path / "orders.csv")
        assert (tmp_path / "orders.csv").stat().st_size == size
        async with client.balance.export_statement() as file:
            assert file.filename == "statement_all_all.csv"
            assert b"".join([chunk async for chunk in file]).startswith(b"row,")
        with pytest.raises(ValidationFailed, match="name"):
            await client.products.create(name=" ", price="1.00", currency="USD")


def test_a_list_fetches_pages_only_as_far_as_it_is_read(api_server: ApiServer, shop: Shop) -> None:
    product_ids = [shop.create_product(name=f"Tea {number}")["id"] for number in range(7)]
    requested_pages: list[str] = []
    hooks: Any = {"request": [lambda request: requested_pages.append(request.url.params["page"])]}
    with Client(api_server.url, shop.key, event_hooks=hooks, trust_env=False) as client:
        products = client.products.list(size=3)
        assert requested_pages == []
        assert next(iter(products)).id == product_ids[-1]
        assert requested_pages == ["1"]
        assert [product.id for product in products] == product_ids[::-1]
        assert requested_pages == ["1", "1", "2", "3"]
        assert [product.id for product in client.products.list(page=2, size=3)] == product_ids[
            3::-1
        ]
        assert products.page().pagination.total_pages == 3


def test_iterating_yields_each_item_once_although_one_is_created_meanwhile(
    client: Client, shop: Shop
) -> None:
    product_ids = [shop.create_product()["id"] for _ in range(6)]
    products = iter(client.products.list(size=2))
    product_ids_read = [next(products).id, next(products).id]
    shop.create_product()
    product_ids_read += [product.id for product in products]
    assert product_ids_read == product_ids[::-1]


def test_lists_are_filtered_by_time_with_aware_datetimes(client: Client, shop: Shop) -> None:
    order = shop.create_order()
    moment = dt.datetime.fromtimestamp(order["createdAt"] / 1000, dt.UTC)
    assert [o.id for o in client.orders.list(start_date=moment, end_date=moment)] == [order["id"]]
    assert not list(client.orders.list(end_date=moment - dt.timedelta(milliseconds=1)))
    with pytest.raises(ValueError, match="time zone"):
        client.orders.list(start_date=moment.replace(tzinfo=None))


@pytest.mark.parametrize(
    "filters",
    [{"customer_email": ""}, {"query": ""}, {"product_id": ""}, {"metadata": {"cart": ""}}],
    ids=str,
)
def test_an_empty_filter_is_refused(client: Client, filters: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match=f"{next(iter(filters))} must not be empty"):
        client.orders.list(**filters)


def test_an_export_is_saved_or_streamed(client: Client, shop: Shop, tmp_path: Path) -> None:
    orders = [shop.create_order()["id"] for _ in range(3)]
    path = tmp_path / "orders.csv"
    size = client.orders.export().save(str(path))
    assert size == path.stat().st_size
    rows = csv.DictReader(io.StringIO(path.read_text()))
    assert [row["id"] for row in rows] == orders
    with client.orders.export(start_date=0) as file:
        assert file.filename.startswith("orders")
        assert b"".join(file) == path.read_bytes()
    with client.orders.export(bom=True) as file_with_bom:
        assert b"".join(file_with_bom) == codecs.BOM_UTF8 + path.read_bytes()
    memory = io.BytesIO()
    assert client.balance.export_statement().save(memory) == len(memory.getvalue())
    assert sorted(tmp_path.iterdir()) == [path]


@pytest.mark.parametrize("value", [9.99, True, b"1"])
def test_an_amount_that_is_a_float_is_refused(client: Client, value: Any) -> None:
    with pytest.raises(TypeError, match="float"):
        client.products.create(name="Tea", price=value, currency="USD")


def test_an_invalid_request_has_field_and_reason(client: Client) -> None:
    with pytest.raises(ValidationFailed) as failure:
        client.checkouts.create("prod_01m7y0m0jzefzv5n8efcf1hqw1")
    error = failure.value
    assert (error.status, error.code, error.field) == (400, 40001, "productId")
    assert error.reason in str(error)
    assert error.request_id.startswith("req_")
    assert error.maybe_done is False
    assert error.idempotency_key is not None


def test_a_forbidden_request_has_field_and_reason(
    api_server: ApiServer, client: Client, shop: Shop
) -> None:
    ann, now = Actor("ann", "documents are missing"), api_server.app.clock()
    api_server.tx(
        lambda tx: merchants.set_capability(tx, shop.id, "charge", on=False, actor=ann, now=now)
    )
    with pytest.raises(NotPermitted) as failure:
        client.checkouts.create(shop.create_product()["id"])
    error = failure.value
    assert (error.status, error.code, error.field) == (403, 40301, "charge")
    assert ann.reason in error.reason
    # Programs that were written for earlier versions catch this class.
    assert isinstance(error, RequestRefused)


def test_the_error_of_a_restricted_key_has_the_missing_scope(
    api_server: ApiServer, shop: Shop
) -> None:
    now, fields = api_server.app.clock(), merchants.KeyFields(scopes=["orders:read"])
    key = api_server.tx(lambda tx: merchants.create_key(tx, shop.id, "production", now, fields))
    with Client(api_server.url, key.key, trust_env=False) as restricted:
        restricted.orders.list()
        with pytest.raises(NotPermitted) as failure:
            restricted.balance.get()
    assert (failure.value.code, failure.value.field) == (40301, "scope")
    assert "balance:read" in failure.value.reason


def test_an_order_is_found_by_its_trade_no(client: Client, shop: Shop) -> None:
    order = shop.create_order()["id"]
    assert client.orders.get(order.replace("_", "")).id == order


def test_each_error_code_raises_its_own_exception(
    api_server: ApiServer, client: Client, shop: Shop
) -> None:
    with pytest.raises(NotFound) as failure:
        client.orders.get("order_01m7y0m0jzefzv5n8efcf1hqw1")
    not_found = failure.value
    assert (not_found.code, not_found.field, not_found.reason) == (40401, "", "")
    for text in ("../products", "", "orders?page=2"):
        with pytest.raises(NotFound, match="not an id"):
            client.orders.get(text)
    missing_id: Any = None  # a caller without a type checker may pass None
    with pytest.raises(NotFound, match="None is not an id"):
        client.orders.get(missing_id)
    with Client(api_server.url, "svc_live_wrong", trust_env=False) as stranger:
        with pytest.raises(Unauthorized):
            stranger.balance.get()
        assert stranger.agreement.get().action_label
        assert "wrong" not in repr(stranger)
    client.products.create(name="Tea", price="1.00", currency="USD", idempotency_key="k1")
    with pytest.raises(IdempotencyKeyReused):
        client.products.create(name="Tea", price="2.00", currency="USD", idempotency_key="k1")
    with pytest.raises(ValueError, match="printable"):
        client.products.create(name="Tea", price="1.00", currency="USD", idempotency_key="a\nb")


def test_two_calls_with_one_idempotency_key_create_one_product(client: Client) -> None:
    products = [
        client.products.create(name="Tea", price="1", currency="USD", idempotency_key="cart")
        for _ in range(2)
    ]
    assert products[0] == products[1]
    assert client.products.list().page().pagination.total == 1


def test_the_client_waits_for_a_rate_limit_within_its_total_time(api_server: ApiServer) -> None:
    with serving(api_server.settings, limit_checkouts_per_minute=1) as limited_server:
        shop = limited_server.create_shop()
        tea = shop.create_product()["id"]
        retries = Retries(total_s=0.5)
        with Client(limited_server.url, shop.key, retries=retries, trust_env=False) as client:
            client.checkouts.create(tea)
            with pytest.raises(RateLimited) as failure:
                client.checkouts.create(tea)
            assert failure.value.retry_after is not None
            assert 1 <= failure.value.retry_after <= 60
            assert failure.value.maybe_done is False


def test_unknown_fields_of_a_newer_server_are_ignored(api_server: ApiServer, shop: Shop) -> None:
    shop.create_product()

    class NewerServer(httpx2.HTTPTransport):
        def handle_request(self, request: httpx2.Request) -> httpx2.Response:
            response = super().handle_request(request)
            body = response.read().replace(b'{"id":', b'{"brandNew":{"a":1},"id":')
            response.close()
            return httpx2.Response(response.status_code, content=body)

    with Client(api_server.url, shop.key, transport=NewerServer(trust_env=False)) as client:
        assert client.products.list().page().items[0].name == "Tea"


@pytest.mark.parametrize("status", [200, 400])
@pytest.mark.parametrize("body", [b"", b"<p>", b"{}", b"\xff", b'{"more":' + b"[" * 100_000])
def test_a_malformed_body_is_an_unexpected_response(status: int, body: bytes) -> None:
    transport = httpx2.MockTransport(lambda _: httpx2.Response(status, content=body))
    with (
        Client("http://127.0.0.1", transport=transport) as client,
        pytest.raises(UnexpectedResponse),
    ):
        client.balance.get()


def test_a_url_that_is_not_the_servers_or_invalid_is_an_error(
    api_server: ApiServer, shop: Shop
) -> None:
    with (
        Client(api_server.url + "/docs", shop.key, trust_env=False) as client,
        pytest.raises((UnexpectedResponse, NotFound)),
    ):
        client.balance.get()
    for address in ("", "pay.example.com", "ftp://pay.example.com", "http://a.example/?x=1"):
        with pytest.raises(ValueError, match="base_url"):
            Client(address)
    with pytest.raises(ValueError, match="api_key"):
        Client(api_server.url, "svc_live_\nx")
    with Client(api_server.url, f" \t{shop.key}\r\n", trust_env=False) as client:
        assert client.balance.get()


def test_every_request_has_the_user_agent_and_the_given_headers(
    api_server: ApiServer, shop: Shop
) -> None:
    sent_headers: list[Any] = []
    hooks: Any = {"request": [lambda request: sent_headers.append(request.headers)]}
    with Client(
        api_server.url, shop.key, event_hooks=hooks, headers={"x-shop": "7"}, trust_env=False
    ) as client:
        client.balance.get()
    assert sent_headers[0]["user-agent"].startswith("opentill-python/")
    assert sent_headers[0]["x-shop"] == "7"


def test_the_client_manages_webhook_endpoints_events_and_deliveries(
    client: Client, shop: Shop
) -> None:
    endpoint = client.webhook_endpoints.create(
        "https://shop.example.com/hook", events=["order.paid"]
    )
    assert endpoint.secret.startswith("whsec_")
    assert [row.url for row in client.webhook_endpoints.list()] == [endpoint.url]
    changed_endpoint = client.webhook_endpoints.update(endpoint.id, description="Fulfilment")
    assert client.webhook_endpoints.get(endpoint.id) == changed_endpoint
    assert client.webhook_endpoints.rotate_secret(endpoint.id).secret != endpoint.secret
    order = shop.create_paid_order()
    events = client.events.list(type="order.paid")
    (event,) = events.items
    assert isinstance(event, OrderPaid)
    assert event.data.order_id == order["id"]
    assert event.data.amount == Decimal(order["amount"])
    assert client.events.get(event.id) == event
    assert client.events.list(cursor=events.cursor, type="order.paid").items == []
    (delivery,) = client.webhook_deliveries.list(endpoint.id)
    assert (delivery.event_id, delivery.status) == (event.id, "PENDING")
    assert client.webhook_endpoints.resend_events(endpoint.id, event_id=event.id).resent == 1
    test_event = client.webhook_endpoints.send_test_event(endpoint.id)
    assert (test_event.type, test_event.status) == ("webhook.test", "PENDING")
    assert client.webhook_endpoints.delete(endpoint.id) is None
    assert not list(client.webhook_endpoints.list())


def test_the_client_has_a_class_for_every_event_type() -> None:
    assert set(EVENTS) == set(SENT_TYPES)
