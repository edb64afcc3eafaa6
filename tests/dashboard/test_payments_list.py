"""The list of payments: its filters, columns, live updates and export."""

import html
import re
from collections.abc import Callable
from typing import Any, Final

import pytest

from dashboard.listed_payments import ROW, PaymentsList, tab_numbers
from dashboard.pages import text_of
from opentill import checkouts, merchants, orders
from opentill.core.ids import new_id
from opentill.db.clock import now_ms
from opentill.orders.search import filters
from support import world
from support.api_server import Shop
from support.people import create_person

POLL: Final = {"hx-request": "true"}


def field_error(page: str, name: str) -> str:
    """Return the error that the page shows at a field."""
    (error,) = re.findall(rf'id="{name}-error">(.*?)</p>', page, re.DOTALL)
    assert re.search(rf'id="{name}"[^>]*aria-describedby="{name}-error', page)
    return text_of(error)


def test_the_list_of_payments_and_its_export_have_the_same_filters(shop: Shop) -> None:
    tea = shop.create_product(name="Tea", price="9.99")["id"]
    cup = shop.create_product(name="Cup", price="20")["id"]
    tea_order = shop.create_paid_order(
        tea, customerEmail="Ada@example.com", metadata={"cart": "42"}
    )
    cup_order = shop.create_order(cup, customerEmail="bob@example.com", metadata={"cart": "43"})
    payments = PaymentsList(shop)
    all_ids = {tea_order["id"], cup_order["id"]}
    cases: list[tuple[dict[str, str], set[str]]] = [
        ({}, all_ids),
        ({"status": "PAID"}, {tea_order["id"]}),
        ({"product": cup}, {cup_order["id"]}),
        ({"email": "ada@EXAMPLE.com"}, {tea_order["id"]}),
        ({"amount": "20"}, {cup_order["id"]}),
        ({"amount": "$20.00"}, {cup_order["id"]}),
        ({"amount": "20,00 EUR"}, set()),
        ({"amount": "9,99", "status": "PAID"}, {tea_order["id"]}),
        ({"metadata_key": "cart", "metadata_value": "42"}, {tea_order["id"]}),
        ({"query": "bob@ex"}, {cup_order["id"]}),
        ({"query": "43"}, {cup_order["id"]}),
        ({"query": "9.99", "status": "PENDING"}, set()),
        ({"from": "2020-01-01", "to": "2020-01-31"}, set()),
        ({"from": "2020-01-01"}, all_ids),
    ]
    for query, expected in cases:
        page = payments.page(**query, with_order="1")
        assert {id_ for id_ in all_ids if f'id="{id_}"' in page} == expected, query
        assert {row["id"] for row in payments.export(**query)} == expected, query
    assert payments.page(amount="1").count("No payments match these filters.") == 1
    options = re.findall(
        r'<option value="(prod_\w+)"( selected)?>([^<]*)<', payments.page(product=cup)
    )
    assert [(id_, bool(chosen), name.strip("\u2068\u2069")) for id_, chosen, name in options] == [
        (cup, True, "Cup"),
        (tea, False, "Tea"),
    ]


