"""Resets the counts of login attempts before each test; a server that sends webhooks."""

from collections.abc import Callable, Iterator
from ipaddress import ip_network
from typing import Any

import pytest

from opentill.core.settings import Settings
from support.api_server import SECRETS, ApiServer, serving
from support.databases import cloned_database
from support.people import reset_login_limits

__all__ = ["reset_login_limits"]


@pytest.fixture(scope="module")
def sending_server(
    postgres_url: str,
    template: str,
    tmp_path_factory: pytest.TempPathFactory,
    pooler_url: Callable[[str], str],
) -> Iterator[ApiServer]:
    """A server with its own database that may send to the loopback network."""
    with cloned_database(postgres_url, template) as url:
        secrets: dict[str, Any] = {**SECRETS}
        settings = Settings(
            database_url=pooler_url(url),
            data_dir=tmp_path_factory.mktemp("sender"),
            limit_ip_per_minute=0,
            limit_resends_per_minute=0,
            outgoing_http=True,
            outgoing_allow=(ip_network("127.0.0.0/8"),),
            **secrets,
        )
        with serving(settings) as server:
            yield server
