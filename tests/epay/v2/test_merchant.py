"""``merchant/info`` and ``merchant/orders``, and responses while something is wrong."""

import pytest

from opentill.core.errors import Unavailable
from opentill.db.database import Db
from opentill.gateways.epay import rsa_signature
from support.epay_v2_shop import EpayV2Shop


def test_info_has_the_balance_and_the_numbers_and_sums_of_orders(v2_shop: EpayV2Shop) -> None:
    v2_shop.create_paid(money="10.50")
    v2_shop.create_paid(money="0.5")
    v2_shop.create(device="jump", money="99")
    v2_shop.create_paid(money="7.00", money_type="USD")
    info = v2_shop.call("merchant/info")
    name = info.pop("settle_name")
    assert name == v2_shop.call_api("query")["username"]
    assert info == {
        "code": 0,
        "pid": int(v2_shop.pid),
        "status": 1,
        "pay_status": 1,
        "settle_status": 1,
        "money": "0.00",
        "settle_type": 4,
        "order_num": 4,
        "order_num_today": 3,
        "order_num_lastday": 0,
        "order_money_today": "11.00",
        "order_money_lastday": "0.00",
    }


def test_orders_are_listed_with_their_status(v2_shop: EpayV2Shop) -> None:
    placed = [v2_shop.create(device="jump") for _ in range(3)]
    v2_shop.pay(placed[1])

    def numbers(**fields: str) -> list[str]:
        result = v2_shop.call("merchant/orders", **fields)
        assert result.keys() == {"code", "data"}
        return [row["trade_no"] for row in result["data"]]

    newest = [order["trade_no"] for order in reversed(placed)]
    assert numbers() == newest
    assert numbers(limit="2") == newest[:2]
    assert numbers(limit="2", offset="1") == newest[1:]
    assert numbers(limit="51") == newest
    assert numbers(status="1") == [placed[1]["trade_no"]]
    assert numbers(status="0") == [newest[0], newest[2]]
    assert numbers(status="4") == []
    (row,) = v2_shop.call("merchant/orders", status="1")["data"]
    queried = v2_shop.call("pay/query", trade_no=placed[1]["trade_no"])
    del queried["code"]
    assert {name: value for name, value in row.items() if value != ""} == queried


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"limit": "x"}, "limit 须为正整数，最多 50"),
        ({"offset": "-1"}, "offset 须为非负整数"),
        ({"status": "5"}, "status 须为从 0 到 4 的整数"),
        ({"page": "1"}, "该接口不接受参数：page"),
    ],
)
def test_values_of_lists_outside_their_form_are_refused(
    v2_shop: EpayV2Shop, fields: dict[str, str], message: str
) -> None:
    assert v2_shop.call("merchant/orders", **fields) == {"code": -1, "msg": message}


def test_the_limit_of_an_address_is_refused_with_a_signature(v2_shop: EpayV2Shop) -> None:
    with v2_shop.api_server.limited(limit_ip_per_minute=2):
        results = [v2_shop.call("merchant/info") for _ in range(4)]
    assert [result["code"] for result in results] == [0, 0, -1, -1]
    assert "频繁" in results[-1]["msg"]


@pytest.mark.parametrize("error", [Unavailable(reason="away"), ValueError("a defect")], ids=str)
def test_failures_are_signed_with_the_key_that_was_used_last(
    v2_shop: EpayV2Shop, monkeypatch: pytest.MonkeyPatch, error: Exception
) -> None:
    assert v2_shop.call("merchant/info")["code"] == 0
    public_key = rsa_signature.read_public_key(v2_shop.platform_key)
    signed = v2_shop.sign_v2({"trade_no": "order1"})

    def raise_error(*_: object, **__: object) -> None:
        raise error

    target = "connection" if isinstance(error, Unavailable) else "run"
    monkeypatch.setattr(Db, target, raise_error)
    body = v2_shop.api_server.http.post("/api/pay/close", data=signed).json()
    monkeypatch.undo()
    assert body["code"] == -1
    assert rsa_signature.verify(body, public_key)


def test_closed_and_disabled_merchants_are_refused_with_a_signature(v2_shop: EpayV2Shop) -> None:
    disable = "update epay_credentials set state = 'DISABLED' where merchant_id = $1"
    v2_shop.api_server.tx(lambda tx: tx.execute(disable, v2_shop.id))
    refused = {"code": -1, "msg": "该商户未开通易支付接口"}
    assert v2_shop.call("merchant/info") == refused
    assert v2_shop.call("pay/create", **v2_shop.submission()) == refused


def test_a_suspended_merchant_places_no_orders_and_reads_its_own(v2_shop: EpayV2Shop) -> None:
    placed = v2_shop.create(device="jump")
    stop = "update merchants set charge_off = 'suspended', payout_off = 'x' where id = $1"
    v2_shop.api_server.tx(lambda tx: tx.execute(stop, v2_shop.id))
    refused = v2_shop.call("pay/create", **v2_shop.submission())
    assert refused == {"code": -1, "msg": "商户暂时不能收款"}
    assert v2_shop.call("pay/query", trade_no=placed["trade_no"])["code"] == 0
    info = v2_shop.call("merchant/info")
    assert (info["pay_status"], info["settle_status"]) == (0, 0)
