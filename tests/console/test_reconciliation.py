"""Differences between a settlement report and the books, in the console."""

import io

import pytest

from console.console_pages import visible_text
from opentill import reconciliation
from opentill.orders import Order
from opentill.reconciliation import OpenDifference, Report
from support import world
from support.api_server import ApiServer
from support.payout_runs import ANN
from support.people import Visitor, create_person
from support.world import NOW

PLACE = "/console/reconciliation"


@pytest.fixture
def finance(api_server: ApiServer) -> Visitor:
    """A person with the role finance."""
    return create_person(api_server, None, staff_role="finance")


def _compare(server: ApiServer, *rows: str) -> list[OpenDifference]:
    """Compare a report with the books. Returns its differences, newest first."""
    lines = ["kind,reference,amount,currency,settled_at", *rows]
    file = io.BytesIO("\n".join(lines).encode())
    report = Report(gateway="sandbox", file=file, name="november.csv", since=NOW, until=NOW)
    db = server.app.db
    stored = server.run(reconciliation.reconcile_file(db, report, ANN, NOW))
    differences = server.tx(lambda tx: reconciliation.list_differences(tx, "sandbox", 200))
    return [row for row in differences if row.file_id == stored.file_id]


def _create_order(server: ApiServer, status: str) -> Order:
    return server.tx(lambda tx: world.create_order_in(tx, status))


def _create_difference(server: ApiServer, row: str) -> OpenDifference:
    reference = row.split(",")[1]
    (difference,) = (each for each in _compare(server, row) if each.reference == reference)
    return difference


@pytest.mark.parametrize(
    ("row", "text"),
    [
        ("5.00,USD", "The amount differs by $4.99: $9.99 in the books, $5.00 in the report."),
        ("9.99,EUR", "The currency differs: $9.99 in the books, €9.99 in the report."),
    ],
)
def test_the_page_of_a_difference_says_what_differs_and_leads_to_the_payment(
    api_server: ApiServer, finance: Visitor, row: str, text: str
) -> None:
    order = _create_order(api_server, "PAID")
    attempt = order.paid_attempt_id
    difference = _create_difference(api_server, f"payment,{attempt},{row},{NOW}")
    page = finance.get(f"{PLACE}/{difference.id}").text
    assert text in visible_text(page)
    assert "In the books $9.99 · Complete" in visible_text(page)
    assert "SUCCEEDED" not in page
    assert f'data-value="{attempt}"' in page
    assert f'href="/console/payments/{order.id}">View the payment<' in page


def test_a_difference_of_the_status_names_the_status_of_the_books(
    api_server: ApiServer, finance: Visitor
) -> None:
    order = _create_order(api_server, "FAILED")
    query = "select id from payment_attempts where order_id = $1"
    (attempt,) = api_server.sql(query, order.id)
    difference = _create_difference(api_server, f"payment,{attempt['id']},9.99,USD,{NOW}")
    page = visible_text(finance.get(f"{PLACE}/{difference.id}").text)
    assert "The report says that the money has moved. Its status in the books: Declined." in page


def test_the_form_of_a_report_names_the_formats_of_each_provider(finance: Visitor) -> None:
    page = visible_text(finance.get(PLACE).text)
    for text in (
        "Stripe Balance transactions, or an itemized report",
        "Alipay The bill of trades (业务明细)",
        "WeChat Pay The trade bill (交易账单)",
        "PayPal The command “opentill reconcile paypal” fetches it",
        "All others CSV with the columns of the example",
    ):
        assert text in page
