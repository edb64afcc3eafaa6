"""A shop with an Epay V2 client: it signs requests and verifies every response."""

import functools
import json
import time
from pathlib import Path
from typing import Any, Final

import httpx2
from cryptography.hazmat.primitives.asymmetric.rsa import RSAPrivateKey

from opentill import epay
from opentill.epay import platform_key
from opentill.gateways.epay import rsa_signature
from support.api_server import ApiServer
from support.epay_shop import EpayShop, Inbox

VECTORS: Final[dict[str, Any]] = json.loads(
    (Path(__file__).parents[1] / "epay" / "v2" / "vectors.json").read_text()
)


@functools.cache
def private_key(owner: str = "merchant") -> RSAPrivateKey:
    """Return a throw-away key; reading it takes a tenth of a second."""
    return rsa_signature.read_private_key(VECTORS[f"{owner}_private_key"])


class EpayV2Shop(EpayShop):
    """A merchant that accepts both versions of the Epay API, and the calls of its software."""

    def __init__(self, api_server: ApiServer, inbox: Inbox, **terms: Any) -> None:
        super().__init__(api_server, inbox, **terms)
        self.private_key = private_key()
        self.set_public_key(VECTORS["merchant_public_key"])
        self.set_versions("BOTH")

    def set_public_key(self, text: str) -> None:
        """Give the merchant a public key."""
        now, secret_key = self.api_server.app.clock(), self.api_server.settings.secret_key
        self.api_server.tx(lambda tx: epay.set_public_key(tx, secret_key, self.id, text, now))

    def set_versions(self, versions: epay.Versions) -> None:
        """Set which versions the merchant accepts."""
        now = self.api_server.app.clock()
        self.api_server.tx(lambda tx: epay.set_versions(tx, self.id, versions, now))

    @property
    def platform_key(self) -> str:
        """The public half of the platform's key."""
        key: str = self.api_server.tx(platform_key.find).public_key
        return key

    def submission(self, **changes: Any) -> dict[str, str]:
        """Return the unsigned fields of a new order; None omits one."""
        return self.form(**({"method": "web"} | changes))

    def sign_v2(
        self, fields: dict[str, Any], *, timestamp: int | None = None, key: Any = None
    ) -> dict[str, str]:
        """Sign fields with the merchant's key, at a time (Unix s)."""
        seconds = int(time.time()) if timestamp is None else timestamp
        stamped = {"pid": self.pid, "timestamp": str(seconds)} | fields
        stamped = {name: str(value) for name, value in stamped.items() if value is not None}
        sign = rsa_signature.sign(stamped, key or self.private_key)
        return stamped | {"sign": sign, "sign_type": "RSA"}

    def send(self, path: str, signed: Any, prefix: str = "/api/", **options: Any) -> dict[str, Any]:
        """Post signed fields to a path, and verify the response."""
        response = self.api_server.http.post(f"{prefix}{path}", data=signed, **options)
        return self.read(response)

    def read(self, response: httpx2.Response) -> dict[str, Any]:
        """Verify a response's signature and timestamp as strict clients do; return its fields."""
        assert response.status_code == 200
        assert response.headers["content-type"] == "application/json"
        assert response.headers["cache-control"] == "no-store"
        body: dict[str, Any] = response.json()
        assert body["sign_type"] == "RSA"
        assert abs(int(body["timestamp"]) - time.time()) < 60
        assert rsa_signature.verify(body, rsa_signature.read_public_key(self.platform_key))
        for name, value in body.items():
            assert isinstance(value, int | str | list), name
            assert not isinstance(value, bool), name
            assert value != "", name
        if body["code"] != 0:
            assert set(body) == {"code", "msg", "timestamp", "sign_type", "sign"}
            assert body["msg"]
        return {
            name: value
            for name, value in body.items()
            if name not in {"timestamp", "sign_type", "sign"}
        }

    def call(self, path: str, **fields: Any) -> dict[str, Any]:
        """Sign and post fields."""
        return self.send(path, self.sign_v2(fields))

    def create(self, **changes: Any) -> dict[str, Any]:
        """Place an order by ``pay/create`` and assert that it was accepted."""
        form = self.submission(**changes)
        placed = self.call("pay/create", **form)
        assert placed["code"] == 0, placed
        return placed | {"out_trade_no": form["out_trade_no"]}

    def create_paid(self, **changes: Any) -> dict[str, Any]:
        """Place an order and pay it."""
        placed = self.create(**changes)
        self.pay(placed)
        return placed

    def refunds(self) -> list[dict[str, Any]]:
        """Return the merchant's refunds."""
        return self.api_server.sql(
            "select id, amount_minor, status, refund_no from refunds where merchant_id = $1"
            " order by id",
            self.id,
        )
