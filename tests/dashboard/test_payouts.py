"""Payouts: the list, one of them with its entries, and what becomes available next."""

import re
from typing import Any

from opentill import payouts
from opentill.core.ids import new_id
from opentill.figures import jobs
from support.api_server import Shop
from support.payout_runs import ANN, IBAN, NATIONAL
from support.people import Visitor, person


def words(html: str) -> str:
    return " ".join(re.sub(r"<[^>]+>", " ", html).split())


def page(visitor: Visitor, shop: Shop, below: str = "payouts", **query: str) -> str:
    response = visitor.get(f"/dashboard/{shop.id}/{below}", params=query)
    assert response.status_code == 200, response.text
    return response.text


def ended(shop: Shop, payout: payouts.Payout, *, bank: str = "", why: str = "") -> None:
    now = shop.api_server.app.clock()
    if bank:
        shop.api_server.tx(lambda tx: payouts.pay(tx, payout.id, bank, "sent", "op", now))
    else:
        shop.api_server.tx(lambda tx: payouts.fail(tx, payout.id, why, "op", now))


def test_each_payout_says_where_it_stands(shop: Shop) -> None:
    on_its_way, arrived, back = shop.payout(1100), shop.payout(2200), shop.payout(3300)
    ended(shop, arrived, bank="TRN-<1>")
    ended(shop, back, why="account closed")
    owner = person(shop.api_server, shop.id, "owner")
    seen = words(page(owner, shop))
    assert "TRN-&lt;1&gt;" in seen
    for line in ("On its way", "Arrived", "Came back", "account closed", "$11.00", "$22.00"):
        assert line in seen
    only = page(owner, shop, status="FAILED")
    assert back.id in only
    assert on_its_way.id not in only
    assert arrived.id not in only
    html = page(owner, shop, f"payouts/{back.id}")
    assert "Why it came back account closed" in words(html)
    assert html.count("bank → available") == html.count("available → bank") == 1
    assert "TRN-" in page(owner, shop, f"payouts/{arrived.id}")
    assert "your bank has not confirmed it yet" in page(owner, shop, f"payouts/{on_its_way.id}")
    other = shop.api_server.shop()
    stranger = person(shop.api_server, other.id, "owner")
    for number in (back.id, new_id("po")):
        assert stranger.get(f"/dashboard/{other.id}/payouts/{number}").status_code == 404


def test_a_returned_payout_says_so_and_counts_from_its_return(shop: Shop, clock: Any) -> None:
    clock(1_798_761_000_000)
    server, day = shop.api_server, 86_400_000
    payout = shop.payout(3300)
    ended(shop, payout, bank="TRN-1")
    clock(1_798_761_000_000 + 40 * day)
    now = server.app.clock()
    server.tx(lambda tx: payouts.record_return(tx, payout.id, "AC04 closed", "op", now))
    owner = person(server, shop.id, "owner")
    row = words(page(owner, shop)).partition("All payouts")[2]
    assert "Came back" in row
    assert "AC04 closed" in row
    seen = words(page(owner, shop, f"payouts/{payout.id}"))
    assert "The bank paid it and returned it later." in seen
    assert "TRN-1" in seen
    assert "Why it came back AC04 closed" in seen
    assert payout.id in page(owner, shop, status="FAILED")
    home = words(owner.get(f"/dashboard/{shop.id}/").text)
    assert "Payouts of the last two weeks that failed: 1" in home


def test_the_next_money_is_named_with_its_day(shop: Shop, clock: Any) -> None:
    server = shop.api_server
    assert "There are no payouts yet." in words(page(person(server, shop.id, "owner"), shop))
    clock(1_798_761_000_000)
    order = shop.paid()
    server.run(jobs.count_all(server.app.db))
    due = server.sql("select due_at from orders where id = $1", order["id"])[0]["due_at"]

    def seen(at: int) -> str:
        clock(at)
        return words(page(person(server, shop.id, "owner"), shop))

    found = re.search(r"\$9\.59 becomes available on (.*?)\.", seen(due - 86_400_000))
    assert found is not None
    assert re.fullmatch(r"\w+, Jan \d+, 2027", found[1])
    assert "$9.59 was due already and is held back" in seen(due + 86_400_000)  # not settled
    later = "Nothing becomes available within two weeks; $9.59 does later."
    assert later in seen(due - 40 * 86_400_000)


def test_a_returned_payout_says_what_the_merchant_can_do(shop: Shop) -> None:
    server = shop.api_server
    now = server.app.clock()
    rule = payouts.HoldRule(server.app.settings.secret_key, 3)
    server.tx(lambda tx: payouts.change_account(tx, shop.id, IBAN, ANN, rule, now - 1))
    payout = shop.payout(3300)
    owner = person(server, shop.id, "owner")
    assert "Payouts wait" not in page(owner, shop)
    ended(shop, payout, bank="TRN-1")
    server.tx(lambda tx: payouts.record_return(tx, payout.id, "AC04 closed", "op", now))
    for below, text in (
        ("payouts", "The bank sent a payout back, so the next one waits."),
        ("payouts/account", "an owner of your team enters another one on this page"),
    ):
        seen = words(page(owner, shop, below))
        assert "Payouts wait" in seen
        assert text in seen
    for language, title in (("zh-Hans", "打款等待中"), ("zh-Hant", "撥款等待中")):
        assert title in page(owner, shop, lang=language)
    change = (shop.id, NATIONAL, ANN, payouts.HoldRule(rule.secret_key, 0), now + 1)
    server.tx(lambda tx: payouts.change_account(tx, *change))
    assert "Payouts wait" not in page(owner, shop, lang="en")
