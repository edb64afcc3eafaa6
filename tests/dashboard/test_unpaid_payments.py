"""What the pages of a payment and its session say of a payment that is not paid."""

import re
from functools import partial
from typing import Any

from dashboard.pages import text_of
from opentill import checkouts, orders
from support import world
from support.api_server import Shop
from support.people import create_person


def _decline(shop: Shop, order_id: str, status: str, reason: str) -> None:
    """Report an attempt that the bank has declined."""
    server = shop.api_server
    order = server.tx(partial(orders.find, merchant_id=shop.id, order_id=order_id))

    async def work(tx: Any) -> None:
        attempt = await world.submit_attempt(tx, order, server.app.clock())
        await world.report_payment(tx, attempt, status, server.app.clock(), reason=reason)

    server.tx(work)


def _open(shop: Shop) -> tuple[str, str]:
    """Open a session; return the ids of the session and its order."""
    session_id = shop.create_session()["id"]
    return session_id, shop.data("GET", f"/v1/checkouts/{session_id}")["orderId"]


def test_an_open_payment_shows_its_link_and_a_declined_attempt(shop: Shop) -> None:
    support = create_person(shop.api_server, shop.id, "support")
    session_id, order_id = _open(shop)
    paths = [
        f"/dashboard/{shop.id}/payments/{order_id}",
        f"/dashboard/{shop.id}/sessions/{session_id}",
    ]
    for path in paths:
        page = support.get(path)
        assert re.findall(r'readonly value="([^"]+)"', page.text) == [
            f"{shop.api_server.settings.public_url}/checkout/{session_id}"
        ]
        assert "The last attempt was declined" not in page.text
    _decline(shop, order_id, "DECLINED", "insufficient_funds")
    for path in paths:
        page = support.get(path)
        assert "readonly value" in page.text
        text = text_of(page)
        assert (
            "The last attempt was declined There was not enough money on the account or card. "
            "Ask the customer for another card or payment method. The customer can try again until"
            in text
        )
        assert "Create a new session" not in text
    assert "Payment method Card" in text_of(support.get(paths[0]))


def test_a_refused_payment_leads_to_a_new_session_for_the_same_customer(shop: Shop) -> None:
    support = create_person(shop.api_server, shop.id, "support")
    viewer = create_person(shop.api_server, shop.id, "viewer")
    shop.create_product(name="Newest product")
    session_id, order_id = _open(shop)
    product_id = shop.read_order(order_id)["productId"]
    shop.create_product(name="Newer product")
    _decline(shop, order_id, "REFUSED", "expired_card")
    for place in (f"payments/{order_id}", f"sessions/{session_id}"):
        page = support.get(f"/dashboard/{shop.id}/{place}")
        text = text_of(page)
        assert (
            "The payment was declined The card has expired. "
            "Ask the customer for another card or payment method. The payment page closed on"
        ) in text
        assert "readonly value" not in page.text
        link = re.search(r'href="([^"]*)">Create a new session', page.text)
        assert link
        form = support.get(link[1].replace("&amp;", "&")).text
        assert re.search(rf'<option value="{product_id}" selected>', form)
        assert 'value="ann@example.com"' in form
        assert "Create a new session" not in viewer.get(f"/dashboard/{shop.id}/{place}").text
    # The session has the status of its payment.
    page = support.get(f"/dashboard/{shop.id}/sessions")
    (row,) = [row for row in page.text.split("<tr role") if session_id in row]
    assert ">Declined</span>" in row
    shop.call("DELETE", f"/v1/products/{product_id}")
    assert (
        "Create a new session" not in support.get(f"/dashboard/{shop.id}/payments/{order_id}").text
    )


def test_a_payment_that_the_customer_left_has_one_ending(shop: Shop) -> None:
    owner = create_person(shop.api_server, shop.id, "owner")
    session_id, order_id = _open(shop)
    _decline(shop, order_id, "DECLINED", "canceled")
    path = f"/dashboard/{shop.id}/payments/{order_id}"
    text = text_of(owner.get(path))
    assert "Canceled by the customer" in text
    assert "The attempt" not in text
    (canceled_at,) = re.findall(r"Canceled by the customer ([A-Z]\w+ \d+.*? [AP]M)", text)
    server = shop.api_server

    async def end(tx: Any) -> None:
        session = await checkouts.find(tx, shop.id, session_id)
        await checkouts.expire(tx, shop.id, session_id, "24 hours are over", session.expires_at)

    server.tx(end)
    for page in (path, f"/dashboard/{shop.id}/sessions/{session_id}"):
        text = text_of(owner.get(page))
        assert (
            f"The customer canceled it on {canceled_at} and did not pay later. Nobody can pay it "
            "any more. Ask the customer whether something was unclear."
        ) in text
        assert "Declined" not in text
        assert "failed" not in text
    text = text_of(owner.get(path))
    assert text.count("Canceled by the customer") == 2  # the banner, and one item of the timeline
    assert "Could be paid until" in text
    assert "can no longer be paid" not in text
    page = owner.get(f"/dashboard/{shop.id}/payments?status=REVOKED")
    assert order_id in page.text
    assert order_id not in owner.get(f"/dashboard/{shop.id}/payments?status=FAILED").text


