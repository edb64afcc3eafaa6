"""Staff finish a platform's month in the console, with clean books and an empty inbox.

It has five merchants, three currencies of different exponents and a hundred payments. Merchants,
customers and the bank use the API and the pages; staff use only the console. After each phase the
auditor reads the trial balance: every currency adds up to zero.
"""

import csv
import io
import re
from collections.abc import AsyncIterator, Callable
from decimal import Decimal
from typing import Any, Final

import pytest
import pytest_asyncio
from playwright.async_api import Browser
from starlette.applications import Starlette

from browser.platform_month import (
    PAYMENTS,
    Month,
    Shop,
    add_merchants,
    invite_staff,
    pay_orders,
    set_up_merchants,
)
from opentill.core.settings import Settings
from opentill.db.clock import now_ms
from support.api_server import SECRETS
from support.books import assert_books
from support.cluster import CARD, REFUNDS_FAIL, eventually
from support.databases import cloned_database
from support.page_server import running

pytestmark = [
    pytest.mark.stress,
    pytest.mark.browser,
    pytest.mark.asyncio(loop_scope="session"),
]
HOUR: Final = 3_600_000
DAY: Final = 24 * HOUR
OWN_ACCOUNTS: Final = (
    "EUR:GB29NWBK60161331926819:NWBKGB2L,JPY:7654321:JP0009001,KWD:KW81CBKU0000000000001234560101"
)
PDF: Final = b"%PDF-1.7\ntrailer\n<<>>\n%%EOF\n"
EMPTY_INBOX: Final = "Nothing needs attention."


@pytest_asyncio.fixture(loop_scope="session")
async def platform(
    postgres_url: str,
    template: str,
    tmp_path_factory: pytest.TempPathFactory,
    pooler_url: Callable[[str], str],
) -> AsyncIterator[Starlette]:
    """A server with worker and sandbox bank that accepts applications and makes payouts."""
    directory = tmp_path_factory.mktemp("month")
    secrets: dict[str, Any] = {**SECRETS}
    with cloned_database(postgres_url, template) as url:
        settings = Settings(
            database_url=pooler_url(url), data_dir=directory, limit_ip_per_minute=0,
            limit_checkouts_per_minute=0, limit_payments_per_minute=0, applications=True,
            approval_above=Decimal(10), payout_accounts=OWN_ACCOUNTS, operator_name="The Till Ltd",
            **secrets,
        )  # fmt: skip
        async with running(settings, directory / "bank") as server:
            yield server


async def test_a_month_ends_with_clean_books_and_an_empty_inbox(
    browser: Browser, platform: Starlette
) -> None:
    month = Month(platform, browser)
    for phase in (
        invite_staff, add_merchants, set_up_merchants, pay_orders,
        _refund_despite_lost_responses, _resolve_differences, _settle_and_dispute,
        _dismiss_unmatched_disputes, _make_payout_runs, _end_month,
    ):  # fmt: skip
        await phase(month)
        await month.check_trial_balance()
    people = [*month.staff.values(), month.owner]
    assert [(person.email, person.problems) for person in people if person.problems] == []
    async with month.app.db.snapshot() as tx:
        assert await assert_books(tx) > len(month.shops) * PAYMENTS * 3
    await month.http.aclose()
    for person in people:
        await person.page.context.close()


async def _pay_twice(month: Month, card: str) -> tuple[str, str]:
    """Pay an order by wallet and by card; return the ids of the order and the card's attempt."""
    books = month["Harbour Books"]
    session_id, order_id = await month.open_session(books)
    by_card = await month.start_payment(session_id, "CREDIT_CARD")
    by_wallet = await month.start_payment(session_id, "ALIPAY")
    assert by_card != by_wallet
    await month.approve_on_phone(by_wallet)
    await month.return_from_bank(session_id, by_wallet)
    await month.wait_for_status(books, order_id, "PAID")
    await month.enter_card(by_card, card)
    await month.return_from_bank(session_id, by_card)
    books.paid_order_ids.append(order_id)
    return order_id, by_card


