"""What a difference is about: a link to it, advice, and the correction that would resolve it."""

import io
import secrets

import pytest

from console.console_pages import visible_text
from opentill import reconciliation
from opentill.reconciliation import OpenDifference, Report
from support import world
from support.api_server import ApiServer, Shop
from support.payout_runs import ANN
from support.people import Visitor, create_person
from support.world import NOW

PLACE = "/console/reconciliation"
HEAD = "kind,reference,amount,currency,settled_at"


@pytest.fixture
def finance(api_server: ApiServer) -> Visitor:
    """A person with the role finance."""
    return create_person(api_server, None, staff_role="finance")


def _compare(server: ApiServer, reference: str, *rows: str) -> OpenDifference:
    """Compare a report with the books, and return the difference with the reference."""
    file = io.BytesIO("\n".join([HEAD, *rows]).encode())
    report = Report(gateway="sandbox", file=file, name="november.csv", since=NOW, until=NOW)
    server.run(reconciliation.reconcile_file(server.app.db, report, ANN, NOW))
    (difference,) = server.tx(lambda tx: reconciliation.list_of_reference(tx, reference, 9))
    return difference


@pytest.mark.parametrize(
    ("amount", "text", "minor"), [("5.00", "-$4.99", -499), ("12.50", "+$2.51", 251)]
)
def test_the_proposed_correction_gives_the_merchant_what_the_report_says(
    api_server: ApiServer, finance: Visitor, amount: str, text: str, minor: int
) -> None:
    order = api_server.tx(lambda tx: world.create_order_in(tx, "PAID"))
    attempt = order.paid_attempt_id or ""
    difference = _compare(api_server, attempt, f"payment,{attempt},{amount},USD,{NOW}")
    path = f"{PLACE}/{difference.id}"
    assert f"Correct it by {text}" in visible_text(finance.get(path).text)
    terms = "update merchants set overdraft_minor = 10000 where id = $1"
    api_server.sql(terms, order.merchant_id)
    answer = finance.post(
        f"{path}/resolve", {"reason": "as the report says", "correction": "proposed"}
    )
    assert answer.headers.get("location", "").endswith("?done=1"), answer.text
    query = "select kind, amount_minor, order_id from adjustments where reference = $1"
    assert api_server.sql(query, difference.id) == [
        {"kind": "correct", "amount_minor": minor, "order_id": order.id}
    ]


def test_a_payment_that_the_report_lacks_is_taken_back_by_the_correction(
    api_server: ApiServer, finance: Visitor
) -> None:
    order = api_server.tx(lambda tx: world.create_order_in(tx, "PAID"))
    reference = order.paid_attempt_id or ""
    api_server.sql("update orders set paid_at = $1 where id = $2", NOW, order.id)
    other = f"payment,att_{'0' * 26},1.00,USD,{NOW}"
    difference = _compare(api_server, reference, other)
    assert difference.what == "missing in report"
    page = finance.get(f"{PLACE}/{difference.id}").text
    assert "Correct it by -$9.99" in visible_text(page)
    assert f'href="/console/payments/{order.id}">View the payment<' in page


@pytest.mark.parametrize(
    ("kind", "advice"),
    [
        ("payment", "The books have no payment with this reference."),
        ("refund", "If it was made at the provider, record it"),
        ("chargeback", "open a dispute on its page"),
    ],
)
def test_the_page_says_what_to_do_if_the_books_have_no_such_item(
    api_server: ApiServer, finance: Visitor, kind: str, advice: str
) -> None:
    reference = f"unknown_{kind}"
    difference = _compare(api_server, reference, f"{kind},{reference},7.00,USD,{NOW}")
    page = finance.get(f"{PLACE}/{difference.id}").text
    assert advice in visible_text(page)
    assert "View the payment" not in page
    assert 'name="correction"' not in page
    forged = {"reason": "as the report says", "correction": "proposed"}
    assert finance.post(f"{PLACE}/{difference.id}/resolve", forged).status_code == 400


def test_a_correction_and_another_adjustment_are_refused_together(
    api_server: ApiServer, finance: Visitor
) -> None:
    order = api_server.tx(lambda tx: world.create_order_in(tx, "PAID"))
    attempt = order.paid_attempt_id or ""
    difference = _compare(api_server, attempt, f"payment,{attempt},11.00,USD,{NOW}")
    both = {"reason": "r", "correction": "proposed", "adjust": "recharge", "amount": "1.01"}
    answer = finance.post(f"{PLACE}/{difference.id}/resolve", both)
    assert answer.status_code == 400
    assert "Choose one adjustment" in visible_text(answer.text)


def test_a_difference_of_a_payout_leads_to_the_payout(shop: Shop) -> None:
    server, finance = shop.api_server, create_person(shop.api_server, None, staff_role="finance")
    payout = shop.create_payout(900)
    number = secrets.token_hex(13)
    server.sql(
        "insert into reconciliation_files (id, source, sha256, name, status, rows, matched, found,"
        " who, created_at) values ($1, 'bank', $2, 'a.xml', 'OPEN', 1, 0, 1, 'ann', 1)",
        f"rec_{number}", secrets.token_hex(32),
    )  # fmt: skip
    server.sql(
        "insert into reconciliation_differences (id, file_id, source, what, kind, reference,"
        " merchant_id, ours, theirs, created_at) values ($1, $2, 'bank', 'different',"
        " 'payout', $3, $4, '9.00 USD PENDING', '7.00 USD', 1)",
        f"dif_{number}", f"rec_{number}", payout.id, shop.id,
    )  # fmt: skip
    page = finance.get(f"{PLACE}/dif_{number}").text
    assert f'href="/console/payouts/{payout.id}">View the payout<' in page