def test_tabs_have_the_number_of_their_payments_and_filter_by_several_statuses(shop: Shop) -> None:
    paid = shop.create_paid_order(customerEmail="ada@example.com")
    settled = shop.create_paid_order(customerEmail="bob@example.com")
    shop.api_server.tx(lambda tx: orders.settle_one(tx, shop.id, settled["id"], now_ms(), "early"))
    waiting = shop.create_order(customerEmail="cyd@example.com")
    payments = PaymentsList(shop)
    assert tab_numbers(payments.page()) == {
        "All": "3", "Paid": "2", "Refunds": "0", "Disputed": "0", "Declined": "0",
        "Not paid yet": "1", "Expired": "0", "Canceled": "0",
    }  # fmt: skip
    cases: list[tuple[dict[str, str], set[str]]] = [
        ({"tab": "succeeded"}, {paid["id"], settled["id"]}),
        ({"tab": "succeeded", "status": "PAID"}, {paid["id"], settled["id"]}),
        ({"tab": "succeeded", "status": "PENDING"}, {paid["id"], settled["id"]}),
        ({"tab": "succeeded", "email": "ada@example.com"}, {paid["id"]}),
        ({"tab": "incomplete"}, {waiting["id"]}),
        ({"tab": "incomplete", "method": "BANK_TRANSFER"}, set()),
        ({"tab": "nothing"}, {paid["id"], settled["id"], waiting["id"]}),
        ({"method": "BANK_TRANSFER"}, {paid["id"], settled["id"]}),
        ({"method": "BANK_TRANSFER", "status": "PAID"}, {paid["id"], settled["id"]}),
        ({"method": "BANK_TRANSFER", "status": "REFUNDED"}, set()),
        ({"method": "ALIPAY"}, set()),
    ]
    for query, expected in cases:
        page = payments.page(**query, with_order="1")
        shown = {row["id"] for row in (paid, settled, waiting) if f'id="{row["id"]}"' in page}
        assert shown == expected, query
        assert {row["id"] for row in payments.export(**query)} == expected, query
    assert "There are no payments with this status." in payments.page(tab="failed")
    session = shop.create_session(shop.create_product()["id"])
    for query in ({"tab": "incomplete"}, {"tab": "canceled"}):
        sessions = f"/dashboard/{shop.id}/sessions"
        for page in (payments.page(**query), payments.visitor.get(sessions).text):
            assert ("No customer yet" in page) == (query["tab"] == "incomplete")
        if query["tab"] == "incomplete":
            shop.data("POST", f"/v1/checkouts/{session['id']}/expire")
    assert 'name="tab" value="succeeded"' in payments.page(tab="succeeded")


def test_an_invalid_filter_shows_its_error_at_the_field(shop: Shop) -> None:
    shop.create_order()
    payments = PaymentsList(shop)
    other_shops_product = shop.api_server.create_shop().create_product()["id"]
    for name, value, error in (
        ("amount", "nine", "Enter an amount such as 24.90"),
        ("email", "ada", "Enter the whole email address"),
        ("product", other_shops_product, "Choose one of your products"),
        ("from", "31.1.2026", "Enter a day as 2026-01-31"),
        ("metadata_value", "x", "Enter a key"),
        ("query", "x" * 201, "Search for at most 200"),
    ):
        page = payments.page(**{name: value})
        field = "metadata_key" if name == "metadata_value" else name
        assert error in field_error(page, field), name
        assert name in {"status", "product"} or f'value="{value}"' in page
        assert "<details" in page
        response = payments.visitor.get(f"{payments.path}.csv", params={name: value})
        assert response.status_code == 303, name  # an invalid filter must not export all payments
        assert response.headers["location"].startswith(f"{payments.path}?{name}=")
    assert "must not be before" in field_error(
        payments.page(**{"from": "2026-02-01", "to": "2026-01-01"}), "to"
    )


def preset_links(page: str) -> dict[str, str]:
    """Return the presets of the range of days: name → path and query of its link."""
    (presets,) = re.findall(r'<ul class="presets".*?</ul>', page, re.DOTALL)
    links = re.findall(r'<a href="([^"]*)"[^>]*>([^<]*)</a>', presets)
    return {name: html.unescape(address) for address, name in links}


def test_presets_of_days_end_today_in_the_merchants_zone(
    shop: Shop, clock: Callable[[int], None]
) -> None:
    clock(1_798_761_000_000)  # 2026-12-31T23:50 in UTC
    payments = PaymentsList(shop)
    base = f"{payments.path}?status=PAID&from="
    assert preset_links(payments.page(status="PAID", page="3")) == {
        "Today": f"{base}2026-12-31&to=2026-12-31",
        "Last 7 days": f"{base}2026-12-25&to=2026-12-31",
        "Last 30 days": f"{base}2026-12-02&to=2026-12-31",
        "This month": f"{base}2026-12-01&to=2026-12-31",
        "Last month": f"{base}2026-11-01&to=2026-11-30",
    }
    shop.api_server.tx(lambda tx: move_to_kathmandu(tx, shop))
    links = preset_links(payments.page(status="PAID"))
    assert links["Today"] == f"{base}2027-01-01&to=2027-01-01"
    assert links["Last month"] == f"{base}2026-12-01&to=2026-12-31"
    page = payments.page(**{"from": "2026-12-01", "to": "2026-12-31"})
    assert "Date: Last month" in text_of(page)
    assert "Date: Dec 2, 2026 – Dec 31, 2026" in text_of(
        payments.page(**{"from": "2026-12-02", "to": "2026-12-31"})
    )
    assert "Date: Jan 2 – Jan 3" in text_of(
        payments.page(**{"from": "2027-01-02", "to": "2027-01-03"})
    )


