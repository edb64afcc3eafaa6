"""Fixtures: a chain, and an account on it."""

from collections.abc import AsyncIterator, Iterator

import pytest
import pytest_asyncio

from deposits.chain_world import ChainWorld, TestChain
from opentill.db.database import Db
from support.ganache import install_ganache, running_ganache
from support.sandbox_chain import SandboxChain, running_sandbox_chain


@pytest.fixture(scope="session")
def sandbox_chain(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SandboxChain]:
    """The chain of a sandbox bank."""
    with running_sandbox_chain(tmp_path_factory.mktemp("chain-bank")) as chain:
        yield chain


@pytest.fixture(scope="module", params=["ganache", "sandbox"])
def chain(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[TestChain]:
    """A real chain, and then the sandbox bank's: tests see no difference."""
    if request.param == "sandbox":
        yield request.getfixturevalue("sandbox_chain")
        return
    with running_ganache(install_ganache(tmp_path_factory)) as ganache:
        yield ganache


@pytest_asyncio.fixture(loop_scope="session")
async def world(db: Db, chain: TestChain) -> AsyncIterator[ChainWorld]:
    """An account on a chain, in an empty database."""
    world = ChainWorld(db, chain)
    await world.open()
    yield world
    await world.close()
