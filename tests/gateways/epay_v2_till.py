"""A gateway for Epay V2 whose server answers as a test says, and answers that it would sign."""

import json
import time
from typing import Any
from urllib.parse import parse_qsl

from opentill.gateways.epay_v2 import EpayV2Gateway
from opentill.outgoing.client import Outgoing, Response
from support.epay_v2_bank import EpayV2BankShop


class Server(Outgoing):
    """Answers each request with the next of some replies, and records the requests."""

    def __init__(self, *replies: bytes) -> None:
        self.replies, self.requests = list(replies), []
        self.requests: list[tuple[str, dict[str, str]]]

    async def send(self, method: str, url: str, **options: Any) -> Response:
        """Record a request, and return the next reply."""
        assert method == "POST"
        self.requests.append((url, dict(parse_qsl(options["body"].decode()))))
        return Response(200, {}, self.replies.pop(0))

    async def close(self) -> None:
        """Do nothing."""


class Till:
    """A gateway whose server answers as a test says."""

    def __init__(self, shop: EpayV2BankShop, *replies: bytes, **changes: str) -> None:
        self.shop, self.server = shop, Server(*replies)
        self.gateway: EpayV2Gateway = shop.gateway(**changes)
        self.gateway._outgoing = self.server


def signed(shop: EpayV2BankShop, *, age_s: int = 0, **values: Any) -> bytes:
    """Return a reply that the platform has signed."""
    stamped = {"code": 0, "timestamp": str(int(time.time()) - age_s), **values}
    return json.dumps(
        {**stamped, "sign": shop.account.sign(stamped), "sign_type": "RSA"}, ensure_ascii=False
    ).encode()


def refusal(message: str, code: int = -1) -> bytes:
    """Return a refusal as the reference server sends it, without a signature."""
    return json.dumps({"code": code, "msg": message}).encode()


def order(shop: EpayV2BankShop, attempt_id: str, **changes: str | int) -> bytes:
    """Return the reply to a query of a paid order of 9.99."""
    values = {"out_trade_no": attempt_id, "trade_no": "2026", "pid": 1001, "type": "alipay"}
    return signed(shop, **(values | {"money": "9.99", "status": 1} | changes))
