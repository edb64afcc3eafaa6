"""When a shop works again, all notifications that wait for it are sent at once, in order."""

from typing import Any

from opentill.epay.jobs import WAITS_MS
from support.epay_shop import EpayShop


def _numbers(shop: EpayShop) -> list[str]:
    return [one["out_trade_no"] for one in shop.inbox.received]


def _fail_all(shop: EpayShop, count: int) -> list[dict[str, Any]]:
    """Place paid orders whose first notifications fail."""
    shop.inbox.answer = (503, b"")
    placed = [shop.place_paid_order() for _ in range(count)]
    while shop.send_notices():
        pass
    shop.inbox.received.clear()
    return placed


def test_notifications_that_wait_arrive_in_order_once_the_shop_works_again(
    epay_shop: EpayShop,
) -> None:
    waiting = _fail_all(epay_shop, 5)
    elsewhere = epay_shop.place_paid_order(notify_url="http://127.0.0.1:2/notify")
    epay_shop.send_notices()
    epay_shop.inbox.answer = (200, b"success")
    newest = epay_shop.place_paid_order()
    epay_shop.send_notices()
    expected = [newest, *waiting]
    assert _numbers(epay_shop) == [one["out_trade_no"] for one in expected]
    rows = [epay_shop.notice(one) for one in expected]
    assert {(row["state"], row["fault"], row["sending_until"]) for row in rows} == {
        ("DELIVERED", None, None)
    }
    row = epay_shop.notice(elsewhere)  # of another server, of which nothing is known
    assert (row["state"], row["tries"], row["fault"]) == ("WAITING", 1, "refused")


def test_a_notification_that_the_shop_always_refuses_keeps_its_schedule(
    epay_shop: EpayShop,
) -> None:
    refused, accepted = _fail_all(epay_shop, 2)
    before = epay_shop.notice(refused)

    def respond() -> None:
        is_refused = _numbers(epay_shop)[-1] == refused["out_trade_no"]
        epay_shop.inbox.answer = (200, b"fail" if is_refused else b"success")

    epay_shop.inbox.before_answer = respond
    for _ in range(3):
        epay_shop.place_paid_order()
        epay_shop.send_notices()
    # It was sent early once, after the first success; the one behind it did not wait for it.
    assert _numbers(epay_shop).count(refused["out_trade_no"]) == 1
    assert epay_shop.notice(accepted)["state"] == "DELIVERED"
    row = epay_shop.notice(refused)
    assert (row["tries"], row["due_at"], row["fault"]) == (1, before["due_at"], "no_success")
    assert row["due_at"] == before["updated_at"] + WAITS_MS[0]


def test_a_server_that_fails_again_is_left_alone(epay_shop: EpayShop) -> None:
    waiting = _fail_all(epay_shop, 3)

    def respond() -> None:
        epay_shop.inbox.answer = (200, b"success") if len(_numbers(epay_shop)) < 2 else (500, b"")

    epay_shop.inbox.before_answer = respond
    newest = epay_shop.place_paid_order()
    epay_shop.send_notices()
    assert _numbers(epay_shop) == [one["out_trade_no"] for one in (newest, *waiting[:1])]
