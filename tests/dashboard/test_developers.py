"""The start page for developers: the API's address and the first tasks."""

from html import unescape

from dashboard.pages import text_of
from support.api_server import Shop
from support.people import create_person


def test_developers_see_which_first_steps_are_done(shop: Shop) -> None:
    developer = create_person(shop.api_server, shop.id, "developer")
    path = f"/dashboard/{shop.id}/developers"
    page = developer.get(path)
    assert f'value="{shop.api_server.app.settings.public_url}/v1"' in page.text
    text = text_of(page)
    assert "Create an API key Done" in text
    assert "Add a webhook endpoint Done" not in text
    assert f'href="{path}/webhooks?sheet=add"' in page.text
    shop.create_endpoint()
    shop.create_session()
    text = text_of(developer.get(path))
    assert "Add a webhook endpoint Done" in text
    assert "Create a checkout session Done" in text
    assert "Send a test event Done" not in text


def test_a_test_event_is_done_only_when_a_server_accepted_a_delivery(shop: Shop) -> None:
    server = shop.api_server
    developer = create_person(server, shop.id, "developer")
    path = f"/dashboard/{shop.id}/developers"
    endpoint_id = shop.create_endpoint()["id"]
    shop.create_paid_order()
    text = text_of(developer.get(path))
    assert "Send a test event Done" not in text
    assert "Failing" not in text
    deliveries = (
        "update webhook_deliveries set attempts = 1, status = $2,"
        " try_at = case when $2 = 'PENDING' then created_at end where merchant_id = $1"
    )
    for status, state in (("PENDING", "Failed"), ("FAILED", "Failed"), ("SUCCEEDED", "Done")):
        server.sql(deliveries, shop.id, status)
        page = developer.get(path)
        text = text_of(page)
        assert ("Failed The last delivery failed." in text) == (state == "Failed"), status
        failed = int(state == "Failed")
        assert f"Last 7 days Deliveries 2 Last 7 days Failed {2 * failed} " in text, status
        assert "Newest API errors View all No API errors in the last 7 days." in text
        assert f"Delivered: {2 - 2 * failed} · Failed: {2 * failed}" in text, status
        assert ("Get started · all done" in text) == (not failed), status
        assert ("Send a test event Done" in text) == (state == "Done"), status
        assert f'href="{path}/webhooks/{endpoint_id}"' in page.text


def test_api_errors_are_counted_by_who_caused_them_and_listed(shop: Shop) -> None:
    server = shop.api_server
    developer = create_person(server, shop.id, "developer")
    path = f"/dashboard/{shop.id}/developers"
    shop.create_endpoint()
    shop.create_paid_order()
    assert shop.get("/v1/orders/order_unknown").status_code == 404
    server.run(server._server.state.refused.write(server.app.db))
    text = text_of(developer.get(path))
    assert "API errors 1 Last 7 days" in text
    assert "Newest API errors View all GET /v1/orders/order_unknown" in text
    server.sql("update refused_requests set status = 500 where merchant_id = $1", shop.id)
    text = text_of(developer.get(path))
    assert "API errors 1 1 by the server (5xx)" in text


def test_the_sample_exists_in_three_languages_and_names_the_key(shop: Shop) -> None:
    developer = create_person(shop.api_server, shop.id, "developer")
    page = developer.get(f"/dashboard/{shop.id}/developers")
    text = text_of(page)
    for part in ("curl http", ".checkouts.create(", "await fetch("):
        assert part in unescape(page.text), part
    hint = shop.api_server.sql("select hint from api_keys where merchant_id = $1", shop.id)
    assert f"Put your key {hint[0]['hint']} into the environment variable" in text
    assert page.text.count('type="radio" name="sample"') == 3


def test_support_sees_no_step_of_a_page_that_it_may_not_open(shop: Shop) -> None:
    support = create_person(shop.api_server, shop.id, "support")
    text = text_of(support.get(f"/dashboard/{shop.id}/developers"))
    assert "Create an API key" not in text
    assert "Add a webhook endpoint" in text


def test_the_menu_leads_to_epay_and_the_api_reference(shop: Shop) -> None:
    developer = create_person(shop.api_server, shop.id, "developer")
    page = developer.get(f"/dashboard/{shop.id}/developers/epay").text
    menu = page[page.index('<nav class="menu"') :]
    assert f'href="/dashboard/{shop.id}/developers/epay" aria-current="page"' in menu
    assert 'href="/docs"' in menu
