"""Orders are listed, filtered and exported (contract.md#orders)."""

import codecs
import csv
import io
from collections.abc import Callable
from decimal import Decimal
from typing import Any, Final

import pytest

from support.api_server import ApiServer, Shop, assert_refused

NOW: Final = 1_795_233_600_000  # 2026-11-21T04:00:00Z
# These are the first columns of the export; tests/orders/export/test_export.py checks all columns.
COLUMNS: Final = (
    "id,checkoutSessionId,productId,customerEmail,customerName,amount,currency,platformFeeRate,"
    "platformFee,netAmount,settledAmount,settledCurrency,exchangeRate,hkdExchangeRate,"
    "paymentMethod,status,paidAt,settledAt,metadata,createdAt,refundStatus,refundedAmount,"
    "createdAtUtc,paidAtUtc,livemode"
).split(",")
STATUSES: Final = (
    "CREATING PENDING PAID SETTLED REFUNDED DISPUTED CHARGEBACK FAILED CLOSED REVOKED"
).split()

FEES: Final = (  # each row: price, fee rate, fee, net
    ("9.99", "0.04", "0.40", "9.59"),
    ("0.01", "0.04", "0.00", "0.01"),
    ("0.12", "0.04", "0.00", "0.12"),
    ("0.13", "0.04", "0.01", "0.12"),
    ("0.50", "0.01", "0.01", "0.49"),  # 0.005 is rounded up
    ("0.49", "0.01", "0.00", "0.49"),
    ("100.00", "0", "0.00", "100.00"),
    ("100.00", "0.999999", "100.00", "0.00"),
    ("99999999.99", "0.029", "2900000.00", "97099999.99"),
    ("1.00", "0.125", "0.13", "0.87"),
)


@pytest.mark.parametrize(("price", "rate", "fee", "net"), FEES)
def test_the_fee_is_rounded_half_up(
    api_server: ApiServer, price: str, rate: str, fee: str, net: str
) -> None:
    shop = api_server.create_shop(platform_fee_rate=Decimal(rate))
    order = shop.create_paid_order(shop.create_product(price=price)["id"])
    assert order["platformFeeRate"] == rate
    assert (order["platformFee"], order["netAmount"]) == (fee, net)
    assert order["amount"] == order["baseAmount"] == order["payableAmount"]
    assert (order["settledAmount"], order["settledCurrency"]) == (net, "USD")
    assert (order["exchangeRate"], order["hkdExchangeRate"]) == ("1", None)
    assert shop.data("GET", "/v1/balance")["pending"] == net


CONVERSIONS: Final[tuple[tuple[Any, ...], ...]] = (
    # Each row: currency and price of the product, settlement currency, rates, exchangeRate,
    # platformFee, netAmount, settledAmount, pending balance.
    ("EUR", "10.00", "USD", {"EUR USD": "1.1"}, "1.1", "0.40", "9.60", "10.56", "10.56"),
    ("JPY", "1000", "USD", {"USD JPY": "160"}, "0.00625", "40.00", "960.00", "6.00", "6.00"),
    ("JPY", "999", "USD", {"USD JPY": "160"}, "0.00625", "40.00", "959.00", "5.99", "5.99"),
    ("USD", "9.99", "JPY", {"USD JPY": "160"}, "160", "0.40", "9.59", "1534.00", "1534.00"),
    ("KWD", "10.50", "USD", {"KWD USD": "3.25"}, "3.25", "0.42", "10.08", "32.76", "32.76"),
    ("USD", "10.50", "KWD", {"KWD USD": "3.2"}, "0.3125", "0.42", "10.08", "3.15", "3.15"),
)


