"""act=refund is idempotent, also for concurrent requests."""

import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import asyncpg
import httpx2
import msgspec
import pytest

from opentill import merchants
from opentill.core.money import Money
from opentill.gateways import RefundOutcome, RefundRequest
from opentill.gateways.epay import configuration
from opentill.gateways.epay.client import EpayGateway
from opentill.outgoing.client import Outgoing, Policy
from support.api_server import assert_refused
from support.epay_shop import EpayShop

DAY_MS = 86_400_000
REFUSED = {"code": -3, "msg": "签名校验失败"}


def refund_params(epay_shop: EpayShop, placed: dict[str, Any], **changes: Any) -> dict[str, str]:
    """Return the unsigned parameters of a refund; None omits one."""
    form = {
        "act": "refund",
        "pid": epay_shop.pid,
        "trade_no": placed["trade_no"],
        "money": "1.00",
        **changes,
    }
    return {name: text for name, text in form.items() if text is not None}


def post_refund(epay_shop: EpayShop, form: dict[str, str]) -> dict[str, Any]:
    body: dict[str, Any] = epay_shop.post("api", form).json()
    return body


def list_refunds(epay_shop: EpayShop) -> list[dict[str, Any]]:
    return epay_shop.api_server.sql(
        "select id, amount_minor from refunds where merchant_id = $1 order by id", epay_shop.id
    )


def expected_code(form: dict[str, str]) -> int:
    """Return the code of an accepted refund: 0 for a rainbow server as the client."""
    return 0 if {"key", "refund_no"} <= form.keys() else 1


def authenticate(epay_shop: EpayShop, form: dict[str, str], way: str) -> dict[str, str]:
    return epay_shop.sign(form) if way == "sign" else form | {"key": epay_shop.key}


@pytest.mark.parametrize(
    ("proof", "number", "code"),
    [("key", "2026112619461812345", 0), ("key", "", 1), ("sign", "R-1", 1), ("sign", "", 1)],
)
def test_a_rainbow_server_gets_code_0_for_an_accepted_refund(
    epay_shop: EpayShop, proof: str, number: str, code: int
) -> None:
    """It sends refund_no with its key, and shows "退款失败：退款成功" for any other code.

    Otherwise its administrator would refund again under another number.
    """
    form = refund_params(
        epay_shop, epay_shop.place_paid_order(), money="3.00", refund_no=number or None
    )
    form = authenticate(epay_shop, form, proof)
    answers = [post_refund(epay_shop, form) for _ in range(2)]  # the response of the first was lost
    assert answers[0] == answers[1]
    assert (answers[0]["code"], answers[0]["msg"]) == (code, "退款成功")
    assert answers[0]["money"] == "3.00"
    assert [row["amount_minor"] for row in list_refunds(epay_shop)] == [300]
    refused = post_refund(
        epay_shop,
        form | {"money": "99"}
        if proof == "key"
        else epay_shop.sign(
            refund_params(
                epay_shop, epay_shop.place_paid_order(), money="99", refund_no=number or None
            )
        ),
    )
    assert refused["code"] == -1


@pytest.mark.parametrize("way", ["sign", "key"])
@pytest.mark.parametrize("number", [None, "R-1"])
def test_repeated_requests_are_one_refund(
    epay_shop: EpayShop, way: str, number: str | None
) -> None:
    form = authenticate(
        epay_shop, refund_params(epay_shop, epay_shop.place_paid_order(), refund_no=number), way
    )
    answers = [post_refund(epay_shop, form) for _ in range(4)]
    assert [answer["code"] for answer in answers] == [expected_code(form)] * 4, answers[-1]
    assert len({answer["refund_no"] for answer in answers}) == 1
    assert len(list_refunds(epay_shop)) == 1
    if number:
        assert answers[0]["refund_no"] == number


@pytest.mark.parametrize("way", ["sign", "key"])
@pytest.mark.parametrize("number", [None, "R-1"])
def test_concurrent_identical_requests_are_one_refund(
    epay_shop: EpayShop, way: str, number: str | None
) -> None:
    form = authenticate(
        epay_shop, refund_params(epay_shop, epay_shop.place_paid_order(), refund_no=number), way
    )
    with ThreadPoolExecutor(4) as threads:
        answers = list(threads.map(lambda _: post_refund(epay_shop, form), range(4)))
    assert {answer["code"] for answer in answers} == {expected_code(form)}, answers
    assert len({answer["refund_no"] for answer in answers}) == 1
    assert len(list_refunds(epay_shop)) == 1


