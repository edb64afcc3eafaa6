"""A shop in PHP signs with OpenSSL, and verifies every message of OpenTill."""

import json
import subprocess
from pathlib import Path
from typing import Any, Final
from urllib.parse import parse_qsl, urlsplit

import pytest

from support.epay_v2_shop import VECTORS, EpayV2Shop
from support.javascript import require_programs

_SCRIPT: Final = Path(__file__).parent / "php" / "shop.php"


class PhpShop:
    """Runs the shop's script with the keys of a merchant."""

    def __init__(self, v2_shop: EpayV2Shop) -> None:
        self._v2_shop = v2_shop
        self._settings = {
            "base": f"{v2_shop.api_server.url}/epay/",
            "pid": v2_shop.pid,
            "merchant_private_key": VECTORS["merchant_private_key"],
            "platform_public_key": v2_shop.platform_key,
        }

    def run(self, **request: Any) -> Any:
        """Run the script and return its output."""
        process = subprocess.run(
            ["php", "-d", "display_errors=stderr", str(_SCRIPT)],
            input=json.dumps(self._settings | request),
            capture_output=True,
            text=True,
            timeout=60,
            check=True,
        )
        assert process.stderr == ""
        return json.loads(process.stdout)

    def call(self, path: str, **fields: Any) -> dict[str, Any]:
        """Send fields to a path, and assert that the shop accepts the response's signature."""
        output = self.run(path=f"api/{path}", fields=fields)
        assert output["genuine"], output
        response: dict[str, Any] = output["response"]
        return response

    def is_genuine(self, message: dict[str, str]) -> bool:
        """Whether the shop accepts a notification."""
        genuine: bool = self.run(message=message)["genuine"]
        return genuine


@pytest.fixture
def php_shop(v2_shop: EpayV2Shop) -> PhpShop:
    """The shop of a merchant."""
    require_programs("php")
    return PhpShop(v2_shop)


def test_a_shop_in_php_places_pays_and_refunds_an_order(
    v2_shop: EpayV2Shop, php_shop: PhpShop
) -> None:
    form = v2_shop.submission(name="VIP会员 +1 & more", money="10.00", param="")
    del form["pid"]
    placed = php_shop.call("pay/create", **form)
    assert placed["code"] == 0
    v2_shop.pay(placed)
    queried = php_shop.call("pay/query", trade_no=placed["trade_no"])
    assert (queried["status"], queried["name"]) == (1, "VIP会员 +1 & more")
    v2_shop.send_notices()
    message = next(
        message for message in v2_shop.inbox.received if message["trade_no"] == placed["trade_no"]
    )
    assert php_shop.is_genuine(message)
    assert not php_shop.is_genuine(message | {"money": "0.01"})
    number = {"trade_no": placed["trade_no"], "out_refund_no": "PHP-000001"}
    assert php_shop.call("pay/refund", **number, money=1)["money"] == "1.00"  # a number in PHP
    assert php_shop.call("pay/refundquery", out_refund_no="PHP-000001")["status"] == 2
    refused = php_shop.call("pay/refund", **number, money="99")
    assert (refused["code"], bool(refused["msg"])) == (-1, True)
    assert php_shop.call("merchant/orders", limit=1)["data"][0]["trade_no"] == placed["trade_no"]
    assert php_shop.call("nothing/here")["code"] == -5


def test_a_link_of_a_shop_in_php_leads_to_the_page_and_back_to_the_shop(
    v2_shop: EpayV2Shop, php_shop: PhpShop
) -> None:
    form = v2_shop.submission(method=None, clientip=None, return_url="https://shop.example/back")
    del form["pid"]
    link = php_shop.run(path="api/pay/submit", fields=form, link=True)["link"]
    http = v2_shop.api_server.http
    page = http.get(link).headers["location"]
    v2_shop.pay(v2_shop.call("pay/query", out_trade_no=form["out_trade_no"]))
    location = http.get(f"{urlsplit(page).path}/shop").headers["location"]
    message = dict(parse_qsl(urlsplit(location).query))
    assert message["trade_status"] == "TRADE_SUCCESS"
    assert php_shop.is_genuine(message)