def test_a_filter_in_use_has_a_link_that_removes_it_alone(shop: Shop) -> None:
    payments = PaymentsList(shop)
    page = payments.page(status="PAID", amount="5", page="2")
    clear = re.findall(r'<a class="clear" href="([^"]*)">.*?<span class="hidden">([^<]*)<', page)
    assert [(html.unescape(address), name) for address, name in clear] == [
        (f"{payments.path}?amount=5", "Remove the filter: Status"),
        (f"{payments.path}?status=PAID", "Remove the filter: More filters"),
    ]
    assert 'class="clear"' not in payments.page()


def test_a_row_of_the_list_has_one_link_that_covers_it(shop: Shop) -> None:
    order = shop.create_paid_order(customerEmail="ada@example.com")
    (row,) = ROW.findall(PaymentsList(shop).page())
    assert re.findall(r'<a class="row-link"[^>]* href="([^"]*)"', row) == [
        f"/dashboard/{shop.id}/payments/{order['id']}"
    ]


def test_the_name_of_the_export_has_the_days_of_the_list(shop: Shop) -> None:
    shop.api_server.tx(lambda tx: move_to_kathmandu(tx, shop))
    payments = PaymentsList(shop)
    for query, name in (
        ({"from": "2026-01-01", "to": "2026-01-31"}, "orders_2026-01-01_2026-01-31.csv"),
        ({"from": "2026-01-01", "to": ""}, "orders_from_2026-01-01.csv"),
        ({}, "orders_all.csv"),
    ):
        response = payments.visitor.get(f"{payments.path}.csv", params=query)
        assert response.headers["content-disposition"] == f'attachment; filename="{name}"'


def test_a_form_with_empty_fields_does_not_filter(shop: Shop) -> None:
    owner = create_person(shop.api_server, shop.id, "owner")
    for path, query, sentence in (
        (
            "mails",
            {"status": "", "email": ""},
            "No emails are sent",
        ),
        ("developers/events", {"from": "", "to": "", "type": ""}, "No events yet"),
        ("payouts", {"from": "", "to": "", "status": ""}, "No bank account yet"),
        ("payments", {"with_order": "", "query": ""}, "There are no payments yet"),
    ):
        page = text_of(owner.get(f"/dashboard/{shop.id}/{path}", params=query))
        assert "No payments match these filters." not in page, path
        assert sentence.lower() in page.lower(), path
        assert "Clear" not in page, path
    assert 'name="with_order" value="1" checked' in PaymentsList(shop).page(with_order="1")
    assert 'name="with_order" value="1" checked' not in PaymentsList(shop).page(with_order="")


def test_columns_are_selected_by_the_query_and_times_are_in_the_merchants_zone(
    shop: Shop, clock: Callable[[int], None]
) -> None:
    clock(1_798_761_000_000)  # 2026-12-31T23:50 in UTC
    order = shop.create_paid_order(customerEmail="=1+1@example.com", metadata={"a": "<b>"})
    payments = PaymentsList(shop)
    (default_row,) = payments.rows()
    assert default_row.endswith("Paid =1+1@example.com Tea Bank transfer $9.99")
    (row,) = payments.rows(with_order="1", with_metadata="1", with_net="1", with_nothing="1")
    assert row == f"order_…{order['id'][-6:]} a: &lt;b&gt; ${order['netAmount']} $9.99"
    (line,) = payments.export(with_order="1")
    assert line["customerEmail"] == "'=1+1@example.com"
    assert line["createdAt"] == "1798761000000"
    assert line["createdAtUtc"] == "2026-12-31T23:50:00.000Z"
    assert (line["createdAtLocal"], line["timeZone"]) == ("2026-12-31 23:50:00", "UTC")
    shop.api_server.tx(lambda tx: move_to_kathmandu(tx, shop))
    assert "Jan 1, 5:35 AM" in payments.rows()[0]
    (line,) = payments.export(status="PAID")
    assert (line["paidAtLocal"], line["timeZone"]) == ("2027-01-01 05:35:00", "Asia/Kathmandu")
    assert payments.rows(**{"from": "2027-01-01"})
    assert not payments.rows(to="2026-12-31")


