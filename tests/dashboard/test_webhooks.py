"""The pages of webhook endpoints and events, with a real receiver of the events."""

import re
from typing import Any

from dashboard.pages import hidden_field_values, new_form_id, text_of
from dashboard.receivers import dispatch, path_of, run_receiver
from support.api_server import ApiServer, Shop
from support.people import PASSWORD, create_person
from support.ports import free_port

URL = "https://shop.example.com/hook"
SHOWN_SECRET = r'id="secret"[^>]* value="(whsec_[\w+/=]+)"[^>]* data-copy'
MINUTE = 60_000


def test_submitting_a_form_twice_adds_one_endpoint(shop: Shop) -> None:
    owner = create_person(shop.api_server, shop.id, "owner")
    path = path_of(shop, "webhooks")
    form = {"form_id": new_form_id(owner, path), "url": URL, "description": "Fulfilment",
            "type_order.paid": "on"}  # fmt: skip
    responses = [owner.post(path, form) for _ in range(2)]  # a double click submits the form twice
    assert responses[0].status_code == 303
    endpoint_path = responses[0].headers["location"]
    assert responses[1].headers["location"] == endpoint_path
    (endpoint,) = shop.data("GET", "/v1/webhook-endpoints")["items"]
    assert (endpoint["url"], endpoint["description"]) == (URL, "Fulfilment")
    assert endpoint["events"] == ["order.paid"]
    page = owner.get(endpoint_path)
    assert "“Show secret” below shows its signing secret" in page.text
    assert not re.search(r"whsec_\w", page.text)
    # If the browser goes back and sends the used form with another URL, the form is refused and
    # shown again.
    refusal = owner.post(path, form | {"url": f"{URL}/2"})
    assert refusal.status_code == 409
    assert "has added an endpoint already" in refusal.text
    assert f'value="{URL}/2"' in refusal.text
    assert hidden_field_values(refusal, "form_id")[0] != form["form_id"]
    assert len(shop.data("GET", "/v1/webhook-endpoints")["items"]) == 1
    (row,) = shop.api_server.sql(
        "select who from audit_log where merchant_id = $1 and action = 'webhooks add'", shop.id
    )
    assert row["who"] == f"{owner.email} ({owner.person_id})"


def test_the_hint_asks_for_https_only_where_http_is_refused(
    shop: Shop, sending_server: ApiServer
) -> None:
    open_shop = sending_server.create_shop()
    for any_shop, needs_https in ((shop, True), (open_shop, False)):
        owner = create_person(any_shop.api_server, any_shop.id, "owner")
        endpoint_id = any_shop.create_endpoint()["id"]
        for path in (path_of(any_shop, "webhooks"), path_of(any_shop, "webhooks", endpoint_id)):
            page = text_of(owner.get(path))
            assert ("Must begin with https://" in page) == needs_https
            assert ("accepts http:// too" in page) != needs_https


INVALID_ENTRIES: Any = (
    ({"url": "http://shop.example.com/"}, "The URL must be a public https address"),
    ({"url": "https://127.0.0.1/"}, "The URL must be a public https address"),
    ({"url": "https://shop.example.com:9/"}, "The URL must have a port of web servers, such as"),
    ({"url": "https://me:pw@shop.example.com/"}, "without user name and password"),
    ({"url": "shop.example.com"}, "an absolute http or https URL"),
    ({"url": URL, "description": "x" * 256}, "Enter at most 255 characters"),
)


def test_each_field_of_an_endpoint_shows_its_error_and_keeps_its_input(shop: Shop) -> None:
    owner = create_person(shop.api_server, shop.id, "owner")
    endpoint_id = shop.create_endpoint()["id"]
    for path in (path_of(shop, "webhooks"), path_of(shop, "webhooks", endpoint_id)):
        form_id = new_form_id(owner, path)
        for entries, error in INVALID_ENTRIES:
            form = {
                "form_id": form_id,
                "events": "selected",
                "type_payout.paid": "on",
                "seen_at": "1",
                **entries,
            }
            page = owner.post(path, form)
            assert page.status_code == 400, entries
            assert error in page.text
            assert 'aria-invalid="true"' in page.text
            assert f'value="{entries["url"]}"' in page.text
            assert 'name="type_payout.paid" checked' in page.text
    assert shop.data("GET", f"/v1/webhook-endpoints/{endpoint_id}")["events"] == []
    page = owner.post(
        path_of(shop, "webhooks"),
        {"form_id": form_id, "url": "x", "events": "all"},
        params={"lang": "zh-Hans"},
    )
    assert "网址无效" in page.text


