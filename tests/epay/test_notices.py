"""Notifications of paid orders: content, schedule and retries; and the signed return URL."""

import asyncio
import re
import threading
from urllib.parse import parse_qsl, urlsplit

import pytest
import structlog

from opentill import epay, orders
from opentill.db.database import Tx
from opentill.epay import jobs, notices, queries
from opentill.gateways.epay import signature
from opentill.gateways.model import PaymentOutcome
from opentill.outgoing.client import Response
from support.api_server import ApiServer
from support.epay_shop import EpayShop, Inbox

MINUTE_MS = 60_000


@pytest.fixture(autouse=True)
def _no_pending_notices(api_server: ApiServer) -> None:
    """Mark the pending notices of other tests as delivered."""
    deliver_all = (
        "update epay_notifications set state = 'DELIVERED', due_at = null where due_at is not null"
    )
    api_server.tx(lambda tx: tx.execute(deliver_all))


def test_a_notification_has_exactly_the_parameters_of_the_epay_api(epay_shop: EpayShop) -> None:
    epay_order = epay_shop.place_order(param="uid=7&x=中 文")
    assert epay_shop.send_notices() == 0
    epay_shop.pay(epay_order)
    assert epay_shop.send_notices() == 1
    (notification,) = epay_shop.inbox.received
    assert signature.verify(notification, epay_shop.key)
    assert {name: text for name, text in notification.items() if name != "sign"} == {
        "pid": epay_shop.pid,
        "trade_no": epay_order["trade_no"],
        "out_trade_no": epay_order["out_trade_no"],
        "type": "alipay",
        "name": "VIP会员",
        "money": "10.5",
        "trade_status": "TRADE_SUCCESS",
        "param": "uid=7&x=中 文",
        "sign_type": "MD5",
    }
    assert "%E4%B8%AD+%E6%96%87" in epay_shop.inbox.paths[0]
    assert epay_shop.notice(epay_order)["state"] == "DELIVERED"
    assert epay_shop.send_notices(epay_shop.api_server.app.clock() + 86_400_000) == 0


def test_without_a_submitted_type_the_notification_has_the_customers_choice(
    epay_shop: EpayShop,
) -> None:
    form = epay_shop.form(type=None, param="")
    epay_shop.post("submit", epay_shop.sign(form))
    row = epay_shop.call_api("order", out_trade_no=form["out_trade_no"])
    assert row["type"] == ""
    epay_shop.pay(row)
    epay_shop.send_notices()
    (notification,) = epay_shop.inbox.received
    assert notification["type"] == "bank"
    assert "param" not in notification
    assert signature.verify(notification, epay_shop.key)


def test_a_notification_keeps_the_query_of_notify_url(epay_shop: EpayShop) -> None:
    epay_shop.place_paid_order(notify_url=epay_shop.inbox.url + "?x=1&y=%20z#part")
    epay_shop.send_notices()
    assert epay_shop.inbox.paths[0].startswith("/notify?x=1&y=%20z&pid=")
    assert "#" not in epay_shop.inbox.paths[0]


@pytest.mark.parametrize(
    ("status", "body", "is_acknowledged"),
    [
        (200, b"success", True),
        (200, b" SUCCESS\n", True),
        (200, b'{"msg":"Success"}', True),
        (200, b"fail", False),
        (200, b"", False),
        (201, b"success", False),
        (302, b"success", False),
        (404, b"success", False),
        (500, b"success", False),
    ],
)
def test_only_a_200_response_with_success_acknowledges_a_notification(
    status: int, body: bytes, is_acknowledged: bool
) -> None:
    assert jobs.acknowledged(Response(status, (), body)) is is_acknowledged


def test_a_notification_is_tried_eight_times(epay_shop: EpayShop) -> None:
    epay_shop.inbox.answer = (302, b"success")
    epay_order = epay_shop.place_paid_order()
    now = start = epay_shop.api_server.app.clock()
    assert epay_shop.send_notices(now) == 1
    for minutes in (1, 3, 20, 60, 120, 360, 1440):
        assert epay_shop.send_notices(now + minutes * MINUTE_MS - 1) == 0
        now += minutes * MINUTE_MS
        assert epay_shop.send_notices(now) == 1, (
            f"{(now - start) / MINUTE_MS} minutes after the first try"
        )
    row = epay_shop.notice(epay_order)
    assert (row["state"], row["tries"], row["due_at"]) == ("FAILED", 8, None)
    assert row["answer"] == "HTTP 302, without success"
    assert epay_shop.send_notices(now + 10 * 86_400_000) == 0
    assert len(epay_shop.inbox.received) == 8
    assert {path.partition("?")[0] for path in epay_shop.inbox.paths} == {"/notify"}
    epay_shop.inbox.answer = (200, b"success")
    order_id = epay_shop.order_id(epay_order)
    epay_shop.api_server.tx(lambda tx: epay.resend(tx, epay_shop.id, order_id, now))
    assert epay_shop.send_notices(now) == 1
    assert epay_shop.notice(epay_order)["state"] == "DELIVERED"


