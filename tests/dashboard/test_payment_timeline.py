"""The timeline on the page of a payment, and the events that it can resend."""

import itertools
import re
from typing import Any

from dashboard.pages import text_of
from dashboard.payment_pages import (
    MINUTE,
    EventfulOrder,
    event_types,
    find_order,
    hidden_fields,
    ledger_rows,
    list_refunds,
    page_path,
    section_of,
    timeline_titles,
)
from opentill import disputes, orders
from opentill.core.ids import new_id
from opentill.core.money import Money
from opentill.db.clock import now_ms
from opentill.db.database import Tx
from opentill.gateways.model import RefundOutcome
from opentill.merchants import Actor
from support import world
from support.api_server import Shop
from support.people import create_person


def test_the_timeline_shows_what_happened_newest_first_and_no_bookkeeping(
    shop: Shop, clock: Any
) -> None:
    eventful_order = EventfulOrder(shop, clock)
    eventful_order.fail_deliveries()
    page = create_person(shop.api_server, shop.id, "owner").get(page_path(shop, eventful_order.id))
    assert timeline_titles(page) == [
        "Correction by the operator: +$0.50",
        "Dispute won: $15.00",
        "Dispute of $15.00 opened",
        "Settled: the money is available",
        "The refund of $1.00 failed; the money is back in the balance",
        "Refund of $1.00",
        "The bank confirmed the refund of $5.00",
        "Refund of $5.00",
        "Paid: Card",  # with its attempt, since both were in one minute
        "The attempt was declined",
        "Payment attempt: Card",
        "Checkout session opened for $20.00",
    ]
    (timeline,) = re.findall(r'<ol class="timeline">.*?</ol>', page.text, re.DOTALL)
    assert not re.search(r"\b(txn|evt|att|re)_[0-9a-z]{14,}", timeline)
    assert ledger_rows(page) == [
        "Correction +$0.50 Available $14.70",
        "Released $15.00 from On hold to Available $0.00 Available $14.20 On hold $0.00",
        "Held for dispute $15.00 from Available to On hold $0.00 Available -$0.80 On hold $15.00",
        "Settlement $14.20 from Pending to Available $0.00 Pending $0.00 Available $14.20",
        "Failed refund returned +$1.00 Pending $14.20",
        "Refund -$1.00 Pending $13.20",
        "Refund -$5.00 Pending $14.20",
        "Held for refund $5.00 from Pending to On hold $0.00 Pending $14.20 On hold $5.00",
        "Fee -$0.80 Pending $19.20",
        "Payment +$20.00 Pending $20.00",
    ]
    assert event_types(page) == [
        "dispute.closed",
        "dispute.created",
        "order.settled",
        "refund.failed",
        "order.refunded",
        "checkout.completed",
        "order.paid",
    ]
    references = section_of(page, "IDs and references")
    assert all(
        f'data-value="{one["id"]}"' in references for one in list_refunds(shop, eventful_order.id)
    )
    page_text = text_of(page)
    for text in (
        "There was not enough money on the account or card.", "insufficient_funds",
        "one cup broken", "RMA-7", "card closed", "cart A-7", "n 2", "Blue &lt;teapot&gt;",
        "ann@example.com", "HTTP 503", "Send again", "https://shop.example.com/hook",
        "Times are in UTC.", "Fee (4%) -$0.80", "Arrives Usually",
        "Net $19.20", "Net after refunds $14.20 The platform fee is not refunded.",
    ):  # fmt: skip
        assert text in page_text, text
    assert "unsafe" not in page.headers["content-security-policy"]
    assert not re.search(r"<script(?! src=)|\sstyle=|\son\w+=", page.text)


def test_late_reports_are_in_the_timeline_at_the_time_of_their_arrival(
    shop: Shop, clock: Any
) -> None:
    order = find_order(shop, shop.create_order(shop.create_product(price="20.00")["id"])["id"])
    start = now_ms()

    async def pay_refund_and_dispute(tx: Tx) -> None:
        times = (start + number * MINUTE for number in itertools.count(1))
        declined = await world.submit_attempt(tx, order, next(times))
        await world.report_payment(tx, declined, "DECLINED", next(times))
        duplicate = await world.pay_order_twice(tx, order, next(times))
        await world.report_payment(tx, declined, "SUCCEEDED", next(times), amount=Money(1, "USD"))
        outcome = RefundOutcome(status="REFUSED")
        await orders.apply_duplicate_return(tx, duplicate, outcome, next(times))
        await world.report_dispute(tx, order, "LOST", next(times))
        await world.report_dispute(tx, order, "RECOVERED", next(times))
        await orders.add_note(tx, order.merchant_id, order.id, "good", "ann", next(times))
        (dispute,) = await disputes.list_for_order(tx, order.merchant_id, order.id)
        await disputes.add_note(tx, dispute.merchant_id, dispute.id, "done", "ann", next(times))
        clock(next(times))

    shop.api_server.tx(pay_refund_and_dispute)
    timeline = timeline_titles(
        create_person(shop.api_server, shop.id, "owner").get(page_path(shop, order.id))
    )
    expected = [
        "Note by the operator",
        "Recovered after the loss: $20.00",
        "Dispute lost: $20.00",
        "The second payment could not be refunded; the operator takes care of it",
        "The bank reports another amount than the one due",
        "A second payment of $20.00 arrived and will be refunded",
        "The attempt was declined",
    ]
    assert [line for line in timeline if line in expected] == expected, timeline


