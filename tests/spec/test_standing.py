"""A capability that is off is refused everywhere, with the reason; work in progress continues."""

import contextlib
from typing import Any

import pytest

from opentill import merchants, orders
from opentill.merchants import Actor, Capability
from support.api_server import Shop, error_of
from support.epay_shop import EpayShop, Inbox
from support.people import PASSWORD, create_person, heading_of

ANN = Actor("ann", "documents are missing")
FORM = {"email": "maria@example.com", "name": "", "method": "CREDIT_CARD", "lang": "en"}


def apply_event(shop: Shop, event: Any) -> None:
    now = shop.api_server.app.clock()
    shop.api_server.tx(lambda tx: merchants.change_status(tx, shop.id, event, ANN, now))


def switch(shop: Shop, capability: Capability, *, on: bool, why: str = ANN.reason) -> None:
    now, actor = shop.api_server.app.clock(), Actor("ann", why)
    shop.api_server.tx(
        lambda tx: merchants.set_capability(tx, shop.id, capability, on=on, actor=actor, now=now)
    )


def _assert_not_permitted(answer: Any, capability: str) -> None:
    assert answer.status_code == 403
    body = error_of(answer)
    assert (body["code"], body["error"]["field"]) == (40301, capability)
    assert ANN.reason in body["error"]["reason"]


@pytest.mark.parametrize("suspended", [True, False])
def test_without_charge_no_session_opens(shop: Shop, *, suspended: bool) -> None:
    ada, product = create_person(shop.api_server, shop.id, "owner"), shop.create_product()["id"]
    if suspended:
        apply_event(shop, "suspended")
    else:
        switch(shop, "charge", on=False)
    _assert_not_permitted(shop.post("/v1/checkouts", {"productId": product}), "charge")
    _assert_not_permitted(shop.post("/v1/checkouts", {"productId": product}, key="k-1"), "charge")
    form = {"email": "", "success": ""}
    answer = ada.post(f"/dashboard/{shop.id}/products/{product}/sessions", form)
    assert answer.status_code == 403
    assert ANN.reason in answer.text
    home = ada.get(f"/dashboard/{shop.id}/").text
    assert "Switched off by the operator" in home
    assert ANN.reason in home
    assert ("This account is suspended" in home) == suspended
    sql = "select count(*) from checkouts where merchant_id = $1"
    assert shop.api_server.sql(sql, shop.id) == [{"count": 0}]
    if suspended:
        apply_event(shop, "resumed")
    else:
        switch(shop, "charge", on=True)
    assert shop.post("/v1/checkouts", {"productId": product}).status_code == 201
    assert "Switched off" not in ada.get(f"/dashboard/{shop.id}/").text


def test_epay_reports_it_in_its_own_format(shop: Shop) -> None:
    with contextlib.closing(Inbox()) as inbox:
        epay = EpayShop(shop.api_server, inbox)
        assert epay.mapi(out_trade_no="A-1", money_type="USD")["code"] == 1
        apply_event(epay.shop, "suspended")
        for number in ("A-1", "A-2"):  # an existing one and a new one
            answer = epay.mapi(out_trade_no=number, money_type="USD")
            assert (answer["code"], answer["msg"]) == (-1, "商户暂时不能收款")


@pytest.mark.parametrize(
    ("accept", "words"),
    [
        ("en", "This shop cannot take payments right now"),
        ("zh-CN", "商家暂时无法收款"),
        ("zh-TW", "商家暫時無法收款"),
    ],
)
def test_open_sessions_report_it_and_refuse_forms(shop: Shop, accept: str, words: str) -> None:
    session = shop.create_session()
    apply_event(shop, "suspended")
    path, http = f"/checkout/{session['id']}", shop.api_server.http
    page = http.get(path, headers={"accept-language": accept})
    assert (page.status_code, heading_of(page)) == (200, words)
    assert "<form" not in page.text
    assert ANN.reason not in page.text  # the reason is not for customers
    sent = http.post(path, data=FORM, headers={"origin": shop.api_server.url})
    assert sent.status_code == 303
    sql = "select count(*) from payment_attempts where merchant_id = $1"
    assert shop.api_server.sql(sql, shop.id) == [{"count": 0}]
    apply_event(shop, "resumed")
    assert "<form" in http.get(path).text


def test_payments_in_progress_are_booked_and_can_be_refunded(shop: Shop) -> None:
    order = shop.create_order()
    apply_event(shop, "suspended")
    shop.confirm(order["id"])
    assert shop.read_order(order["id"])["status"] == "PAID"
    assert (
        shop.refund(order["id"], amount="1.00")["status"] == "PROCESSING"
    )  # customers get their money back
    shop.api_server.check_books()


def test_without_refund_every_refund_is_refused(shop: Shop) -> None:
    order, ada = shop.create_paid_order(), create_person(shop.api_server, shop.id, "owner")
    first = shop.refund(order["id"], amount="1.00", refundNo="R-1")
    switch(shop, "refund", on=False)
    path = f"/v1/orders/{order['id']}/refunds"
    _assert_not_permitted(shop.post(path, {"amount": "1.00"}), "refund")
    again = shop.post(path, {"amount": "1.00", "refundNo": "R-1"})  # its refund was accepted before
    assert again.json()["data"]["id"] == first["id"]
    page = f"/dashboard/{shop.id}/payments/{order['id']}/refund"
    shown = ada.get(page, params={"amount": "1.00"})
    assert ANN.reason in shown.text
    assert 'method="post" action="' + page not in shown.text
    form = {"form_id": "0" * 32, "amount": "1.00", "confirm": "1.00", "seen": "x", "reason": ""}
    sent = ada.post(page, form)
    assert sent.status_code == 403
    assert ANN.reason in sent.text
    with contextlib.closing(Inbox()) as inbox:
        epay = EpayShop(shop.api_server, inbox)
        placed = epay.place_paid_order(money_type="USD")
        switch(epay.shop, "refund", on=False, why="资料不全")
        answer = epay.call_api("refund", trade_no=placed["trade_no"], money="1.00")
        assert (answer["code"], answer["msg"]) == (-1, "商户暂时不能退款：资料不全")
    assert (
        shop.api_server.tx(lambda tx: orders.find(tx, shop.id, order["id"])).refund_held_minor
        == 100
    )


def test_people_see_what_is_off_and_why(shop: Shop) -> None:
    ada = create_person(shop.api_server, shop.id, "viewer")
    switch(shop, "payout", on=False)
    tokens = shop.api_server.http.post(
        "/v1/merchant/sessions", json={"email": ada.email, "password": PASSWORD}
    ).json()["data"]
    answer = shop.api_server.http.get(
        "/v1/merchant/profile", headers={"authorization": f"Bearer {tokens['accessToken']}"}
    ).json()["data"]
    assert answer["status"] == "ACTIVE"
    assert answer["capabilities"] == [
        {"capability": "charge", "on": True, "reason": None},
        {"capability": "refund", "on": True, "reason": None},
        {"capability": "payout", "on": False, "reason": ANN.reason},
    ]
