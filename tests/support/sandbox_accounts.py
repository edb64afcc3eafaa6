"""Accounts at sandbox banks: each bank is a server on loopback with a secret of its own."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final

import httpx2

from opentill import checkouts
from opentill.gateways import accounts
from opentill.gateways.account import GatewayAccount
from opentill.orders import PaymentAttempt
from opentill.sandbox import create_app
from support.api_server import ApiServer, Shop
from support.people import TESTER
from support.ports import free_socket, url_of
from support.sandbox_bank import FAST_TIMING, serving

CARD: Final = {"number": "4242424242424242", "exp": "12/34", "csc": "123"}


class Bank:
    """A running sandbox bank."""

    def __init__(self, url: str, secret: str) -> None:
        """Use ``running_bank``."""
        self.url, self.secret = url, secret

    @property
    def credentials(self) -> dict[str, str]:
        """The credentials of an account at this bank."""
        return {"url": self.url, "secret": self.secret}

    def pay(self, attempt_id: str) -> None:
        """Pay as the customer, on the bank's page."""
        with httpx2.Client(base_url=self.url, timeout=30, trust_env=False) as browser:
            assert browser.post(f"/pay/{attempt_id}", data=CARD).status_code in {200, 303}


@contextmanager
def running_bank(data_dir: Path, secret: str) -> Iterator[Bank]:
    """Run a bank while the block runs."""
    sock = free_socket()
    url = url_of(sock)
    app = create_app(data_dir=data_dir, secret=secret, public_url=url, timing=FAST_TIMING)
    with serving(app, sock):
        yield Bank(url, secret)


def add_account(server: ApiServer, bank: Bank, label: str, **changes: Any) -> GatewayAccount:
    """Add an account at a bank."""
    fields: dict[str, Any] = {"methods": "CREDIT_CARD"} | changes
    new = accounts.NewAccount(
        gateway="sandbox", label=label, credentials=bank.credentials, **fields
    )
    now = server.app.clock()
    return server.tx(lambda tx: accounts.add(tx, server.settings, new, now, actor=TESTER))


def start_payment(
    server: ApiServer, session_id: str, method: str = "CREDIT_CARD"
) -> PaymentAttempt:
    """Submit the payment page's form and return the attempt."""
    payer = checkouts.PayerInput(
        email="ann@example.com", name="Ann", method=method, ip="203.0.113.7", locale="en"
    )
    app, url = server.app, server.settings.public_url
    attempt = server.run(checkouts.pay(app.db, app.gateways, session_id, payer, url, app.clock()))
    assert attempt is not None
    return attempt


def create_session(shop: Shop, price: str = "9.99") -> dict[str, Any]:
    """Open a session for a product of this price in USD."""
    return shop.create_session(shop.create_product(price=price)["id"])