def test_the_timeline_shows_a_duplicate_payment_that_was_returned_manually(
    shop: Shop, clock: Any
) -> None:
    order = find_order(shop, shop.create_order(shop.create_product(price="20.00")["id"])["id"])
    start = now_ms()

    async def return_duplicate_payment(tx: Tx) -> None:
        times = (start + number * MINUTE for number in itertools.count(1))
        duplicate = await world.pay_order_twice(tx, order, next(times))
        for outcome in (RefundOutcome(status="SUCCEEDED"), RefundOutcome(status="REFUSED")):
            await orders.apply_duplicate_return(tx, duplicate, outcome, next(times))
        ids, actor = (order.merchant_id, order.id, duplicate.id), Actor("ann", "by a transfer")
        await orders.record_duplicate_return(tx, *ids, actor, next(times), reporting=())
        clock(next(times))

    shop.api_server.tx(return_duplicate_payment)
    timeline = timeline_titles(
        create_person(shop.api_server, shop.id, "owner").get(page_path(shop, order.id))
    )
    expected = [
        "The second payment of $20.00 was refunded",
        "The second payment could not be refunded; the operator takes care of it",
    ]
    assert [line for line in timeline if line in expected] == expected, timeline


def test_the_timeline_shows_events_although_the_clock_was_moved_ahead(
    shop: Shop, clock: Any
) -> None:
    start = now_ms()
    order = shop.create_paid_order()
    clock(start + 400 * world.DAY)
    shop.refund(order["id"], amount="1.00")
    clock(start + 900 * world.DAY)
    page = create_person(shop.api_server, shop.id, "owner").get(page_path(shop, order["id"]))
    assert "order.paid" in event_types(page)
    other_order = shop.create_paid_order()
    assert other_order["id"] not in page.text


def test_a_form_resends_an_event_unless_it_is_stale(shop: Shop, clock: Any) -> None:
    eventful_order = EventfulOrder(shop, clock)
    eventful_order.fail_deliveries()
    developer = create_person(shop.api_server, shop.id, "developer")
    action = page_path(shop, eventful_order.id, "resend")
    form = hidden_fields(developer.get(page_path(shop, eventful_order.id)), action)
    sql = "select status, attempts from webhook_deliveries where event_id = $1"
    response = developer.post(action, form)
    assert (
        response.headers["location"]
        == f"{page_path(shop, eventful_order.id)}?resent=1#{form['event']}"
    )
    assert shop.api_server.sql(sql, form["event"]) == [{"status": "PENDING", "attempts": 1}]
    conflict = developer.post(action, form | {"attempts": "0"})
    assert "resent=0" in conflict.headers["location"]
    other_endpoint = shop.api_server.create_shop().create_endpoint()["id"]
    assert (
        developer.post(action, form | {"endpoint": other_endpoint, "attempts": "0"}).status_code
        == 404
    )
    assert developer.post(action, form | {"event": new_id("evt")}).status_code == 404
    shop.data(
        "PATCH", f"/v1/webhook-endpoints/{eventful_order.endpoint}", json={"status": "DISABLED"}
    )
    disabled = developer.post(action, form)
    assert disabled.status_code == 409
    assert "This endpoint is disabled" in text_of(disabled)


def test_the_timeline_offers_no_event_to_an_endpoint_that_was_created_later(shop: Shop) -> None:
    order = shop.create_paid_order()
    endpoint = shop.create_endpoint()
    shop.api_server.sql(
        "update webhook_endpoints set created_at = created_at + 1000 where id = $1", endpoint["id"]
    )
    developer = create_person(shop.api_server, shop.id, "developer")
    page = developer.get(page_path(shop, order["id"])).text
    assert "No endpoint was notified of it." in page
    assert endpoint["url"] not in page
    (event,) = shop.data("GET", "/v1/events", params={"type": "order.paid"})["items"]
    page = developer.get(f"/dashboard/{shop.id}/developers/events/{event['id']}").text
    assert "The endpoint was added after this event." in page


def test_the_fee_of_a_refunded_payment_is_one_movement_with_plain_words(shop: Shop) -> None:
    order_id = shop.create_paid_order()["id"]
    refund = shop.refund(order_id)
    shop.report_refund(refund["id"])

    async def carry_over(tx: Tx) -> None:
        await world.settle_order(tx, await orders.find(tx, shop.id, order_id), now_ms())

    shop.api_server.tx(carry_over)
    page = create_person(shop.api_server, shop.id, "owner").get(page_path(shop, order_id))
    titles = timeline_titles(page)
    assert "Fee of $0.40 taken from the available balance" in titles
    # The bank confirmed the refund within a minute, so that both are one item.
    assert "Refund of $9.99" in titles
    assert [title for title in titles if "confirmed" in title] == []
    assert "Arrives Usually" in text_of(page)
    rows = ledger_rows(page)
    assert [row for row in rows if "Released" in row or "Held for refund or dispute" in row] == []
    (fee,) = [row for row in rows if row.startswith("Fee taken from the available balance")]
    assert "$0.40 from Available to Pending $0.00" in fee
