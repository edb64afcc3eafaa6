"""A bank that speaks the dialects of epusdt and its fork, and gateways of the shop."""

import json
from collections.abc import Iterator
from typing import Any, Final

import pytest

from opentill.gateways.epusdt import EpusdtGateway
from opentill.gateways.epusdt.client import BepusdtGateway
from opentill.gateways.epusdt.configuration import read
from opentill.outgoing.client import Outgoing, Policy
from opentill.sandbox import epusdt
from opentill.sandbox.epusdt import keys
from support.ports import free_socket, url_of
from support.sandbox_bank import FAST_TIMING, running_bank, serving, wait_until
from support.wallet_shop import WalletShop

CALLBACK: Final = "/gateways/epusdt/callback"


class EpusdtReceiver:
    """Records callbacks, and responds with ``content``."""

    def __init__(self) -> None:
        """The receiver acknowledges callbacks unless a test changes ``content``."""
        self.url, self.content = "", b"ok"
        self.received: list[tuple[dict[str, str], bytes]] = []

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        """Serve a request."""
        if scope["type"] != "http":
            return
        body = (await receive())["body"]
        headers = {name.decode(): value.decode() for name, value in scope["headers"]}
        self.received.append((headers, body))
        await send({"type": "http.response.start", "status": 200, "headers": []})
        await send({"type": "http.response.body", "body": self.content})

    def wait_for(self, attempt_id: str, times: int = 1) -> list[tuple[dict[str, str], bytes]]:
        """Wait until there are so many callbacks about an attempt, and return all of them."""

        def callbacks() -> list[tuple[dict[str, str], bytes]] | None:
            received = [one for one in list(self.received) if attempt_id.encode() in one[1]]
            return received if len(received) >= times else None

        complete: list[tuple[dict[str, str], bytes]] = wait_until(callbacks)
        return complete


class EpusdtShop(WalletShop):
    """The shop's settings, its customers' browsers and phones, and the bank's controls."""

    gateway_name = "epusdt"
    method = "CRYPTO"

    def __init__(self, bank_url: str, folder: Any, receiver: EpusdtReceiver) -> None:
        """``folder`` has the token that the bank has made."""
        super().__init__(bank_url, folder, receiver.url)
        self.receiver = receiver
        self.token = self.file(epusdt.CREDENTIAL_FILE)

    def options(self, *, fork: bool = False, bank_url: str = "", **changes: str) -> dict[str, str]:
        """Return the options of the gateway."""
        path = epusdt.FORK_PATH if fork else epusdt.PATH
        options = {
            "url": f"{bank_url or self.bank_url}{path}",
            "token": self.token,
            "server": "bepusdt" if fork else "epusdt",
            **changes,
        }
        return {f"epusdt_{name}": value for name, value in options.items()}

    def gateway(
        self, *, fork: bool = False, timeout_s: float = 10.0, bank_url: str = "", **changes: str
    ) -> EpusdtGateway:
        """Return a gateway."""
        configured = read(self.options(fork=fork, bank_url=bank_url, **changes))
        kind = BepusdtGateway if fork else EpusdtGateway
        return kind(configured, Outgoing(Policy.only(configured.url)), timeout_s)

    def sign(self, values: dict[str, Any], token: str = "") -> bytes:
        """Return a callback with the signature of the bank."""
        signature = keys.sign(values, token or self.token)
        return json.dumps({**values, "signature": signature}).encode()


@pytest.fixture(scope="session")
def epusdt_bank(
    tmp_path_factory: pytest.TempPathFactory,
) -> Iterator[tuple[str, Any, EpusdtReceiver]]:
    """The address and keys of a bank, and the receiver of its callbacks."""
    directory = tmp_path_factory.mktemp("epusdt-bank")
    folder, receiver, sock = epusdt.create(directory), EpusdtReceiver(), free_socket()
    receiver.url = url_of(sock)
    with serving(receiver, sock), running_bank(directory, free_socket(), FAST_TIMING) as url:
        yield url, folder, receiver


@pytest.fixture
def epusdt_shop(epusdt_bank: tuple[str, Any, EpusdtReceiver]) -> Iterator[EpusdtShop]:
    """A shop of the bank; unused faults are removed after the test."""
    shop = EpusdtShop(*epusdt_bank)
    yield shop
    shop.receiver.content = b"ok"
    shop.api.delete("/faults")
    shop.close()