def test_a_request_by_key_and_an_identical_signed_one_are_one_refund(epay_shop: EpayShop) -> None:
    form = refund_params(epay_shop, epay_shop.place_paid_order())
    apart = {name: text for name, text in form.items() if name != "act"}
    http = epay_shop.api_server.http
    answers = [
        post_refund(epay_shop, epay_shop.sign(form)),
        post_refund(epay_shop, form | {"key": epay_shop.key}),
        http.get("/epay/api.php", params=form | {"key": epay_shop.key}).json(),
        http.post("/epay/api.php?act=refund", data=apart | {"key": epay_shop.key}).json(),
    ]
    assert [answer["code"] for answer in answers] == [1, 1, 1, 1]
    assert len(list_refunds(epay_shop)) == 1


# what else a second refund of the same order says, beside the amount of the first
OTHERS = [{"refund_no": "R-2"}, {"timestamp": "1700000001"}, {"money": "1.01"}]


@pytest.mark.parametrize("changes", OTHERS, ids=str)
@pytest.mark.parametrize("way", ["sign", "key"])
def test_another_request_is_another_refund(
    epay_shop: EpayShop, way: str, changes: dict[str, str]
) -> None:
    placed = epay_shop.place_paid_order()
    for form in (refund_params(epay_shop, placed), refund_params(epay_shop, placed, **changes)):
        form = authenticate(epay_shop, form, way)  # noqa: PLW2901
        assert post_refund(epay_shop, form)["code"] == expected_code(form)
    assert len(list_refunds(epay_shop)) == 2


def test_identical_requests_within_a_day_are_one_refund(
    epay_shop: EpayShop, clock: Callable[[int], None]
) -> None:
    form = epay_shop.sign(refund_params(epay_shop, epay_shop.place_paid_order()))
    now = epay_shop.api_server.app.clock()
    steps = [(0, 1), (DAY_MS - 1, 1), (DAY_MS, 2), (2 * DAY_MS - 1, 2), (2 * DAY_MS, 3)]
    for later, refunds in steps:
        clock(now + later)
        assert post_refund(epay_shop, form)["code"] == 1
        assert len(list_refunds(epay_shop)) == refunds, later


def test_a_refund_no_identifies_one_refund_forever(
    epay_shop: EpayShop, clock: Callable[[int], None]
) -> None:
    placed, other = epay_shop.place_paid_order(), epay_shop.place_paid_order()
    first = epay_shop.call_api(
        "refund", trade_no=placed["trade_no"], money="1", refund_no="R|1.a-b_c"
    )
    clock(epay_shop.api_server.app.clock() + 30 * DAY_MS)
    again = epay_shop.call_api(
        "refund", out_trade_no=placed["out_trade_no"], money="1.00", refund_no="R|1.a-b_c"
    )
    assert again == first | {"money": "1.00"}
    for changes in ({"money": "2"}, {"trade_no": other["trade_no"]}):
        asked_for = {"trade_no": placed["trade_no"], "money": "1", **changes}
        body = epay_shop.call_api("refund", refund_no="R|1.a-b_c", **asked_for)
        assert body["code"] == -1
        assert "refund_no" in body["msg"]
    assert len(list_refunds(epay_shop)) == 1


def test_the_refund_no_of_a_response_identifies_the_refund(epay_shop: EpayShop) -> None:
    placed = epay_shop.place_paid_order()
    first = epay_shop.call_api("refund", trade_no=placed["trade_no"], money="1")
    number = first["refund_no"]
    again = epay_shop.call_api("refund", trade_no=placed["trade_no"], money="1", refund_no=number)
    assert again == first | {"code": 0}
    assert len(list_refunds(epay_shop)) == 1
    body = epay_shop.call_api("refund", trade_no=placed["trade_no"], money="2", refund_no=number)
    assert body["code"] == -1


def test_an_epay_refund_no_cannot_be_used_through_the_api(epay_shop: EpayShop) -> None:
    placed = epay_shop.place_paid_order()
    epay_shop.call_api("refund", trade_no=placed["trade_no"], money="1", refund_no="R1")
    path = f"/v1/orders/{epay_shop.order_id(placed)}/refunds"
    for body in ({"refundNo": "R1"}, {"refundNo": "R1", "amount": "1.00"}):
        assert_refused(epay_shop.shop.post(path, body), "orderId")
    assert len(list_refunds(epay_shop)) == 1


@pytest.mark.parametrize("number", ["x" * 65, "退", "a b", "a\\b"])
def test_an_invalid_refund_no_is_refused(epay_shop: EpayShop, number: str) -> None:
    body = epay_shop.call_api(
        "refund", trade_no=epay_shop.place_paid_order()["trade_no"], money="1", refund_no=number
    )
    assert body["code"] == -1
    assert "refund_no" in body["msg"]
    assert list_refunds(epay_shop) == []


