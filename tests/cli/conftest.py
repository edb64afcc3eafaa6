"""One deployment for all tests of commands that work beside a server."""

import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from support.commands import ForkServer
from support.deployment import Deployment, checked, migrate


@pytest.fixture(scope="session")
def migrated(fork_server: ForkServer) -> Iterator[Path]:
    """A data directory as ``opentill migrate`` makes it, to be copied."""
    with tempfile.TemporaryDirectory(prefix="opentill-test-") as directory:
        yield migrate(Path(directory), fork_server)


@pytest.fixture(scope="session")
def deployment(fork_server: ForkServer, migrated: Path) -> Iterator[Deployment]:
    """Serve for tests that only need merchants of their own, and leave the time as it was."""
    with checked(fork_server, migrated) as deployment:
        yield deployment
