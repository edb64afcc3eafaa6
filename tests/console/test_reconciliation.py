"""Differences between a settlement report and the books, in the console."""

import io
from typing import BinaryIO

import pytest

from console.console_pages import visible_text
from opentill import reconciliation
from opentill.core.errors import ConfigurationError
from opentill.orders import Order
from opentill.reconciliation import OpenDifference, Report
from support import world
from support.api_server import ApiServer
from support.payout_runs import ANN
from support.people import Visitor, create_person
from support.world import NOW

PLACE = "/console/reconciliation"
BILL = (
    "交易时间,商户号,微信订单号,商户订单号,交易状态,货币种类,订单金额,微信退款单号\n"
    "`2025-01-02 10:00:00,`1900000001,`42,`att_of_a_bill,`SUCCESS,`CNY,`9.99,`0\n"
)


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


def test_staff_fetch_the_report_of_a_day(
    api_server: ApiServer, finance: Visitor, monkeypatch: pytest.MonkeyPatch
) -> None:
    fetched: list[tuple[int | None, int | None]] = []
    sandbox = api_server.app.gateways["sandbox"]

    async def write(target: BinaryIO, since: int | None, until: int | None) -> None:
        fetched.append((since, until))
        target.write(b"kind,reference,amount,currency,settled_at\n")
        target.write(b"payment,att_of_a_day,5.00,USD,2025-01-02T03:04:05Z\n")

    async def fail(target: BinaryIO, since: int | None, until: int | None) -> None:
        target.write(b"kind,reference,amount,currency,settled_at\n")
        message = f"the bank has no report from {since} to {until}"
        raise ConfigurationError(message)

    form = {"account": "sandbox", "day": "2025-01-02"}
    monkeypatch.setattr(sandbox, "settlement_report", fail)
    refusal = finance.post(f"{PLACE}/fetch", form)
    assert refusal.status_code == 400
    assert "nothing was compared: the bank has no report" in visible_text(refusal.text)
    monkeypatch.setattr(sandbox, "settlement_report", write)
    response = finance.post(f"{PLACE}/fetch", form)
    assert response.status_code == 303, visible_text(response.text)
    start = 1_735_776_000_000
    assert fetched == [(start, start + 86_400_000 - 1)]
    page = finance.get(response.headers["location"])
    assert "1 row compared, 1 difference" in visible_text(page.text)
    assert "att_of_a_day" in page.text
    for change, field in (
        ({"day": "soon"}, "day"), ({"day": "2999-01-01"}, "day"), ({"account": "x"}, "account"),
    ):  # fmt: skip
        refusal = finance.post(f"{PLACE}/fetch", form | change)
        assert (refusal.status_code, f'id="{field}-error"' in refusal.text) == (400, True), change
    support = create_person(api_server, None, staff_role="support")
    assert support.post(f"{PLACE}/fetch", form).status_code == 403


def test_bills_are_of_days_in_china_and_of_the_chosen_account(
    api_server: ApiServer, finance: Visitor, monkeypatch: pytest.MonkeyPatch
) -> None:
    fetched: list[tuple[int | None, int | None]] = []
    sandbox = api_server.app.gateways["sandbox"]

    async def write(target: BinaryIO, since: int | None, until: int | None) -> None:
        fetched.append((since, until))
        target.write(BILL.encode())

    monkeypatch.setattr(sandbox, "settlement_report", write)
    monkeypatch.setattr(sandbox, "day_offset_ms", 8 * 3_600_000, raising=False)
    monkeypatch.setattr(sandbox, "bill_account", "1900000001", raising=False)
    hint = "the day in China (UTC+8)"
    assert hint in visible_text(finance.get(PLACE).text)
    form = {"account": "sandbox", "day": "2025-01-02"}
    response = finance.post(f"{PLACE}/fetch", form)
    assert response.status_code == 303, visible_text(response.text)
    start = 1_735_747_200_000  # midnight in China
    assert fetched == [(start, start + 86_400_000 - 1)]
    monkeypatch.setattr(sandbox, "bill_account", "1900000099", raising=False)
    refusal = finance.post(f"{PLACE}/fetch", form)
    assert refusal.status_code == 400
    both = "file is of the account 1900000001, but the configured one is 1900000099"
    assert both in visible_text(refusal.text)
    refusal = finance.http.post(
        f"{PLACE}/compare", data={"gateway": "sandbox"}, files={"file": ("b.csv", BILL.encode())}
    )
    assert refusal.status_code == 400
    assert "is of the account 1900000001 at the provider, but" in visible_text(refusal.text)


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
    assert "In the books, when compared $9.99 · Complete" in visible_text(page)
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
        "PayPal Fetch the report of a day",
        "All others CSV with the columns of the example",
    ):
        assert text in page