@pytest.mark.parametrize(
    (
        "currency",
        "price",
        "settlement_currency",
        "rates",
        "rate",
        "fee",
        "net",
        "settled_amount",
        "pending",
    ),
    CONVERSIONS,
)
def test_a_conversion_uses_the_rate_of_the_session(
    api_server: ApiServer,
    currency: str,
    price: str,
    settlement_currency: str,
    rates: dict[str, str],
    rate: str,
    fee: str,
    net: str,
    settled_amount: str,
    pending: str,
) -> None:
    for pair, value in rates.items():
        base, quote = pair.split()
        api_server.set_rate(base, quote, Decimal(value))
    shop = api_server.create_shop(settlement_currency=settlement_currency)
    order = shop.create_order(shop.create_product(currency=currency, price=price)["id"])
    for pair in rates:
        base, quote = pair.split()
        # A rate that is set after the order was placed has no effect on it.
        api_server.set_rate(base, quote, Decimal(7))
    shop.confirm(order["id"])
    order = shop.read_order(order["id"])
    assert order["exchangeRate"] == rate
    assert (order["platformFee"], order["netAmount"]) == (fee, net)
    assert (order["settledAmount"], order["settledCurrency"]) == (
        settled_amount,
        settlement_currency,
    )
    balance = shop.data("GET", "/v1/balance")
    assert (balance["pending"], balance["currency"]) == (pending, settlement_currency)
    entries = shop.data("GET", "/v1/balance/transactions")["items"]
    assert sum(Decimal(entry["amount"]) for entry in entries) == Decimal(settled_amount)


def test_missing_values_of_an_order_are_empty_or_null(shop: Shop) -> None:
    order = shop.create_order()
    assert order["customerEmail"] == order["payerIp"] == ""
    for field in ("customerName", "paymentMethod", "paidAt", "settledAt", "hkdExchangeRate"):
        assert order[field] is None
    assert (order["refundStatus"], order["refundedAmount"]) == ("NONE", "0")
    assert order["rollingReserveStatus"] == "NONE"


def test_a_paid_order_has_its_time_and_method(shop: Shop, clock: Callable[[int], None]) -> None:
    clock(NOW)
    order = shop.create_order(customerName="Ada")
    clock(NOW + 5)
    shop.confirm(order["id"])
    paid = shop.read_order(order["id"])
    assert paid["status"] == "PAID"
    assert paid["paidAt"] == paid["updatedAt"] == NOW + 5
    assert paid["createdAt"] == NOW
    assert paid["paymentMethod"] == "BANK_TRANSFER"
    assert paid["customerName"] == "Ada"


def test_lists_are_newest_first_and_filtered(shop: Shop, clock: Callable[[int], None]) -> None:
    tea, mug = shop.create_product()["id"], shop.create_product()["id"]
    order_ids = []
    for n, product in enumerate((tea, mug, tea, mug, tea)):
        clock(NOW + n * 1000)
        order_ids.append(shop.create_order(product)["id"])
    shop.confirm(order_ids[1])
    shop.confirm(order_ids[2])

    def list_positions(**query: Any) -> list[int]:
        orders = shop.data("GET", "/v1/orders", params=query)["items"]
        return [order_ids.index(order["id"]) for order in orders]

    cases: tuple[tuple[dict[str, Any], list[int]], ...] = (
        ({}, [4, 3, 2, 1, 0]),
        ({"status": "PAID"}, [2, 1]),
        ({"status": "PENDING"}, [4, 3, 0]),
        ({"status": "SETTLED"}, []),
        ({"productId": tea}, [4, 2, 0]),
        ({"productId": mug, "status": "PAID"}, [1]),
        ({"startDate": NOW + 2000}, [4, 3, 2]),
        ({"startDate": NOW + 2001}, [4, 3]),
        ({"endDate": NOW + 2000}, [2, 1, 0]),
        ({"endDate": NOW + 1999}, [1, 0]),
        ({"startDate": NOW + 1000, "endDate": NOW + 3000}, [3, 2, 1]),
        ({"startDate": NOW + 1000, "endDate": NOW + 1000}, [1]),
        ({"startDate": NOW + 1000, "endDate": NOW + 3000, "productId": mug}, [3, 1]),
        ({"endDate": NOW - 1}, []),
        ({"size": 2}, [4, 3]),
        ({"size": 2, "page": 3}, [0]),
    )
    for query, expected in cases:
        assert list_positions(**query) == expected, query


