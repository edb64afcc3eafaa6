"""Attacks on signatures of the Epay V2 API: none moves money or tells more than it should."""

import base64
import time
from concurrent.futures import ThreadPoolExecutor
from typing import Any
from urllib.parse import parse_qsl, urlsplit

import pytest

from opentill import epay
from opentill.db.clock import now_ms
from opentill.epay import jobs, platform_key, replays
from opentill.gateways.epay import rsa_signature
from opentill.merchants import OPENTILL
from support.api_server import ApiServer
from support.epay_v2_shop import VECTORS, EpayV2Shop, private_key

NOT_GENUINE = {"code": -3, "msg": "RSA签名校验失败"}
USED = {"code": -3, "msg": "该签名已用于其他接口，请用新的时间戳重新签名"}
PATHS = (
    "pay/submit", "pay/create", "pay/query", "pay/refund", "pay/refundquery", "pay/close",
    "merchant/info", "merchant/orders", "transfer/submit", "transfer/query", "transfer/balance",
)  # fmt: skip


def test_a_signed_submission_is_accepted_on_no_other_path(v2_shop: EpayV2Shop) -> None:
    """The customer holds the link of ``pay/submit``: it must not refund, close or read anything."""
    form = v2_shop.submission(method=None, clientip=None, name="VIP")
    signed = v2_shop.sign_v2(form)
    assert v2_shop.api_server.http.get("/api/pay/submit", params=signed).status_code == 302
    paid = v2_shop.call("pay/query", out_trade_no=form["out_trade_no"])
    v2_shop.pay(paid)
    for path in PATHS:
        if path not in {"pay/submit", "pay/create"}:
            refused = v2_shop.send(path, signed)
            assert refused["code"] == -1, path
            assert refused["msg"].startswith("该接口不接受参数："), path
    assert v2_shop.send("pay/create", signed)["code"] == -3
    assert v2_shop.refunds() == []
    assert v2_shop.call("pay/query", trade_no=paid["trade_no"])["status"] == 1


def test_an_unused_submission_cannot_be_merged_into_a_refund(v2_shop: EpayV2Shop) -> None:
    """The signed text of a link, cut at other places, has the form of no refund."""
    signed = v2_shop.sign_v2(v2_shop.submission(method=None, clientip=None, name="VIP"))
    text = rsa_signature.text_to_sign(signed)
    _, _, rest = text.partition("money=")
    money, _, rest = rest.partition("&out_trade_no=")
    number, _, rest = rest.partition("&pid=")
    forged = {"money": money, "out_trade_no": number, "pid": rest.split("&")[0]}
    forged["timestamp"] = rest.partition("&timestamp=")[2]
    for pid in (forged["pid"], rest.partition("&timestamp=")[0]):
        merged = forged | {"pid": pid, "sign": signed["sign"], "sign_type": "RSA"}
        assert v2_shop.send("pay/refund", merged)["code"] < 0


def test_a_signature_of_a_query_closes_nothing(v2_shop: EpayV2Shop) -> None:
    placed = v2_shop.create(device="jump")
    signed = v2_shop.sign_v2({"trade_no": placed["trade_no"]})
    assert v2_shop.send("pay/query", signed)["status"] == 0
    assert v2_shop.send("pay/close", signed) == USED
    assert v2_shop.send("pay/close", signed, "/epay/api/") == USED
    assert v2_shop.send("pay/query", signed)["status"] == 0
    v2_shop.pay(placed)
    assert v2_shop.call("pay/query", out_trade_no=placed["out_trade_no"])["status"] == 1


def test_concurrent_uses_on_two_paths_are_one_use(v2_shop: EpayV2Shop) -> None:
    form = v2_shop.submission(device="jump")
    signed = v2_shop.sign_v2(form)
    url = "/api/pay/submit"

    def use(path: str) -> bool:
        if path == url:
            return v2_shop.api_server.http.post(url, data=signed).status_code == 302
        return v2_shop.send("pay/create", signed)["code"] == 0

    with ThreadPoolExecutor(8) as threads:
        accepted = list(threads.map(use, [url, "pay/create"] * 8))
    assert set(accepted[::2]) != set(accepted[1::2]), "one path accepted all, the other none"


@pytest.mark.parametrize(
    ("skew", "accepted"), [(298, True), (-298, True), (302, False), (-302, False)]
)
def test_timestamps_within_300_seconds_are_accepted(
    v2_shop: EpayV2Shop, skew: int, accepted: bool
) -> None:
    signed = v2_shop.sign_v2({}, timestamp=int(time.time()) + skew)
    late = {"code": -3, "msg": "时间戳字段不正确，请检查服务器时间"}
    result = v2_shop.send("merchant/info", signed)
    assert (result["code"] == 0, result == late) == (accepted, not accepted)