def test_selected_events_need_a_selection_and_all_events_ignore_it(shop: Shop) -> None:
    owner = create_person(shop.api_server, shop.id, "owner")
    path = path_of(shop, "webhooks")
    form = {"form_id": new_form_id(owner, path), "url": URL, "events": "selected"}
    refusal = owner.post(path, form)
    assert refusal.status_code == 400
    assert "Select at least one event, or all events" in refusal.text
    assert 'value="selected" checked' in refusal.text
    endpoint_path = owner.post(path, form | {"type_payout.paid": "on"}).headers["location"]
    assert shop.data("GET", "/v1/webhook-endpoints")["items"][0]["events"] == ["payout.paid"]
    assert "Payout paid" in text_of(owner.get(path))
    endpoint_path = endpoint_path.partition("?")[0]
    (seen_at,) = hidden_field_values(owner.get(endpoint_path), "seen_at")
    change = {"seen_at": seen_at, "url": URL, "events": "all", "type_payout.paid": "on"}
    assert owner.post(endpoint_path, {**change, "events": "selected", "type_payout.paid": "on"}
    ).status_code == 303  # fmt: skip
    (seen_at,) = hidden_field_values(owner.get(endpoint_path), "seen_at")
    assert owner.post(endpoint_path, change | {"seen_at": seen_at}).status_code == 303
    assert shop.data("GET", "/v1/webhook-endpoints")["items"][0]["events"] == []


def test_a_url_that_was_entered_is_sent_a_test(shop: Shop) -> None:
    owner = create_person(shop.api_server, shop.id, "owner")
    list_path = path_of(shop, "webhooks")
    form = {"form_id": new_form_id(owner, list_path), "url": URL, "events": "all"}
    location = owner.post(list_path, form).headers["location"]
    assert re.fullmatch(rf"{list_path}/whe_\w+\?done=added&test=evt_\w+", location)
    assert owner.post(list_path, form).headers["location"] == location  # one test, however often
    assert "It is being sent. The result appears here." in text_of(owner.get(location))
    path, url = location.partition("?")[0], f"{URL}/2"
    for pattern in (r"\?done=changed&test=evt_\w+", r"\?done=changed"):
        (seen_at,) = hidden_field_values(owner.get(path), "seen_at")
        changed = owner.post(path, form | {"seen_at": seen_at, "url": url})
        assert re.fullmatch(path + pattern, changed.headers["location"])


def test_a_stale_form_does_not_overwrite_the_endpoint(shop: Shop) -> None:
    owner = create_person(shop.api_server, shop.id, "owner")
    endpoint_id = shop.create_endpoint()["id"]
    path = path_of(shop, "webhooks", endpoint_id)
    (seen_at,) = hidden_field_values(owner.get(path), "seen_at")
    form = {"seen_at": seen_at, "url": URL, "events": "all", "description": "Mine"}
    for _ in range(2):
        assert owner.post(path, form).headers["location"] == f"{path}?done=changed"
    conflict = owner.post(path, form | {"description": "Theirs"})
    assert conflict.status_code == 409
    assert "Somebody has changed this endpoint meanwhile" in conflict.text
    assert 'value="Theirs"' in conflict.text
    assert shop.data("GET", f"/v1/webhook-endpoints/{endpoint_id}")["description"] == "Mine"
    (seen_at,) = hidden_field_values(conflict, "seen_at")
    assert owner.post(path, form | {"description": "Theirs", "seen_at": seen_at}).status_code == 303


def test_an_endpoint_can_be_disabled_enabled_and_removed(shop: Shop) -> None:
    owner, viewer = (create_person(shop.api_server, shop.id, role) for role in ("owner", "viewer"))
    list_path = path_of(shop, "webhooks")
    path = path_of(shop, "webhooks", shop.create_endpoint()["id"])
    owner.post(f"{path}/status", {"status": "DISABLED"})
    for page in (viewer.get(path), viewer.get(list_path)):
        assert "It was switched off · last changed" in text_of(page)
        assert 'method="post"' not in page.text.partition("<main")[2]
    assert "disabled: enable it first" in owner.post(
        f"{path}/test", {"form_id": new_form_id(owner, path)}
    ).text  # fmt: skip
    owner.post(f"{path}/status", {"status": "ENABLED"})
    assert "It was switched off" not in viewer.get(path).text
    form = {"form_id": new_form_id(owner, path), "confirm": "shop.example.org"}
    refusal = owner.post(f"{path}/remove", form)
    assert refusal.status_code == 400
    assert 'value="shop.example.org"' in refusal.text
    for _ in range(2):
        removed = owner.post(f"{path}/remove", form | {"confirm": "shop.example.com"})
        assert removed.headers["location"] == f"{list_path}?done=removed"
    assert owner.get(path).status_code == 404
    assert "No endpoints yet" in owner.get(list_path).text