def test_orders_of_one_millisecond_have_a_stable_order_over_pages(
    shop: Shop, clock: Callable[[int], None]
) -> None:
    clock(NOW)
    product = shop.create_product()["id"]
    created_ids = {shop.create_order(product)["id"] for _ in range(7)}
    pages = [
        shop.data("GET", "/v1/orders", params={"page": page, "size": 2})["items"]
        for page in (1, 2, 3, 4)
    ]
    listed_ids = [order["id"] for orders in pages for order in orders]
    assert set(listed_ids) == created_ids
    assert listed_ids == sorted(listed_ids, reverse=True)


@pytest.mark.parametrize(
    ("query", "field"),
    [
        ({"status": "paid"}, "status"),
        ({"status": "UNKNOWN"}, "status"),
        ({"status": "null"}, "status"),
        ({"productId": "\0"}, "productId"),
        ({"startDate": "x"}, "startDate"),
        ({"startDate": "null"}, "startDate"),
        ({"startDate": "-1"}, "startDate"),
        ({"startDate": "1.5"}, "startDate"),
        ({"startDate": "1e12"}, "startDate"),
        ({"startDate": "2026-01-15"}, "startDate"),
        ({"startDate": 253_402_300_800_000}, "startDate"),
        ({"startDate": "9" * 40}, "startDate"),
        ({"endDate": "x"}, "endDate"),
        ({"startDate": 2, "endDate": 1}, "endDate"),
    ],
)
def test_an_unknown_filter_value_is_refused(shop: Shop, query: dict[str, Any], field: str) -> None:
    assert_refused(shop.get("/v1/orders", **query), field)
    if "Date" in field:
        assert_refused(shop.get("/v1/orders/export", **query), field)


@pytest.mark.parametrize("status", STATUSES)
def test_the_list_can_be_filtered_by_every_status(shop: Shop, status: str) -> None:
    assert shop.data("GET", "/v1/orders", params={"status": status})["items"] == []


@pytest.mark.parametrize("order_id", ["order_01m7y0m0jzefzv5n8efcf1hqw2", "x", "%00", "exports"])
def test_an_unknown_order_is_not_found(shop: Shop, order_id: str) -> None:
    response = shop.get(f"/v1/orders/{order_id}")
    assert (response.status_code, response.json()) == (404, {"code": 40401, "message": "Not Found"})


# ── export ──


def _read_export(shop: Shop, **query: Any) -> list[dict[str, str]]:
    response = shop.get("/v1/orders/export", **query)
    assert response.status_code == 200
    return list(csv.DictReader(io.StringIO(response.content.decode(), newline="")))


@pytest.mark.parametrize("path", ["/v1/orders/export", "/v1/balance/statement.csv"])
def test_a_csv_file_has_a_byte_order_mark_only_on_request(shop: Shop, path: str) -> None:
    shop.create_paid_order()
    unmarked = shop.get(path)
    assert shop.get(path, bom="false").content == unmarked.content
    assert not unmarked.content.startswith(codecs.BOM_UTF8)
    marked = shop.get(path, bom="true")
    assert marked.headers["content-type"] == "text/csv; charset=utf-8"
    assert marked.content.splitlines()[0] == codecs.BOM_UTF8 + unmarked.content.splitlines()[0]
    assert "true or false" in assert_refused(shop.get(path, bom="yes"), "bom")


def test_an_empty_export_has_only_the_header_row(shop: Shop) -> None:
    response = shop.get("/v1/orders/export")
    assert response.status_code == 200
    assert response.headers["content-type"] == "text/csv; charset=utf-8"
    header, after_header = response.content.decode().split("\r\n")
    assert header.split(",")[: len(COLUMNS)] == COLUMNS
    assert after_header == ""


