"""When a webhook endpoint is failing, how its page says why, and what ends it."""

import re

from dashboard.pages import new_form_id, text_of
from dashboard.receivers import dispatch, path_of, run_receiver
from support.api_server import ApiServer
from support.people import create_person


def test_an_endpoint_is_failing_from_its_first_failed_attempt_on(sending_server: ApiServer) -> None:
    shop = sending_server.create_shop()
    developer = create_person(sending_server, shop.id, "developer")
    with run_receiver(sending_server) as receiver:
        endpoint_id = shop.create_endpoint(url=receiver.url, events=["order.paid"])["id"]
        other_order = sending_server.create_shop().create_paid_order()
        for _ in range(3):
            shop.create_paid_order()
            dispatch(shop, 1)
        places = [f"/dashboard/{shop.id}/", path_of(shop, "")]
        failing = "1 webhook endpoint is failing"
        assert [failing in text_of(developer.get(place)) for place in places] == [False, False]
        order = shop.create_paid_order()
        receiver.behave = lambda _: 503
        dispatch(shop, 4)
        assert [failing in text_of(developer.get(place)) for place in places] == [True, True]
        page = text_of(developer.get(path_of(shop, "webhooks")))
        assert "Failed 1 of 4" in page
        assert "Failing" in page
        assert re.search(r"Last delivery [^<]* Retrying Failed", page)
        endpoint_path = path_of(shop, "webhooks", endpoint_id)
        page = text_of(developer.get(endpoint_path))
        figures = "Deliveries 4 Last 7 days Failed 1 25.0% of deliveries · Retrying: 1 Response"
        assert figures in page
        assert "Failing http" in page
        assert re.search(r"not delivered\. The server responded with HTTP 503 .* Send now", page)
        assert re.search(r"\d ms Median of attempts", page)
        # The id of a payment finds its deliveries, and that of another merchant's finds none.
        for query, number in ((order["id"], 1), (other_order["id"], 0)):
            page = text_of(developer.get(endpoint_path, params={"query": query}))
            assert page.count("Payment succeeded order.paid Retrying") == number, query
        for type_, number in (("order.paid", 3), ("payout.paid", 0)):
            page = text_of(developer.get(endpoint_path, params={"type": type_}))
            assert page.count("Payment succeeded order.paid Delivered") == number, type_
        # Deliveries that wait behind many others of a failing endpoint do not make it look healthy.
        sending_server.sql(
            "update webhook_deliveries set status = 'PENDING', attempts = 0, step = 0,"
            " try_at = created_at + 86400000 where merchant_id = $1",
            shop.id,
        )
        assert failing in text_of(developer.get(path_of(shop, "")))


def test_a_test_event_that_the_server_accepts_ends_the_failure(sending_server: ApiServer) -> None:
    shop = sending_server.create_shop()
    developer = create_person(sending_server, shop.id, "developer")
    with run_receiver(sending_server) as receiver:
        endpoint_id = shop.create_endpoint(url=receiver.url, events=["order.paid"])["id"]
        endpoint_path = path_of(shop, "webhooks", endpoint_id)
        shop.create_paid_order()
        dispatch(shop, 1)
        shop.create_paid_order()
        receiver.behave = lambda _: 503
        dispatch(shop, 2)
        assert "Failing http" in text_of(developer.get(endpoint_path))
        # A test that the server accepts ends the state; it is counted apart.
        receiver.behave = lambda _: 200
        developer.post(f"{endpoint_path}/test", {"form_id": new_form_id(developer, endpoint_path)})
        dispatch(shop, 3)
        html = developer.get(endpoint_path)
        page = text_of(html)
        assert "Failing http" not in page
        assert "Send now" not in page
        # What failed is sent again at once, because the server accepted the test.
        assert "Deliveries 2 Test events, not counted: 1 Failed 0 0.0%" in page
        assert "Median of attempts, with test events" in page
        # The delivery with the newest attempt is the first of the list.
        log = page.partition("Event Status Response Time")[2]
        assert log.lstrip().startswith(
            "Payment succeeded order.paid Delivered Attempts: 2 HTTP 200"
        )
        assert "endpoint is failing" not in text_of(developer.get(path_of(shop, "")))
        form = {"form_id": new_form_id(developer, endpoint_path)}
        oldest = re.findall(r'name="event" value="(evt_\w+)"', html.text)[-1]
        developer.post(f"{endpoint_path}/resend", form | {"event": oldest})
        dispatch(shop, 4)
        log = text_of(developer.get(endpoint_path)).partition("Event Status Response Time")[2]
        assert log.lstrip().startswith("Payment succeeded order.paid Delivered Attempts: 2")