async def move_to_kathmandu(tx: Any, shop: Shop) -> None:
    await merchants.change(tx, shop.id, 1, who="ann", reason="moved", time_zone="Asia/Kathmandu")


def test_a_search_for_the_id_of_one_payment_redirects_to_its_page(shop: Shop) -> None:
    order = shop.create_paid_order(metadata={"cart": "77"})
    # The search finds this order too, by its metadata.
    shop.create_order(metadata={"cart": order["id"]})
    refund = shop.refund(order["id"], refundNo="R-77", amount="1")
    payments = PaymentsList(shop)
    for text in (refund["id"], "R-77", order["checkoutSessionId"], f" {refund['id']} "):
        response = payments.visitor.get(payments.path, params={"query": text})
        assert response.status_code == 303, text
        assert response.headers["location"] == f"{payments.path}/{order['id']}"
    assert len(payments.rows(query=order["id"])) == 2
    assert len(payments.rows(query="77")) == 1  # a match in the metadata does not redirect
    assert len(payments.rows(query=refund["id"], status="REFUND_PENDING")) == 1
    assert not payments.rows(query=refund["id"], status="PAID")


def test_a_live_list_receives_each_change_once(shop: Shop) -> None:
    payments = PaymentsList(shop)
    response = payments.visitor.get(payments.path)
    assert "; script-src 'self'; connect-src 'self'" in response.headers["content-security-policy"]
    assert "unsafe" not in response.headers["content-security-policy"]
    assert "There are no payments yet" in response.text
    (tag,) = re.findall(r'"If-None-Match": "\\"(\w+)\\""', response.text)
    headers = {**POLL, "if-none-match": f'"{tag}"'}
    assert payments.visitor.get(payments.path, headers=headers).status_code == 304
    shop.create_order(customerEmail="eve@example.com")
    update = payments.visitor.get(payments.path, headers=headers)
    assert update.status_code == 200
    assert "eve@example.com" in update.text
    assert "<html" not in update.text
    headers["if-none-match"] = update.headers["etag"]
    assert payments.visitor.get(payments.path, headers=headers).status_code == 304
    for query in ({"live": "off"}, {"page": "2"}, {"amount": "x"}):
        page = payments.visitor.get(payments.path, params=query)
        assert "hx-get" not in page.text


def test_polls_do_not_extend_a_login_and_are_refused_after_its_end(
    shop: Shop, clock: Callable[[int], None]
) -> None:
    payments = PaymentsList(shop)
    start = shop.api_server.app.clock()
    for hours in (5, 10):
        clock(start + hours * 3_600_000)
        assert payments.visitor.get(payments.path, headers=POLL).status_code == 200
    clock(start + 12 * 3_600_000 + 1)
    refusal = payments.visitor.get(payments.path, headers=POLL)
    assert refusal.status_code == 403
    assert refusal.headers["hx-refresh"] == "true"
    assert refusal.content == b""
    assert payments.visitor.get(payments.path).headers["location"].startswith("/login?next=")


def test_the_export_is_linked_only_for_roles_that_may_export(shop: Shop) -> None:
    shop.create_order()
    assert "payments.csv" in PaymentsList(shop, "finance").page()
    assert "payments.csv" not in PaymentsList(shop, "support").page()


def test_the_list_does_not_show_payments_of_another_merchant(shop: Shop) -> None:
    order = shop.api_server.create_shop().create_order(customerEmail="eve@example.com")
    payments = PaymentsList(shop)
    for text in (order["id"], "eve@example.com", "9.99"):
        assert payments.rows(query=text) == []
        assert payments.export(query=text) == []
    assert payments.visitor.get(f"/dashboard/{new_id('mer')}/payments.csv").status_code == 404


