"""act=refund: the same request is the same refund, however often and however parallel it comes."""

import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import asyncpg
import httpx2
import pytest

from epay.stall import Stall

DAY_MS = 86_400_000
REFUSED = {"code": -3, "msg": "签名校验失败"}


def asked(stall: Stall, placed: dict[str, Any], **changes: Any) -> dict[str, str]:
    """Return the parameters of a refund, not signed yet; None leaves one out."""
    form = {
        "act": "refund",
        "pid": stall.pid,
        "trade_no": placed["trade_no"],
        "money": "1.00",
        **changes,
    }
    return {name: text for name, text in form.items() if text is not None}


def sent(stall: Stall, form: dict[str, str]) -> dict[str, Any]:
    body: dict[str, Any] = stall.post("api", form).json()
    return body


def made(stall: Stall) -> list[dict[str, Any]]:
    return stall.till.sql(
        "select id, amount_minor from refunds where merchant_id = $1 order by id", stall.id
    )


def proved(stall: Stall, form: dict[str, str], way: str) -> dict[str, str]:
    return stall.signed(form) if way == "sign" else form | {"key": stall.key}


@pytest.mark.parametrize("way", ["sign", "key"])
@pytest.mark.parametrize("number", [None, "R-1"])
def test_the_same_request_sent_four_times_is_one_refund(
    stall: Stall, way: str, number: str | None
) -> None:
    form = proved(stall, asked(stall, stall.paid(), refund_no=number), way)
    answers = [sent(stall, form) for _ in range(4)]
    assert [answer["code"] for answer in answers] == [1, 1, 1, 1], answers[-1]
    assert len({answer["refund_no"] for answer in answers}) == 1
    assert len(made(stall)) == 1
    if number:
        assert answers[0]["refund_no"] == number


@pytest.mark.parametrize("way", ["sign", "key"])
@pytest.mark.parametrize("number", [None, "R-1"])
def test_four_such_requests_at_once_are_one_refund(
    stall: Stall, way: str, number: str | None
) -> None:
    form = proved(stall, asked(stall, stall.paid(), refund_no=number), way)
    with ThreadPoolExecutor(4) as threads:
        answers = list(threads.map(lambda _: sent(stall, form), range(4)))
    assert {answer["code"] for answer in answers} == {1}, answers
    assert len({answer["refund_no"] for answer in answers}) == 1
    assert len(made(stall)) == 1


def test_a_request_by_key_and_the_same_one_by_sign_are_one_refund(stall: Stall) -> None:
    form = asked(stall, stall.paid())
    apart = {name: text for name, text in form.items() if name != "act"}
    http = stall.till.http
    answers = [
        sent(stall, stall.signed(form)),
        sent(stall, form | {"key": stall.key}),
        http.get("/epay/api.php", params=form | {"key": stall.key}).json(),
        http.post("/epay/api.php?act=refund", data=apart | {"key": stall.key}).json(),
    ]
    assert [answer["code"] for answer in answers] == [1, 1, 1, 1]
    assert len(made(stall)) == 1


# what else a second refund of the same order says, beside the amount of the first
OTHERS = [{"refund_no": "R-2"}, {"timestamp": "1700000001"}, {"money": "1.01"}]


@pytest.mark.parametrize("changes", OTHERS, ids=str)
@pytest.mark.parametrize("way", ["sign", "key"])
def test_another_request_is_another_refund(stall: Stall, way: str, changes: dict[str, str]) -> None:
    placed = stall.paid()
    for form in (asked(stall, placed), asked(stall, placed, **changes)):
        assert sent(stall, proved(stall, form, way))["code"] == 1
    assert len(made(stall)) == 2


def test_the_same_sign_is_the_same_refund_for_a_day(stall: Stall) -> None:
    form = stall.signed(asked(stall, stall.paid()))
    now = stall.till.app.clock()
    steps = [(0, 1), (DAY_MS - 1, 1), (DAY_MS, 2), (2 * DAY_MS - 1, 2), (2 * DAY_MS, 3)]
    try:
        for later, refunds in steps:
            stall.till.app.clock = lambda later=later: now + later
            assert sent(stall, form)["code"] == 1
            assert len(made(stall)) == refunds, later
    finally:
        stall.till.app.clock = lambda: now


def test_a_refund_no_names_one_refund_for_ever(stall: Stall) -> None:
    placed, other = stall.paid(), stall.paid()
    first = stall.act("refund", trade_no=placed["trade_no"], money="1", refund_no="R|1.a-b_c")
    now = stall.till.app.clock()
    stall.till.app.clock = lambda: now + 30 * DAY_MS
    try:
        again = stall.act(
            "refund", out_trade_no=placed["out_trade_no"], money="1.00", refund_no="R|1.a-b_c"
        )
        assert again == first | {"money": "1.00"}
        for changes in ({"money": "2"}, {"trade_no": other["trade_no"]}):
            asked_for = {"trade_no": placed["trade_no"], "money": "1", **changes}
            body = stall.act("refund", refund_no="R|1.a-b_c", **asked_for)
            assert body["code"] == -1
            assert "refund_no" in body["msg"]
    finally:
        stall.till.app.clock = lambda: now
    assert len(made(stall)) == 1


def test_the_number_of_the_answer_names_the_refund_too(stall: Stall) -> None:
    placed = stall.paid()
    first = stall.act("refund", trade_no=placed["trade_no"], money="1")
    number = first["refund_no"]
    again = stall.act("refund", trade_no=placed["trade_no"], money="1", refund_no=number)
    assert again == first
    assert len(made(stall)) == 1
    body = stall.act("refund", trade_no=placed["trade_no"], money="2", refund_no=number)
    assert body["code"] == -1


