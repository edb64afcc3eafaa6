"""``act=refund`` of the Epay API is idempotent, even for concurrent requests."""

import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import asyncpg
import httpx2
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
INVALID_SIGNATURE = {"code": -3, "msg": "签名校验失败"}


def refund_params(
    epay_shop: EpayShop, epay_order: dict[str, Any], **changes: Any
) -> dict[str, str]:
    """Return the unsigned parameters of a refund; a parameter that is None is omitted."""
    form = {
        "act": "refund",
        "pid": epay_shop.pid,
        "trade_no": epay_order["trade_no"],
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
    """Return the code of an accepted refund: 0 if the client seems to be a rainbow Epay server."""
    return 0 if {"key", "refund_no"} <= form.keys() else 1


def authenticate(epay_shop: EpayShop, form: dict[str, str], proof: str) -> dict[str, str]:
    """Sign the form, or add the key to it."""
    return epay_shop.sign(form) if proof == "sign" else form | {"key": epay_shop.key}


@pytest.mark.parametrize(
    ("proof", "number", "code"),
    [("key", "2026112619461812345", 0), ("key", "", 1), ("sign", "R-1", 1), ("sign", "", 1)],
)
def test_a_rainbow_server_gets_code_0_for_an_accepted_refund(
    epay_shop: EpayShop, proof: str, number: str, code: int
) -> None:
    """A rainbow Epay server sends refund_no and its key, and reports any other code as a failure.

    Its administrator would then refund again under another number.
    """
    form = refund_params(
        epay_shop, epay_shop.place_paid_order(), money="3.00", refund_no=number or None
    )
    form = authenticate(epay_shop, form, proof)
    # The shop sends the request again, as if it had not received the first response.
    responses = [post_refund(epay_shop, form) for _ in range(2)]
    assert responses[0] == responses[1]
    assert (responses[0]["code"], responses[0]["msg"]) == (code, "退款成功")
    assert responses[0]["money"] == "3.00"
    assert [row["amount_minor"] for row in list_refunds(epay_shop)] == [300]
    too_much = refund_params(
        epay_shop, epay_shop.place_paid_order(), money="99", refund_no=number or None
    )
    assert post_refund(epay_shop, authenticate(epay_shop, too_much, proof))["code"] == -1


@pytest.mark.parametrize("proof", ["sign", "key"])
@pytest.mark.parametrize("number", [None, "R-1"])
def test_repeated_requests_create_one_refund(
    epay_shop: EpayShop, proof: str, number: str | None
) -> None:
    form = authenticate(
        epay_shop, refund_params(epay_shop, epay_shop.place_paid_order(), refund_no=number), proof
    )
    responses = [post_refund(epay_shop, form) for _ in range(4)]
    assert [response["code"] for response in responses] == [expected_code(form)] * 4, responses[-1]
    assert len({response["refund_no"] for response in responses}) == 1
    assert len(list_refunds(epay_shop)) == 1
    if number:
        assert responses[0]["refund_no"] == number


@pytest.mark.parametrize("proof", ["sign", "key"])
@pytest.mark.parametrize("number", [None, "R-1"])
def test_concurrent_identical_requests_create_one_refund(
    epay_shop: EpayShop, proof: str, number: str | None
) -> None:
    form = authenticate(
        epay_shop, refund_params(epay_shop, epay_shop.place_paid_order(), refund_no=number), proof
    )
    with ThreadPoolExecutor(4) as threads:
        responses = list(threads.map(lambda _: post_refund(epay_shop, form), range(4)))
    assert {response["code"] for response in responses} == {expected_code(form)}, responses
    assert len({response["refund_no"] for response in responses}) == 1
    assert len(list_refunds(epay_shop)) == 1


def test_a_request_with_the_key_and_an_identical_signed_one_create_one_refund(
    epay_shop: EpayShop,
) -> None:
    form = refund_params(epay_shop, epay_shop.place_paid_order())
    without_act = {name: text for name, text in form.items() if name != "act"}
    http = epay_shop.api_server.http
    responses = [
        post_refund(epay_shop, epay_shop.sign(form)),
        post_refund(epay_shop, form | {"key": epay_shop.key}),
        http.get("/epay/api.php", params=form | {"key": epay_shop.key}).json(),
        http.post("/epay/api.php?act=refund", data=without_act | {"key": epay_shop.key}).json(),
    ]
    assert [response["code"] for response in responses] == [1, 1, 1, 1]
    assert len(list_refunds(epay_shop)) == 1


# A second request for a refund differs from the first in these parameters.
CHANGES = [{"refund_no": "R-2"}, {"timestamp": "1700000001"}, {"money": "1.01"}]


@pytest.mark.parametrize("changes", CHANGES, ids=str)
@pytest.mark.parametrize("proof", ["sign", "key"])
def test_a_request_with_other_parameters_creates_another_refund(
    epay_shop: EpayShop, proof: str, changes: dict[str, str]
) -> None:
    epay_order = epay_shop.place_paid_order()
    for params in (
        refund_params(epay_shop, epay_order),
        refund_params(epay_shop, epay_order, **changes),
    ):
        form = authenticate(epay_shop, params, proof)
        assert post_refund(epay_shop, form)["code"] == expected_code(form)
    assert len(list_refunds(epay_shop)) == 2


def test_identical_requests_within_a_day_create_one_refund(
    epay_shop: EpayShop, clock: Callable[[int], None]
) -> None:
    form = epay_shop.sign(refund_params(epay_shop, epay_shop.place_paid_order()))
    now = epay_shop.api_server.app.clock()
    # Each row: ms since the first request, and the number of refunds after this request.
    requests = [(0, 1), (DAY_MS - 1, 1), (DAY_MS, 2), (2 * DAY_MS - 1, 2), (2 * DAY_MS, 3)]
    for elapsed_ms, refunds in requests:
        clock(now + elapsed_ms)
        assert post_refund(epay_shop, form)["code"] == 1
        assert len(list_refunds(epay_shop)) == refunds, elapsed_ms


def test_a_refund_no_identifies_one_refund_forever(
    epay_shop: EpayShop, clock: Callable[[int], None]
) -> None:
    epay_order, other_order = epay_shop.place_paid_order(), epay_shop.place_paid_order()
    refund = epay_shop.call_api(
        "refund", trade_no=epay_order["trade_no"], money="1", refund_no="R|1.a-b_c"
    )
    clock(epay_shop.api_server.app.clock() + 30 * DAY_MS)
    repeated = epay_shop.call_api(
        "refund", out_trade_no=epay_order["out_trade_no"], money="1.00", refund_no="R|1.a-b_c"
    )
    assert repeated == refund | {"money": "1.00"}
    for changes in ({"money": "2"}, {"trade_no": other_order["trade_no"]}):
        params = {"trade_no": epay_order["trade_no"], "money": "1", **changes}
        body = epay_shop.call_api("refund", refund_no="R|1.a-b_c", **params)
        assert body["code"] == -1
        assert "refund_no" in body["msg"]
    assert len(list_refunds(epay_shop)) == 1


def test_the_refund_no_of_a_response_identifies_the_refund(epay_shop: EpayShop) -> None:
    epay_order = epay_shop.place_paid_order()
    refund = epay_shop.call_api("refund", trade_no=epay_order["trade_no"], money="1")
    number = refund["refund_no"]
    repeated = epay_shop.call_api(
        "refund", trade_no=epay_order["trade_no"], money="1", refund_no=number
    )
    assert repeated == refund | {"code": 0}
    assert len(list_refunds(epay_shop)) == 1
    body = epay_shop.call_api(
        "refund", trade_no=epay_order["trade_no"], money="2", refund_no=number
    )
    assert body["code"] == -1


def test_an_epay_refund_no_cannot_be_used_through_the_api(epay_shop: EpayShop) -> None:
    epay_order = epay_shop.place_paid_order()
    epay_shop.call_api("refund", trade_no=epay_order["trade_no"], money="1", refund_no="R1")
    path = f"/v1/orders/{epay_shop.order_id(epay_order)}/refunds"
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


def test_only_one_of_two_concurrent_refunds_with_one_refund_no_is_accepted(
    epay_shop: EpayShop,
) -> None:
    orders = [epay_shop.place_paid_order(), epay_shop.place_paid_order()]
    forms = [epay_shop.sign(refund_params(epay_shop, order, refund_no="R-1")) for order in orders]
    with ThreadPoolExecutor(2) as threads:
        codes = sorted(threads.map(lambda form: post_refund(epay_shop, form)["code"], forms))
    assert codes == [-1, 1]
    assert len(list_refunds(epay_shop)) == 1


def test_a_repeated_request_gets_the_same_response_after_a_full_refund(
    epay_shop: EpayShop,
) -> None:
    epay_order = epay_shop.place_paid_order()
    form = epay_shop.sign(refund_params(epay_shop, epay_order, money="10.5"))
    refund = post_refund(epay_shop, form)
    assert post_refund(epay_shop, form) == refund
    epay_shop.shop.report_refund("re_" + refund["refund_no"].removeprefix("re"))
    assert epay_shop.call_api("order", trade_no=epay_order["trade_no"])["status"] == 2
    assert post_refund(epay_shop, form) == refund
    refusal = post_refund(
        epay_shop,
        epay_shop.sign(refund_params(epay_shop, epay_order, money="10.5", refund_no="again")),
    )
    assert refusal["code"] == -1
    assert len(list_refunds(epay_shop)) == 1


@pytest.mark.parametrize("number", [None, "R-1"])
def test_a_repeated_request_reports_that_the_refund_failed(
    epay_shop: EpayShop, number: str | None
) -> None:
    epay_order = epay_shop.place_paid_order()
    form = epay_shop.sign(refund_params(epay_shop, epay_order, refund_no=number))
    assert post_refund(epay_shop, form)["code"] == 1
    epay_shop.shop.report_refund(list_refunds(epay_shop)[0]["id"], "REFUSED", "card closed")
    body = post_refund(epay_shop, form)
    assert body["code"] == -1
    assert "失败" in body["msg"]
    assert len(list_refunds(epay_shop)) == 1
    new_refund = post_refund(
        epay_shop, epay_shop.sign(refund_params(epay_shop, epay_order, refund_no="R-2"))
    )
    assert new_refund["code"] == 1


@pytest.mark.parametrize("location_of_signed", ["query", "body"])
def test_a_signature_that_does_not_cover_act_is_refused(
    epay_shop: EpayShop, location_of_signed: str
) -> None:
    form = refund_params(epay_shop, epay_shop.place_paid_order(), act=None)
    signed_without_act = epay_shop.sign(form)
    signed_with_act = epay_shop.sign(form | {"act": "refund"})
    del signed_with_act["act"]
    http = epay_shop.api_server.http

    def send(signed: dict[str, str]) -> dict[str, Any]:
        if location_of_signed == "query":
            response = http.post("/epay/api.php", params=signed, data={"act": "refund"})
        else:
            response = http.post("/epay/api.php?act=refund", data=signed)
        body: dict[str, Any] = response.json()
        return body

    assert send(signed_without_act) == INVALID_SIGNATURE
    assert (
        http.post("/epay/api.php", data=signed_without_act | {"act": "refund"}).json()
        == INVALID_SIGNATURE
    )
    signed_other_act = epay_shop.sign(form | {"act": "order"})
    assert (
        http.post("/epay/api.php", data=signed_other_act | {"act": "refund"}).json()
        == INVALID_SIGNATURE
    )
    assert list_refunds(epay_shop) == []
    assert send(signed_with_act)["code"] == 1


@pytest.fixture
def failing_refund_request(epay_shop: EpayShop) -> Iterator[None]:
    """A database trigger by which the last insert of each refund of the merchant fails."""
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


def test_a_failure_before_the_commit_creates_no_refund(
    epay_shop: EpayShop, failing_refund_request: None
) -> None:
    form = epay_shop.sign(refund_params(epay_shop, epay_shop.place_paid_order()))
    assert post_refund(epay_shop, form) == {"code": -1, "msg": "系统错误，请稍后再试"}
    assert list_refunds(epay_shop) == []
    epay_shop.api_server.sql(f"drop function broken_{epay_shop.pid}() cascade")
    assert post_refund(epay_shop, form)["code"] == 1
    assert post_refund(epay_shop, form)["code"] == 1
    assert len(list_refunds(epay_shop)) == 1


def test_repeating_a_request_returns_the_response_that_was_lost(epay_shop: EpayShop) -> None:
    epay_order = epay_shop.place_paid_order()
    form = epay_shop.sign(refund_params(epay_shop, epay_order))
    order_id, url = epay_shop.order_id(epay_order), epay_shop.api_server.settings.database_url or ""

    async def let_client_time_out() -> None:
        """Hold the order's lock until the client that requests the refund has timed out."""
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
    refund = post_refund(epay_shop, form)
    assert refund["code"] == 1
    deadline = time.monotonic() + 10
    while not list_refunds(epay_shop) and time.monotonic() < deadline:
        time.sleep(0.02)
    assert post_refund(epay_shop, form) == refund
    assert len(list_refunds(epay_shop)) == 1


def refund_by_gateway(
    epay_shop: EpayShop, epay_order: dict[str, Any], refund_id: str, minor: int = 100
) -> RefundOutcome:
    """Refund through the Epay gateway, as another OpenTill that uses this one would."""
    url = f"{epay_shop.api_server.url}/epay/"
    settings = {"epay_url": url, "epay_pid": epay_shop.pid, "epay_key": epay_shop.key}
    request = RefundRequest(
        refund_id=refund_id,
        attempt_id=epay_order["out_trade_no"],
        provider_ref=epay_order["trade_no"],
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
    epay_order = epay_shop.place_paid_order()
    outcome = refund_by_gateway(epay_shop, epay_order, "R-1")
    assert outcome.status == "SUCCEEDED"
    epay_shop.shop.report_refund(list_refunds(epay_shop)[0]["id"], "REFUSED", "card closed")
    shop_without_overdraft = EpayShop(epay_shop.api_server, epay_shop.inbox, overdraft_minor=0)
    for shop, order, refund_id, minor in (
        (epay_shop, epay_order, "R-1", 100),  # the refund R-1 has already failed
        (epay_shop, epay_order, "R-2", 9999),  # the amount is more than was paid
        # The amount is more than the balance.
        (
            shop_without_overdraft,
            shop_without_overdraft.place_paid_order(),
            "R-4",
            1050,
        ),
    ):
        outcome = refund_by_gateway(shop, order, refund_id, minor)
        assert outcome.status == "REFUSED", outcome
    now = epay_shop.api_server.app.clock()
    epay_shop.api_server.tx(
        lambda tx: merchants.set_capability(
            tx, epay_shop.id, "refund", on=False, actor=merchants.Actor("ann", "a review"), now=now
        )
    )
    assert refund_by_gateway(epay_shop, epay_order, "R-5").status == "REFUSED"


def test_the_epay_gateway_reports_errors_as_unknown_and_limits_as_unreachable(
    epay_shop: EpayShop,
    failing_refund: None,
) -> None:
    epay_order = epay_shop.place_paid_order()
    outcome = refund_by_gateway(epay_shop, epay_order, "R-1")
    assert outcome.status == "UNKNOWN"
    assert "系统错误" in outcome.reason
    with epay_shop.api_server.limited(limit_ip_per_minute=1):
        outcomes = [refund_by_gateway(epay_shop, epay_order, "R-2") for _ in range(2)]
    assert outcomes[1].status == "UNREACHABLE", outcomes


@pytest.fixture
def failing_refund(epay_shop: EpayShop) -> Iterator[None]:
    """A database trigger by which the commit of each refund of the merchant fails."""
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