@pytest.mark.parametrize(
    ("query", "name"),
    [
        ({}, "orders_all_all.csv"),
        ({"startDate": NOW}, "orders_2026-11-21_all.csv"),
        ({"endDate": NOW}, "orders_all_2026-11-21.csv"),
        ({"startDate": 0, "endDate": 253_402_300_799_999}, "orders_1970-01-01_9999-12-31.csv"),
    ],
)
def test_the_export_is_named_after_its_range(shop: Shop, query: dict[str, Any], name: str) -> None:
    response = shop.get("/v1/orders/export", **query)
    assert response.headers["content-disposition"] == f'attachment; filename="{name}"'


def test_rows_are_the_orders_oldest_first(shop: Shop, clock: Callable[[int], None]) -> None:
    clock(NOW)
    order = shop.create_order(metadata={"a": 'quote " and, comma'}, customerName="Ada\nLovelace")
    clock(NOW + 61_007)
    shop.confirm(order["id"])
    shop.report_refund(shop.refund(order["id"], amount="2")["id"])
    shop.create_order()
    listed = shop.data("GET", "/v1/orders")["items"]
    rows = _read_export(shop)
    assert [row["id"] for row in rows] == [order["id"] for order in reversed(listed)]
    row = rows[0]
    for name, value in listed[-1].items():
        if name == "metadata":
            assert row[name] == '{"a":"quote \\" and, comma"}'
        elif name == "livemode":
            assert row[name] == ("true" if value else "false")
        else:
            assert row[name] == ("" if value is None else str(value))
    assert (row["refundStatus"], row["refundedAmount"]) == ("PARTIAL", "2.00")
    assert row["createdAtUtc"] == "2026-11-21T04:00:00.000Z"
    assert row["paidAtUtc"] == "2026-11-21T04:01:01.007Z"
    assert (rows[1]["paidAtUtc"], rows[1]["refundedAmount"]) == ("", "0")


def test_export_lines_end_with_crlf_and_the_date_range_is_inclusive(
    shop: Shop, clock: Callable[[int], None]
) -> None:
    ids = []
    for n in range(3):
        clock(NOW + n)
        ids.append(shop.create_order()["id"])
    assert [row["id"] for row in _read_export(shop, startDate=NOW + 1, endDate=NOW + 2)] == ids[1:]
    content = shop.get("/v1/orders/export").content
    assert content.count(b"\r\n") == content.count(b"\n") == 4
    assert not content.startswith(b"\xef\xbb\xbf")


@pytest.mark.parametrize(
    "text",
    [
        "=1+1",
        "+1",
        "-1",
        "@SUM(A1)",
        "\t=1",
        " =1",
        "＝1+1",
        "＋1",
        "－1",
        "＠x",
        "=cmd|' /C calc'!A0",
    ],
)
def test_a_formula_is_escaped(shop: Shop, text: str) -> None:
    shop.create_order(customerName="x" + text)
    shop.create_order(customerName=text)
    rows = _read_export(shop)
    # A spreadsheet may split cells at tabs, so the text after one is escaped too.
    escaped_tabs = "x" + text.replace("\t", "\t'")
    assert rows[0]["customerName"] == escaped_tabs
    assert rows[1]["customerName"] == "'" + text.strip()


def test_an_e_mail_address_that_begins_like_a_formula_is_escaped(shop: Shop) -> None:
    shop.create_order(customerEmail="=1+1@example.com")
    assert _read_export(shop)[0]["customerEmail"] == "'=1+1@example.com"


def test_the_export_is_streamed(shop: Shop) -> None:
    product = shop.create_product()["id"]
    for _ in range(12):
        shop.create_order(product, metadata={"k": "v" * 16_000})
    headers = {"x-api-key": shop.key}
    with shop.api_server.http.stream("GET", "/v1/orders/export", headers=headers) as response:
        assert response.headers["transfer-encoding"] == "chunked"
        assert "content-length" not in response.headers
        chunks = list(response.iter_raw())
    assert len(chunks) > 2
    rows = list(csv.DictReader(io.StringIO(b"".join(chunks).decode(), newline="")))
    assert len(rows) == 12