@pytest.mark.parametrize("number", ["x" * 65, "退", "a b", "a\\b"])
def test_a_refund_no_that_is_none_is_refused(stall: Stall, number: str) -> None:
    body = stall.act("refund", trade_no=stall.paid()["trade_no"], money="1", refund_no=number)
    assert body["code"] == -1
    assert "refund_no" in body["msg"]
    assert made(stall) == []


def test_one_number_for_two_orders_at_once_is_a_refund_of_one(stall: Stall) -> None:
    orders = [stall.paid(), stall.paid()]
    forms = [stall.signed(asked(stall, order, refund_no="R-1")) for order in orders]
    with ThreadPoolExecutor(2) as threads:
        codes = sorted(threads.map(lambda form: sent(stall, form)["code"], forms))
    assert codes == [-1, 1]
    assert len(made(stall)) == 1


def test_a_repeated_request_is_answered_when_nothing_is_left_and_when_it_is_over(
    stall: Stall,
) -> None:
    placed = stall.paid()
    form = stall.signed(asked(stall, placed, money="10.5"))
    first = sent(stall, form)
    assert sent(stall, form) == first
    stall.shop.end_refund("re_" + first["refund_no"].removeprefix("re"))
    assert stall.act("order", trade_no=placed["trade_no"])["status"] == 2
    assert sent(stall, form) == first
    other = sent(stall, stall.signed(asked(stall, placed, money="10.5", refund_no="again")))
    assert other["code"] == -1
    assert len(made(stall)) == 1


@pytest.mark.parametrize("number", [None, "R-1"])
def test_a_refund_that_failed_is_not_said_to_be_done(stall: Stall, number: str | None) -> None:
    placed = stall.paid()
    form = stall.signed(asked(stall, placed, refund_no=number))
    assert sent(stall, form)["code"] == 1
    stall.shop.end_refund(made(stall)[0]["id"], "REFUSED", "card closed")
    body = sent(stall, form)
    assert body["code"] == -1
    assert "失败" in body["msg"]
    assert len(made(stall)) == 1
    again = sent(stall, stall.signed(asked(stall, placed, refund_no="R-2")))
    assert again["code"] == 1


@pytest.mark.parametrize("way", ["query", "body"])
def test_a_sign_that_does_not_cover_act_is_no_refund(stall: Stall, way: str) -> None:
    form = asked(stall, stall.paid(), act=None)
    bare, whole = stall.signed(form), stall.signed(form | {"act": "refund"})
    del whole["act"]
    http = stall.till.http

    def send(signed: dict[str, str]) -> dict[str, Any]:
        if way == "query":
            answer = http.post("/epay/api.php", params=signed, data={"act": "refund"})
        else:
            answer = http.post("/epay/api.php?act=refund", data=signed)
        body: dict[str, Any] = answer.json()
        return body

    assert send(bare) == REFUSED
    assert http.post("/epay/api.php", data=bare | {"act": "refund"}).json() == REFUSED
    other = stall.signed(form | {"act": "order"})
    assert http.post("/epay/api.php", data=other | {"act": "refund"}).json() == REFUSED
    assert made(stall) == []
    assert send(whole)["code"] == 1


@pytest.fixture
def breaking(stall: Stall) -> Iterator[None]:
    """Have the database refuse what is written last of a refund of this merchant."""
    name = f"broken_{stall.pid}"
    stall.till.sql(
        f"""create function {name}() returns trigger language plpgsql as
        $$ begin raise exception 'no room'; end $$"""
    )
    stall.till.sql(
        f"""create trigger {name} after insert on epay_refunds for each row
        when (new.merchant_id = '{stall.id}') execute function {name}()"""
    )
    yield
    stall.till.sql(f"drop function if exists {name}() cascade")


def test_what_breaks_before_the_commit_leaves_nothing_of_it(stall: Stall, breaking: None) -> None:
    form = stall.signed(asked(stall, stall.paid()))
    assert sent(stall, form) == {"code": -1, "msg": "系统错误，请稍后再试"}
    assert made(stall) == []
    stall.till.sql(f"drop function broken_{stall.pid}() cascade")
    assert sent(stall, form)["code"] == 1
    assert sent(stall, form)["code"] == 1
    assert len(made(stall)) == 1


def test_an_answer_that_got_lost_is_had_by_asking_again(stall: Stall) -> None:
    placed = stall.paid()
    form = stall.signed(asked(stall, placed))
    order_id, url = stall.order_id(placed), stall.till.settings.database_url or ""

    async def given_up() -> None:
        """Hold the order until a client has given up waiting for its refund."""
        connection = await asyncpg.connect(url, statement_cache_size=0)
        try:
            async with connection.transaction():
                lock = "select from orders where merchant_id = $1 and id = $2 for update"
                await connection.execute(lock, stall.id, order_id)
                async with httpx2.AsyncClient(base_url=stall.till.url) as client:
                    with pytest.raises(httpx2.ReadTimeout):
                        await client.post("/epay/api.php", data=form, timeout=0.3)
        finally:
            await connection.close()

    stall.till.run(given_up())
    first = sent(stall, form)
    assert first["code"] == 1
    deadline = time.monotonic() + 10
    while not made(stall) and time.monotonic() < deadline:
        time.sleep(0.02)
    assert sent(stall, form) == first
    assert len(made(stall)) == 1
