"""A desk with accounts at a sandbox bank, through which a test starts many payments."""

import asyncio
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from opentill import checkouts
from opentill.core.errors import Invalid
from opentill.core.settings import Settings
from opentill.gateways import Gateways, accounts
from opentill.gateways.account import GatewayAccount
from opentill.gateways.accounts import follower
from opentill.gateways.model import PaymentOutcome
from opentill.orders import PaymentAttempt, apply_outcome
from support.api_server import SECRETS, ApiServer, Shop, serving
from support.databases import cloned_database
from support.people import TESTER
from support.sandbox_accounts import Bank, add_account, create_session, start_payment
from support.sandbox_bank import wait_until


@contextmanager
def serving_without_cards(
    postgres_url: str, template: str, data_dir: Path, pooler_url: Callable[[str], str]
) -> Iterator[ApiServer]:
    """Run a server whose environment takes no cards, and which sees new accounts at once."""
    with cloned_database(postgres_url, template) as url, pytest.MonkeyPatch.context() as patch:
        patch.setattr(follower, "POLL_S", 0.05)
        fields: dict[str, Any] = {
            "database_url": pooler_url(url),
            "data_dir": data_dir,
            "gateway_options": {"sandbox_methods": "BANK_TRANSFER"},
            "limit_ip_per_minute": 0,
            "limit_checkouts_per_minute": 0,
            "limit_payments_per_minute": 0,
            **SECRETS,
        }
        with serving(Settings(**fields)) as server:
            yield server
            server.check_books()


class Desk:
    """A shop and the accounts of one test, which are retired after it."""

    def __init__(self, server: ApiServer, bank: Bank) -> None:
        """Create a shop with a product of 9.99 USD; ``close`` retires the accounts."""
        self.server, self.bank = server, bank
        self.accounts: list[GatewayAccount] = []
        self.shop: Shop = server.create_shop()
        self.product_id: str = self.shop.create_product(price="9.99")["id"]

    def add(self, label: str, **changes: Any) -> GatewayAccount:
        """Add an account and wait until the server uses it."""
        account = add_account(self.server, self.bank, label, **changes)
        self.accounts.append(account)
        self.wait_for(account)
        return account

    def wait_for(self, account: GatewayAccount) -> None:
        """Wait until the server has this revision of an account."""
        gateways = self.server.app.gateways
        assert isinstance(gateways, Gateways)

        def is_loaded() -> bool:
            loaded = gateways.accounts.get(account.id)
            return loaded is not None and loaded.revision >= account.revision

        wait_until(is_loaded)

    def start(self) -> PaymentAttempt:
        """Start the payment of a new session."""
        return start_payment(self.server, create_session(self.shop)["id"])

    def start_many(self, number: int) -> list[PaymentAttempt | None]:
        """Start payments of new sessions at the same time; None for each that is refused."""
        ids = [self.shop.create_session(self.product_id)["id"] for _ in range(number)]
        app, url = self.server.app, self.server.settings.public_url
        payer = checkouts.PayerInput(
            email="ann@example.com", name="Ann", method="CREDIT_CARD", ip="203.0.113.7", locale="en"
        )

        async def start(session_id: str) -> PaymentAttempt | None:
            try:
                return await checkouts.pay(
                    app.db, app.gateways, session_id, payer, url, app.clock()
                )
            except Invalid as refusal:
                assert refusal.field == "method"
                return None

        async def start_all() -> list[PaymentAttempt | None]:
            return await asyncio.gather(*map(start, ids))

        return self.server.run(start_all())

    def apply(self, attempt: PaymentAttempt, status: str, times: int = 1) -> None:
        """Apply an outcome as the attempt's gateway reports it."""
        server = self.server
        outcome = PaymentOutcome(status=status)  # type: ignore[arg-type]
        for _ in range(times):
            server.tx(
                lambda tx: apply_outcome(
                    tx, attempt.merchant_id, attempt.id, outcome, server.app.clock(),
                    gateway=attempt.gateway,
                )
            )  # fmt: skip

    def close(self) -> None:
        """Retire the accounts and wait until the server has seen it."""
        for account in self.accounts:
            retired = self.server.tx(
                lambda tx, account=account: accounts.set_status(
                    tx, account.id, "RETIRED", self.server.app.clock(), actor=TESTER
                )
            )
            self.wait_for(retired)
