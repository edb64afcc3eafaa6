"""Every field of every resource exists, has its type, and is null only where the contract says.

The contract pins the fields below. Other fields must agree with the API document, which
`test_document.py` checks.
"""

import re
from typing import Any, Final, NamedTuple

import pytest

from opentill.app import openapi_document
from opentill.core.settings import Settings
from support.api_server import Shop


class Fields(NamedTuple):
    """A resource's schema in the API document, and the kinds of the fields that are pinned."""

    schema: str
    pinned: dict[str, str]


def pinned(schema: str, **kinds: str) -> Fields:
    """Pin fields of a schema; ``kinds`` has the name and kind of each field."""
    return Fields(schema, kinds)


SCHEMAS: Final = openapi_document(Settings())["components"]["schemas"]

# For each type of the contract, whether a JSON value has it; "?" means "or null".
KINDS: Final[dict[str, Any]] = {
    "text": lambda value: type(value) is str,
    "decimal": lambda value: type(value) is str and re.fullmatch(r"-?\d+\.\d{2}", value),
    "rate": lambda value: type(value) is str and re.fullmatch(r"\d+(\.\d+)?", value),
    "flag": lambda value: type(value) is bool,
    "ms": lambda value: type(value) is int and 1_700_000_000_000 < value < 4_000_000_000_000,
    "count": lambda value: type(value) is int and value >= 0,
    "object": lambda value: type(value) is dict,
    "list": lambda value: type(value) is list,
    "ip": lambda value: type(value) is str,
}

PRODUCT: Final = pinned(
    "Product",
    id="text",
    name="text",
    description="text",
    image="text?",
    price="decimal",
    currency="text",
    status="text",
    metadata="object",
    createdAt="ms",
    updatedAt="ms",
)
CREATED: Final = pinned(
    "SessionCreated",
    id="text",
    productId="text",
    amount="decimal",
    currency="text",
    status="text",
    url="text",
    expiresAt="ms",
    createdAt="ms",
)
SESSION: Final = pinned(
    "Session",
    **CREATED.pinned,
    quantity="count",
    paymentMethods="list?",
    locale="text?",
    clientReference="text?",
    orderId="text",
)
ORDER: Final = pinned(
    "Order",
    id="text",
    checkoutSessionId="text",
    productId="text",
    customerEmail="text",
    customerName="text?",
    amount="decimal",
    currency="text",
    platformFeeRate="rate",
    platformFee="decimal",
    netAmount="decimal",
    settledAmount="decimal",
    settledCurrency="text",
    exchangeRate="rate",
    hkdExchangeRate="rate?",
    paymentMethod="text?",
    status="text",
    paidAt="ms?",
    settledAt="ms?",
    metadata="object",
    createdAt="ms",
    livemode="flag",
    quantity="count",
    clientReference="text?",
    paymentLinkId="text?",
)
DETAIL: Final = pinned(
    "OrderDetail",
    **ORDER.pinned,
    baseAmount="decimal",
    payableAmount="decimal",
    refundStatus="text",
    refundedAmount="rate",
    payerIp="ip",
    updatedAt="ms",
    rollingReserveRate="rate",
    rollingReserveAmount="decimal",
    rollingReserveStatus="text",
    rollingReserveReleaseAt="ms?",
    cardBrand="text?",
    cardLast4="text?",
)
REFUND: Final = pinned(
    "Refund",
    id="text",
    merchantId="text",
    orderId="text",
    source="text",
    refundNo="text?",
    status="text",
    amount="decimal",
    currency="text",
    userRefundAmountUsd="decimal",
    merchantDebitUsd="decimal",
    reason="text",
    errorMessage="text?",
    createdAt="ms",
    updatedAt="ms",
    succeededAt="ms?",
    failedAt="ms?",
)
DISPUTE: Final = pinned(
    "Dispute",
    id="text",
    orderId="text",
    status="text",
    amount="decimal",
    currency="text",
    debit="decimal",
    fee="decimal",
    debitCurrency="text",
    reason="text",
    respondBy="ms?",
    createdAt="ms",
    updatedAt="ms",
    closedAt="ms?",
)
PAYOUT: Final = pinned(
    "Payout",
    id="text",
    status="text",
    amount="decimal",
    fee="decimal",
    currency="text",
    bankReference="text?",
    failureReason="text?",
    createdAt="ms",
    updatedAt="ms",
    paidAt="ms?",
    failedAt="ms?",
)
TRANSACTION: Final = pinned(
    "Transaction",
    id="text",
    type="text",
    amount="decimal",
    currency="text",
    availableAfter="decimal",
    pendingAfter="decimal",
    frozenAfter="decimal",
    sourceType="text",
    sourceId="text",
    description="text",
    createdAt="ms",
)
ENDPOINT: Final = pinned(
    "Endpoint",
    id="text",
    url="text",
    description="text",
    events="list",
    status="text",
    disabledReason="text?",
    oldSecretUntil="ms?",
    createdAt="ms",
    updatedAt="ms",
)
DELIVERY: Final = pinned(
    "Delivery",
    eventId="text",
    type="text",
    status="text",
    nextAttemptAt="ms?",
    attempts="list",
    createdAt="ms",
    updatedAt="ms",
)
EVENT: Final = pinned(
    "EventBody",
    id="text",
    type="text",
    created_at="ms",
    data="object",
)
BALANCE: Final = pinned(
    "Balance",
    available="decimal",
    pending="decimal",
    frozen="decimal",
    currency="text",
    updatedAt="ms?",
)
AGREEMENT: Final = pinned(
    "Agreement",
    agreementVersion="text",
    effectiveDate="text",
    effectiveDateDisplay="text",
    templateSha256="text",
    renderedDocumentSha256="text",
    markdownContent="text",
    acceptanceStatement="text",
    actionLabel="text",
    documentUrl="text",
)
PAGINATION: Final = pinned(
    "Pagination",
    page="count",
    size="count",
    total="count",
    totalPages="count",
)


