"""The dispute rate on the pages of merchants and of staff, and on the command line."""

from datetime import date

import msgspec
import pytest

from dashboard.pages import text_of
from opentill.figures import DisputeRate, jobs
from opentill.figures.dispute_rates import limits_of
from opentill.portal import dispute_rates
from opentill.web.language import Localizer
from support.api_server import Shop
from support.people import create_person


def test_the_rate_is_shown_by_month_and_card_brand(shop: Shop) -> None:
    ada = create_person(shop.api_server, shop.id, "finance")
    agent = create_person(shop.api_server, None, staff_role="auditor")
    path = f"/dashboard/{shop.id}/disputes"
    assert "No dispute rate yet" in text_of(ada.get(f"{path}/rate"))
    orders = [shop.create_paid_order()["id"] for _ in range(4)]
    shop.api_server.sql(
        "update payment_attempts set card_brand = 'visa', card_last4 = '4242',"
        " method = 'CREDIT_CARD' where merchant_id = $1",
        shop.id,
    )
    shop.open_dispute(orders[0])
    shop.api_server.run(jobs.count_all(shop.api_server.app.db))
    page = text_of(ada.get(f"{path}/rate"))
    for text in (
        "All payments 4 1 0 0 25.00% 25.00%",
        "Visa 4 1 0 0 25.00%",
        "1.50% from 1,500 disputes a month Rate above 1.50%, too few disputes",
        "is 25.00%, above the limit of 1.50%. There are too few disputes for the limit of 1,500:",
        "Dispute rate of Visa by month",
    ):
        assert text in page, page
    assert "is within the limit of the card scheme" not in page
    month = (
        "Disputes this month 1 1 open, 0 won, 0 lost Dispute rate 25.00% this month, of 4 payments"
    )
    assert month in text_of(ada.get(path))
    staff_page = text_of(agent.get("/console/disputes/rate", params={"merchant": shop.id}))
    assert "Visa 4 1 0 0 25.00%" in staff_page
    assert "All payments" in text_of(agent.get("/console/disputes/rate"))
    assert "Disputes this month" in text_of(agent.get("/console/disputes"))
    wrong = text_of(agent.get("/console/disputes/rate", params={"merchant": "mer_0"}))
    assert "No merchant has this ID or name" in wrong
    assert "There were no payments or disputes" not in wrong


def _rate(opened: int, payments: int, brand: str | None = "visa") -> DisputeRate:
    return DisputeRate(
        month=date(2026, 11, 1),
        method="CREDIT_CARD",
        brand=brand,
        payments=payments,
        opened=opened,
        won=0,
        lost=0,
        volumes=(),
        limits=limits_of(brand, date(2026, 11, 1)),
    )


@pytest.mark.parametrize(
    ("rate", "verdict"),
    [
        (_rate(1, 100), ("Within the limit", "paid")),
        (_rate(0, 0), ("Within the limit", "paid")),
        (_rate(3, 200), ("Rate above 1.50%, too few disputes", "disputed")),
        (_rate(1500, 200_000), ("Within the limit", "paid")),
        (_rate(1500, 100_000), ("Over the Visa limit", "failed")),
        (
            _rate(4, 100, "mastercard"),
            ("Rate above 1.50%, too few disputes", "disputed"),
        ),
        (_rate(100, 1000, "mastercard"), ("Over the Mastercard ECM limit", "failed")),
        (_rate(300, 1000, "mastercard"), ("Over the Mastercard HECM limit", "failed")),
        (_rate(9, 10, "jcb"), ("", "paid")),
    ],
)
def test_the_verdict_agrees_with_rate_and_number(
    rate: DisputeRate, verdict: tuple[str, str]
) -> None:
    (row,) = dispute_rates.rows_of_month(Localizer("merchant", "en"), [rate])
    assert (row.verdict, row.tone) == verdict


def test_methods_without_disputes_share_a_row() -> None:
    quiet = [
        msgspec.structs.replace(_rate(0, payments, ""), method=method)
        for method, payments in (("ALIPAY", 4), ("PAYNOW", 3))
    ]
    localizer = Localizer("merchant", "en")
    rows = list(dispute_rates.rows_of_month(localizer, [_rate(1, 50), *quiet]))
    assert [(row.name, row.cells["payments"]) for row in rows] == [
        ("Visa", "50"),
        ("Alipay, PayNow", "7"),
    ]
    rows = list(dispute_rates.rows_of_month(localizer, [_rate(0, 50), *quiet]))
    assert [(row.name, row.cells["limit"]) for row in rows] == [
        ("Visa", "1.50% from 1,500 disputes a month"),
        ("Alipay, PayNow", ""),
    ]
    rows = list(dispute_rates.rows_of_month(localizer, quiet[:1]))
    assert [row.name for row in rows] == ["Alipay"]
