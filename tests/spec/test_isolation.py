"""Another merchant's id is treated as an unknown id in every field of every operation.

The fields come from the table of operations; one that is not classified here fails the test.
"""

from typing import Any, Final

import msgspec
import pytest

from opentill.app import OPERATIONS
from opentill.http.operations import Operation
from support.api_server import ApiServer, Shop, assert_refused


class Objects(msgspec.Struct):
    """The ids of one object of every kind of a merchant."""

    product: str
    session: str
    order: str
    refund: str
    dispute: str
    payout: str
    link: str
    endpoint: str
    event: str


def _create_objects(shop: Shop) -> Objects:
    order = shop.create_paid_order()
    return Objects(
        product=order["productId"],
        session=order["checkoutSessionId"],
        order=order["id"],
        refund=shop.refund(order["id"], amount="1.00", refundNo="MINE")["id"],
        dispute=shop.open_dispute(shop.create_paid_order()["id"]).id,
        payout=shop.create_payout().id,
        link=shop.data("POST", "/v1/payment-links", json={"productId": order["productId"]})["id"],
        endpoint=shop.create_endpoint()["id"],
        event=shop.data("GET", "/v1/events")["items"][0]["id"],
    )


@pytest.fixture(scope="module")
def owner(api_server: ApiServer) -> tuple[Shop, Objects]:
    """A merchant with one object of every kind."""
    shop = api_server.create_shop()
    return shop, _create_objects(shop)


@pytest.fixture(scope="module")
def stranger(api_server: ApiServer) -> tuple[Shop, Objects]:
    """Another merchant with one object of every kind."""
    shop = api_server.create_shop()
    return shop, _create_objects(shop)


# For each first segment of a path after /v1, the kind of object that the id in the path identifies.
KINDS_BY_SEGMENT: Final = {
    "products": "product",
    "checkouts": "session",
    "orders": "order",
    "refunds": "refund",
    "disputes": "dispute",
    "payouts": "payout",
    "payment-links": "link",
    "webhook-endpoints": "endpoint",
    "events": "event",
}
# These bodies would be valid if the owner sent them.
BODIES: Final[dict[str, Any]] = {
    "PATCH /v1/products/{id}": {"name": "Mine now"},
    "POST /v1/orders/{id}/refunds": {"amount": "1.00"},
    "PATCH /v1/payment-links/{id}": {"active": False},
    "PATCH /v1/webhook-endpoints/{id}": {"description": "Mine now"},
    "POST /v1/webhook-endpoints/{id}/resend": {"since": 0},
}
# For each field of a body or query that contains an id, the kind of object that the id identifies.
ID_FIELDS: Final = {
    ("POST /v1/checkouts", "productId"): "product",
    ("POST /v1/payment-links", "productId"): "product",
    ("GET /v1/checkouts", "productId"): "product",
    ("GET /v1/orders", "productId"): "product",
    ("GET /v1/orders", "query"): "order",
    ("GET /v1/orders/export", "productId"): "product",
    ("GET /v1/orders/export", "query"): "order",
    ("GET /v1/disputes", "orderId"): "order",
}
# These fields contain the id of an object that must belong to the object in the path.
SUB_FIELDS: Final = {
    ("GET /v1/webhook-endpoints/{id}/deliveries", "eventId"): "event",
    ("POST /v1/webhook-endpoints/{id}/resend", "eventId"): "event",
    ("POST /v1/webhook-endpoints/{id}/resend", "after"): "event",
}
UNKNOWN_IDS: Final = {
    "product": "prod_01m7y0m0jzefzv5n8efcf1hqw1",
    "order": "order_01m7y0m0jzefzv5n8efcf1hqw1",
    "event": "evt_01m7y0m0jzefzv5n8efcf1hqw1",
}
NO_IDS: Final = {
    "name", "price", "currency", "description", "image", "metadata", "status", "page", "size",
    "successUrl", "cancelUrl", "customerEmail", "customerName", "displayMerchantName",
    "display_merchant_name", "startDate", "endDate", "amount", "reason", "refundNo", "type",
    "url", "events", "cursor", "since", "until", "failedOnly",
    "item", "quantity", "expiresIn", "paymentMethods", "locale", "clientReference", "customer_name",
    "active", "expiresAt", "maxQuantity", "maxUses", "bom", "resent",
}  # fmt: skip


def _name(operation: Operation) -> str:
    return f"{operation.method} {operation.path}"


def test_every_field_is_classified() -> None:
    for operation in OPERATIONS:
        for struct in (operation.query, operation.body):
            for field in msgspec.structs.fields(struct):
                input_field = (_name(operation), field.encode_name)
                is_classified = (
                    field.encode_name in NO_IDS
                    or input_field in ID_FIELDS
                    or input_field in SUB_FIELDS
                )
                assert is_classified, f"{_name(operation)}: is {field.encode_name} an id?"
        if "{id}" in operation.path:
            assert operation.path.split("/")[2] in KINDS_BY_SEGMENT


WITH_ID: Final = [operation for operation in OPERATIONS if "{id}" in operation.path]