def test_concurrent_refunds_of_two_orders_with_one_number_refund_one(epay_shop: EpayShop) -> None:
    orders = [epay_shop.place_paid_order(), epay_shop.place_paid_order()]
    forms = [epay_shop.sign(refund_params(epay_shop, order, refund_no="R-1")) for order in orders]
    with ThreadPoolExecutor(2) as threads:
        codes = sorted(threads.map(lambda form: post_refund(epay_shop, form)["code"], forms))
    assert codes == [-1, 1]
    assert len(list_refunds(epay_shop)) == 1


def test_a_repeated_request_gets_the_same_response_after_a_full_refund(
    epay_shop: EpayShop,
) -> None:
    placed = epay_shop.place_paid_order()
    form = epay_shop.sign(refund_params(epay_shop, placed, money="10.5"))
    first = post_refund(epay_shop, form)
    assert post_refund(epay_shop, form) == first
    epay_shop.shop.report_refund("re_" + first["refund_no"].removeprefix("re"))
    assert epay_shop.call_api("order", trade_no=placed["trade_no"])["status"] == 2
    assert post_refund(epay_shop, form) == first
    other = post_refund(
        epay_shop, epay_shop.sign(refund_params(epay_shop, placed, money="10.5", refund_no="again"))
    )
    assert other["code"] == -1
    assert len(list_refunds(epay_shop)) == 1


@pytest.mark.parametrize("number", [None, "R-1"])
def test_a_repeated_request_reports_that_the_refund_failed(
    epay_shop: EpayShop, number: str | None
) -> None:
    placed = epay_shop.place_paid_order()
    form = epay_shop.sign(refund_params(epay_shop, placed, refund_no=number))
    assert post_refund(epay_shop, form)["code"] == 1
    epay_shop.shop.report_refund(list_refunds(epay_shop)[0]["id"], "REFUSED", "card closed")
    body = post_refund(epay_shop, form)
    assert body["code"] == -1
    assert "失败" in body["msg"]
    assert len(list_refunds(epay_shop)) == 1
    again = post_refund(
        epay_shop, epay_shop.sign(refund_params(epay_shop, placed, refund_no="R-2"))
    )
    assert again["code"] == 1


@pytest.mark.parametrize("way", ["query", "body"])
def test_a_signature_that_does_not_cover_act_is_refused(epay_shop: EpayShop, way: str) -> None:
    form = refund_params(epay_shop, epay_shop.place_paid_order(), act=None)
    bare, whole = epay_shop.sign(form), epay_shop.sign(form | {"act": "refund"})
    del whole["act"]
    http = epay_shop.api_server.http

    def send(signed: dict[str, str]) -> dict[str, Any]:
        if way == "query":
            answer = http.post("/epay/api.php", params=signed, data={"act": "refund"})
        else:
            answer = http.post("/epay/api.php?act=refund", data=signed)
        body: dict[str, Any] = answer.json()
        return body

    assert send(bare) == REFUSED
    assert http.post("/epay/api.php", data=bare | {"act": "refund"}).json() == REFUSED
    other = epay_shop.sign(form | {"act": "order"})
    assert http.post("/epay/api.php", data=other | {"act": "refund"}).json() == REFUSED
    assert list_refunds(epay_shop) == []
    assert send(whole)["code"] == 1


@pytest.fixture
def failing_refund_request(epay_shop: EpayShop) -> Iterator[None]:
    """Let the last insert of each refund of this merchant fail."""
    name = f"broken_{epay_shop.pid}"
    epay_shop.api_server.sql(
        f"""create function {name}() returns trigger language plpgsql as
        $$ begin raise exception 'no room'; end $$"""
    )
    epay_shop.api_server.sql(
        f"""create trigger {name} after insert on epay_refunds for each row
        when (new.merchant_id = '{epay_shop.id}') execute function {name}()"""
    )
    yield
    epay_shop.api_server.sql(f"drop function if exists {name}() cascade")


def test_a_failure_before_the_commit_leaves_no_refund(
    epay_shop: EpayShop, failing_refund_request: None
) -> None:
    form = epay_shop.sign(refund_params(epay_shop, epay_shop.place_paid_order()))
    assert post_refund(epay_shop, form) == {"code": -1, "msg": "系统错误，请稍后再试"}
    assert list_refunds(epay_shop) == []
    epay_shop.api_server.sql(f"drop function broken_{epay_shop.pid}() cascade")
    assert post_refund(epay_shop, form)["code"] == 1
    assert post_refund(epay_shop, form)["code"] == 1
    assert len(list_refunds(epay_shop)) == 1


