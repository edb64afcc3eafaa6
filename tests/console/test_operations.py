"""Books, gateways and queues in the console."""

import re

import pytest

from opentill import queues
from opentill.core import metrics
from opentill.db.database import Tx
from opentill.figures import jobs as figure_jobs
from opentill.integrity import scheduler
from opentill.mail import queries as mail_queries
from opentill.orders import jobs as order_jobs
from support import world
from support.api_server import Shop
from support.people import person, title
from support.world import NOW


def _words(page: str) -> str:
    words = re.sub(r"<[^>]+>", " ", page.partition("<main")[2])
    return re.sub(r"[\s\u2068\u2069]+", " ", words)


def test_the_books_show_how_far_the_check_is_and_the_rows_that_disagree(shop: Shop) -> None:
    server, auditor = shop.api_server, person(shop.api_server, None, staff_role="auditor")
    order = shop.paid()
    where = f"?merchant={shop.id}"
    assert "Not yet" in auditor.get(f"/console/books{where}").text

    def check() -> None:
        """Check the merchant's books; those of other tests' merchants were checked just now."""
        rested = scheduler.now_ms()
        server.sql(
            "insert into ledger_checks (merchant_id, currency, checked_to, pending, available,"
            " frozen, reserve, gateway, bank, platform, last_at, found, violations, entries,"
            " checked_at) select id, settlement_currency, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0,"
            f" {rested} from merchants where id <> '{shop.id}' on conflict (merchant_id, currency)"
            f" do update set checked_at = {rested} returning 1"
        )
        server.sql("update ledger_checks set checked_at = 0 where merchant_id = $1", shop.id)
        for _ in range(200):
            server.run(scheduler.IncrementalCheck(server.app.db).turn())
            row = "select checked_at, checked_to from ledger_checks where merchant_id = $1"
            if any(one["checked_at"] and not one["checked_to"] for one in server.sql(row, shop.id)):
                return
        pytest.fail("the books were not checked")

    net = f"where merchant_id = '{shop.id}' returning 1"
    server.sql(f"update orders set net_settled_minor = net_settled_minor - 1 {net}")
    try:
        check()
        page = auditor.get(f"/console/books{where}")
        assert (page.status_code, title(page)) == (200, "Books")
        assert f'href="/console/payments/{order["id"]}"' in page.text
        assert "an order has the FEE of its gross less its net" in _words(page.text)
        assert 'href="/console/audit/verify"' in page.text
        assert 'href="/console/books"' in auditor.get("/console/").text
        support = person(server, None, staff_role="support")
        assert 'href="/console/audit/verify"' not in support.get("/console/books").text
    finally:
        server.sql(f"update orders set net_settled_minor = net_settled_minor + 1 {net}")
    check()
    page = auditor.get(f"/console/books{where}").text
    assert order["id"] not in page
    assert "Not yet" not in page
    assert "id" in auditor.get("/console/books?merchant=x").text


async def test_gateways_show_what_they_refused_and_what_they_have_not_said(tx: Tx) -> None:
    refused, open_one = await world.opened(tx), await world.opened(tx)
    attempt = await world.submitted(tx, refused)
    await world.said(tx, attempt, "DECLINED", reason="insufficient funds")
    waiting = await world.submitted(tx, open_one)
    found = [one for one in await order_jobs.list_last_refused(tx, 50) if one.id == attempt.id]
    assert [(one.gateway, one.reason) for one in found] == [(attempt.gateway, "insufficient funds")]
    assert not await order_jobs.list_last_refused(tx, 0)
    unanswered = {one.gateway: one for one in await order_jobs.count_unanswered(tx, NOW)}
    assert (unanswered[waiting.gateway].number, unanswered[waiting.gateway].since) == (1, NOW)
    assert not await order_jobs.count_unanswered(tx, NOW - 1)


def test_the_page_of_gateways_shows_rates_and_latency(shop: Shop) -> None:
    server, auditor = shop.api_server, person(shop.api_server, None, staff_role="auditor")
    shop.paid()
    server.run(figure_jobs.count_all(server.app.db))
    name = next(iter(server.app.gateways))
    metrics.count_gateway_call(name, "pay", "succeeded", 0.2)
    calls, seconds = metrics.gateway_calls()[name, "pay"]
    page = auditor.get("/console/gateways")
    assert (page.status_code, title(page)) == (200, "Gateways")
    words = _words(page.text)
    assert re.search(r"Last hour [0-9,]+ (?:[0-9.]+%|–) Last day [0-9,]+", words), words
    assert f"pay : {round(seconds / calls * 1000)} ms (calls: {calls})" in words, words


def test_queues_show_how_much_waits_and_for_how_long(shop: Shop) -> None:
    server, auditor = shop.api_server, person(shop.api_server, None, staff_role="auditor")
    due = server.app.clock() - 7_200_000
    session = shop.session()
    server.sql(f"update checkouts set expires_at = {due} where id = $1 returning 1", session["id"])
    try:
        page = auditor.get("/console/queues")
        assert (page.status_code, title(page)) == (200, "Queues")
        assert re.search(r"Sessions to be expired [0-9,]+ [0-9]+ \w+ Late", _words(page.text))
        found = {one.name: one for one in server.run(queues.read(server.app.db, due + 1000))}
        waits = found["session_expiries"]  # perhaps beside those of other tests
        assert waits.waiting >= 1
        assert waits.age_ms is not None
        assert waits.age_ms >= 1000
        assert found["search"].waiting > 0
    finally:
        back = "update checkouts set expires_at = created_at + 86400000 where id = $1 returning 1"
        server.sql(back, session["id"])


def test_events_that_mail_has_put_aside_stand_below_the_queues(shop: Shop) -> None:
    server, auditor = shop.api_server, person(shop.api_server, None, staff_role="auditor")
    page = auditor.get("/console/queues").text
    now = server.app.clock()
    for merchant_id, event_id in ((shop.id, "evt_unreadable"), ("", "audit 7")):
        aside = {"merchant_id": merchant_id, "number": 7, "event_id": event_id, "now": now}
        server.tx(lambda tx, of=aside: mail_queries.PUT_ASIDE.run(tx, **of, reason="Key: <b>"))
    words = _words(auditor.get("/console/queues").text)
    assert "evt_unreadable Key: &lt;b&gt;" in words, words
    assert "– audit 7 Key:" in words, words
    assert "opentill mail reread" in words
    assert "evt_unreadable" not in page