def assert_fields(data: dict[str, Any], fields: Fields) -> None:
    """Assert that ``data`` has exactly the documented fields, and the pinned ones as pinned."""
    assert set(data) == set(SCHEMAS[fields.schema]["required"])
    for name, kind in fields.pinned.items():
        value = data[name]
        if value is None:
            assert kind.endswith("?"), f"{name} is null"
        else:
            assert KINDS[kind.rstrip("?")](value), f"{name} is {value!r}, no {kind}"


def _create_order(shop: Shop) -> str:
    return str(shop.create_paid_order()["id"])


def _create_order_with_refund(shop: Shop) -> str:
    order_id = _create_order(shop)
    shop.refund(order_id, amount="1.00")
    return order_id


def _create_refund(shop: Shop) -> str:
    return str(shop.refund(_create_order(shop), amount="1.00")["id"])


def _create_dispute(shop: Shop) -> str:
    return shop.open_dispute(_create_order(shop)).id


def _create_delivery(shop: Shop) -> str:
    """Create a delivery; return the path of its list."""
    endpoint = shop.create_endpoint()["id"]
    shop.create_paid_order()
    return f"/v1/webhook-endpoints/{endpoint}/deliveries"


def _create_event(shop: Shop) -> str:
    shop.create_paid_order()
    return str(shop.data("GET", "/v1/events")["items"][0]["id"])


RESOURCES: Final[tuple[Any, ...]] = (
    # Each row: resource, function that creates one and returns its path, fields.
    ("product", lambda shop: f"/v1/products/{shop.create_product()['id']}", PRODUCT),
    ("session", lambda shop: f"/v1/checkouts/{shop.create_session()['id']}", SESSION),
    ("unpaid order", lambda shop: f"/v1/orders/{shop.create_order()['id']}", DETAIL),
    ("paid order", lambda shop: f"/v1/orders/{_create_order(shop)}", DETAIL),
    ("refund", lambda shop: f"/v1/refunds/{_create_refund(shop)}", REFUND),
    (
        "dispute",
        lambda shop: f"/v1/disputes/{_create_dispute(shop)}",
        pinned("DisputeDetail", **DISPUTE.pinned, notes="list"),
    ),
    ("payout", lambda shop: f"/v1/payouts/{shop.create_payout().id}", PAYOUT),
    ("endpoint", lambda shop: f"/v1/webhook-endpoints/{shop.create_endpoint()['id']}", ENDPOINT),
    ("event", lambda shop: f"/v1/events/{_create_event(shop)}", EVENT),
    ("empty balance", lambda _: "/v1/balance", BALANCE),
    ("balance", lambda shop: _create_order(shop) and "/v1/balance", BALANCE),
    ("agreement", lambda _: "/v1/config/legal/merchant-services-agreement", AGREEMENT),
)