def test_a_wrong_host_is_refused_before_the_password_is_asked_for(shop: Shop, clock: Any) -> None:
    owner = create_person(shop.api_server, shop.id, "owner")
    path = path_of(shop, "webhooks", shop.create_endpoint()["id"])
    form = {"form_id": new_form_id(owner, path)}
    clock(shop.api_server.app.clock() + 11 * MINUTE)  # the proof of the login has expired
    refusal = owner.post(f"{path}/remove", form | {"confirm": "shop.example.org"})
    assert refusal.status_code == 400
    assert "Type the host exactly as it is shown" in refusal.text
    assert "proof_password" not in refusal.text
    confirmed = form | {"confirm": "shop.example.com"}
    assert 'name="proof_password"' in owner.post(f"{path}/remove", confirmed).text
    assert owner.get(path).status_code == 200
    proved = confirmed | {"proof_password": PASSWORD}
    assert owner.post(f"{path}/remove", proved).status_code == 303
    assert owner.get(path).status_code == 404


def test_a_form_without_events_reports_a_wrong_url_as_well(shop: Shop) -> None:
    owner = create_person(shop.api_server, shop.id, "owner")
    path = path_of(shop, "webhooks")
    form = {"form_id": new_form_id(owner, path), "url": "ftp://shop.example.com",
            "events": "selected"}  # fmt: skip
    page = text_of(owner.post(path, form))
    assert "The URL must be" in page
    assert "Select at least one event, or all events" in page
    endpoint = shop.create_endpoint()
    path = path_of(shop, "webhooks", endpoint["id"])
    form = {"seen_at": "0", "url": "ftp://shop.example.com", "events": "selected"}
    page = text_of(owner.post(path, form))
    assert "The URL must be" in page
    assert "Select at least one event, or all events" in page


def test_showing_the_secret_needs_a_step_up(shop: Shop, clock: Any) -> None:
    owner = create_person(shop.api_server, shop.id, "owner")
    endpoint = shop.create_endpoint()
    path = path_of(shop, "webhooks", endpoint["id"])
    assert endpoint["secret"] in owner.post(f"{path}/secret").text
    assert "Replace the signing secret?" in owner.get(path).text
    form = {"form_id": new_form_id(owner, path)}
    pages = [owner.post(f"{path}/rotate", form) for _ in range(2)]  # the second one changes nothing
    new_secrets = {secret for page in pages for secret in re.findall(SHOWN_SECRET, page.text)}
    assert len(new_secrets) == 1
    assert all("The secret was replaced." in page.text for page in pages)
    assert all("Nothing was sent to this endpoint yet." in page.text for page in pages)
    clock(shop.api_server.app.clock() + 11 * MINUTE)
    step_up = owner.post(f"{path}/secret")
    assert re.search(r'name="proof_password"[^>]* autofocus', step_up.text)
    assert "<strong>Show the signing secret</strong>" in step_up.text
    assert "whsec_" not in step_up.text
    page = owner.post(f"{path}/secret", {"proof_password": PASSWORD})
    assert set(re.findall(SHOWN_SECRET, page.text)) == new_secrets != {endpoint["secret"]}
    rows = shop.api_server.sql(
        "select action from audit_log where merchant_id = $1 and subject = $2 order by number",
        shop.id, endpoint["id"],
    )  # fmt: skip
    assert [row["action"] for row in rows] == [
        "webhooks reveal", "webhooks rotate", "webhooks reveal", "webhooks reveal",
        "webhooks reveal",
    ]  # fmt: skip


def test_a_test_event_is_sent_and_its_result_is_shown(sending_server: ApiServer) -> None:
    shop = sending_server.create_shop()
    developer = create_person(sending_server, shop.id, "developer")
    with run_receiver(sending_server) as receiver:
        endpoint = shop.create_endpoint(url=receiver.url, events=["payout.paid"])
        path = path_of(shop, "webhooks", endpoint["id"])
        form = {"form_id": new_form_id(developer, path)}
        (result_url,) = {developer.post(f"{path}/test", form).headers["location"] for _ in range(2)}
        assert result_url.startswith(f"{path}?test=evt_")
        page = developer.get(result_url)
        assert "It is being sent" in page.text
        assert re.search(r'id="test"[^>]* hx-trigger="every 1s"', page.text)
        assert '<noscript><meta http-equiv="refresh" content="2;url=' in page.text
        receiver.behave = lambda _: 503
        dispatch(shop, 1)
        page = developer.get(result_url)
        assert "Your server did not accept it. A test event is sent only once." in text_of(page)
        assert "The server responded with HTTP 503 in" in page.text
        endpoints = text_of(developer.get(path_of(shop, "webhooks")))
        assert "Last delivery" in endpoints
        assert "Failing" not in endpoints  # test events do not count
        assert re.search(r"Last delivery [^<]* Failed · Test event –", endpoints)
        overview = text_of(developer.get(path))
        assert "Deliveries 0 Test events, not counted: 1 Failed 0 No deliveries of" in overview
        assert "http-equiv" not in page.text
        assert "hx-trigger" not in page.text  # the polling has ended
        receiver.behave = lambda _: 200
        form = {"form_id": new_form_id(developer, path)}
        second_result_url = developer.post(f"{path}/test", form).headers["location"]
        dispatch(shop, 2)
        assert "Your server accepted it" in developer.get(second_result_url).text
        assert len(receiver.received) == 2
        assert '"test":true' in receiver.received[1].body.decode()
        failed = text_of(developer.get(path, params={"status": "FAILED"}))
        assert failed.count("Test event webhook.test Failed HTTP 503 in") == 1
        assert "Test event webhook.test Delivered" not in failed
        pending = text_of(developer.get(path, params={"status": "PENDING"}))
        assert "No deliveries match these filters." in pending
        assert "Delivered" in text_of(developer.get(path_of(shop, "webhooks")))
        closed = f"http://127.0.0.1:{free_port()}/hook"
        path = path_of(shop, "webhooks", shop.create_endpoint(url=closed)["id"])
        form = {"form_id": new_form_id(developer, path)}
        result_url = developer.post(f"{path}/test", form).headers["location"]
        dispatch(shop, 3)
        page = text_of(developer.get(result_url))
        assert "The server refused the connection." in page
        assert "Your server could not be reached." in page
        assert "Error" not in page
    assert not shop.data("GET", "/v1/events")["items"]