@pytest.mark.parametrize(
    "text", ["0", "x", "99999999999", "1.7e9", "-1700000000", "１７００００００００", " 1700000000"]
)
def test_malformed_timestamps_are_refused(v2_shop: EpayV2Shop, text: str) -> None:
    refused = v2_shop.call("merchant/info", timestamp=text)
    assert refused == {"code": -3, "msg": "时间戳字段不正确，请检查服务器时间"}


def test_missing_proofs_are_refused_in_the_reference_servers_words(v2_shop: EpayV2Shop) -> None:
    signed = v2_shop.sign_v2({})
    without = {name: {**signed, name: ""} for name in signed}
    assert v2_shop.send("merchant/info", {}) == {"code": -4, "msg": "未传入任何参数"}
    for pid in ("", "0", "x", "-1"):
        assert v2_shop.send("merchant/info", signed | {"pid": pid}) == {
            "code": -1, "msg": "商户ID不能为空",
        }  # fmt: skip
    assert v2_shop.send("merchant/info", without["timestamp"]) == {
        "code": -3, "msg": "时间戳(timestamp)字段不能为空",
    }  # fmt: skip
    assert v2_shop.send("merchant/info", without["sign"]) == NOT_GENUINE
    assert v2_shop.send("merchant/info", without["sign_type"])["code"] == 0
    for sign_type in ("MD5", "md5", "RSA2", "SHA256"):
        assert v2_shop.send("merchant/info", signed | {"sign_type": sign_type}) == {
            "code": -3, "msg": "该接口只能使用RSA签名类型",
        }  # fmt: skip
    assert v2_shop.send("merchant/info", signed | {"sign_type": " rsa "})["code"] == 0


def test_every_change_of_a_signed_request_is_refused(v2_shop: EpayV2Shop) -> None:
    placed = v2_shop.create_paid()
    signed = v2_shop.sign_v2(
        {"trade_no": placed["trade_no"], "money": "1.00", "out_refund_no": "R-1"}
    )
    for changes in (
        {"money": "10.00"},
        {"out_refund_no": "R-2"},
        {"out_refund_no": ""},
        {"out_trade_no": placed["out_trade_no"]},
        {"timestamp": str(int(signed["timestamp"]) + 1)},
        {"sign": base64.b64encode(b"0" * 256).decode()},
        {"sign": signed["sign"][:-4]},
        {"sign": "A" * 5000},
        {"sign": "签名"},
    ):
        assert v2_shop.send("pay/refund", signed | changes) == NOT_GENUINE
    assert v2_shop.refunds() == []


def test_another_merchants_key_and_pid_are_refused(
    v2_shop: EpayV2Shop, api_server: ApiServer
) -> None:
    other = EpayV2Shop(api_server, v2_shop.inbox)
    other.set_public_key(VECTORS["platform_public_key"])
    placed = v2_shop.create_paid()
    fields = {"trade_no": placed["trade_no"], "money": "1.00"}
    forged = v2_shop.sign_v2(fields, key=private_key("platform"))
    assert v2_shop.send("pay/refund", forged) == NOT_GENUINE
    signed = v2_shop.sign_v2(fields)
    assert v2_shop.send("pay/refund", signed | {"pid": other.pid}) == NOT_GENUINE
    assert v2_shop.send("pay/refund", signed | {"pid": "999999998"}) == NOT_GENUINE
    assert v2_shop.refunds() == []


def test_a_merchant_without_a_key_gets_the_response_of_an_unknown_pid(
    v2_shop: EpayV2Shop, epay_shop: Any
) -> None:
    signed = v2_shop.sign_v2({"pid": epay_shop.pid})
    assert v2_shop.send("merchant/info", signed) == NOT_GENUINE


@pytest.mark.parametrize("order", [(0, 1), (1, 0)])
def test_a_repeated_field_is_refused(v2_shop: EpayV2Shop, order: tuple[int, int]) -> None:
    placed = v2_shop.create_paid()
    signed = v2_shop.sign_v2({"trade_no": placed["trade_no"], "money": "1.00"})
    values = ("1.00", "9.00")
    pairs = [(name, text) for name, text in signed.items() if name != "money"]
    pairs += [("money", values[index]) for index in order]
    body = "&".join(f"{name}={text}".replace("+", "%2B") for name, text in pairs)
    headers = {"content-type": "application/x-www-form-urlencoded"}
    response = v2_shop.api_server.http.post("/api/pay/refund", content=body, headers=headers)
    assert v2_shop.read(response) == {"code": -1, "msg": "参数 money 重复"}
    assert v2_shop.refunds() == []


@pytest.mark.parametrize(
    ("fields", "part"),
    [
        ({"param": " \t"}, "参数 param 不能只含空白字符"),
        ({"a[]": "1"}, "参数名只能用字母、数字和下划线"),
        ({"a&b": "1"}, "参数名只能用字母、数字和下划线"),
        ({"param": "a\0b"}, "NUL"),
    ],
)
def test_fields_that_clients_sign_differently_are_refused(
    v2_shop: EpayV2Shop, fields: dict[str, str], part: str
) -> None:
    signed = v2_shop.sign_v2(v2_shop.submission()) | fields
    refused = v2_shop.send("pay/create", signed)
    assert (refused["code"], part in refused["msg"]) == (-1, True), refused