def test_the_list_its_tabs_and_the_payment_show_the_same_status(shop: Shop) -> None:
    """A declined payment whose session has ended, and one that is refunded in part."""
    declined, refunded = shop.create_order(), shop.create_paid_order(customerEmail="bob@x.org")
    shop.create_order(customerEmail="ada@example.com")
    order = shop.api_server.tx(lambda tx: orders.find(tx, shop.id, declined["id"]))

    async def decline(tx: Any) -> None:
        attempt = await world.submit_attempt(tx, order, now_ms())
        await world.report_payment(tx, attempt, "DECLINED", now_ms())
        end = order.created_at + 25 * world.HOUR
        await checkouts.expire(tx, shop.id, order.checkout_id, "its time is over", end)

    shop.api_server.tx(decline)
    shop.refund(refunded["id"], refundNo="R-1", amount="1")
    payments = PaymentsList(shop)
    numbers = {
        "All": "3", "Paid": "0", "Refunds": "1", "Disputed": "0", "Declined": "1",
        "Not paid yet": "1", "Expired": "0", "Canceled": "0",
    }  # fmt: skip
    assert tab_numbers(payments.page()) == numbers
    assert tab_numbers(payments.page(tab="failed")) == numbers
    for query, id_, word, exported in (
        ({"tab": "failed"}, declined["id"], "Declined", "DECLINED"),
        ({"status": "FAILED"}, declined["id"], "Declined", "DECLINED"),
        ({"tab": "refunded"}, refunded["id"], "Refund pending", "REFUND_PENDING"),
        (
            {"tab": "refunded", "status": "REFUND_PENDING"},
            refunded["id"],
            "Refund pending",
            "REFUND_PENDING",
        ),
    ):
        (row,) = payments.rows(**query, with_order="1", with_status="1")
        assert f"order_…{id_[-6:]}" in row, query
        assert word in row, query
        (line,) = payments.export(**query)
        assert (line["id"], line["paymentStatus"]) == (id_, exported)
        page = payments.visitor.get(f"{payments.path}/{id_}").text
        badges = text_of(page.partition('<p class="badges">')[2].partition("</p>")[0])
        assert word in badges
    for tab in ("succeeded", "closed", "canceled"):
        assert payments.rows(tab=tab) == []


def test_the_numbers_of_the_tabs_follow_the_search_and_the_other_filters(
    shop: Shop, monkeypatch: pytest.MonkeyPatch
) -> None:
    tea = shop.create_product(name="Tea")["id"]
    shop.create_paid_order(tea, customerEmail="ada@example.com")
    shop.create_order(customerEmail="ada@example.com")
    shop.create_order(customerEmail="bob@example.com")
    payments = PaymentsList(shop)
    for query, paid, unpaid in (
        ({}, "1", "2"),
        ({"query": "ada@example.com"}, "1", "1"),
        ({"query": "ada@example.com", "tab": "incomplete"}, "1", "1"),
        ({"query": "ada@example.com", "status": "PENDING"}, "1", "1"),
        ({"product": tea}, "1", "0"),
        ({"email": "bob@example.com"}, "0", "1"),
        ({"method": "BANK_TRANSFER"}, "1", "0"),
        ({"from": "2020-01-01"}, "1", "2"),
        ({"to": "2020-01-01"}, "0", "0"),
    ):
        numbers = tab_numbers(payments.page(**query))
        assert (numbers["Paid"], numbers["Not paid yet"]) == (paid, unpaid), query
        assert int(numbers["All"]) == int(paid) + int(unpaid), query
    monkeypatch.setattr(filters, "_MOST_GROUPED", 1)
    uncounted = tab_numbers(payments.page(query="ada@example.com", tab="incomplete"))
    assert set(uncounted.values()) == {""}
    assert tab_numbers(payments.page(query="ada@example.com"))["All"] == "2"  # all are on the page
    assert tab_numbers(payments.page(product=tea))["All"] == "1"


def test_a_search_without_a_match_leads_to_all_days_and_all_payments(shop: Shop) -> None:
    shop.create_order(customerEmail="ada@example.com")
    payments = PaymentsList(shop)
    page = payments.page(query="ada@example.com", tab="failed", to="2020-01-01")
    assert "No payments match “\u2068ada@example.com\u2069”." in page
    links = {
        text: html.unescape(address)
        for address, text in re.findall(r'<a class="button plain" href="([^"]*)">([^<]*)</a>', page)
    }
    assert links["Search in all days"] == f"{payments.path}?tab=failed&query=ada%40example.com"
    assert links["Search in all payments"] == (
        f"{payments.path}?to=2020-01-01&query=ada%40example.com"
    )
    assert links["Clear filters"] == payments.path