def test_repeating_a_request_returns_the_lost_response(epay_shop: EpayShop) -> None:
    placed = epay_shop.place_paid_order()
    form = epay_shop.sign(refund_params(epay_shop, placed))
    order_id, url = epay_shop.order_id(placed), epay_shop.api_server.settings.database_url or ""

    async def let_client_time_out() -> None:
        """Lock the order until the client of its refund has timed out."""
        connection = await asyncpg.connect(url, statement_cache_size=0)
        try:
            async with connection.transaction():
                lock = "select from orders where merchant_id = $1 and id = $2 for update"
                await connection.execute(lock, epay_shop.id, order_id)
                timeout = httpx2.Timeout(30, read=0.3)
                async with httpx2.AsyncClient(base_url=epay_shop.api_server.url) as client:
                    with pytest.raises(httpx2.ReadTimeout):
                        await client.post("/epay/api.php", data=form, timeout=timeout)
        finally:
            await connection.close()

    epay_shop.api_server.run(let_client_time_out())
    first = post_refund(epay_shop, form)
    assert first["code"] == 1
    deadline = time.monotonic() + 10
    while not list_refunds(epay_shop) and time.monotonic() < deadline:
        time.sleep(0.02)
    assert post_refund(epay_shop, form) == first
    assert len(list_refunds(epay_shop)) == 1


def refund_by_gateway(
    epay_shop: EpayShop, placed: dict[str, Any], refund_id: str, minor: int = 100
) -> RefundOutcome:
    """Refund through our own epay gateway, as another OpenTill in front of this one would."""
    url = f"{epay_shop.api_server.url}/epay/"
    settings = {"epay_url": url, "epay_pid": epay_shop.pid, "epay_key": epay_shop.key}
    request = RefundRequest(
        refund_id=refund_id,
        attempt_id=placed["out_trade_no"],
        provider_ref=placed["trade_no"],
        amount=Money(minor, "CNY"),
        reason="",
        callback_url="",
    )

    async def refund() -> RefundOutcome:
        gateway = EpayGateway(configuration.read(settings), Outgoing(Policy.only(url)))
        try:
            return await gateway.refund(request)
        finally:
            await gateway.close()

    return epay_shop.api_server.run(refund())


def test_the_epay_gateway_reports_refusals_as_refused(
    epay_shop: EpayShop,
) -> None:
    placed = epay_shop.place_paid_order()
    done = refund_by_gateway(epay_shop, placed, "R-1")
    assert done.status == "SUCCEEDED"
    epay_shop.shop.report_refund(list_refunds(epay_shop)[0]["id"], "REFUSED", "card closed")
    poor = EpayShop(epay_shop.api_server, epay_shop.inbox, overdraft_minor=0)
    for shop, order, refund_id, minor in (
        (epay_shop, placed, "R-1", 100),  # failed
        (epay_shop, placed, "R-2", 9999),  # more than was paid
        (poor, poor.place_paid_order(), "R-4", 1050),  # beyond the balance
    ):
        outcome = refund_by_gateway(shop, order, refund_id, minor)
        assert outcome.status == "REFUSED", outcome
    now = epay_shop.api_server.app.clock()
    epay_shop.api_server.tx(
        lambda tx: merchants.set_capability(
            tx, epay_shop.id, "refund", on=False, actor=merchants.Actor("ann", "a review"), now=now
        )
    )
    assert refund_by_gateway(epay_shop, placed, "R-5").status == "REFUSED"


def test_the_epay_gateway_reports_errors_as_unknown_and_limits_as_unreachable(
    epay_shop: EpayShop,
    failing_refund: None,
) -> None:
    placed = epay_shop.place_paid_order()
    outcome = refund_by_gateway(epay_shop, placed, "R-1")
    assert outcome.status == "UNKNOWN"
    assert "系统错误" in outcome.reason
    app = epay_shop.api_server.app
    before = app.settings
    app.settings = msgspec.structs.replace(before, limit_ip_per_minute=1)
    try:
        outcomes = [refund_by_gateway(epay_shop, placed, "R-2") for _ in range(2)]
    finally:
        app.settings = before
    assert outcomes[1].status == "UNREACHABLE", outcomes


@pytest.fixture
def failing_refund(epay_shop: EpayShop) -> Iterator[None]:
    """Let the commit of each refund of this merchant fail."""
    name = f"broken_refunds_{epay_shop.pid}"
    epay_shop.api_server.sql(
        f"""create function {name}() returns trigger language plpgsql as
        $$ begin raise exception 'no room'; end $$"""
    )
    epay_shop.api_server.sql(
        f"""create constraint trigger {name} after insert on refunds
        deferrable initially deferred for each row
        when (new.merchant_id = '{epay_shop.id}') execute function {name}()"""
    )
    yield
    epay_shop.api_server.sql(f"drop function {name}() cascade")
