"""Notices of paid orders: their form, their schedule, and the signed return."""

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
def _quiet(api_server: ApiServer) -> None:
    """Let notices of other tests be over."""
    over = (
        "update epay_notifications set state = 'DELIVERED', due_at = null where due_at is not null"
    )
    api_server.tx(lambda tx: tx.execute(over))


def test_a_paid_order_is_told_word_for_word(epay_shop: EpayShop) -> None:
    placed = epay_shop.placed(param="uid=7&x=中 文")
    assert epay_shop.tell() == 0
    epay_shop.pay(placed)
    assert epay_shop.tell() == 1
    (got,) = epay_shop.inbox.got
    assert signature.verify(got, epay_shop.key)
    assert {name: text for name, text in got.items() if name != "sign"} == {
        "pid": epay_shop.pid,
        "trade_no": placed["trade_no"],
        "out_trade_no": placed["out_trade_no"],
        "type": "alipay",
        "name": "VIP会员",
        "money": "10.5",
        "trade_status": "TRADE_SUCCESS",
        "param": "uid=7&x=中 文",
        "sign_type": "MD5",
    }
    assert "%E4%B8%AD+%E6%96%87" in epay_shop.inbox.paths[0]
    assert epay_shop.notice(placed)["state"] == "DELIVERED"
    assert epay_shop.tell(epay_shop.api_server.app.clock() + 86_400_000) == 0


def test_without_a_type_the_notice_names_what_the_customer_chose(epay_shop: EpayShop) -> None:
    form = epay_shop.form(type=None, param="")
    epay_shop.post("submit", epay_shop.signed(form))
    row = epay_shop.act("order", out_trade_no=form["out_trade_no"])
    assert row["type"] == ""
    epay_shop.pay(row)
    epay_shop.tell()
    (got,) = epay_shop.inbox.got
    assert got["type"] == "bank"
    assert "param" not in got
    assert signature.verify(got, epay_shop.key)


def test_a_query_that_is_there_stays(epay_shop: EpayShop) -> None:
    epay_shop.paid(notify_url=epay_shop.inbox.url + "?x=1&y=%20z#part")
    epay_shop.tell()
    assert epay_shop.inbox.paths[0].startswith("/notify?x=1&y=%20z&pid=")
    assert "#" not in epay_shop.inbox.paths[0]