@pytest.mark.parametrize(
    ("create", "fields"), [row[1:] for row in RESOURCES], ids=[row[0] for row in RESOURCES]
)
def test_a_resource_has_exactly_the_documented_fields(
    shop: Shop, create: Any, fields: Fields
) -> None:
    response = shop.get(create(shop))
    assert response.status_code == 200
    assert list(response.json()) == ["code", "message", "data"]
    assert response.json()["code"] == 0
    assert response.json()["message"] == "success"
    assert response.headers["content-type"] == "application/json"
    assert_fields(response.json()["data"], fields)


LISTS: Final[tuple[Any, ...]] = (
    ("products", lambda shop: shop.create_product() and "/v1/products", PRODUCT),
    ("orders", lambda shop: shop.create_order() and "/v1/orders", ORDER),
    (
        "refunds",
        lambda shop: f"/v1/orders/{_create_order_with_refund(shop)}/refunds",
        REFUND,
    ),
    ("disputes", lambda shop: _create_dispute(shop) and "/v1/disputes", DISPUTE),
    ("payouts", lambda shop: shop.create_payout() and "/v1/payouts", PAYOUT),
    ("endpoints", lambda shop: shop.create_endpoint() and "/v1/webhook-endpoints", ENDPOINT),
    ("deliveries", _create_delivery, DELIVERY),
    ("transactions", lambda shop: _create_order(shop) and "/v1/balance/transactions", TRANSACTION),
)


@pytest.mark.parametrize(
    ("create", "fields"), [row[1:] for row in LISTS], ids=[row[0] for row in LISTS]
)
def test_a_list_has_pagination_and_items_with_exactly_the_documented_fields(
    shop: Shop, create: Any, fields: Fields
) -> None:
    response = shop.get(create(shop))
    assert response.status_code == 200
    data = response.json()["data"]
    assert set(data) == {"items", "pagination"}
    assert_fields(data["pagination"], PAGINATION)
    assert data["items"]
    for item in data["items"]:
        assert_fields(item, fields)


def test_creating_a_resource_is_201_with_its_fields(shop: Shop) -> None:
    product = shop.post("/v1/products", {"name": "Tea", "price": "9.99", "currency": "USD"})
    assert product.status_code == 201
    assert_fields(product.json()["data"], PRODUCT)
    session = shop.post("/v1/checkouts", {"productId": product.json()["data"]["id"]})
    assert session.status_code == 201
    assert_fields(session.json()["data"], CREATED)
    extensions = {
        "quantity": 2,
        "paymentMethods": ["CREDIT_CARD"],
        "locale": "en",
        "clientReference": "INV-7",
    }
    # A response has such a field only if the request had it.
    for name, value in extensions.items():
        created = shop.create_session(product.json()["data"]["id"], **{name: value})
        assert created[name] == value
        assert created.keys() & extensions.keys() == {name}
    refund = shop.post(f"/v1/orders/{_create_order(shop)}/refunds", {})
    assert refund.status_code == 201
    assert_fields(refund.json()["data"], REFUND)


def test_archiving_returns_only_code_and_message(shop: Shop) -> None:
    path = f"/v1/products/{shop.create_product()['id']}"
    for _ in range(2):
        response = shop.call("DELETE", path)
        assert (response.status_code, response.json()) == (200, {"code": 0, "message": "success"})


@pytest.mark.parametrize(
    ("create_id", "prefix"),
    [
        (lambda shop: shop.id, "mer_"),
        (lambda shop: shop.create_product()["id"], "prod_"),
        (lambda shop: shop.create_session()["id"], "cs_"),
        (lambda shop: shop.create_order()["id"], "order_"),
        (_create_refund, "re_"),
        (_create_dispute, "dp_"),
        (lambda shop: shop.create_payout().id, "po_"),
        (lambda shop: shop.create_endpoint()["id"], "whe_"),
        (_create_event, "evt_"),
        (
            lambda shop: (
                _create_order(shop)
                and shop.get("/v1/balance/transactions").json()["data"]["items"][0]["id"]
            ),
            "txn_",
        ),
    ],
)
def test_an_id_is_a_prefix_followed_by_letters_and_digits(
    shop: Shop, create_id: Any, prefix: str
) -> None:
    assert re.fullmatch(prefix + "[0-9a-z]{16,40}", create_id(shop))
