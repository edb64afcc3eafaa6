"""A server with several gateways, and the providers' servers."""

import asyncio
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final

import pytest

from opentill.core.settings import Settings
from support import epay_gateway_server
from support.api_server import SECRETS, ApiServer, serving
from support.databases import cloned_database
from support.stripe_server import KEY, SECRET, StripeServer

NAMES: Final = ("sandbox", "stripe", "epay", "manual")


class Several:
    """The server and its providers; tests write the reports of the sandbox bank themselves."""

    def __init__(
        self, api_server: ApiServer, stripe: StripeServer, epay: epay_gateway_server.EpayServer
    ) -> None:
        """Use the fixture."""
        self.api_server, self.stripe, self.epay = api_server, stripe, epay


@contextmanager
def _looping() -> Iterator[Callable[[Any], Any]]:
    """Yield a function that runs coroutines on an event loop in a thread."""
    loop = asyncio.new_event_loop()
    thread = threading.Thread(target=loop.run_forever)
    thread.start()
    try:
        yield lambda work: asyncio.run_coroutine_threadsafe(work, loop).result(30)
    finally:
        loop.call_soon_threadsafe(loop.stop)
        thread.join()
        loop.close()


@pytest.fixture(scope="module")
def several(
    postgres_url: str,
    template: str,
    tmp_path_factory: pytest.TempPathFactory,
    pooler_url: Callable[[str], str],
) -> Iterator[Several]:
    """The servers for all tests of a file."""
    stripe, epays = StripeServer(), epay_gateway_server.running_epay_server()
    with _looping() as run, cloned_database(postgres_url, template) as url:
        run(stripe.start())
        epay = run(epays.__aenter__())
        try:
            settings = _settings(pooler_url(url), tmp_path_factory.mktemp("several"))
            options = {"stripe_api_base": stripe.url, "epay_url": epay.url}
            with serving(
                settings, gateway_options=settings.gateway_options | options
            ) as api_server:
                yield Several(api_server, stripe, epay)
                api_server.check_books()
        finally:
            run(epays.__aexit__(None, None, None))
            run(stripe.stop())


def _settings(url: str, directory: Path) -> Settings:
    return Settings(
        database_url=url,
        data_dir=directory,
        gateways=NAMES,
        routes="CREDIT_CARD:stripe",
        gateway_options={
            "stripe_secret_key": KEY, "stripe_webhook_secret": SECRET,
            "epay_pid": epay_gateway_server.PID,
            "epay_key": epay_gateway_server.KEY, "epay_currency": "USD",
            "manual_instructions": "IBAN",
        },
        limit_ip_per_minute=0,
        limit_checkouts_per_minute=0,
        limit_payments_per_minute=0,
        **SECRETS,
    )  # fmt: skip