@pytest.mark.parametrize(
    ("status", "body", "taken"),
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
def test_what_acknowledges_a_notice(status: int, body: bytes, taken: bool) -> None:
    assert jobs.acknowledged(Response(status, (), body)) is taken


def test_a_notice_is_tried_eight_times(epay_shop: EpayShop) -> None:
    epay_shop.inbox.answer = (302, b"success")
    placed = epay_shop.paid()
    now = start = epay_shop.api_server.app.clock()
    assert epay_shop.tell(now) == 1
    for minutes in (1, 3, 20, 60, 120, 360, 1440):
        assert epay_shop.tell(now + minutes * MINUTE_MS - 1) == 0
        now += minutes * MINUTE_MS
        assert epay_shop.tell(now) == 1, f"{(now - start) / MINUTE_MS} minutes on"
    row = epay_shop.notice(placed)
    assert (row["state"], row["tries"], row["due_at"]) == ("FAILED", 8, None)
    assert row["answer"] == "HTTP 302, without success"
    assert epay_shop.tell(now + 10 * 86_400_000) == 0
    assert len(epay_shop.inbox.got) == 8
    assert {path.partition("?")[0] for path in epay_shop.inbox.paths} == {"/notify"}
    epay_shop.inbox.answer = (200, b"success")
    order_id = epay_shop.order_id(placed)
    epay_shop.api_server.tx(lambda tx: epay.resend(tx, epay_shop.id, order_id, now))
    assert epay_shop.tell(now) == 1
    assert epay_shop.notice(placed)["state"] == "DELIVERED"


def test_each_try_is_signed_with_the_key_of_its_moment(epay_shop: EpayShop) -> None:
    epay_shop.inbox.answer = (500, b"")
    epay_shop.paid()
    now = epay_shop.api_server.app.clock()
    epay_shop.tell(now)
    new = epay_shop.api_server.tx(
        lambda tx: epay.rotate(tx, epay_shop.api_server.settings, epay_shop.id, now)
    )
    epay_shop.tell(now + MINUTE_MS)
    first, second = epay_shop.inbox.got
    assert signature.verify(first, epay_shop.key)
    assert signature.verify(second, new.key)


@pytest.mark.parametrize(
    ("url", "word"),
    [
        ("http://127.0.0.1:2/n", "not reached"),
        ("http://10.0.0.1/n", "not sent"),
        ("http://169.254.169.254/latest", "not sent"),
        ("http://[::1]/n", "not sent"),
        ("http://2130706433/n", "not sent"),
        ("http://nowhere.invalid/n", "not reached"),
    ],
)
def test_an_address_that_is_out_of_bounds_is_a_failed_try(
    epay_shop: EpayShop, url: str, word: str
) -> None:
    placed = epay_shop.paid(notify_url=url)
    epay_shop.tell()
    row = epay_shop.notice(placed)
    assert (row["state"], row["tries"]) == ("WAITING", 1)
    assert row["answer"].startswith(word)
    assert "sign" not in row["answer"]


def test_whoever_is_killed_between_sending_and_recording_leaves_it_to_be_sent_again(
    epay_shop: EpayShop,
) -> None:
    placed = epay_shop.paid()
    now = epay_shop.api_server.app.clock()
    arrived, over = threading.Event(), threading.Event()

    def hold() -> None:
        arrived.set()
        over.wait(10)

    epay_shop.inbox.before_answer = hold
    loop = epay_shop.api_server._loop
    worker = asyncio.run_coroutine_threadsafe(jobs.send_due(epay_shop.api_server.app, now), loop)
    assert arrived.wait(10)
    worker.cancel()
    over.set()
    epay_shop.inbox.before_answer = lambda: None
    assert epay_shop.tell(now) == 0  # the dead one still has it
    assert epay_shop.notice(placed)["tries"] == 0
    assert epay_shop.tell(now + MINUTE_MS) == 1
    first, second = epay_shop.inbox.got
    assert first == second
    assert epay_shop.notice(placed)["state"] == "DELIVERED"


def test_an_address_that_does_not_answer_in_time_is_a_failed_try(
    epay_shop: EpayShop, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert jobs.TIMEOUT_S == 5.0
    monkeypatch.setattr(jobs, "TIMEOUT_S", 0.3)
    over = threading.Event()
    epay_shop.inbox.before_answer = lambda: over.wait(10) and None
    placed = epay_shop.paid()
    epay_shop.tell()
    over.set()
    row = epay_shop.notice(placed)
    assert (row["state"], row["tries"]) == ("WAITING", 1)
    assert row["answer"].startswith("no response")


def test_two_workers_at_once_send_each_notice_once(epay_shop: EpayShop) -> None:
    for _ in range(6):
        epay_shop.paid()
    threads = [threading.Thread(target=epay_shop.tell) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len({got["trade_no"] for got in epay_shop.inbox.got}) == len(epay_shop.inbox.got) == 6


def test_of_one_merchant_only_a_few_go_out_at_a_time(epay_shop: EpayShop) -> None:
    other = EpayShop(epay_shop.api_server, epay_shop.inbox)
    for _ in range(10):
        epay_shop.paid()
    other.paid()
    assert epay_shop.tell() == 9
    assert other.pid in {got["pid"] for got in epay_shop.inbox.got}
    assert epay_shop.tell() == 2


def test_ten_thousand_notices_of_one_merchant_hold_up_nobody_elses(epay_shop: EpayShop) -> None:
    other = EpayShop(epay_shop.api_server, epay_shop.inbox)

    async def crowd(tx: Tx) -> None:
        await tx.execute("set local session_replication_role = replica")  # of no orders
        await tx.execute(
            """
            insert into epay_notifications select $1, 'order_crowd' || n, 'WAITING', n, 0, '', n, n
            from generate_series(1, 10000) n
            """,
            epay_shop.id,
        )

    epay_shop.api_server.tx(crowd)
    try:
        other.paid()
        now = epay_shop.api_server.app.clock()
        claimed = epay_shop.api_server.tx(
            lambda tx: queries.CLAIM_NOTICES.all(
                tx, now=now, lease_until=now + MINUTE_MS, limit=9, per_merchant=8, merchant_id=[],
                notices=[],
            )
        )  # fmt: skip
    finally:
        over = "delete from epay_notifications where order_id like 'order_crowd%'"
        epay_shop.api_server.sql(over)
    assert sorted(notice.merchant_id for notice in claimed).count(other.id) == 1
    assert len(claimed) == 9


def test_who_has_none_on_the_way_comes_before_who_has(epay_shop: EpayShop) -> None:
    other = EpayShop(epay_shop.api_server, epay_shop.inbox)
    for _ in range(3):
        epay_shop.paid()
    other.paid()
    now = epay_shop.api_server.app.clock()
    (first,) = epay_shop.api_server.tx(
        lambda tx: queries.CLAIM_NOTICES.all(
            tx, now=now, lease_until=now + MINUTE_MS, limit=1, per_merchant=8,
            merchant_id=[epay_shop.id], notices=[7],
        )
    )  # fmt: skip
    assert first.merchant_id == other.id
    rest = epay_shop.api_server.tx(
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
    assert len(rest) == 1  # the eighth


def test_a_notice_goes_out_while_those_of_another_merchant_are_waited_for(
    epay_shop: EpayShop,
) -> None:
    quick = EpayShop(epay_shop.api_server, Inbox())
    over = threading.Event()
    epay_shop.inbox.before_answer = lambda: over.wait(10) and None
    for _ in range(9):
        epay_shop.paid()

    async def work() -> None:
        notifier = jobs.Notifier(epay_shop.api_server.app)
        now = epay_shop.api_server.app.clock()
        assert await notifier.take(now) == 8
        assert await notifier.turn() == 8
        await asyncio.to_thread(quick.paid)
        for _ in range(100):
            await notifier.turn()
            if quick.inbox.got:
                break
        assert not over.is_set()
        over.set()
        await notifier.finish()

    try:
        epay_shop.api_server.run(work())
        assert len(quick.inbox.got) == 1
        assert len(epay_shop.inbox.got) == 8
    finally:
        over.set()
        quick.inbox.close()


def test_money_that_comes_late_is_told_too_and_a_duplicate_only_once(epay_shop: EpayShop) -> None:
    placed = epay_shop.placed()
    order_id = epay_shop.order_id(placed)
    epay_shop.shop.data("POST", f"/v1/checkouts/{placed['payurl'].rpartition('/')[2]}/expire")
    assert epay_shop.shop.read_order(order_id)["status"] == "CLOSED"
    (row,) = epay_shop.api_server.sql(
        "select id, gateway from payment_attempts where merchant_id = $1 and order_id = $2",
        epay_shop.id,
        order_id,
    )
    now = epay_shop.api_server.app.clock()
    paid = PaymentOutcome(status="SUCCEEDED", provider_ref="UP1")
    for _ in range(2):
        epay_shop.api_server.tx(
            lambda tx: orders.apply_outcome(
                tx, epay_shop.id, row["id"], paid, now, gateway=row["gateway"]
            )
        )
    assert epay_shop.tell() == 1
    assert epay_shop.act("order", trade_no=placed["trade_no"])["api_trade_no"] == "UP1"


def test_what_is_given_back_before_it_could_be_told_is_not_told_as_paid(
    epay_shop: EpayShop,
) -> None:
    placed = epay_shop.paid()
    body = epay_shop.act("refund", trade_no=placed["trade_no"], money="10.5")
    epay_shop.shop.end_refund("re_" + body["refund_no"].removeprefix("re"))
    epay_shop.tell()
    assert epay_shop.inbox.got == []
    assert epay_shop.notice(placed)["answer"] == "not sent: the order is REFUNDED"


def test_an_order_of_the_api_has_no_notice(epay_shop: EpayShop) -> None:
    epay_shop.shop.paid()
    assert epay_shop.tell() == 0


def _links(page: str) -> list[str]:
    return [
        text.replace("&amp;", "&") for text in re.findall(r"https://shop\.example[^\"' <]*", page)
    ]


def test_the_signed_return_is_there_only_after_the_payment(epay_shop: EpayShop) -> None:
    placed = epay_shop.placed()
    page = epay_shop.api_server.http.get(placed["payurl"]).text
    assert _links(page) == []
    assert "TRADE_SUCCESS" not in page
    app, order_id = epay_shop.api_server.app, epay_shop.order_id(placed)
    assert epay_shop.api_server.run(app.return_address(app, epay_shop.id, order_id)) is None
    epay_shop.pay(placed)
    link, *_ = _links(epay_shop.api_server.http.get(placed["payurl"]).text)
    got = dict(parse_qsl(urlsplit(link).query))
    assert got.pop("from") == "till"
    assert signature.verify(got, epay_shop.key)
    assert (got["trade_no"], got["trade_status"]) == (placed["trade_no"], "TRADE_SUCCESS")
    session = placed["payurl"].rpartition("/")[2]
    assert epay_shop.key not in str(epay_shop.shop.data("GET", f"/v1/checkouts/{session}"))
    epay_shop.shop.dispute(order_id)
    assert _links(epay_shop.api_server.http.get(placed["payurl"]).text) == []


def test_an_order_that_was_closed_never_gets_a_signed_return(epay_shop: EpayShop) -> None:
    placed = epay_shop.placed()
    epay_shop.shop.revoke(epay_shop.order_id(placed))
    assert _links(epay_shop.api_server.http.get(placed["payurl"]).text) == []


@pytest.mark.parametrize(
    ("url", "made"),
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
def test_a_message_is_put_on_an_address(url: str, made: str) -> None:
    assert notices.address(url, {"a": "1 2&"}) == made


def test_a_message_is_encoded_as_php_does() -> None:
    text = "aZ0-_. ~!*'()+/=%中\n"
    made = "aZ0-_.+%7E%21%2A%27%28%29%2B%2F%3D%25%E4%B8%AD%0A"
    assert notices.address("https://s.example/~me?q=~", {"a": text}) == (
        f"https://s.example/~me?q=~&a={made}"
    )


def test_without_the_deployments_key_nothing_is_lost(epay_shop: EpayShop) -> None:
    import msgspec

    placed = epay_shop.paid()
    epay_shop.paid()
    app = epay_shop.api_server.app
    good = app.settings
    try:
        app.settings = msgspec.structs.replace(good, secret_key="another-key-another-key-another")
        body = epay_shop.mapi()
        assert (body["code"], set(body)) == (-1, {"code", "msg"})
        page = epay_shop.api_server.http.get(placed["payurl"])
        assert page.status_code == 200
        assert _links(page.text) == []
        with structlog.testing.capture_logs() as said:
            assert epay_shop.tell() == 2
        events = [line["event"] for line in said if "notice" in line["event"]]
        assert events == ["notices cannot be signed"]  # once for both
        assert epay_shop.notice(placed)["tries"] == 0
        assert not epay_shop.api_server.tx(lambda tx: epay.check_key(tx, app.settings.secret_key))
    finally:
        app.settings = good
    assert epay_shop.api_server.tx(lambda tx: epay.check_key(tx, good.secret_key))
    assert epay_shop.tell(app.clock() + 2 * MINUTE_MS) == 2
    assert len(epay_shop.inbox.got) == 2