def test_each_try_of_a_notification_is_signed_with_the_current_key(epay_shop: EpayShop) -> None:
    epay_shop.inbox.answer = (500, b"")
    epay_shop.place_paid_order()
    now = epay_shop.api_server.app.clock()
    epay_shop.send_notices(now)
    new_credentials = epay_shop.api_server.tx(
        lambda tx: epay.rotate(tx, epay_shop.api_server.settings, epay_shop.id, now)
    )
    epay_shop.send_notices(now + MINUTE_MS)
    before_rotation, after_rotation = epay_shop.inbox.received
    assert signature.verify(before_rotation, epay_shop.key)
    assert signature.verify(after_rotation, new_credentials.key)


@pytest.mark.parametrize(
    ("url", "result"),
    [
        ("http://127.0.0.1:2/n", "not reached"),
        ("http://10.0.0.1/n", "not sent"),
        ("http://169.254.169.254/latest", "not sent"),
        ("http://[::1]/n", "not sent"),
        ("http://2130706433/n", "not sent"),
        ("http://nowhere.invalid/n", "not reached"),
    ],
)
def test_a_forbidden_or_unreachable_address_is_a_failed_try(
    epay_shop: EpayShop, url: str, result: str
) -> None:
    epay_order = epay_shop.place_paid_order(notify_url=url)
    epay_shop.send_notices()
    row = epay_shop.notice(epay_order)
    assert (row["state"], row["tries"]) == ("WAITING", 1)
    assert row["answer"].startswith(result)
    assert "sign" not in row["answer"]


def test_a_notification_whose_worker_was_killed_is_sent_again(
    epay_shop: EpayShop,
) -> None:
    epay_order = epay_shop.place_paid_order()
    now = epay_shop.api_server.app.clock()
    request_arrived, may_respond = threading.Event(), threading.Event()

    def hold_response() -> None:
        request_arrived.set()
        may_respond.wait(10)

    epay_shop.inbox.before_answer = hold_response
    loop = epay_shop.api_server._loop
    worker = asyncio.run_coroutine_threadsafe(jobs.send_due(epay_shop.api_server.app, now), loop)
    assert request_arrived.wait(10)
    worker.cancel()
    may_respond.set()
    epay_shop.inbox.before_answer = lambda: None
    assert epay_shop.send_notices(now) == 0  # the killed worker's lease has not ended
    assert epay_shop.notice(epay_order)["tries"] == 0
    assert epay_shop.send_notices(now + MINUTE_MS) == 1
    first_notification, repeated_notification = epay_shop.inbox.received
    assert first_notification == repeated_notification
    assert epay_shop.notice(epay_order)["state"] == "DELIVERED"


def test_a_timeout_is_a_failed_try(epay_shop: EpayShop, monkeypatch: pytest.MonkeyPatch) -> None:
    assert jobs.TIMEOUT_S == 5.0
    monkeypatch.setattr(jobs, "TIMEOUT_S", 0.3)
    may_respond = threading.Event()
    epay_shop.inbox.before_answer = lambda: may_respond.wait(10) and None
    epay_order = epay_shop.place_paid_order()
    epay_shop.send_notices()
    may_respond.set()
    row = epay_shop.notice(epay_order)
    assert (row["state"], row["tries"]) == ("WAITING", 1)
    assert row["answer"].startswith("no response")