async def _refund_despite_lost_responses(month: Month) -> None:
    """Refund payments while the bank's responses are lost; the bank must refund each once."""
    books, fin = month["Harbour Books"], month.staff["fin"]
    fault = {"operation": "refund", "kind": "reset_after", "times": 100_000}
    await month.call_bank("POST", "/faults", fault)
    await month.call_bank("POST", "/faults", {**fault, "operation": "find_refund"})
    await month.call_bank("POST", "/faults", {**fault, "operation": "callback", "kind": "drop"})
    duplicate_order, duplicate_attempt = await _pay_twice(month, CARD)
    refused_order, _ = await _pay_twice(month, REFUNDS_FAIL)
    order_id = books.paid_order_ids[1]
    await fin.open_page(f"/console/payments?query={order_id}")
    await fin.follow_link('a[href$="/refund"]')
    await fin.page.fill("dialog [name=amount]", "10.00")
    await fin.page.locator("#confirm", has_text="10.00").wait_for()
    text = await fin.submit_form("dialog form", ".modal-foot button", reason="a torn page")
    assert "The refund is on its way" in text, text
    await month.advance_clock(26 * HOUR)
    await month.wait_for_needs_attention("Second payments not refunded: 2")
    await month.wait_for_needs_attention("Refunds that no gateway reports: 1")
    await fin.open_page("/console/needs/refunds")
    assert "Harbour Books" in await fin.main_text()
    await month.check_trial_balance()
    await month.call_bank("DELETE", "/faults")
    await month.advance_clock(2 * HOUR)  # the longest pause between two attempts is shorter
    await month.wait_for_needs_attention("Refunds that", is_shown=False)

    async def is_returned() -> bool:
        await fin.open_page(f"/console/payments/{duplicate_order}")
        return "The second payment of $24.50 was refunded" in await fin.main_text()

    assert await eventually(is_returned), "the second payment is not given back"
    refunds = ((duplicate_attempt, 2450), (await month.paid_attempt_id(order_id), 1000))
    for attempt_id, minor in refunds:
        payment = await month.call_bank("GET", f"/payments/{attempt_id}")
        assert payment["refunded_minor"] == minor

    async def is_refused() -> bool:
        await fin.open_page(f"/console/payments/{refused_order}")
        return await fin.page.locator('form[action$="/given-back"]').count() > 0

    assert await eventually(is_refused), "the bank does not refuse to return the other payment"
    await month.advance_clock(2 * HOUR)
    await month.wait_for_needs_attention("Second payments not refunded: 1")
    await fin.open_page("/console/needs/duplicates")
    await fin.follow_link("table a[href*='/payments/']")
    await fin.page.wait_for_url(f"**/console/payments/{refused_order}")
    text = await fin.submit_form('form[action$="/given-back"]', reason="by a transfer of ours")
    assert "the second payment went back is recorded" in text, text


async def _read_report(month: Month) -> list[dict[str, str]]:
    """Return the rows of the bank's settlement report."""
    text = await month.call_bank("GET", "/settlement-report.csv")
    return list(csv.DictReader(io.StringIO(text)))


def _csv_upload(rows: list[dict[str, str]], name: str) -> dict[str, Any]:
    """Return rows as a CSV file to upload."""
    buffer = io.StringIO(newline="")
    writer = csv.DictWriter(buffer, list(rows[0]))
    writer.writeheader()
    writer.writerows(rows)
    return {"name": name, "mimeType": "text/csv", "buffer": buffer.getvalue().encode()}


COMPARE_FORM: Final = 'form[method=post][action$="/reconciliation/compare"]'