def test_deliveries_and_events_are_shown_and_can_be_resent(sending_server: ApiServer) -> None:
    shop, other_shop = sending_server.create_shop(), sending_server.create_shop()
    support = create_person(sending_server, shop.id, "support")
    with run_receiver(sending_server) as receiver:
        endpoint_id = shop.create_endpoint(url=receiver.url, events=["order.paid"])["id"]
        shop.create_endpoint(url=f"{receiver.url}/other", events=["order.paid"])
        order = shop.create_paid_order(customerEmail="ada@example.com")
        attempts = 2
        dispatch(shop, attempts)
        path = path_of(shop, "webhooks", endpoint_id)
        page = support.get(path)
        assert "Payment succeeded order.paid Delivered HTTP 200" in text_of(page)
        assert "HTTP 200" in page.text
        assert "webhook-signature: v1," in page.text
        assert f"&#34;order_id&#34;: &#34;{order['id']}&#34;" in page.text
        assert (
            "No deliveries match these filters."
            in support.get(path, params={"status": "FAILED"}).text
        )
        assert (
            "No deliveries match these filters."
            in support.get(path, params={"to": "2020-01-31"}).text
        )
        wrong_day = support.get(path, params={"from": "soon"}).text
        assert "Enter a day as" in wrong_day
        assert "<dialog" not in wrong_day  # the forms of the endpoint stay closed
        assert "Nothing sent yet" not in support.get(path_of(shop, "webhooks")).text
        assert "Failed 0 of 1" in text_of(support.get(path_of(shop, "webhooks")))
        events = support.get(path_of(shop, "events"), params={"type": "order.paid"})
        assert "Payment succeeded" in text_of(events)
        assert "order.paid ada@example.com" in text_of(events)
        assert "Delivered" in text_of(events)
        (event_id,) = re.findall(r"developers/events/(evt_\w+)\"", events.text)
        assert order["id"] in events.text
        assert "<code>checkout.completed</code>" not in events.text
        event_path = path_of(shop, "events", event_id)
        page = support.get(event_path)
        assert f"&#34;{order['id']}&#34;" in page.text
        assert "Send this event to all 2 endpoints?" in page.text
        ids = hidden_field_values(page, "form_id")
        for form, deliveries in (
            ({"form_id": ids[0], "endpoint": endpoint_id}, 1),
            ({"form_id": ids[1]}, 2),
        ):
            for _ in range(2):  # a double click submits the form twice
                response = support.post(f"{event_path}/resend", form)
                assert response.headers["location"].endswith("resent")
            attempts += deliveries
            dispatch(shop, attempts)
        form = {"form_id": new_form_id(support, path), "event": event_id}
        assert support.post(f"{path}/resend", form).headers["location"] == f"{path}?done=resent"
        dispatch(shop, attempts + 1)
        assert [delivery.event_id for delivery in receiver.received] == [event_id] * 6
    stranger = create_person(sending_server, other_shop.id, "owner")
    assert stranger.get(path_of(other_shop, "events", event_id)).status_code == 404
    assert stranger.get(path_of(other_shop, "webhooks", endpoint_id)).status_code == 404
    other_path = path_of(other_shop, "webhooks", other_shop.create_endpoint(url=receiver.url)["id"])
    form = {"form_id": new_form_id(stranger, other_path), "event": event_id}
    assert stranger.post(f"{other_path}/resend", form).status_code == 400
