"""Fixtures: a server with the sandbox bank, its API document, and npm programs."""

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from generated import toolchain
from opentill.core.settings import Settings
from support.api_server import SECRETS, ApiServer, serving, shop
from support.databases import cloned_database
from support.sandbox_bank import SECRET, bank_url


@pytest.fixture(scope="session")
def api_server(
    postgres_url: str,
    template: str,
    bank_url: str,
    tmp_path_factory: pytest.TempPathFactory,
    pooler_url: Callable[[str], str],
) -> Iterator[ApiServer]:
    """A server whose customers pay at the sandbox bank."""
    with cloned_database(postgres_url, template) as url:
        settings = Settings(
            database_url=pooler_url(url),
            data_dir=tmp_path_factory.mktemp("generated"),
            limit_ip_per_minute=0,
            limit_checkouts_per_minute=0,
            limit_payments_per_minute=0,
            sandbox_url=bank_url,
            **(SECRETS | {"sandbox_secret": SECRET}),
        )
        with serving(settings) as server:
            yield server
            server.check_books()


@pytest.fixture(scope="session")
def document(api_server: ApiServer, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The API document, downloaded from the running server."""
    path = tmp_path_factory.mktemp("document") / "openapi.json"
    path.write_bytes(api_server.http.get("/openapi.json").raise_for_status().content)
    return path


@pytest.fixture(scope="session")
def node_programs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of the programs of the npm packages, which are pinned by a lock file."""
    return toolchain.install_node_modules(tmp_path_factory.mktemp("node"))


__all__ = ["bank_url", "shop"]