async def _resolve_differences(month: Month) -> None:
    """Resolve differences: a wrong amount, two missing lines and a line of an unknown payment."""
    fin, gus, books = month.staff["fin"], month.staff["gus"], month["Harbour Books"]
    attempts = [await month.paid_attempt_id(order_id) for order_id in books.paid_order_ids[2:5]]
    wrong_attempt, lost_attempt, late_attempt = attempts
    rows = [
        row
        for row in await _read_report(month)
        if row["reference"] not in (lost_attempt, late_attempt)
    ]
    # A missing line counts as a difference only if a later payment is in the report.
    assert rows[-1]["reference"] not in attempts
    for row in rows:
        if row["reference"] == wrong_attempt:
            row["amount"] = "12.25"
    unknown = {**rows[-1], "reference": "att_nobody", "amount": "3.00"}
    await fin.open_page("/console/reconciliation")
    text = await fin.submit_form(COMPARE_FORM, file=_csv_upload([*rows, unknown], "november.csv"))
    assert "4 differ" in text, text
    assert "Differences between reports and books: 4" in await month.read_needs_attention()
    reasons = {
        "Payment differs by": "they owe us 12.25",
        "is missing in the books": "another shop’s",
    }
    for difference, reason in reasons.items():
        await fin.open_page("/console/reconciliation?which=open")
        await fin.follow_link(f'table a:has-text("{difference}")')
        adjustment = {}
        if difference == "Payment differs by":
            adjustment = {"adjust": "correct", "amount": "-12.25", "order": books.paid_order_ids[2]}
        text = await fin.submit_form('form[action$="/resolve"]', reason=reason, **adjustment)
        assert "The difference is resolved" in text, text
    await fin.open_page("/console/reconciliation?which=open")
    await fin.follow_link(f'tr:has([title="{lost_attempt}"]) a')
    text = await fin.submit_form('form[action$="/resolve"]', reason="on the next report, they say")
    assert "Differences 1 open" in text, text
    assert "Approvals to give: 1" in await month.read_needs_attention()
    page = await fin.open_page("/console/approvals")
    assert "You requested this" in await fin.main_text()
    assert await page.locator('form[action$="/approve"]').count() == 0
    await gus.open_page("/console/approvals")
    # After more than ten minutes, the approval needs a new step-up.
    await month.advance_clock(11 * 60_000)
    assert "Approved." in await gus.submit_form('form[action$="/approve"]')
    await month.check_trial_balance()
    # A later report has all lines. A report of the late line alone would lack other payments that
    # were confirmed in the same millisecond.
    report = await _read_report(month)
    assert late_attempt in {row["reference"] for row in report}
    await fin.open_page("/console/reconciliation")
    await fin.submit_form(COMPARE_FORM, file=_csv_upload(report, "late.csv"))
    if "Choose" in await fin.main_text():  # the file must be chosen again after a step-up
        await fin.submit_form(COMPARE_FORM, file=_csv_upload(report, "late.csv"))
    text = await fin.main_text()
    assert f"{len(report)} rows compared, no differences." in text, text
    assert "There are no differences." in text, text


async def _open_dispute(month: Month, shop: Shop, order_id: str) -> tuple[str, str]:
    """Open a dispute at the bank; return its id at the bank and its id in OpenTill."""
    payment = await month.paid_attempt_id(order_id)
    bank_dispute = await month.call_bank(
        "POST", f"/payments/{payment}/disputes", {"reason": "not received"}
    )
    await month.wait_for_status(shop, order_id, "DISPUTED")
    disputes = await month.call_api(shop, "GET", "/v1/disputes?orderId=" + order_id)
    return bank_dispute["id"], disputes["items"][0]["id"]


