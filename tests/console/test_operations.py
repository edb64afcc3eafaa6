"""The console's pages about the books, the gateways and the queues."""

import re

import pytest

from console.console_pages import visible_text
from opentill import queues
from opentill.core import metrics
from opentill.db.database import Tx
from opentill.figures import jobs as figure_jobs
from opentill.integrity import scheduler
from opentill.mail import queries as mail_queries
from opentill.orders import jobs as order_jobs
from support import world
from support.api_server import Shop
from support.people import create_person, heading_of
from support.world import NOW


def test_the_books_show_the_progress_of_the_check_and_its_findings(shop: Shop) -> None:
    server, auditor = shop.api_server, create_person(shop.api_server, None, staff_role="auditor")
    order = shop.create_paid_order()
    query = f"?merchant={shop.id}"
    page = visible_text(auditor.get(f"/console/books{query}").text)
    (balance,) = server.sql("select entries from balances where merchant_id = $1", shop.id)
    assert f" USD Not yet – 0 of {balance['entries']} Not checked yet" in page

    def check() -> None:
        """Check this merchant's books only: the others are marked as checked just now."""
        now = scheduler.now_ms()
        server.sql(
            "insert into ledger_checks (merchant_id, currency, checked_to, pending, available,"
            " frozen, reserve, gateway, bank, platform, last_at, found, violations, entries,"
            " checked_at) select id, settlement_currency, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0,"
            f" {now} from merchants where id <> '{shop.id}' on conflict (merchant_id, currency)"
            f" do update set checked_at = {now} returning 1"
        )
        server.sql("update ledger_checks set checked_at = 0 where merchant_id = $1", shop.id)
        for _ in range(200):
            server.run(scheduler.IncrementalCheck(server.app.db).turn())
            select = "select checked_at, checked_to from ledger_checks where merchant_id = $1"
            checks = server.sql(select, shop.id)
            if any(check["checked_at"] and not check["checked_to"] for check in checks):
                return
        pytest.fail("the books were not checked")

    condition = f"where merchant_id = '{shop.id}' returning 1"
    server.sql(f"update orders set net_settled_minor = net_settled_minor - 1 {condition}")
    try:
        check()
        page = auditor.get(f"/console/books{query}")
        assert (page.status_code, heading_of(page)) == (200, "Ledger checks")
        assert f'href="/console/payments/{order["id"]}"' in page.text
        assert "an order has the FEE of its gross less its net" in visible_text(page.text)
        assert 'href="/console/books"' in auditor.get("/console/").text
    finally:
        server.sql(f"update orders set net_settled_minor = net_settled_minor + 1 {condition}")
    check()
    page = auditor.get(f"/console/books{query}").text
    assert order["id"] not in page
    (checked,) = server.sql("select entries from balances where merchant_id = $1", shop.id)
    assert f" {checked['entries']} of {checked['entries']} No problems" in visible_text(page)
    shop.create_paid_order()
    (all_,) = server.sql("select entries from balances where merchant_id = $1", shop.id)
    later = visible_text(auditor.get(f"/console/books{query}").text)
    assert all_["entries"] > checked["entries"]
    assert f" {checked['entries']} of {all_['entries']} No problems" in later
    (sums,) = server.sql("select sum(entries)::bigint as entries from balances")
    total = re.search(r"Entries checked ([\d,]+) of ([\d,]+)", later)
    assert total is not None, later
    read, everything = (int(number.replace(",", "")) for number in total.groups())
    assert everything == sums["entries"] >= read + all_["entries"] - checked["entries"]
    assert "Not yet" not in page
    assert 'id="merchant-error"' in auditor.get("/console/books?merchant=no%20such%20shop").text


async def test_the_last_refusal_and_unknown_outcomes_of_a_gateway_are_read(tx: Tx) -> None:
    attempt = await world.submit_attempt(tx, await world.create_order(tx))
    await world.report_payment(tx, attempt, "DECLINED", reason="insufficient funds")
    unanswered_attempt = await world.submit_attempt(tx, await world.create_order(tx))
    refusals = {
        row.id: (row.gateway, row.reason) for row in await order_jobs.list_last_refused(tx, 50)
    }
    assert refusals[attempt.id] == (attempt.gateway, "insufficient funds")
    assert not await order_jobs.list_last_refused(tx, 0)
    counts = {row.gateway: row for row in await order_jobs.count_unanswered(tx, NOW)}
    count = counts[unanswered_attempt.gateway]
    assert (count.number, count.since) == (1, NOW)
    assert not await order_jobs.count_unanswered(tx, NOW - 1)


def test_the_page_of_gateways_shows_rates_and_latency(shop: Shop) -> None:
    server, auditor = shop.api_server, create_person(shop.api_server, None, staff_role="auditor")
    shop.create_paid_order()
    server.run(figure_jobs.count_all(server.app.db))
    name = next(iter(server.app.gateways))
    metrics.count_gateway_call(name, "pay", "succeeded", 0.2)
    calls, seconds = metrics.gateway_calls()[name, "pay"]
    page = auditor.get("/console/gateways")
    assert (page.status_code, heading_of(page)) == (200, "Gateways")
    text = visible_text(page.text)
    period = r" (?:[0-9.]+%|–) Attempts: [0-9,]+"
    assert re.search(
        f"Success rate · Last hour{period} Success rate · Last 24 hours{period}", text
    ), text
    mean = f"{round(seconds / calls * 1000)} ms Requests since the start: {calls}"
    assert f"Response time · payments {mean}" in text, text
    # Other tests may have left a payment without a response.
    states = "Working|No payments today|Waiting for responses"
    assert re.search(f"(?i)(?:{name}|Sandbox bank) ({states}) Test payment", text), text


def test_queues_show_their_length_and_age(shop: Shop) -> None:
    server, auditor = shop.api_server, create_person(shop.api_server, None, staff_role="auditor")
    due = server.app.clock() - 7_200_000
    session = shop.create_session()
    server.sql(f"update checkouts set expires_at = {due} where id = $1 returning 1", session["id"])
    try:
        page = auditor.get("/console/queues")
        assert (page.status_code, heading_of(page)) == (200, "Queues")
        assert re.search(
            r"Expiring checkout sessions Late [0-9,]+ [0-9]+ \w+", visible_text(page.text)
        )
        rows = {row.name: row for row in server.run(queues.read(server.app.db, due + 1000))}
        expiries = rows["session_expiries"]  # other tests' sessions may be in this queue too
        assert expiries.waiting >= 1
        assert expiries.age_ms is not None
        assert expiries.age_ms >= 1000
        assert rows["search"].waiting > 0
    finally:
        restore = (
            "update checkouts set expires_at = created_at + 86400000 where id = $1 returning 1"
        )
        server.sql(restore, session["id"])


def test_dead_letters_of_mail_are_listed_below_the_queues(shop: Shop) -> None:
    server, auditor = shop.api_server, create_person(shop.api_server, None, staff_role="auditor")
    page_before = auditor.get("/console/queues").text
    now = server.app.clock()
    for merchant_id, event_id in ((shop.id, "evt_unreadable"), ("", "audit 7")):
        row = {"merchant_id": merchant_id, "number": 7, "event_id": event_id, "now": now}
        server.tx(
            lambda tx, row=row: mail_queries.STORE_DEAD_LETTER.run(tx, **row, reason="Key: <b>")
        )
    text = visible_text(auditor.get("/console/queues").text)
    assert "evt_unreadable Key: <b>" in text, text
    assert "– audit 7 Key:" in text, text
    assert "opentill mail reread" in text
    assert "evt_unreadable" not in page_before
