"""One deployment for all tests of commands that work beside a server."""

import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from cli.commands import Nursery
from cli.deployment import Deployment, checked, migrate


@pytest.fixture(scope="session")
def migrated(nursery: Nursery) -> Iterator[Path]:
    """A data directory as ``opentill migrate`` makes it, to be copied."""
    with tempfile.TemporaryDirectory(prefix="opentill-test-") as directory:
        yield migrate(Path(directory), nursery)


@pytest.fixture(scope="session")
def deployment(nursery: Nursery, migrated: Path) -> Iterator[Deployment]:
    """Serve for tests that only need merchants of their own, and leave the time as it was."""
    with checked(nursery, migrated) as deployment:
        yield deployment