def test_a_query_string_is_no_request_except_for_submit(v2_shop: EpayV2Shop) -> None:
    signed = v2_shop.sign_v2({})
    http = v2_shop.api_server.http
    for response in (
        http.get("/api/merchant/info", params=signed),
        http.post("/api/merchant/info", params=signed),
        http.post("/api/merchant/info", json=signed),
    ):
        assert v2_shop.read(response) == {"code": -4, "msg": "未传入任何参数"}
    assert v2_shop.read(http.put("/api/merchant/info", data=signed))["code"] == -1


def test_unknown_paths_are_refused_with_a_signature(v2_shop: EpayV2Shop) -> None:
    signed = v2_shop.sign_v2({})
    for path in ("", "pay", "pay/nothing", "transfer/proof", "pay/refund/more", "a&code=0/b"):
        for prefix in ("/api/", "/epay/api/"):
            if path == "pay/refund/more" and prefix == "/epay/api/":
                continue  # below /epay, V1 refuses other paths
            assert v2_shop.send(path, signed, prefix) == {"code": -5, "msg": "接口方法不存在"}


def test_64_equal_refunds_at_once_are_one_refund(v2_shop: EpayV2Shop) -> None:
    placed = v2_shop.create_paid()
    for fields in ({"out_refund_no": "R-64"}, {}):
        signed = v2_shop.sign_v2({"trade_no": placed["trade_no"], "money": "1.00", **fields})
        with ThreadPoolExecutor(16) as threads:
            results = list(threads.map(v2_shop.send, ["pay/refund"] * 64, [signed] * 64))
        assert {result["code"] for result in results} == {0}, results[-1]
        assert len({result["refund_no"] for result in results}) == 1
    assert [row["amount_minor"] for row in v2_shop.refunds()] == [100, 100]


def test_a_replaced_key_of_a_merchant_ends_at_once(v2_shop: EpayV2Shop) -> None:
    old = v2_shop.sign_v2({})
    assert v2_shop.send("merchant/info", old)["code"] == 0
    secret_key, now = v2_shop.api_server.settings.secret_key, v2_shop.api_server.app.clock()
    pair = v2_shop.api_server.tx(lambda tx: epay.create_key_pair(tx, secret_key, v2_shop.id, now))
    assert v2_shop.send("merchant/info", old) == NOT_GENUINE
    v2_shop.private_key = rsa_signature.read_private_key(pair.private_key)
    assert v2_shop.call("merchant/info")["code"] == 0


def test_responses_are_signed_by_a_new_platform_key_at_once(v2_shop: EpayV2Shop) -> None:
    """``send`` verifies each response by the newest key."""
    first = v2_shop.platform_key
    assert v2_shop.call("merchant/info")["code"] == 0
    secret_key, now = v2_shop.api_server.settings.secret_key, v2_shop.api_server.app.clock()
    v2_shop.api_server.tx(lambda tx: platform_key.rotate(tx, secret_key, now, actor=OPENTILL))
    assert v2_shop.platform_key != first
    assert v2_shop.call("merchant/info")["code"] == 0
    assert v2_shop.call("pay/query", trade_no="order1")["code"] == -1


def test_signatures_are_forgotten_when_their_timestamps_have_expired(v2_shop: EpayV2Shop) -> None:
    v2_shop.call("merchant/info")
    count = "select count(*) as n from epay_signatures where merchant_id = $1"
    prune = lambda: v2_shop.api_server.tx(lambda tx: jobs.prune(tx, now_ms()))  # noqa: E731
    prune()
    assert v2_shop.api_server.sql(count, v2_shop.id) == [{"n": 1}]
    assert replays.REMEMBERED_MS > 2 * 300_000
    age = "update epay_signatures set created_at = created_at - $2 where merchant_id = $1"
    v2_shop.api_server.tx(lambda tx: tx.execute(age, v2_shop.id, replays.REMEMBERED_MS))
    prune()
    assert v2_shop.api_server.sql(count, v2_shop.id) == [{"n": 0}]


def test_a_merchants_allow_list_applies_to_its_servers(v2_shop: EpayV2Shop) -> None:
    allow = "update merchants set ip_allowlist = '{192.0.2.1}' where id = $1"
    v2_shop.api_server.tx(lambda tx: tx.execute(allow, v2_shop.id))
    assert v2_shop.call("merchant/info") == NOT_GENUINE
    signed = v2_shop.sign_v2(v2_shop.submission(method=None))
    response = v2_shop.api_server.http.get("/api/pay/submit", params=signed)
    assert response.status_code == 302
    assert dict(parse_qsl(urlsplit(response.headers["location"]).query)) == {}
