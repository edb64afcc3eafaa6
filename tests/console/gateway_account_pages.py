"""A server with a sandbox bank of its own, whose accounts staff add and change in the console."""

import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final

from opentill.core.settings import Settings
from opentill.gateways import accounts
from opentill.gateways.account import GatewayAccount
from support.api_server import SECRETS, ApiServer, serving
from support.databases import cloned_database
from support.people import Visitor, create_person
from support.sandbox_accounts import Bank, running_bank

ACCOUNTS: Final = "/console/gateway-accounts"
SECRET: Final = "bank" * 8


class AccountsSite:
    """The server, the bank and an administrator."""

    def __init__(self, server: ApiServer, bank: Bank) -> None:
        """Log an administrator in."""
        self.server, self.bank = server, bank
        self.admin = create_person(server, None, staff_role="admin")

    def form(self, label: str, **changes: str) -> dict[str, str]:
        """Return the form that adds an account at the bank."""
        return {
            "gateway": "sandbox",
            "label": label,
            "credential_url": self.bank.url,
            "secret_secret": SECRET,
            "suffix": "",
        } | changes

    def add(self, label: str) -> GatewayAccount:
        """Add an account in the console."""
        response = self.admin.post(f"{ACCOUNTS}/add", self.form(label))
        assert response.status_code == 303, response.text
        (account_id,) = re.findall(r"(gat_\w+)\?done=added$", response.headers["location"])
        return self.find(account_id)

    def find(self, account_id: str) -> GatewayAccount:
        """Return an account."""
        return self.server.tx(lambda tx: accounts.find(tx, account_id))

    def staff(self, role: Any) -> Visitor:
        """Log staff with a role in."""
        return create_person(self.server, None, staff_role=role)

    def audit(self, account_id: str) -> list[tuple[str, str]]:
        """Return the actions on an account and who did them, the oldest first."""
        rows = self.server.sql(
            "select action, who from audit_log where subject like $1 order by number",
            f"{account_id}%",
        )
        return [(row["action"], row["who"]) for row in rows]


@contextmanager
def running_site(
    postgres_url: str, template: str, directory: Path, pooler_url: Callable[[str], str]
) -> Iterator[AccountsSite]:
    """Run the server and the bank while the block runs."""
    fields: dict[str, Any] = {"data_dir": directory, "limit_ip_per_minute": 0, **SECRETS}
    with (
        cloned_database(postgres_url, template) as url,
        running_bank(directory / "bank", SECRET) as bank,
        serving(Settings(database_url=pooler_url(url), **fields)) as server,
    ):
        yield AccountsSite(server, bank)
        server.check_books()
