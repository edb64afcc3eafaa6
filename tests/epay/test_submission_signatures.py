"""Who may place an Epay order: signatures, keys and addresses."""

import json
from pathlib import Path
from typing import Any

import msgspec
import pytest

from epay.submissions import assert_refused
from opentill import epay
from opentill.gateways.epay import signature
from support.epay_shop import EpayShop

VECTORS: dict[str, Any] = json.loads((Path(__file__).parent / "vectors.json").read_text())


@pytest.mark.parametrize("entry", ["submit", "mapi"])
@pytest.mark.parametrize(
    ("changes", "code"),
    [
        ({"sign": ""}, -4),
        ({"sign": "0" * 32}, -3),
        ({"sign_type": "RSA"}, -3),
        ({"money": "10.6"}, -3),
        ({"extra": "unsigned"}, -3),
        ({"key": "{key}"}, -3),  # only api.php accepts the key instead of a signature
    ],
    ids=str,
)
def test_an_invalid_signature_is_refused(
    epay_shop: EpayShop, entry: str, changes: dict[str, str], code: int
) -> None:
    form = epay_shop.sign(epay_shop.form()) | changes
    if "key" in changes:
        form = {**epay_shop.form(), "key": epay_shop.key, "sign": "0" * 32}
    assert_refused(epay_shop.post(entry, form), code)


@pytest.mark.parametrize("row", VECTORS["negative"], ids=lambda row: row["id"])
def test_the_invalid_signatures_of_the_vectors_are_refused(
    epay_shop: EpayShop, row: dict[str, Any]
) -> None:
    form = epay_shop.form()
    valid_sign = signature.sign(form, epay_shop.key)
    invalid_sign = {
        "neg_uppercase_sign": valid_sign.upper(),
        "neg_wrong_key": signature.sign(form, epay_shop.key + "x"),
        "neg_urlencoded_values": signature.sign(
            form | {"name": "VIP%E4%BC%9A%E5%91%98"}, epay_shop.key
        ),
        "neg_amp_key": signature.sign(form, "&key=" + epay_shop.key),
        "neg_missing_sign": "",
    }[row["id"]]
    body = epay_shop.post("mapi", form | {"sign": invalid_sign}).json()
    assert body["code"] in {-3, -4}


def test_two_messages_with_the_same_signature_are_both_refused(epay_shop: EpayShop) -> None:
    pair = VECTORS["ambiguity"]
    requested = pair["a"] | {"pid": epay_shop.pid}
    forged = pair["b"] | {"pid": epay_shop.pid}
    assert signature.sign(requested, epay_shop.key) == signature.sign(forged, epay_shop.key)
    for form in (requested, forged):
        assert_refused(epay_shop.post("submit", epay_shop.sign(form)), -1)


def test_an_unknown_pid_and_a_wrong_key_get_the_same_response(epay_shop: EpayShop) -> None:
    form = epay_shop.form()
    responses = [
        epay_shop.post("mapi", epay_shop.sign(form, "x" * 32)),
        epay_shop.post("mapi", epay_shop.sign(form | {"pid": "999999999"})),
        epay_shop.api_server.http.get(
            "/epay/api.php", params={"act": "query", "pid": epay_shop.pid, "key": "x"}
        ),
        epay_shop.api_server.http.get(
            "/epay/api.php", params={"act": "query", "pid": "9", "key": epay_shop.key}
        ),
    ]
    assert {response.content for response in responses} == {
        '{"code":-3,"msg":"签名校验失败"}'.encode(),
    }


def test_an_unsigned_query_parameter_next_to_a_signed_body_is_ignored(
    epay_shop: EpayShop,
) -> None:
    form = epay_shop.sign(epay_shop.form())
    response = epay_shop.api_server.http.post("/epay/submit.php?_input_charset=utf-8", data=form)
    assert response.status_code == 302


def test_only_holders_of_the_key_learn_that_epay_is_disabled(epay_shop: EpayShop) -> None:
    now = epay_shop.api_server.app.clock()
    epay_shop.api_server.tx(lambda tx: epay.disable(tx, epay_shop.id, now))
    assert_refused(epay_shop.post("mapi", epay_shop.sign(epay_shop.form())), -2)
    assert epay_shop.call_api("query")["code"] == -2
    assert_refused(epay_shop.post("mapi", epay_shop.sign(epay_shop.form(), "x")), -3)
    credentials = epay_shop.api_server.tx(
        lambda tx: epay.enable(tx, epay_shop.api_server.settings, epay_shop.id, now)
    )
    assert (str(credentials.pid), credentials.key) == (epay_shop.pid, epay_shop.key)
    assert epay_shop.place_order()["code"] == 1


def test_a_rotated_key_is_invalid_at_once(epay_shop: EpayShop) -> None:
    now = epay_shop.api_server.app.clock()
    credentials = epay_shop.api_server.tx(
        lambda tx: epay.rotate(tx, epay_shop.api_server.settings, epay_shop.id, now)
    )
    assert str(credentials.pid) == epay_shop.pid
    assert_refused(epay_shop.post("mapi", epay_shop.sign(epay_shop.form())), -3)
    epay_shop.key = credentials.key
    assert epay_shop.place_order()["code"] == 1


def test_the_key_is_not_stored_in_plain_text(epay_shop: EpayShop) -> None:
    rows = epay_shop.api_server.sql(
        "select * from epay_credentials where merchant_id = $1", epay_shop.id
    )
    assert epay_shop.key.encode() not in msgspec.msgpack.encode(rows)


def test_the_ip_allow_list_applies_to_servers_and_not_to_browsers(epay_shop: EpayShop) -> None:
    shop_of_another_network = EpayShop(
        epay_shop.api_server, epay_shop.inbox, ip_allowlist=["192.0.2.1"]
    )
    assert_refused(
        shop_of_another_network.post(
            "mapi", shop_of_another_network.sign(shop_of_another_network.form())
        ),
        -3,
    )
    assert shop_of_another_network.call_api("query")["code"] == -3
    response = shop_of_another_network.post(
        "submit", shop_of_another_network.sign(shop_of_another_network.form())
    )
    assert response.status_code == 302
