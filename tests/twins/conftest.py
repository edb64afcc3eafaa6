"""A server of these tests' own, with its Epay door and the bank; and a shop that speaks Epay."""

from collections.abc import Callable, Iterator
from decimal import Decimal
from ipaddress import ip_network

import pytest

from api import SECRETS, Till, database, serving
from epay.stall import Inbox
from opentill.core.settings import Settings
from sandbox.running import SECRET
from twins.examiner import Examiner


@pytest.fixture(scope="module")
def inbox() -> Iterator[Inbox]:
    """A notify_url that says success."""
    made = Inbox()
    yield made
    made.close()


@pytest.fixture(scope="module")
def places(
    postgres_url: str,
    template: str,
    bank_url: str,
    tmp_path_factory: pytest.TempPathFactory,
    through: Callable[[str], str],
) -> Iterator[tuple[Till, Examiner]]:
    """A server, and who looks at its statements."""
    with database(postgres_url, template) as url:
        settings = Settings(
            database_url=through(url),
            data_dir=tmp_path_factory.mktemp("twins"),
            limit_ip_per_minute=0,
            limit_checkouts_per_minute=0,
            limit_payments_per_minute=0,
            db_pool_size=1,  # one at a time, so that nobody else changes what is compared
            outgoing_http=True,
            outgoing_allow=(ip_network("127.0.0.0/8"),),
            sandbox_url=bank_url,
            **(SECRETS | {"sandbox_secret": SECRET}),
        )
        with serving(settings) as running:
            running.rate("CNY", "USD", Decimal("0.14"))
            yield running, Examiner(url)
            running.check_books()
