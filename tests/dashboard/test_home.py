"""The home page: what needs attention, the tasks to the first payment, and figures by day."""

import re
from collections.abc import Callable
from decimal import Decimal
from zoneinfo import ZoneInfo

import pytest

from dashboard.pages import text_of
from opentill import disputes, figures, merchants, orders, payouts
from opentill.core.ids import new_id
from opentill.dashboard import home_figures
from opentill.figures import jobs
from opentill.web import assets
from opentill.web.language import Localizer
from support.api_server import ApiServer, Shop
from support.payout_runs import ANN, IBAN
from support.people import Visitor, create_person


def read_home(visitor: Visitor, shop: Shop, **query: str) -> str:
    """Return the page; check that it has no inline scripts and styles."""
    response = visitor.get(f"/dashboard/{shop.id}/", params=query)
    assert response.status_code == 200
    assert "; script-src 'self'" in response.headers["content-security-policy"]
    assert "unsafe" not in response.headers["content-security-policy"]
    assert not re.search(r"<script(?! src=)|\sstyle=|\son\w+=", response.text)
    return response.text


def test_a_new_merchant_sees_the_tasks_to_the_first_payment(shop: Shop) -> None:
    owner = create_person(shop.api_server, shop.id, "owner")
    text = text_of(read_home(owner, shop))
    assert "Get started" in text
    assert "Create an API key (done)" in text  # the fixture has created a key
    assert "Add a product (done)" not in text
    shop.create_session()
    text = text_of(read_home(owner, shop))
    assert "Add a product (done)" in text
    assert "Create a checkout session (done)" in text
    assert "Create a payment link (done)" not in text
    link = shop.data("POST", "/v1/payment-links", json={"productId": shop.create_product()["id"]})
    page = read_home(owner, shop)
    assert "Create a payment link (done)" in text_of(page)
    assert "1 of 6 tasks done" in text_of(page)
    # The agreement is the first task of an owner, and not listed above as well.
    assert text_of(page).count("Accept the merchant services agreement") == 1
    assert re.findall(r'class="button" href="([^"]+)"', page) == [f"/dashboard/{shop.id}/agreement"]
    page_of_support = read_home(create_person(shop.api_server, shop.id, "support"), shop)
    assert f'class="button" href="/dashboard/{shop.id}/links/{link["id"]}"' in page_of_support
    assert "Test mode: open it yourself" in text_of(page_of_support)
    viewer = create_person(shop.api_server, shop.id, "viewer")
    assert "Add a bank account" in text_of(page)
    assert "Add a bank account" not in text_of(read_home(viewer, shop))
    shop.create_paid_order()
    shop.api_server.run(jobs.count_all(shop.api_server.app.db))
    assert "Get started" not in read_home(owner, shop)


def test_figures_are_shown_by_day_of_the_merchants_time_zone(
    shop: Shop, clock: Callable[[int], None]
) -> None:
    server = shop.api_server
    now = 1_798_761_000_000  # 2026-12-31T23:50Z, which is in 2027 in Kathmandu
    clock(now)
    shop.create_paid_order(shop.create_product(price="1234.50", currency="USD")["id"])
    server.run(jobs.count_all(server.app.db))
    owner = create_person(server, shop.id, "owner")
    assert 'Thu, Dec 31</th><td class="number" data-value="1234.50">' in read_home(owner, shop)
    server.tx(
        lambda tx: merchants.change(
            tx, shop.id, now, who="ann", reason="moved", time_zone="Asia/Kathmandu"
        )
    )
    page = read_home(owner, shop)
    assert 'Fri, Jan 1</th><td class="number" data-value="1234.50">' in page
    assert "Times are in Asia/Kathmandu" in text_of(page)
    assert "$1,234.50" in page
    assert "as of" not in text_of(page)


def test_today_is_charted_by_hour(shop: Shop, clock: Callable[[int], None]) -> None:
    server = shop.api_server
    clock(1_795_000_000_000)  # 2026-11-18T11:06:40Z
    shop.create_paid_order(shop.create_product(price="1234.50", currency="USD")["id"])
    clock(1_795_000_000_000 + 5_400_000)  # 12:36
    server.run(jobs.count_all(server.app.db))
    page = read_home(create_person(server, shop.id, "owner"), shop, days="1")
    text = text_of(page)
    assert "Volume today by hour (USD) $1,234.50 today. Highest: $1,234.50 in the hour" in text
    assert "vs. yesterday by 12:30" in text
    hours = re.findall(r'data-short="([^"]+)"', page)
    assert (hours[0], hours[-1], len(hours)) == ("12:00\u202fAM", "12:00\u202fPM", 13)
    assert "in 7 days" not in text
    page = read_home(create_person(server, shop.id, "owner"), shop, days="1", chart="attempts")
    assert "Payments today: 1. 100.0% of the attempts succeeded." in text_of(page)
    week = text_of(read_home(create_person(server, shop.id, "owner"), shop, days="7"))
    # Seven days with today until now are compared with as long a time before them.
    assert "vs. Nov 5 – Nov 11, 12:30 PM: $0.00" in week


