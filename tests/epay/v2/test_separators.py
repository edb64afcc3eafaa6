"""Texts of others cannot put fields into a message that the platform signs."""

from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

from opentill.epay import platform_key
from opentill.gateways.epay import rsa_signature
from opentill.merchants import OPENTILL
from support.epay_v2_shop import VECTORS, EpayV2Shop, private_key

# The fields of a notification. All shops trust the platform's key: a merchant whose order had one
# of these in its name could make a notification for another merchant.
NOTIFICATION = (
    "pid", "trade_no", "out_trade_no", "type", "name", "money", "trade_status", "timestamp",
    "sign_type", "addtime", "endtime",
)  # fmt: skip


@pytest.mark.parametrize("field", ["name", "param"])
def test_values_with_a_field_of_a_notification_are_refused(v2_shop: EpayV2Shop, field: str) -> None:
    for name in NOTIFICATION:
        for text in (f"a&{name}=1", f"a& {name.upper()} =1"):
            refused = v2_shop.call("pay/create", **v2_shop.submission(**{field: text}))
            assert (refused["code"], name in refused["msg"].lower()) == (-1, True), text
            assert "&" not in refused["msg"]
            assert "=" not in refused["msg"]


def test_a_customers_email_has_no_separators_in_signed_responses(v2_shop: EpayV2Shop) -> None:
    placed = v2_shop.create_paid()
    email = "a&pid=1&trade_status=TRADE_SUCCESS@b.example"
    change = "update orders set customer_email = $3 where merchant_id = $1 and id = $2"
    order_id = v2_shop.order_id(placed)
    v2_shop.api_server.tx(lambda tx: tx.execute(change, v2_shop.id, order_id, email))
    queried = v2_shop.call("pay/query", trade_no=placed["trade_no"])
    assert queried["buyer"] == "a＆pid＝1＆trade_status＝TRADE_SUCCESS@b.example"
    v2_shop.send_notices()
    message = next(
        message for message in v2_shop.inbox.received if message["trade_no"] == placed["trade_no"]
    )
    assert email not in message.values()
    assert message["pid"] == v2_shop.pid


def test_keys_that_are_replaced_during_requests_end_for_good(v2_shop: EpayV2Shop) -> None:
    """After one request was refused with the old key, none is accepted with it."""
    old = private_key()

    def request(_: int) -> list[int]:
        return [v2_shop.send("merchant/info", v2_shop.sign_v2({}, key=old))["code"] for _ in "1234"]

    with ThreadPoolExecutor(6) as threads:
        running = threads.map(request, range(6))
        v2_shop.set_public_key(VECTORS["platform_public_key"])
        results = list(running)
    for codes in results:
        assert set(codes) <= {0, -3}
        assert codes == sorted(codes, reverse=True), "accepted again after a refusal"
    assert v2_shop.send("merchant/info", v2_shop.sign_v2({}, key=old))["code"] == -3
    new = private_key("platform")
    assert v2_shop.send("merchant/info", v2_shop.sign_v2({}, key=new))["code"] == 0


def test_a_platform_key_that_is_replaced_during_requests_signs_each_response(
    v2_shop: EpayV2Shop,
) -> None:
    signed = v2_shop.sign_v2({})
    keys = [v2_shop.platform_key]

    def request(_: int) -> dict[str, Any]:
        body: dict[str, Any] = v2_shop.api_server.http.post(
            "/api/merchant/info", data=signed
        ).json()
        return body

    secret_key, now = v2_shop.api_server.settings.secret_key, v2_shop.api_server.app.clock()
    with ThreadPoolExecutor(6) as threads:
        running = threads.map(request, range(24))
        v2_shop.api_server.tx(lambda tx: platform_key.rotate(tx, secret_key, now, actor=OPENTILL))
        bodies = list(running)
    keys.append(v2_shop.platform_key)
    assert keys[0] != keys[1]
    for body in bodies:
        public_keys = map(rsa_signature.read_public_key, keys)
        assert sum(rsa_signature.verify(body, key) for key in public_keys) == 1
    assert rsa_signature.verify(request(0), rsa_signature.read_public_key(keys[1]))
