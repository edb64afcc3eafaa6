"""The pages of events: what the rows lead to, and the search by the id of an event or a payment."""

import re

from dashboard.pages import new_form_id, text_of
from opentill import orders, payouts
from support.api_server import Shop
from support.people import Visitor, create_person


def read_events(visitor: Visitor, shop: Shop, **query: str) -> str:
    response = visitor.get(f"/dashboard/{shop.id}/developers/events", params=query)
    assert response.status_code == 200, response.text
    return response.text


def event_ids(html: str) -> list[str]:
    return re.findall(r'class="row-link" href="[^"]*/(evt_\w+)"', html)


def test_events_are_found_by_their_own_id_and_by_that_of_their_payment(shop: Shop) -> None:
    developer = create_person(shop.api_server, shop.id, "developer")
    order_id, other_id = (shop.create_paid_order()["id"] for _ in range(2))
    of_order = [
        event["id"]
        for event in shop.data("GET", "/v1/events?size=100")["items"]
        if event["data"].get("order_id") == order_id
    ]
    assert len(of_order) >= 2
    assert sorted(event_ids(read_events(developer, shop, query=order_id))) == sorted(of_order)
    assert event_ids(read_events(developer, shop, query=f" {of_order[0]} ")) == of_order[:1]
    assert len(event_ids(read_events(developer, shop))) > len(of_order)
    unknown = of_order[0][:-1] + ("z" if of_order[0][-1] != "z" else "y")
    for nothing in ("ann@example.com", unknown):
        html = read_events(developer, shop, query=nothing)
        assert "No events match these filters." in text_of(html)
    stranger = shop.api_server.create_shop()
    visitor = create_person(shop.api_server, stranger.id, "developer")
    for foreign in (other_id, of_order[0]):
        assert event_ids(read_events(visitor, stranger, query=foreign)) == []


def test_a_settled_payment_has_the_amount_that_the_balance_shows(shop: Shop) -> None:
    server, now = shop.api_server, shop.api_server.app.clock()
    order_id = shop.create_paid_order()["id"]
    server.tx(lambda tx: orders.settle_one(tx, shop.id, order_id, now, "test"))
    text = text_of(read_events(create_person(server, shop.id, "owner"), shop, type="order.settled"))
    assert "$9.59" in text
    assert "$9.99" not in text


def test_the_event_of_a_payout_leads_to_it_and_has_readable_times(shop: Shop) -> None:
    server, now = shop.api_server, shop.api_server.app.clock()
    payout = shop.create_payout(1100)
    server.tx(lambda tx: payouts.pay(tx, payout.id, "TRN-1", "sent", "op", now))
    owner = create_person(server, shop.id, "owner")
    html = read_events(owner, shop, type="payout.paid")
    link = f'href="/dashboard/{shop.id}/payouts/{payout.id}"'
    assert link in html
    (event_id,) = event_ids(html)
    page = owner.get(f"/dashboard/{shop.id}/developers/events/{event_id}").text
    assert link in page
    times = page.partition("Times in the payload")[2].partition("</dd>")[0]
    assert re.findall(r"<code[^>]*>(\w+)</code>", times) == ["created_at", "paid_at"]
    assert times.count("<time ") == 2


def test_the_page_of_an_event_waits_for_the_result_of_its_first_sending(shop: Shop) -> None:
    server = shop.api_server
    developer = create_person(server, shop.id, "developer")
    shop.create_paid_order()
    endpoint_id = shop.create_endpoint()["id"]  # added after the event
    (event_id, *_) = event_ids(read_events(developer, shop))
    path = f"/dashboard/{shop.id}/developers/events/{event_id}"
    form = {"form_id": new_form_id(developer, path), "endpoint": endpoint_id}
    (sent,) = {developer.post(f"{path}/resend", form).headers["location"] for _ in range(2)}
    assert sent == f"{path}?done=resent"
    page = developer.get(sent)
    assert "It is sent now." in page.text
    assert 'hx-select-oob="#results"' in page.text
    update = "update webhook_deliveries set {} where merchant_id = $1"
    server.sql(update.format("updated_at = updated_at - 60001"), shop.id)
    assert "hx-trigger" not in developer.get(sent).text  # polling ends without a result, too
    result = "status = 'SUCCEEDED', attempts = 1, try_at = null, updated_at = updated_at + 60001"
    server.sql(update.format(result), shop.id)
    page = developer.get(sent)
    assert "The event was sent. The results are below." in page.text
    assert "hx-trigger" not in page.text
    form = {"form_id": new_form_id(developer, path), "endpoint": endpoint_id}
    developer.post(f"{path}/resend", form)
    assert "It is sent again now." in developer.get(sent).text