def test_the_first_of_several_deadlines_is_named_so(shop: Shop) -> None:
    server, owner = shop.api_server, create_person(shop.api_server, shop.id, "owner")
    now = server.app.clock()
    for number, text in (
        (1, "1 dispute needs a response, $24.99 at stake, by "),
        (2, "2 disputes need a response, $49.98 at stake, first by "),
    ):
        dispute = shop.open_dispute(shop.create_paid_order()["id"])
        server.tx(
            lambda tx, id_=dispute.id, days=number: disputes.set_deadline(
                tx, shop.id, id_, now + days * 86_400_000, now
            )
        )
        assert text in text_of(read_home(owner, shop))


def test_opening_the_page_brings_the_figures_up_to_date(shop: Shop) -> None:
    server = shop.api_server
    shop.create_paid_order(shop.create_product(price="1234.50", currency="USD")["id"])
    now, zone = server.app.clock() + 1, ZoneInfo("UTC")
    uncounted = server.run(figures.read(server.app.db, shop.id, zone, now))
    localizer = Localizer("merchant", "en")
    assert home_figures.FigureTexts(localizer, zone, uncounted, with_balance=True).as_of(now)
    page = read_home(create_person(server, shop.id, "owner"), shop)
    assert "The figures are as of" not in page
    assert "$1,234.50" in page


def fail_payout(shop: Shop, payout: payouts.Payout) -> None:
    now = shop.api_server.app.clock()
    shop.api_server.tx(lambda tx: payouts.fail(tx, payout.id, "closed", "op", now))


def test_each_role_sees_what_needs_its_attention(shop: Shop) -> None:
    server = shop.api_server
    order = shop.create_paid_order()
    shop.open_dispute(order["id"])
    endpoint = shop.create_endpoint()
    sql = "update webhook_endpoints set status = 'DISABLED', disabled_reason = 'gone' where id = $1"
    server.tx(lambda tx: tx.execute(sql, endpoint["id"]))
    fail_payout(shop, shop.create_payout())
    text = text_of(read_home(create_person(server, shop.id, "owner"), shop))
    for line in (
        "1 dispute needs a response, $24.99 at stake",
        "1 webhook endpoint is disabled",
        "1 payout was returned in the last two weeks",
        "Accept the merchant services agreement",
    ):
        assert line in text
    text = text_of(read_home(create_person(server, shop.id, "developer"), shop))
    assert "1 webhook endpoint is disabled" in text
    for hidden in ("needs a response", "Payouts", "becomes available"):
        assert hidden not in text
    # Only an owner may accept the agreement and enter the bank account.
    text = text_of(read_home(create_person(server, shop.id, "support"), shop))
    assert "1 dispute needs a response" in text
    assert "Accept the merchant services agreement" not in text


def test_accounts_without_money_are_hidden_and_what_is_held_in_pending_is_named(
    shop: Shop,
) -> None:
    server, now = shop.api_server, shop.api_server.app.clock()
    server.tx(
        lambda tx: merchants.change(
            tx, shop.id, now, who="ann", reason="risk", reserve_rate=Decimal("0.1"), reserve_days=90
        )
    )
    order_id = shop.create_paid_order()["id"]
    server.run(jobs.count_all(server.app.db))
    owner = create_person(server, shop.id, "owner")
    text = text_of(read_home(owner, shop))
    assert "Pending $9.59" in text
    assert "On hold" not in text
    assert "In reserve" not in text
    server.tx(lambda tx: orders.settle_one(tx, shop.id, order_id, now, "test"))
    shop.open_dispute(order_id)
    server.run(jobs.count_all(server.app.db))
    text = text_of(read_home(owner, shop))
    assert "On hold $9.59" in text or "On hold $9.99" in text
    assert "In reserve $0.96" in text


def test_an_owner_is_asked_for_a_bank_account_when_money_is_available(shop: Shop) -> None:
    server, line = shop.api_server, "Add a bank account, so that the available balance"
    owner = create_person(server, shop.id, "owner")
    finance = create_person(server, shop.id, "finance")
    assert line not in read_home(owner, shop)
    # A payout that failed has returned its money to the available balance.
    fail_payout(shop, shop.create_payout())
    page = read_home(owner, shop)
    assert line in page
    assert f'href="/dashboard/{shop.id}/payouts/account"' in page
    assert line not in read_home(finance, shop)
    rule = payouts.HoldRule(server.app.settings.secret_key, 3)
    now = server.app.clock()
    server.tx(lambda tx: payouts.change_account(tx, shop.id, IBAN, ANN, rule, now))
    assert line not in read_home(owner, shop)


