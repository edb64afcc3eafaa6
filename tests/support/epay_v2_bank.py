"""A bank that speaks Epay V2's dialect, a receiver of its notifications, and gateways of a shop."""

import functools
from collections.abc import Iterator
from pathlib import Path
from typing import Any, ClassVar
from urllib.parse import parse_qsl

import msgspec
import pytest

from opentill.gateways.epay import rsa_signature
from opentill.gateways.epay_v2 import EpayV2Gateway, configuration
from opentill.gateways.epay_v2.client import Options
from opentill.outgoing.client import Outgoing, Policy
from opentill.sandbox import epay_v2
from opentill.sandbox.epay_v2 import Account
from support.ports import free_socket, url_of
from support.sandbox_bank import FAST_TIMING, running_bank, serving, wait_until
from support.wallet_shop import WalletShop


@functools.cache
def stranger_public_key() -> str:
    """Return a public key that no account of the bank has."""
    return rsa_signature.bare_public_key(rsa_signature.generate().public_key())


class QueryReceiver:
    """Records notifications, which are query strings, and responds with ``content``."""

    def __init__(self) -> None:
        """The receiver acknowledges notifications unless a test changes ``content``."""
        self.url, self.content = "", b"success"
        self.received: list[dict[str, str]] = []

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        """Serve a request."""
        del receive
        if scope["type"] != "http":
            return
        assert scope["method"] == "GET"
        self.received.append(dict(parse_qsl(scope["query_string"].decode())))
        await send({"type": "http.response.start", "status": 200, "headers": []})
        await send({"type": "http.response.body", "body": self.content})

    def wait_for(self, attempt_id: str, times: int = 1) -> list[dict[str, str]]:
        """Wait until there are so many notifications about an attempt, and return all of them."""

        def notices() -> list[dict[str, str]] | None:
            received = [one for one in list(self.received) if attempt_id in one["out_trade_no"]]
            return received if len(received) >= times else None

        complete: list[dict[str, str]] = wait_until(notices)
        return complete


class EpayV2BankShop(WalletShop):
    """The shop's settings, its customers' phones, and the bank's controls."""

    gateway_name = "epay_v2"
    method = "ALIPAY"
    _configured: ClassVar[dict[Any, Options]] = {}  # by the bank and the changes

    def __init__(
        self, bank_url: str, folder: Path, receiver: QueryReceiver, account: Account
    ) -> None:
        """``folder`` has the keys that the bank has made."""
        super().__init__(bank_url, folder, receiver.url)
        self.receiver, self.account = receiver, account

    def options(self, **changes: str) -> dict[str, str]:
        """Return the options of the gateway."""
        options = {
            "url": f"{self.bank_url}{epay_v2.PATH}/",
            "pid": epay_v2.PID,
            "private_key": self.file(epay_v2.PRIVATE_KEY),
            "public_key": self.file(epay_v2.PUBLIC_KEY),
            **changes,
        }
        return {f"epay_v2_{name}": value for name, value in options.items()}

    def gateway(
        self, bank_url: str = "", timeout_s: float = 10.0, cache_s: float = 0.0, **changes: str
    ) -> EpayV2Gateway:
        """Return a gateway."""
        key = (self.folder, *sorted(changes.items()))
        if key not in self._configured:  # reading a private key takes a tenth of a second
            self._configured[key] = configuration.read(self.options(**changes))
        url = f"{bank_url or self.bank_url}{epay_v2.PATH}/"
        configured = msgspec.structs.replace(self._configured[key], url=url)
        return EpayV2Gateway(configured, Outgoing(Policy.only(url)), timeout_s, cache_s)

    def notice(self, attempt_id: str, **changes: str) -> dict[str, str]:
        """Return a notification of a payment of 9.99 as the platform signs it."""
        values = {
            "pid": epay_v2.PID, "trade_no": "2026", "out_trade_no": attempt_id, "type": "alipay",
            "name": "Tea", "money": "9.99", "trade_status": "TRADE_SUCCESS", **changes,
        }  # fmt: skip
        return {**values, "sign": self.account.sign(values), "sign_type": "RSA"}


@pytest.fixture(scope="session")
def epay_v2_bank(
    tmp_path_factory: pytest.TempPathFactory,
) -> Iterator[tuple[str, Path, QueryReceiver, Account]]:
    """The address and keys of a bank, and the receiver of its notifications."""
    directory = tmp_path_factory.mktemp("epay-v2-bank")
    folder, receiver, sock = epay_v2.create(directory), QueryReceiver(), free_socket()
    receiver.url = url_of(sock)
    account = epay_v2.load(directory)
    assert account is not None
    with serving(receiver, sock), running_bank(directory, free_socket(), FAST_TIMING) as url:
        yield url, folder, receiver, account


@pytest.fixture
def epay_v2_shop(
    epay_v2_bank: tuple[str, Path, QueryReceiver, Account],
) -> Iterator[EpayV2BankShop]:
    """A shop of the bank; unused faults are removed after the test."""
    shop = EpayV2BankShop(*epay_v2_bank)
    yield shop
    shop.receiver.content = b"success"
    shop.api.delete("/faults")
    shop.close()
