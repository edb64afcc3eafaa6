"""A server with the sandbox bank, its document, and the tools; all tests here need the latter."""

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from api import SECRETS, Till, database, serving, shop
from generated import toolchain
from opentill.core.settings import Settings
from sandbox.fixtures import bank_url
from sandbox.running import SECRET


@pytest.fixture(scope="session")
def till(
    postgres_url: str,
    template: str,
    bank_url: str,
    tmp_path_factory: pytest.TempPathFactory,
    through: Callable[[str], str],
) -> Iterator[Till]:
    """A server whose customers pay at the sandbox bank."""
    with database(postgres_url, template) as url:
        settings = Settings(
            database_url=through(url),
            data_dir=tmp_path_factory.mktemp("generated"),
            limit_ip_per_minute=0,
            limit_checkouts_per_minute=0,
            limit_payments_per_minute=0,
            sandbox_url=bank_url,
            **(SECRETS | {"sandbox_secret": SECRET}),
        )
        with serving(settings) as running:
            yield running
            running.check_books()


@pytest.fixture(scope="session")
def document(till: Till, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The document as the running server gives it."""
    path = tmp_path_factory.mktemp("document") / "openapi.json"
    path.write_bytes(till.http.get("/openapi.json").raise_for_status().content)
    return path


@pytest.fixture(scope="session")
def node_programs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Where the programs of the pinned npm packages are."""
    return toolchain.install_node_modules(tmp_path_factory.mktemp("node"))


__all__ = ["bank_url", "shop"]
