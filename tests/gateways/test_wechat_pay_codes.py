"""Every error code of WeChat Pay has an outcome, and responses in another format have none."""

import time
from collections.abc import AsyncIterator, Iterator
from contextlib import contextmanager
from http import HTTPStatus
from pathlib import Path
from typing import Any, Final

import msgspec
import pytest

from opentill.core.ids import new_id
from opentill.core.money import Money
from opentill.gateways import PaymentStatus, RefundStatus
from opentill.gateways.wechat_pay import WeChatPayGateway
from opentill.sandbox import wechat_pay
from support.ports import free_socket, url_of
from support.sandbox_bank import Receiver, serving
from support.wechat_pay_shop import WeChatPayShop

PAY, CLOSE, REFUND = "/v3/pay/transactions/native", "/close", "/v3/refund/domestic/refunds"
ORDER, QUERY_REFUND = "/v3/pay/transactions/out-trade-no/", "/v3/refund/domestic/refunds/"


class Scripted:
    """A server whose responses are the test's, signed by the public key of WeChat Pay."""

    def __init__(self, merchant: wechat_pay.Merchant) -> None:
        """``responses``: the beginning or end of a path, and the response to requests of it."""
        self.merchant = merchant
        self.responses: dict[str, tuple[int, Any]] = {}
        self.requests: list[str] = []

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        """Serve a request."""
        if scope["type"] != "http":
            return
        while (await receive()).get("more_body"):
            pass
        path: str = scope["path"]
        self.requests.append(f"{scope['method']} {path}")
        status, content = self.responses[
            max(
                (key for key in self.responses if key in path),
                key=lambda key: (path.rindex(key), len(key)),
            )
        ]
        body = content if isinstance(content, bytes) else msgspec.json.encode(content)
        now_s = int(time.time())
        headers = {
            "wechatpay-timestamp": str(now_s),
            "wechatpay-nonce": "n",
            "wechatpay-signature": self.merchant.own.sign(now_s, "n", body),
            "wechatpay-serial": wechat_pay.PUBLIC_KEY_ID,
        }
        raw = [(name.encode(), value.encode()) for name, value in headers.items()]
        await send({"type": "http.response.start", "status": status, "headers": raw})
        await send({"type": "http.response.body", "body": body})


@contextmanager
def running(folder: Path) -> Iterator[tuple[Scripted, str]]:
    """Run the server."""
    server, sock = Scripted(wechat_pay.Merchant(folder)), free_socket()
    with serving(server, sock):
        yield server, url_of(sock)


@pytest.fixture(scope="module")
def running_server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Scripted, Any]]:
    """The server, and the shop whose keys it knows."""
    folder = wechat_pay.create(tmp_path_factory.mktemp("scripted"))
    with running(folder) as (server, url):
        shop = WeChatPayShop(url, folder, Receiver())
        yield server, shop
        shop.close()


@pytest.fixture
def server(running_server: tuple[Scripted, Any]) -> Scripted:
    """The server, without responses."""
    running_server[0].responses.clear()
    running_server[0].requests.clear()
    return running_server[0]


@pytest.fixture
async def gateway(running_server: tuple[Scripted, Any]) -> AsyncIterator[WeChatPayGateway]:
    """A gateway that calls the server."""
    gateway = running_server[1].gateway(by_public_key=True, products="native")
    yield gateway
    await gateway.close()


@pytest.fixture
def shop(running_server: tuple[Scripted, Any]) -> WeChatPayShop:
    """The shop, for its requests."""
    shop: WeChatPayShop = running_server[1]
    return shop


def error(status: int, code: str) -> tuple[int, Any]:
    """Return an error response."""
    return status, {"code": code, "message": "因为"}


def order(attempt_id: str, state: str = "SUCCESS", **changes: Any) -> tuple[int, Any]:
    """Return the response to a query."""
    return HTTPStatus.OK, {
        "mchid": wechat_pay.MCHID, "appid": wechat_pay.APPID, "out_trade_no": attempt_id,
        "trade_state": state, "transaction_id": "4200", "amount": {"total": 999, "currency": "CNY"},
    } | changes  # fmt: skip


NOT_FOUND: Final = error(404, "ORDER_NOT_EXIST")
PAY_CODES: Final[tuple[tuple[tuple[int, Any], PaymentStatus], ...]] = (
    (error(400, "PARAM_ERROR"), "DECLINED"),
    (error(400, "APPID_MCHID_NOT_MATCH"), "DECLINED"),
    (error(403, "NO_AUTH"), "DECLINED"),
    (error(429, "FREQUENCY_LIMITED"), "UNREACHABLE"),
    (error(403, "RULE_LIMIT"), "UNREACHABLE"),
    (error(500, "SYSTEM_ERROR"), "UNKNOWN"),
    (error(502, "BAD_GATEWAY"), "UNKNOWN"),
    (error(400, "ORDERPAID"), "UNKNOWN"),
    (error(400, "ORDER_CLOSED"), "UNKNOWN"),
    ((200, {}), "UNKNOWN"),
    ((200, {"h5_url": "javascript:alert(1)"}), "UNKNOWN"),
    ((200, b"[" * 5000), "UNKNOWN"),
    ((200, b"\xff"), "UNKNOWN"),
    ((200, b"x" * 100_000), "UNKNOWN"),
    ((404, b""), "DECLINED"),
)


@pytest.mark.parametrize(("response", "expected"), PAY_CODES)
async def test_a_refused_order_has_an_outcome(
    server: Scripted,
    shop: WeChatPayShop,
    gateway: WeChatPayGateway,
    response: tuple[int, Any],
    expected: PaymentStatus,
) -> None:
    server.responses |= {PAY: response, ORDER: NOT_FOUND}
    assert (await gateway.pay(shop.request())).status == expected