def test_a_payment_that_the_bank_has_is_shown_as_waiting(shop: Shop) -> None:
    owner = create_person(shop.api_server, shop.id, "owner")
    session_id, order_id = _open(shop)
    _decline(shop, order_id, "ACTION_REQUIRED", "")
    path = f"/dashboard/{shop.id}/payments/{order_id}"
    assert "Waiting for the bank" not in text_of(owner.get(path))  # the customer has to act
    _decline(shop, order_id, "PENDING", "")
    for page in (path, f"/dashboard/{shop.id}/sessions/{session_id}"):
        response = owner.get(page)
        assert '<span class="status status-creating">Waiting for the bank</span>' in response.text
        assert "Wait before you ask for another payment" in text_of(response)
        assert "Open the payment page" not in response.text
        assert '<details class="card more wide"><summary><h2>Checkout URL</h2>' in response.text
        assert "Not paid yet" not in text_of(response)
    for listed in (
        "/sessions", "/payments", "/payments?tab=incomplete", "/payments?status=PENDING",
        "/payments?status=CREATING", "/",
    ):  # fmt: skip
        rows = owner.get(f"/dashboard/{shop.id}{listed}").text.split("<tr role")
        (row,) = [row for row in rows if f"/{order_id}" in row or session_id in row]
        assert ">Waiting for the bank</span>" in row, listed
    html = owner.get(f"/dashboard/{shop.id}/payments").text
    options = re.findall(r'<option value="(\w+)"', html)
    assert "PENDING" in options
    assert "CREATING" not in options  # "Not paid yet" finds both


def test_failed_attempts_and_declined_payments_are_in_different_tabs(shop: Shop) -> None:
    owner = create_person(shop.api_server, shop.id, "owner")
    _, payable_id = _open(shop)
    _decline(shop, payable_id, "DECLINED", "insufficient_funds")
    session_id, ended_id = _open(shop)
    _decline(shop, ended_id, "DECLINED", "insufficient_funds")
    server = shop.api_server

    async def end(tx: Any) -> None:
        session = await checkouts.find(tx, shop.id, session_id)
        await checkouts.expire(tx, shop.id, session_id, "24 hours are over", session.expires_at)

    server.tx(end)
    for tab, listed, missing in (
        ("incomplete", payable_id, ended_id),
        ("failed", ended_id, payable_id),
    ):
        html = owner.get(f"/dashboard/{shop.id}/payments?tab={tab}").text
        assert listed in html
        assert missing not in html
    text = text_of(owner.get(f"/dashboard/{shop.id}/payments/{ended_id}"))
    assert "Declined: it can no longer be paid" in text
    assert "Expired:" not in text
    assert "The payment page closed on" in text


def test_a_payment_that_ended_without_a_customer_expects_none(shop: Shop) -> None:
    owner = create_person(shop.api_server, shop.id, "owner")
    path = f"/dashboard/{shop.id}"
    session_id = shop.create_session(customer=None)["id"]
    for page in ("payments", "sessions"):
        assert "No customer yet" in owner.get(f"{path}/{page}").text
    shop.data("POST", f"/v1/checkouts/{session_id}/expire")
    for page in ("payments", "sessions"):
        assert "No customer yet" not in owner.get(f"{path}/{page}").text


def test_pages_say_who_ended_a_session_and_when(shop: Shop) -> None:
    owner = create_person(shop.api_server, shop.id, "owner")
    for place in ("payments/{order}/expire", "sessions/{session}/end"):
        session_id, order_id = _open(shop)
        path = f"/dashboard/{shop.id}/{place.format(order=order_id, session=session_id)}"
        assert owner.post(path).status_code == 303
        for page in (f"payments/{order_id}", f"sessions/{session_id}"):
            html = owner.get(f"/dashboard/{shop.id}/{page}").text
            assert "Ada Example canceled it on" in text_of(html)
            assert f'<bdi title="{owner.email}">Ada Example</bdi>' in html
    session_id, order_id = _open(shop)
    shop.data("POST", f"/v1/checkouts/{session_id}/expire")
    text = text_of(owner.get(f"/dashboard/{shop.id}/sessions/{session_id}"))
    assert "It was canceled on" in text
    assert "canceled it on" not in text


def test_a_complete_session_says_when_and_how_it_was_paid(shop: Shop) -> None:
    owner = create_person(shop.api_server, shop.id, "owner")
    order = shop.create_paid_order()
    page = owner.get(f"/dashboard/{shop.id}/sessions/{order['checkoutSessionId']}")
    assert re.search(r"<dt>Paid</dt><dd><time", page.text)
    assert re.search(r"<dt>Payment method</dt><dd>\w", page.text)
    assert re.search(rf'class="button" href="[^"]*/payments/{order["id"]}">View payment', page.text)