async def _settle_and_dispute(month: Month) -> None:
    """Settle all payments; win a dispute with evidence, and lose one of an order with a reserve."""
    books, tea, sue = month["Harbour Books"], month["Kyoto Tea"], month.staff["sue"]
    await month.advance_clock(8 * DAY)
    for shop in month.shops:
        for order_id in shop.paid_order_ids:
            await month.wait_for_status(shop, order_id, "SETTLED")
    await month.check_trial_balance()
    bank_id, dispute_id = await _open_dispute(month, books, books.paid_order_ids[5])
    await sue.open_page(f"/console/payments?query={books.paid_order_ids[5]}")
    await sue.follow_link(f'a[href$="/{dispute_id}"]')
    deadline = await sue.page.evaluate(f"new Date({month.app.clock() + 2 * DAY}).toISOString()")
    form = 'form[action$="/deadline"]'
    await sue.submit_form(form, until=deadline[:10], reason="the bank's letter")
    await sue.submit_form('form[action$="/notes"]', note="The bank wants proof of delivery.")
    assert "Disputes near their deadline: 1" in await month.read_needs_attention("sue")
    await month.owner.open_page(f"/dashboard/{books.id}/disputes/{dispute_id}")
    assert "The bank wants proof of delivery." in await month.owner.main_text()
    file = {"name": "receipt.pdf", "mimeType": "application/pdf", "buffer": PDF}
    await month.owner.submit_form('form[action$="/evidence"]', file=file)
    await sue.open_page("/console/needs/disputes")
    await sue.follow_link(f'a[id="{dispute_id}"]')
    async with sue.page.expect_download() as download_info:
        await sue.page.click('a:has-text("receipt.pdf")')
    assert (await (await download_info.value).path()).read_bytes() == PDF
    await month.check_trial_balance()
    await month.call_bank("POST", f"/disputes/{bank_id}/won")
    await month.wait_for_status(books, books.paid_order_ids[5], "SETTLED")
    assert "Disputes near" not in await month.read_needs_attention("sue")
    bank_id, _ = await _open_dispute(month, tea, tea.paid_order_ids[0])
    await sue.open_page(f"/console/payments/{tea.paid_order_ids[0]}")
    await sue.follow_link('a:has-text("View dispute")')
    form, reason = 'form[action$="/dispute-lost"]', {"dispute-lost-reason": "no tracking number"}
    text = await sue.submit_form(form, **reason)
    assert "Dispute marked as lost" in text, text
    await month.call_bank("POST", f"/disputes/{bank_id}/lost")
    await month.wait_for_status(tea, tea.paid_order_ids[0], "CHARGEBACK")


async def _dismiss_unmatched_disputes(month: Month) -> None:
    """Open a dispute in the console, and dismiss the bank's own reports of the same dispute."""
    dates, sue = month["Gulf Dates"], month.staff["sue"]
    order_id = dates.paid_order_ids[0]
    await sue.open_page(f"/console/payments/{order_id}")
    text = await sue.submit_form('form[action$="/dispute-open"]', amount="7.25", reason="a letter")
    assert "The dispute is open" in text, text
    payment = await month.paid_attempt_id(order_id)
    bank_dispute = await month.call_bank(
        "POST", f"/payments/{payment}/disputes", {"reason": "not received"}
    )
    await month.wait_for_needs_attention("Disputes without an order: 1")
    await month.check_trial_balance()
    await sue.open_page("/console/needs/unmatched")
    text = await sue.submit_form('form[action$="/needs/unmatched"]', reason="the letter's dispute")
    assert "It is dismissed" in text, text
    await sue.open_page(f"/console/payments/{order_id}")
    await sue.follow_link('a:has-text("View dispute")')
    form, reason = 'form[action$="/dispute-won"]', {"dispute-won-reason": "the bank says so"}
    text = await sue.submit_form(form, **reason)
    assert "Dispute marked as won" in text, text
    await month.call_bank("POST", f"/disputes/{bank_dispute['id']}/won")
    await month.wait_for_needs_attention("Disputes without an order: 1")
    await sue.open_page("/console/needs/unmatched")
    assert "an earlier report was closed" in await sue.main_text()
    text = await sue.submit_form('form[action$="/needs/unmatched"]', reason="won here too")
    assert "It is dismissed" in text, text
    await month.wait_for_status(dates, order_id, "SETTLED")
    disputes = await month.call_api(dates, "GET", "/v1/disputes?orderId=" + order_id)
    assert [dispute["status"] for dispute in disputes["items"]] == ["WON"]
    assert EMPTY_INBOX in await month.read_needs_attention()


async def _send_run(month: Month, currency: str, reference: str) -> dict[str, str]:
    """Start a payout run, and let a second person download its bank file.

    Returns the amounts by end-to-end id.
    """
    fin, gus = month.staff["fin"], month.staff["gus"]
    await fin.open_page("/console/payout-runs")
    text = await fin.submit_form(
        'form[action$="/payout-runs/run"]', currency=currency, reference=reference, reason="monthly"
    )
    assert "Ready" in text, text
    file_form = 'form[action$="/file"]:has([value=csv])'
    assert "Somebody else must download this file" in text, text
    assert not await fin.page.locator(file_form).count()
    await gus.open_page(re.sub(r"^https?://[^/]+|/file$", "", fin.page.url))
    file = (await gus.download(file_form, "[name=form][value=csv]")).decode()
    rows = list(csv.DictReader(io.StringIO(file)))
    return {row["endToEndId"]: row["amount"] for row in rows}