def test_a_count_that_reaches_its_limit_is_shown_with_a_plus(
    shop: Shop, monkeypatch: pytest.MonkeyPatch
) -> None:
    owner = create_person(shop.api_server, shop.id, "owner")
    monkeypatch.setattr("opentill.disputes.overview.MOST_COUNTED", 2)
    monkeypatch.setattr(disputes, "MOST_COUNTED", 2)
    monkeypatch.setattr("opentill.payouts.service.MOST_FAILED", 2)
    monkeypatch.setattr(payouts, "MOST_FAILED", 2)
    for number, (need, failed) in enumerate(
        (
            ("1 dispute needs", "1 payout was returned"),
            ("2+ disputes need", "2+ payouts were returned"),
            ("2+ disputes need", "2+ payouts were returned"),
        )
    ):
        shop.open_dispute(shop.create_paid_order()["id"])
        fail_payout(shop, shop.create_payout(1000 + number))
        text = text_of(read_home(owner, shop)) + " "
        assert f"{need} a response" in text
        assert f"{failed} in the last two weeks" in text


@pytest.mark.parametrize("language", ["zh-Hans", "zh-Hant"])
def test_the_home_page_is_translated_into_chinese(shop: Shop, language: str) -> None:
    server = shop.api_server
    shop.create_paid_order()
    server.run(jobs.count_all(server.app.db))
    page = read_home(create_person(server, shop.id, "owner"), shop, lang=language)
    assert {"zh-Hans": "成功率", "zh-Hant": "淨收入"}[language] in page
    assert "Volume" not in page


def test_the_home_page_with_its_assets_is_smaller_than_100_kb(shop: Shop) -> None:
    server = shop.api_server
    for _ in range(10):
        shop.create_paid_order()
    server.run(jobs.count_all(server.app.db))
    owner = create_person(server, shop.id, "owner")
    page = read_home(owner, shop)
    size = len(page.encode())
    linked = set(re.findall(r'(?:src|href)="(/static/[^"]+)"', page))
    icons = [f"/static/{name}?v={asset.version}" for name, asset in assets.ASSETS.items()
             if name.endswith(".svg")]  # fmt: skip
    for path in {*linked, *icons}:
        response = owner.get(path)
        if not path.startswith("/static/inter.woff2"):  # which is compressed in itself
            assert response.headers["content-encoding"] == "gzip"
        size += int(response.headers["content-length"])
    assert {path.partition("?")[0] for path in linked} >= {
        "/static/uplot.js", "/static/chart.js", "/static/chart.css", "/static/dashboard.css",
    }  # fmt: skip
    assert size < 100_000


def test_an_asset_is_not_compressed_for_clients_without_gzip(api_server: ApiServer) -> None:
    visitor = Visitor(api_server)
    for accepted in ("identity", "gzip;q=0", "br"):
        response = visitor.get("/static/chart.js", headers={"accept-encoding": accepted})
        assert "content-encoding" not in response.headers
        assert response.headers["vary"] == "accept-encoding"
        assert response.content == assets.ASSETS["chart.js"].body


def test_home_says_that_nobody_can_pay_while_no_gateway_takes_payments(
    shop: Shop, monkeypatch: pytest.MonkeyPatch
) -> None:
    outage = "Customers cannot pay: no gateway account takes payments. Ask the operator"
    owner = create_person(shop.api_server, shop.id, "owner")
    assert outage not in text_of(read_home(owner, shop))
    gateways = shop.api_server.app.gateways
    monkeypatch.setattr(gateways, "paused", frozenset(gateways))
    page = read_home(owner, shop)
    assert outage in text_of(page)
    assert f'href="/dashboard/{shop.id}/settings/gateway-accounts"' in page


def test_another_merchants_home_page_is_not_found(shop: Shop) -> None:
    owner = create_person(shop.api_server, shop.id, "owner")
    assert owner.get(f"/dashboard/{new_id('mer')}/").status_code == 404


def test_the_newest_payments_are_those_that_somebody_tried_to_pay(shop: Shop) -> None:
    owner = create_person(shop.api_server, shop.id, "owner")
    shop.create_order()
    page = text_of(read_home(owner, shop))
    assert "They appear here as soon as a customer has tried to pay." in page
    # A merchant of this month has no statement of the last one.
    assert "Last month’s statement" not in page
    shop.create_paid_order()
    shop.api_server.sql("update merchants set created_at = created_at - 62::bigint * 86400000")
    home = read_home(owner, shop)
    assert "Last month’s statement" in text_of(home)
    page = text_of(home.partition('id="newest"')[2])
    assert page.count(" Paid ") == 1
    assert "Not paid yet" not in page