def test_concurrent_workers_send_each_notification_once(epay_shop: EpayShop) -> None:
    for _ in range(6):
        epay_shop.place_paid_order()
    threads = [threading.Thread(target=epay_shop.send_notices) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    notifications = epay_shop.inbox.received
    assert len({message["trade_no"] for message in notifications}) == len(notifications) == 6


def test_a_merchant_has_at_most_eight_notifications_in_flight(epay_shop: EpayShop) -> None:
    other_shop = EpayShop(epay_shop.api_server, epay_shop.inbox)
    for _ in range(10):
        epay_shop.place_paid_order()
    other_shop.place_paid_order()
    assert epay_shop.send_notices() == 9
    assert other_shop.pid in {message["pid"] for message in epay_shop.inbox.received}
    assert epay_shop.send_notices() == 2


def test_ten_thousand_notices_of_one_merchant_do_not_delay_another_merchant(
    epay_shop: EpayShop,
) -> None:
    other_shop = EpayShop(epay_shop.api_server, epay_shop.inbox)

    async def insert_notices(tx: Tx) -> None:
        await tx.execute(
            "set local session_replication_role = replica"
        )  # without foreign keys, the notices need no orders
        await tx.execute(
            """
            insert into epay_notifications select $1, 'order_crowd' || n, 'WAITING', n, 0, '', n, n
            from generate_series(1, 10000) n
            """,
            epay_shop.id,
        )

    epay_shop.api_server.tx(insert_notices)
    try:
        other_shop.place_paid_order()
        now = epay_shop.api_server.app.clock()
        claimed = epay_shop.api_server.tx(
            lambda tx: queries.CLAIM_NOTICES.all(
                tx, now=now, lease_until=now + MINUTE_MS, limit=9, per_merchant=8, merchant_id=[],
                notices=[],
            )
        )  # fmt: skip
    finally:
        epay_shop.api_server.sql(
            "delete from epay_notifications where order_id like 'order_crowd%'"
        )
    assert sorted(notice.merchant_id for notice in claimed).count(other_shop.id) == 1
    assert len(claimed) == 9


def test_merchants_with_fewer_notices_in_flight_come_first(epay_shop: EpayShop) -> None:
    other_shop = EpayShop(epay_shop.api_server, epay_shop.inbox)
    for _ in range(3):
        epay_shop.place_paid_order()
    other_shop.place_paid_order()
    now = epay_shop.api_server.app.clock()
    (first_notice,) = epay_shop.api_server.tx(
        lambda tx: queries.CLAIM_NOTICES.all(
            tx, now=now, lease_until=now + MINUTE_MS, limit=1, per_merchant=8,
            merchant_id=[epay_shop.id], notices=[7],
        )
    )  # fmt: skip
    assert first_notice.merchant_id == other_shop.id
    own_notices = epay_shop.api_server.tx(
        lambda tx: queries.CLAIM_NOTICES.all(
            tx,
            now=now,
            lease_until=now,
            limit=9,
            per_merchant=8,
            merchant_id=[epay_shop.id],
            notices=[7],
        )
    )
    assert len(own_notices) == 1  # seven notices are in flight and eight are allowed


def test_a_notification_is_sent_while_another_merchants_server_hangs(
    epay_shop: EpayShop,
) -> None:
    responsive_shop = EpayShop(epay_shop.api_server, Inbox())
    may_respond = threading.Event()
    epay_shop.inbox.before_answer = lambda: may_respond.wait(10) and None
    for _ in range(9):
        epay_shop.place_paid_order()

    async def run_notifier() -> None:
        notifier = jobs.Notifier(epay_shop.api_server.app)
        now = epay_shop.api_server.app.clock()
        assert await notifier.claim(now) == 8
        assert await notifier.run_once() == 8
        await asyncio.to_thread(responsive_shop.place_paid_order)
        for _ in range(100):
            await notifier.run_once()
            if responsive_shop.inbox.received:
                break
        assert not may_respond.is_set()
        may_respond.set()
        await notifier.finish()

    try:
        epay_shop.api_server.run(run_notifier())
        assert len(responsive_shop.inbox.received) == 1
        assert len(epay_shop.inbox.received) == 8
    finally:
        may_respond.set()
        responsive_shop.inbox.close()


def test_a_late_payment_is_notified_once(epay_shop: EpayShop) -> None:
    epay_order = epay_shop.place_order()
    order_id = epay_shop.order_id(epay_order)
    epay_shop.shop.data("POST", f"/v1/checkouts/{epay_order['payurl'].rpartition('/')[2]}/expire")
    assert epay_shop.shop.read_order(order_id)["status"] == "CLOSED"
    (attempt,) = epay_shop.api_server.sql(
        "select id, gateway from payment_attempts where merchant_id = $1 and order_id = $2",
        epay_shop.id,
        order_id,
    )
    now = epay_shop.api_server.app.clock()
    outcome = PaymentOutcome(status="SUCCEEDED", provider_ref="UP1")
    for _ in range(2):
        epay_shop.api_server.tx(
            lambda tx: orders.apply_outcome(
                tx, epay_shop.id, attempt["id"], outcome, now, gateway=attempt["gateway"]
            )
        )
    assert epay_shop.send_notices() == 1
    assert epay_shop.call_api("order", trade_no=epay_order["trade_no"])["api_trade_no"] == "UP1"


def test_an_order_that_is_refunded_before_its_notification_is_not_notified(
    epay_shop: EpayShop,
) -> None:
    epay_order = epay_shop.place_paid_order()
    body = epay_shop.call_api("refund", trade_no=epay_order["trade_no"], money="10.5")
    epay_shop.shop.report_refund("re_" + body["refund_no"].removeprefix("re"))
    epay_shop.send_notices()
    assert epay_shop.inbox.received == []
    assert epay_shop.notice(epay_order)["answer"] == "not sent: the order is REFUNDED"


def test_an_order_of_the_api_has_no_notice(epay_shop: EpayShop) -> None:
    epay_shop.shop.create_paid_order()
    assert epay_shop.send_notices() == 0


def _find_return_urls(page: str) -> list[str]:
    return [
        text.replace("&amp;", "&") for text in re.findall(r"https://shop\.example[^\"' <]*", page)
    ]


def test_the_page_shows_the_signed_return_url_only_while_the_order_is_paid(
    epay_shop: EpayShop,
) -> None:
    epay_order = epay_shop.place_order()
    page = epay_shop.api_server.http.get(epay_order["payurl"]).text
    assert _find_return_urls(page) == []
    assert "TRADE_SUCCESS" not in page
    app, order_id = epay_shop.api_server.app, epay_shop.order_id(epay_order)
    assert epay_shop.api_server.run(app.return_address(app, epay_shop.id, order_id)) is None
    epay_shop.pay(epay_order)
    return_url, *_ = _find_return_urls(epay_shop.api_server.http.get(epay_order["payurl"]).text)
    message = dict(parse_qsl(urlsplit(return_url).query))
    assert message.pop("from") == "till"
    assert signature.verify(message, epay_shop.key)
    assert (message["trade_no"], message["trade_status"]) == (
        epay_order["trade_no"],
        "TRADE_SUCCESS",
    )
    session = epay_order["payurl"].rpartition("/")[2]
    assert epay_shop.key not in str(epay_shop.shop.data("GET", f"/v1/checkouts/{session}"))
    epay_shop.shop.open_dispute(order_id)
    assert _find_return_urls(epay_shop.api_server.http.get(epay_order["payurl"]).text) == []


def test_a_closed_order_has_no_signed_return_url(epay_shop: EpayShop) -> None:
    epay_order = epay_shop.place_order()
    epay_shop.shop.revoke(epay_shop.order_id(epay_order))
    assert _find_return_urls(epay_shop.api_server.http.get(epay_order["payurl"]).text) == []


@pytest.mark.parametrize(
    ("url", "result"),
    [
        ("https://s.example", "https://s.example?a=1+2%26"),
        ("https://s.example/r?z=%E4%B8%AD", "https://s.example/r?z=%E4%B8%AD&a=1+2%26"),
        ("https://s.example/#/paid", "https://s.example/?a=1+2%26#/paid"),
        (
            "https://s.example/返回?q=中",
            "https://s.example/%E8%BF%94%E5%9B%9E?q=%E4%B8%AD&a=1+2%26",
        ),
        ("https://faß.de:8443/r", "https://xn--fa-hia.de:8443/r?a=1+2%26"),
        ("https://商店.example/", "https://xn--czrs0t.example/?a=1+2%26"),
    ],
)
def test_parameters_are_appended_to_the_query_of_a_url(url: str, result: str) -> None:
    assert notices.address(url, {"a": "1 2&"}) == result


def test_parameters_are_encoded_as_php_does() -> None:
    text = "aZ0-_. ~!*'()+/=%中\n"
    encoded = "aZ0-_.+%7E%21%2A%27%28%29%2B%2F%3D%25%E4%B8%AD%0A"
    assert notices.address("https://s.example/~me?q=~", {"a": text}) == (
        f"https://s.example/~me?q=~&a={encoded}"
    )


def test_with_a_wrong_deployment_key_notices_wait(epay_shop: EpayShop) -> None:
    import msgspec

    epay_order = epay_shop.place_paid_order()
    epay_shop.place_paid_order()
    app = epay_shop.api_server.app
    settings = app.settings
    try:
        app.settings = msgspec.structs.replace(
            settings, secret_key="another-key-another-key-another"
        )
        body = epay_shop.mapi()
        assert (body["code"], set(body)) == (-1, {"code", "msg"})
        page = epay_shop.api_server.http.get(epay_order["payurl"])
        assert page.status_code == 200
        assert _find_return_urls(page.text) == []
        with structlog.testing.capture_logs() as log_lines:
            assert epay_shop.send_notices() == 2
        events = [line["event"] for line in log_lines if "notice" in line["event"]]
        assert events == ["notices cannot be signed"]  # one line reports both notices
        assert epay_shop.notice(epay_order)["tries"] == 0
        assert not epay_shop.api_server.tx(lambda tx: epay.check_key(tx, app.settings.secret_key))
    finally:
        app.settings = settings
    assert epay_shop.api_server.tx(lambda tx: epay.check_key(tx, settings.secret_key))
    assert epay_shop.send_notices(app.clock() + 2 * MINUTE_MS) == 2
    assert len(epay_shop.inbox.received) == 2