async def _upload_report(month: Month, currency: str, lines: list[tuple[str, str, str]]) -> str:
    """Upload a bank report of payouts (end-to-end id, status, amount); return the page's text."""
    rows = [
        {
            "end_to_end_id": id_, "status": status, "amount": amount, "currency": currency,
            "bank_reference": f"BK{index}", "reason": "closed" if status == "returned" else "",
        }
        for index, (id_, status, amount) in enumerate(lines)
    ]  # fmt: skip
    gus = month.staff["gus"]
    await gus.open_page("/console/payout-runs")
    return await gus.submit_form(
        'form[action$="/payout-runs/report"]', report=_csv_upload(rows, f"bank-{now_ms()}.csv")
    )


async def _make_payout_runs(month: Month) -> None:
    """Pay out a run for each currency.

    The bank sends one payout back, and a second run pays it to a new account.
    """
    soap, fin = month["Alpine Soap"], month.staff["fin"]
    for currency in ("JPY", "KWD"):
        amounts = await _send_run(month, currency, f"2026-11 {currency}")
        assert len(amounts) == sum(shop.currency == currency for shop in month.shops)
        lines = [(id_, "sent", amount) for id_, amount in amounts.items()]
        assert f"{len(lines)} paid, 0 came back" in await _upload_report(month, currency, lines)
    amounts = await _send_run(month, "EUR", "2026-11")
    async with month.app.db.connection() as tx:
        sql = "select id from payouts where merchant_id = $1"
        payout = str(await tx.fetchval(sql, soap.id))
    returned_id = next(id_ for id_ in amounts if payout.removeprefix("po_") in id_.lower())
    lines = [
        (id_, "returned" if id_ == returned_id else "sent", amount)
        for id_, amount in amounts.items()
    ]
    text = await _upload_report(month, "EUR", lines)
    assert "1 paid, 0 came back" in text, text
    assert "1 wait for a second person" in text, text
    await fin.open_page("/console/approvals")
    assert "Approved." in await fin.submit_form('form[action$="/approve"]')
    await month.check_trial_balance()
    await fin.open_page(f"/console/merchants/{soap.id}/bank-account?sheet=change&country=NL")
    account = {"account": "NL91ABNA0417164300", "holder": soap.name, "reason": "new bank"}
    await fin.submit_form("form#bank-account", **account)
    await fin.open_page("/console/payout-runs")
    assert "Account changed" in await fin.main_text()
    await month.advance_clock(4 * DAY)
    second_run = await _send_run(month, "EUR", "2026-11 again")
    assert list(second_run.values()) == [amounts[returned_id]]
    lines = [(id_, "sent", amount) for id_, amount in second_run.items()]
    assert "1 paid, 0 came back" in await _upload_report(month, "EUR", lines)


async def _end_month(month: Month) -> None:
    """Check that reserves are released, the report agrees, nothing is open, and books are clean."""
    fin, ada, auditor = month.staff["fin"], month.staff["admin"], month.staff["auditor"]
    await month.advance_clock(15 * DAY)

    async def are_reserves_released() -> bool:
        balances = await month.read_trial_balance()
        assert balances.keys() == {"EUR", "JPY", "KWD"}
        return all(accounts["In reserve"] == 0 for accounts in balances.values())

    assert await eventually(are_reserves_released), "reserves are still held"
    await fin.open_page("/console/reconciliation")
    text = await fin.submit_form(
        COMPARE_FORM, file=_csv_upload(await _read_report(month), "december.csv")
    )
    assert "compared, no differences." in text, text
    assert "There are no differences" in text, text
    for name in month.staff:
        inbox = await month.read_needs_attention(name)
        assert EMPTY_INBOX in inbox, (name, inbox)

    async def are_books_checked() -> bool:
        await auditor.open_page("/console/books")
        return "Not yet" not in await auditor.main_text()

    assert await eventually(are_books_checked), "the books are not checked"
    assert "No problems found." in await auditor.main_text(), await auditor.main_text()
    await ada.open_page("/console/audit/verify")
    await ada.submit_form('form[action$="/audit/verify"]')
    assert await ada.page.locator(".box.good").count() == 1, await ada.main_text()
