"""Fixtures: a server with the sandbox bank, and shops that use its Epay API."""

from collections.abc import Callable, Iterator
from decimal import Decimal
from ipaddress import ip_network

import pytest

from opentill.core.settings import Settings
from support.api_server import SECRETS, ApiServer, serving
from support.databases import cloned_database
from support.epay_shop import EpayShop, Inbox
from support.sandbox_bank import SECRET


@pytest.fixture(scope="session")
def api_server(
    postgres_url: str,
    template: str,
    bank_url: str,
    tmp_path_factory: pytest.TempPathFactory,
    pooler_url: Callable[[str], str],
) -> Iterator[ApiServer]:
    """A server that may send notifications to the loopback network."""
    with cloned_database(postgres_url, template) as url:
        settings = Settings(
            database_url=pooler_url(url),
            data_dir=tmp_path_factory.mktemp("epay"),
            limit_ip_per_minute=0,
            limit_checkouts_per_minute=0,
            limit_payments_per_minute=0,
            outgoing_http=True,
            outgoing_allow=(ip_network("127.0.0.0/8"),),
            sandbox_url=bank_url,
            **(SECRETS | {"sandbox_secret": SECRET}),
        )
        with serving(settings) as server:
            server.set_rate("CNY", "USD", Decimal("0.14"))
            yield server
            server.check_books()


@pytest.fixture
def inbox() -> Iterator[Inbox]:
    """A receiver of notifications, which responds with success."""
    endpoint = Inbox()
    yield endpoint
    endpoint.close()


@pytest.fixture
def epay_shop(api_server: ApiServer, inbox: Inbox) -> EpayShop:
    """A merchant with Epay credentials."""
    return EpayShop(api_server, inbox)
