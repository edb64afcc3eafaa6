"""Published Epay clients work unchanged with a running server."""

import json
import os
import shutil
import subprocess
from pathlib import Path
from typing import Any, Final

import pytest
from epay_sdk import (
    CreateOrderRequest,
    EPayClient,
    EPayConfig,
    EPaySignError,
    QueryOrderRequest,
)

from support.epay_shop import EpayShop
from support.javascript import npm_ci
from support.once import once

_NODE: Final = Path(__file__).parent / "node"


def test_the_python_client_places_queries_and_verifies_an_order(epay_shop: EpayShop) -> None:
    base = f"{epay_shop.api_server.url}/epay"
    config = EPayConfig(base_url=base, pid=epay_shop.pid, key=epay_shop.key, environment="sandbox")
    client = EPayClient(config)
    order = CreateOrderRequest(
        out_trade_no="SDK-1",
        name="VIP会员 & more",
        money="9.9",
        notify_url=epay_shop.inbox.url,
        return_url="https://shop.example/back",
        pay_type="alipay",
        sitename="My Shop",
        param="uid=7",
    )
    # The client follows the redirect, and raises an error unless the payment page has status 200.
    page = client.create_order(order)
    assert "VIP会员 &amp; more" in page
    assert "SDK-1" in client.create_order_url(order)
    query = QueryOrderRequest(out_trade_no="SDK-1")
    before = client.parse_query_result(client.query_order(query))
    assert (before.query_ok, before.paid, before.amount) == (True, False, "9.90")
    epay_shop.pay({"trade_no": before.gateway_trade_no})
    after = client.parse_query_result(client.query_order(query))
    assert (after.paid, after.order_no) == (True, "SDK-1")
    assert epay_shop.send_notices() >= 1
    message = next(
        message for message in epay_shop.inbox.received if message["out_trade_no"] == "SDK-1"
    )
    callback = client.verify_callback(message)
    assert client.is_trade_success(message)
    assert (callback.trade_no, callback.money) == (before.gateway_trade_no, "9.90")
    assert (callback.name, callback.attach) == ("VIP会员 & more", "uid=7")
    with pytest.raises(EPaySignError):
        client.verify_callback(message | {"money": "0.01"})
    not_found = client.query_order(QueryOrderRequest(out_trade_no="SDK-2"))
    assert not_found == {"code": -1, "msg": "订单不存在"}


@pytest.fixture(scope="session")
def node_modules(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder outside of the source tree with the installed JavaScript client."""
    if shutil.which("node") is None or shutil.which("npm") is None:
        pytest.skip("Node.js is not installed")
    return once(tmp_path_factory, "epay_client", _install)


def _install(folder: Path) -> None:
    for name in ("package.json", "package-lock.json", "shop.js"):
        shutil.copy(_NODE / name, folder)
    npm_ci(folder)


def test_the_javascript_client_places_and_queries_an_order(
    epay_shop: EpayShop, node_modules: Path
) -> None:
    def run_client(operation: str, **arguments: Any) -> Any:
        configuration = {
            "domain": f"{epay_shop.api_server.url}/epay",
            "pid": epay_shop.pid,
            "key": epay_shop.key,
            **arguments,
        }
        process = subprocess.run(
            ["node", "shop.js", operation],
            cwd=node_modules,
            input=json.dumps(configuration),
            capture_output=True,
            text=True,
            timeout=60,
            check=True,
            env={"PATH": os.environ["PATH"], "NO_PROXY": "*"},
        )
        return json.loads(process.stdout)

    form = epay_shop.form(type="wxpay", sitename="小店", money="3", clientip=None)
    order = {name: text for name, text in form.items() if name != "pid"}
    page = run_client("pay", order=order)
    assert page["status"] == 200
    assert "VIP会员" in page["body"]
    row = run_client("order", out_trade_no=form["out_trade_no"])
    assert (row["code"], row["money"], row["status"]) == (1, "3", 0)
    epay_shop.pay(row)
    row = run_client("order", out_trade_no=form["out_trade_no"])
    assert (row["status"], row["trade_status"]) == (1, "TRADE_SUCCESS")
