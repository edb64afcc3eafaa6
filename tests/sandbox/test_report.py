"""The bank's settlement report lists each movement of money once, by time."""

import csv
import io

from support.sandbox_bank import Shop, wait_until


def _rows(shop: Shop, **query: int) -> list[dict[str, str]]:
    response = shop.api.get("/settlement-report.csv", params=query)
    assert response.status_code == 200
    assert response.headers["content-type"] == "text/csv; charset=utf-8"
    return list(csv.DictReader(io.StringIO(response.text)))


def _movements(shop: Shop, *references: str) -> list[tuple[str, str, str, str]]:
    return [
        (row["kind"], row["reference"], row["amount"], row["currency"])
        for row in _rows(shop)
        if row["reference"] in references
    ]


def test_the_report_has_payments_refunds_chargebacks_and_recoveries(shop: Shop) -> None:
    paid, unpaid = shop.create_paid_payment(), shop.start_payment()
    refund = shop.refund(paid, 200).json()["id"]
    dispute = shop.api.post(f"/payments/{paid}/disputes", json={}).json()["id"]
    assert _movements(shop, paid, unpaid, refund) == [
        ("payment", paid, "9.99", "EUR"),
        ("refund", refund, "2.00", "EUR"),
    ]
    shop.api.post(f"/disputes/{dispute}/lost")
    shop.api.post(f"/disputes/{dispute}/recovered")
    assert _movements(shop, paid)[1:] == [
        ("chargeback", paid, "7.99", "EUR"),
        ("recovery", paid, "7.99", "EUR"),
    ]


def test_a_refund_does_not_change_the_time_of_its_payment(shop: Shop) -> None:
    paid = shop.create_paid_payment(amount_minor=5, currency="JPY")
    before = [row for row in _rows(shop) if row["reference"] == paid]
    assert before[0]["amount"] == "5"
    shop.refund(paid, 5, currency="JPY")
    assert [row for row in _rows(shop) if row["reference"] == paid] == before


def test_the_range_of_a_report_includes_both_ends(shop: Shop) -> None:
    paid = shop.create_paid_payment()
    at = wait_until(lambda: shop.find_payment(paid))["updated_at"]
    assert paid in [row["reference"] for row in _rows(shop, **{"from": at, "to": at})]
    assert paid not in [row["reference"] for row in _rows(shop, **{"from": at + 1})]
    assert shop.api.get("/settlement-report.csv", params={"from": "x"}).status_code == 400
