"""The home page: what needs somebody, the way to the first payment, figures of whole days."""

import re
from zoneinfo import ZoneInfo

import pytest

from opentill import disputes, figures, merchants, payouts
from opentill.core.ids import new_id
from opentill.dashboard import home_figures
from opentill.figures import jobs
from opentill.web import assets
from opentill.web.language import Localizer
from support.api_server import ApiServer, Shop
from support.people import Visitor, person


def home(visitor: Visitor, shop: Shop, **query: str) -> str:
    """Return the page, without markup where only words matter."""
    response = visitor.get(f"/dashboard/{shop.id}/", params=query)
    assert response.status_code == 200
    assert "; script-src 'self'" in response.headers["content-security-policy"]
    assert "unsafe" not in response.headers["content-security-policy"]
    assert not re.search(r"<script(?! src=)|\sstyle=|\son\w+=", response.text)
    return response.text


def words(html: str) -> str:
    return " ".join(re.sub(r"<[^>]+>", " ", html).split())


def test_a_new_merchant_is_led_to_the_first_payment(shop: Shop) -> None:
    owner = person(shop.api_server, shop.id, "owner")
    before = words(home(owner, shop))
    assert "To your first payment" in before
    assert "Create an API key (done)" in before  # that of the fixture
    assert "Add a product (done)" not in before
    shop.session()
    after = words(home(owner, shop))
    assert "Add a product (done)" in after
    assert "Open a checkout session (done)" in after
    shop.paid()
    shop.api_server.run(jobs.count_all(shop.api_server.app.db))
    assert "To your first payment" not in home(owner, shop)


def test_figures_are_those_of_the_merchant_s_days(shop: Shop, clock) -> None:
    server = shop.api_server
    at = 1_798_761_000_000  # 2026-12-31T23:50 in UTC: next year in Kathmandu
    clock(at)
    shop.paid(shop.product(price="1234.50", currency="USD")["id"])
    server.run(jobs.count_all(server.app.db))
    owner = person(server, shop.id, "owner")
    assert 'Thu, Dec 31, 2026</th><td class="number" data-value="1234.50">' in home(owner, shop)
    server.tx(
        lambda tx: merchants.change(
            tx, shop.id, at, who="ann", reason="moved", time_zone="Asia/Kathmandu"
        )
    )
    page = home(owner, shop)
    assert 'Fri, Jan 1, 2027</th><td class="number" data-value="1234.50">' in page
    assert "those of Asia/Kathmandu" in words(page)
    assert "$1,234.50" in page
    assert "as of" not in words(page)


def test_figures_that_are_behind_say_so_and_are_counted_for_who_looks(shop: Shop) -> None:
    server = shop.api_server
    shop.paid(shop.product(price="1234.50", currency="USD")["id"])
    now, zone = server.app.clock() + 1, ZoneInfo("UTC")
    found = server.run(figures.read(server.app.db, shop.id, zone, now))
    localizer = Localizer("merchant", "en")
    assert home_figures.FigureTexts(localizer, zone, found, with_balance=True).as_of(now)
    page = words(home(person(server, shop.id, "owner"), shop))  # which counts them
    assert "The figures are as of" not in page
    assert "$1,234.50" in page


def _fail(shop: Shop, payout: payouts.Payout) -> None:
    now = shop.api_server.app.clock()
    shop.api_server.tx(lambda tx: payouts.fail(tx, payout.id, "closed", "op", now))


def test_what_needs_somebody_is_named_to_those_who_may_see_it(shop: Shop) -> None:
    server = shop.api_server
    order = shop.paid()
    shop.dispute(order["id"])
    endpoint = shop.endpoint()
    sql = "update webhook_endpoints set status = 'DISABLED', disabled_reason = 'gone' where id = $1"
    server.tx(lambda tx: tx.execute(sql, endpoint["id"]))
    _fail(shop, shop.payout())
    seen = words(home(person(server, shop.id, "owner"), shop))
    for line in (
        "Open disputes: 1",
        "Webhook endpoints that are disabled: 1",
        "Payouts of the last two weeks that failed: 1",
        "The merchant services agreement is to be accepted",
    ):
        assert line in seen
    seen = words(home(person(server, shop.id, "developer"), shop))
    assert "Webhook endpoints that are disabled: 1" in seen
    assert "Open disputes" not in seen
    assert "Payouts" not in seen
    assert "becomes available" not in seen  # the balance is not a developer's


def test_what_is_counted_to_a_limit_has_a_plus(shop: Shop, monkeypatch: pytest.MonkeyPatch) -> None:
    owner = person(shop.api_server, shop.id, "owner")
    monkeypatch.setattr(disputes.service, "MOST_COUNTED", 2)
    monkeypatch.setattr(disputes, "MOST_COUNTED", 2)
    monkeypatch.setattr(payouts.service, "MOST_FAILED", 2)
    monkeypatch.setattr(payouts, "MOST_FAILED", 2)
    for number, shown in enumerate(("1", "2+", "2+")):
        shop.dispute(shop.paid()["id"])
        _fail(shop, shop.payout(1000 + number))
        seen = words(home(owner, shop)) + " "
        assert f"Open disputes: {shown} " in seen
        assert f"Payouts of the last two weeks that failed: {shown} " in seen


@pytest.mark.parametrize("language", ["zh-Hans", "zh-Hant"])
def test_it_speaks_chinese(shop: Shop, language: str) -> None:
    server = shop.api_server
    shop.paid()
    server.run(jobs.count_all(server.app.db))
    page = home(person(server, shop.id, "owner"), shop, lang=language)
    assert {"zh-Hans": "成功率", "zh-Hant": "淨收入"}[language] in page
    assert "Volume" not in page


def test_the_page_and_all_that_it_loads_are_within_100_kb(shop: Shop) -> None:
    server = shop.api_server
    for _ in range(10):
        shop.paid()
    server.run(jobs.count_all(server.app.db))
    owner = person(server, shop.id, "owner")
    page = home(owner, shop)
    weight = len(page.encode())
    loaded = set(re.findall(r'(?:src|href)="(/static/[^"]+)"', page))
    icons = [f"/static/{name}?v={one.version}" for name, one in assets.ASSETS.items()
             if name.endswith(".svg")]  # fmt: skip
    for path in {*loaded, *icons}:
        response = owner.get(path)
        assert response.headers["content-encoding"] == "gzip"
        weight += int(response.headers["content-length"])
    assert {path.partition("?")[0] for path in loaded} >= {
        "/static/uplot.js", "/static/chart.js", "/static/chart.css", "/static/dashboard.css",
    }  # fmt: skip
    assert weight < 100_000


def test_a_file_comes_as_it_is_to_whoever_takes_no_gzip(api_server: ApiServer) -> None:
    visitor = Visitor(api_server)
    for accepted in ("identity", "gzip;q=0", "br"):
        response = visitor.get("/static/chart.js", headers={"accept-encoding": accepted})
        assert "content-encoding" not in response.headers
        assert response.headers["vary"] == "accept-encoding"
        assert response.content == assets.ASSETS["chart.js"].body


def test_another_merchant_s_page_is_not_found(shop: Shop) -> None:
    owner = person(shop.api_server, shop.id, "owner")
    assert owner.get(f"/dashboard/{new_id('mer')}/").status_code == 404