async def test_a_paid_order_is_not_placed_again(
    server: Scripted, shop: WeChatPayShop, gateway: WeChatPayGateway
) -> None:
    request = shop.request()
    server.responses |= {PAY: error(400, "ORDERPAID"), ORDER: order(request.attempt_id)}
    outcome = await gateway.pay(request)
    assert (outcome.status, outcome.amount) == ("SUCCEEDED", Money(999, "CNY"))


QUERY_CODES: Final[tuple[tuple[tuple[int, Any], PaymentStatus], ...]] = (
    (NOT_FOUND, "NOT_FOUND"),
    (error(404, "RESOURCE_NOT_EXISTS"), "NOT_FOUND"),
    (error(404, "ORDERNOTEXIST"), "NOT_FOUND"),
    (error(404, "NO_SUCH_PAGE"), "UNKNOWN"),
    (error(400, "PARAM_ERROR"), "UNKNOWN"),
    (error(429, "FREQUENCY_LIMITED"), "UNKNOWN"),
    (error(500, "SYSTEM_ERROR"), "UNKNOWN"),
    ((200, {}), "UNKNOWN"),
    ((204, b""), "UNKNOWN"),
    (order("att_1"), "UNKNOWN"),
)


@pytest.mark.parametrize(("response", "expected"), QUERY_CODES)
async def test_a_query_has_an_outcome(
    server: Scripted,
    gateway: WeChatPayGateway,
    response: tuple[int, Any],
    expected: PaymentStatus,
) -> None:
    server.responses[ORDER] = response
    assert (await gateway.find_payment(new_id("att"))).status == expected


@pytest.mark.parametrize(
    ("changes", "expected"),
    [
        ({}, "SUCCEEDED"),
        ({"amount": {"total": 999}}, "SUCCEEDED"),
        ({"amount": {"total": 999, "currency": "USD"}}, "UNKNOWN"),
        ({"amount": {"total": -1}}, "UNKNOWN"),
        ({"amount": {"total": 10**30}}, "UNKNOWN"),
        ({"amount": {"total": 9.5}}, "UNKNOWN"),
        ({"mchid": "1"}, "UNKNOWN"),
        ({"appid": "wx"}, "UNKNOWN"),
    ],
)
async def test_a_payment_is_that_of_the_account_and_in_yuan(
    server: Scripted, gateway: WeChatPayGateway, changes: dict[str, Any], expected: PaymentStatus
) -> None:
    attempt_id = new_id("att")
    server.responses[ORDER] = order(attempt_id, **changes)
    assert (await gateway.find_payment(attempt_id)).status == expected


async def test_an_order_that_is_paid_while_it_is_closed_is_paid(
    server: Scripted, gateway: WeChatPayGateway
) -> None:
    attempt_id = new_id("att")
    server.responses |= {ORDER: order(attempt_id, "NOTPAY"), CLOSE: error(400, "ORDERPAID")}
    # The customer pays between the first query and the request that closes the order.
    assert (await gateway.expire(attempt_id, "")).status == "ACTION_REQUIRED"
    assert server.requests[-1] == f"GET {ORDER}{attempt_id}"
    server.responses[ORDER] = order(attempt_id)
    assert (await gateway.expire(attempt_id, "")).status == "SUCCEEDED"


REFUND_CODES: Final[tuple[tuple[tuple[int, Any], RefundStatus], ...]] = (
    (error(403, "NOT_ENOUGH"), "REFUSED"),
    (error(403, "USER_ACCOUNT_ABNORMAL"), "REFUSED"),
    (error(400, "INVALID_REQUEST"), "REFUSED"),
    (error(404, "RESOURCE_NOT_EXISTS"), "REFUSED"),
    (error(429, "FREQUENCY_LIMITED"), "UNREACHABLE"),
    (error(500, "SYSTEM_ERROR"), "UNKNOWN"),
    (error(400, "NEW_CODE"), "UNKNOWN"),
    ((200, {}), "UNKNOWN"),
    ((200, b"\xff"), "UNKNOWN"),
)


@pytest.mark.parametrize(("response", "expected"), REFUND_CODES)
async def test_a_refund_has_an_outcome(
    server: Scripted,
    shop: WeChatPayShop,
    gateway: WeChatPayGateway,
    response: tuple[int, Any],
    expected: RefundStatus,
) -> None:
    refund = shop.refund_request(new_id("att"), 400)
    server.responses |= {
        ORDER: order(refund.attempt_id),
        REFUND: response,
        QUERY_REFUND: error(404, "RESOURCE_NOT_EXISTS"),
    }
    assert (await gateway.refund(refund)).status == expected


@pytest.mark.parametrize("code", ["NOT_ENOUGH", "INVALID_REQUEST"])
async def test_a_refusal_does_not_count_if_the_refund_exists_or_cannot_be_queried(
    server: Scripted, shop: WeChatPayShop, gateway: WeChatPayGateway, code: str
) -> None:
    refund = shop.refund_request(new_id("att"), 400)
    existing = {
        "out_trade_no": refund.attempt_id, "out_refund_no": refund.refund_id,
        "status": "SUCCESS", "refund_id": "50", "amount": {"refund": 400, "total": 999},
    }  # fmt: skip
    for response, expected in (
        ((200, existing), "SUCCEEDED"),
        ((200, existing | {"status": "CLOSED"}), "REFUSED"),
        (error(500, "SYSTEM_ERROR"), "UNKNOWN"),
    ):
        server.responses |= {
            ORDER: order(refund.attempt_id),
            REFUND: error(403, code),
            QUERY_REFUND: response,
        }
        assert (await gateway.refund(refund)).status == expected
