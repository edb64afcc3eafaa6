"""Whatever needs a capability that is off is refused with the reason; started payments continue."""

import contextlib
from typing import Any

import pytest

from opentill import merchants, orders
from opentill.merchants import Actor, Capability
from support.api_server import Shop, error_of
from support.epay_shop import EpayShop, Inbox
from support.people import PASSWORD, create_person, heading_of

OPERATOR = Actor("ann", "documents are missing")
FORM = {"email": "maria@example.com", "name": "", "method": "CREDIT_CARD", "lang": "en"}


def apply_event(shop: Shop, event: Any) -> None:
    now = shop.api_server.app.clock()
    shop.api_server.tx(lambda tx: merchants.change_status(tx, shop.id, event, OPERATOR, now))


def set_capability(
    shop: Shop, capability: Capability, *, on: bool, reason: str = OPERATOR.reason
) -> None:
    now, actor = shop.api_server.app.clock(), Actor("ann", reason)
    shop.api_server.tx(
        lambda tx: merchants.set_capability(tx, shop.id, capability, on=on, actor=actor, now=now)
    )


def _assert_not_permitted(response: Any, capability: str) -> None:
    assert response.status_code == 403
    body = error_of(response)
    assert (body["code"], body["error"]["field"]) == (40301, capability)
    assert OPERATOR.reason in body["error"]["reason"]


@pytest.mark.parametrize("suspended", [True, False])
def test_no_session_opens_while_charge_is_off(shop: Shop, *, suspended: bool) -> None:
    owner, product = create_person(shop.api_server, shop.id, "owner"), shop.create_product()["id"]
    if suspended:
        apply_event(shop, "suspended")
    else:
        set_capability(shop, "charge", on=False)
    _assert_not_permitted(shop.post("/v1/checkouts", {"productId": product}), "charge")
    _assert_not_permitted(shop.post("/v1/checkouts", {"productId": product}, key="k-1"), "charge")
    form = {"email": "", "success": ""}
    response = owner.post(f"/dashboard/{shop.id}/products/{product}/sessions", form)
    assert response.status_code == 403
    assert OPERATOR.reason in response.text
    home_page = owner.get(f"/dashboard/{shop.id}/").text
    assert ("Switched off by the operator" in home_page) != suspended
    assert OPERATOR.reason in home_page
    assert ("Your account is suspended" in home_page) == suspended
    sql = "select count(*) from checkouts where merchant_id = $1"
    assert shop.api_server.sql(sql, shop.id) == [{"count": 0}]
    if suspended:
        apply_event(shop, "resumed")
    else:
        set_capability(shop, "charge", on=True)
    assert shop.post("/v1/checkouts", {"productId": product}).status_code == 201
    assert "Switched off" not in owner.get(f"/dashboard/{shop.id}/").text


def test_epay_reports_a_suspended_merchant_in_its_own_format(shop: Shop) -> None:
    with contextlib.closing(Inbox()) as inbox:
        epay = EpayShop(shop.api_server, inbox)
        assert epay.mapi(out_trade_no="A-1", money_type="USD")["code"] == 1
        apply_event(epay.shop, "suspended")
        for number in ("A-1", "A-2"):  # the first number has an order, the second is new
            response = epay.mapi(out_trade_no=number, money_type="USD")
            assert (response["code"], response["msg"]) == (-1, "商户暂时不能收款")


@pytest.mark.parametrize(
    ("accept", "message"),
    [
        ("en", "This shop cannot accept payments right now"),
        ("zh-CN", "此店铺暂时无法收款"),
        ("zh-TW", "此商店暫時無法收款"),
    ],
)
def test_open_sessions_of_a_suspended_merchant_show_a_message_and_refuse_forms(
    shop: Shop, accept: str, message: str
) -> None:
    session = shop.create_session()
    apply_event(shop, "suspended")
    path, http = f"/checkout/{session['id']}", shop.api_server.http
    page = http.get(path, headers={"accept-language": accept})
    assert (page.status_code, heading_of(page)) == (200, message)
    assert "<form" not in page.text
    assert OPERATOR.reason not in page.text  # customers do not see the reason
    response = http.post(path, data=FORM, headers={"origin": shop.api_server.url})
    assert response.status_code == 303
    sql = "select count(*) from payment_attempts where merchant_id = $1"
    assert shop.api_server.sql(sql, shop.id) == [{"count": 0}]
    apply_event(shop, "resumed")
    assert "<form" in http.get(path).text


def test_payments_in_progress_are_booked_and_can_be_refunded_after_a_suspension(shop: Shop) -> None:
    order = shop.create_order()
    apply_event(shop, "suspended")
    shop.confirm(order["id"])
    assert shop.read_order(order["id"])["status"] == "PAID"
    refund = shop.refund(order["id"], amount="1.00")
    assert refund["status"] == "PROCESSING"  # a suspended merchant may still refund
    shop.api_server.check_books()


def test_every_new_refund_is_refused_while_refund_is_off(shop: Shop) -> None:
    order, owner = shop.create_paid_order(), create_person(shop.api_server, shop.id, "owner")
    refund = shop.refund(order["id"], amount="1.00", refundNo="R-1")
    set_capability(shop, "refund", on=False)
    path = f"/v1/orders/{order['id']}/refunds"
    _assert_not_permitted(shop.post(path, {"amount": "1.00"}), "refund")
    # The refund R-1 exists already, so it is returned.
    repeated = shop.post(path, {"amount": "1.00", "refundNo": "R-1"})
    assert repeated.json()["data"]["id"] == refund["id"]
    path_of_form = f"/dashboard/{shop.id}/payments/{order['id']}/refund"
    form_page = owner.get(path_of_form, params={"amount": "1.00"})
    assert OPERATOR.reason in form_page.text
    assert 'method="post" action="' + path_of_form not in form_page.text
    form = {"form_id": "0" * 32, "amount": "1.00", "quoted": "1.00", "seen": "x", "reason": ""}
    submitted = owner.post(path_of_form, form)
    assert submitted.status_code == 403
    assert OPERATOR.reason in submitted.text
    with contextlib.closing(Inbox()) as inbox:
        epay = EpayShop(shop.api_server, inbox)
        placed = epay.place_paid_order(money_type="USD")
        set_capability(epay.shop, "refund", on=False, reason="资料不全")
        response = epay.call_api("refund", trade_no=placed["trade_no"], money="1.00")
        assert (response["code"], response["msg"]) == (-1, "商户暂时不能退款：资料不全")
    unchanged = shop.api_server.tx(lambda tx: orders.find(tx, shop.id, order["id"]))
    assert unchanged.refund_held_minor == 100


def test_members_see_which_capability_is_off_and_why(shop: Shop) -> None:
    viewer = create_person(shop.api_server, shop.id, "viewer")
    set_capability(shop, "payout", on=False)
    tokens = shop.api_server.http.post(
        "/v1/merchant/sessions", json={"email": viewer.email, "password": PASSWORD}
    ).json()["data"]
    response = shop.api_server.http.get(
        "/v1/merchant/profile", headers={"authorization": f"Bearer {tokens['accessToken']}"}
    ).json()["data"]
    assert response["status"] == "ACTIVE"
    assert response["capabilities"] == [
        {"capability": "charge", "on": True, "reason": None},
        {"capability": "refund", "on": True, "reason": None},
        {"capability": "payout", "on": False, "reason": OPERATOR.reason},
    ]