@pytest.mark.parametrize("operation", WITH_ID, ids=_name)
def test_another_merchants_id_in_the_path_is_not_found(
    owner: Any, stranger: Any, operation: Operation
) -> None:
    (shop, objects), (other_shop, _) = owner, stranger
    before = _read_everything(shop, objects)
    for resource in (shop.id, *msgspec.structs.astuple(objects)):
        path = operation.path.replace("{id}", resource)
        for key in (None, f"k-{operation.method}-{path}"):
            body = BODIES.get(_name(operation))
            headers = {"idempotency-key": key}
            response = other_shop.call(operation.method, path, json=body, headers=headers)
            assert response.status_code == 404, path
            assert response.json() == {"code": 40401, "message": "Not Found"}, path
    assert _read_everything(shop, objects) == before


@pytest.mark.parametrize("operation", WITH_ID, ids=_name)
def test_the_owner_can_access_the_object(owner: Any, operation: Operation) -> None:
    shop, objects = owner
    if operation.method == "DELETE" or operation.path.endswith("/expire"):
        return
    kind = KINDS_BY_SEGMENT[operation.path.split("/")[2]]
    path = operation.path.replace("{id}", getattr(objects, kind))
    assert shop.call(operation.method, path, json=BODIES.get(_name(operation))).status_code < 300


def _read_everything(shop: Shop, objects: Objects) -> list[Any]:
    paths = (
        f"/v1/products/{objects.product}",
        f"/v1/checkouts/{objects.session}",
        f"/v1/orders/{objects.order}",
        f"/v1/orders/{objects.order}/refunds",
        f"/v1/refunds/{objects.refund}",
        f"/v1/disputes/{objects.dispute}",
        f"/v1/payouts/{objects.payout}",
        f"/v1/webhook-endpoints/{objects.endpoint}",
        f"/v1/webhook-endpoints/{objects.endpoint}/deliveries",
        f"/v1/events/{objects.event}",
        "/v1/events",
        "/v1/webhook-endpoints",
        "/v1/disputes",
        "/v1/payouts",
        "/v1/balance",
        "/v1/balance/transactions",
        "/v1/orders",
        "/v1/checkouts",
        "/v1/products",
    )
    return [shop.get(path).content for path in paths]


@pytest.mark.parametrize(("input_field", "kind"), ID_FIELDS.items(), ids=str)
def test_another_merchants_id_in_a_body_or_filter_gets_the_response_for_an_unknown_id(
    owner: Any, stranger: Any, input_field: tuple[str, str], kind: str
) -> None:
    (_, foreign_objects), (shop, own_objects) = owner, stranger
    (method, path), field = input_field[0].split(" "), input_field[1]
    option = "json" if method == "POST" else "params"

    def send(id_: str) -> Any:
        return shop.call(method, path, **{option: {field: id_}})

    response = send(getattr(foreign_objects, kind))
    _assert_not_found(response, field)
    assert response.content == send(UNKNOWN_IDS[kind]).content
    assert send(getattr(own_objects, kind)).is_success


def _assert_not_found(response: Any, field: str) -> None:
    """Assert that a body with the id is refused, and a list filtered by it is empty."""
    if response.request.method == "POST":
        assert_refused(response, field)
    elif response.headers["content-type"].startswith("text/csv"):
        assert response.text.count("\r\n") == 1  # the file has only a header
    else:
        assert response.json()["data"]["items"] == []
        assert response.json()["data"]["pagination"]["total"] == 0


@pytest.mark.parametrize(("input_field", "kind"), SUB_FIELDS.items(), ids=str)
def test_another_merchants_id_under_an_own_object_gets_the_response_for_an_unknown_id(
    owner: Any, stranger: Any, input_field: tuple[str, str], kind: str
) -> None:
    (_, foreign_objects), (shop, own_objects) = owner, stranger
    (method, path), field = input_field[0].split(" "), input_field[1]
    path = path.replace("{id}", own_objects.endpoint)
    option = "json" if method == "POST" else "params"
    other_fields = {"since": 9 * 10**13} if field == "after" else {}

    def send(id_: str) -> Any:
        return shop.call(method, path, **{option: {field: id_} | other_fields})

    response = send(getattr(foreign_objects, kind))
    assert response.json() == send(UNKNOWN_IDS[kind]).json()
    if field != "after":  # an id in ``after`` only marks a position in the list of events
        _assert_not_found(response, field)
    assert send(getattr(own_objects, kind)).is_success


LISTS: Final = [
    operation
    for operation in OPERATIONS
    if operation.method == "GET" and operation.auth and "{id}" not in operation.path
]


@pytest.mark.parametrize("operation", LISTS, ids=_name)
def test_a_list_contains_no_object_of_another_merchant(
    owner: Any, stranger: Any, operation: Operation
) -> None:
    (shop, objects), (other_shop, _) = owner, stranger
    assert shop.get(operation.path).status_code == 200
    other_list = other_shop.get(operation.path)
    assert other_list.status_code == 200
    for text in (shop.id, *msgspec.structs.astuple(objects)):
        assert text not in other_list.text


def test_a_new_merchant_has_empty_lists(api_server: ApiServer, owner: Any) -> None:
    new_shop = api_server.create_shop()
    for path in (
        "/v1/products", "/v1/orders", "/v1/balance/transactions", "/v1/disputes", "/v1/payouts",
        "/v1/webhook-endpoints",
    ):  # fmt: skip
        assert new_shop.data("GET", path)["pagination"]["total"] == 0
    assert new_shop.data("GET", "/v1/events") == {"items": [], "cursor": "0", "hasMore": False}
    assert new_shop.get("/v1/orders/export").content.count(b"\r\n") == 1
