"""One deployment for all tests of commands that work beside a server."""

from collections.abc import Iterator

import pytest

from cli.commands import Nursery, nursery
from cli.deployment import Deployment, checked

__all__ = ["deployment", "nursery"]


@pytest.fixture(scope="session")
def deployment(nursery: Nursery) -> Iterator[Deployment]:
    """Serve for tests that only need merchants of their own, and leave the time as it was."""
    with checked(nursery) as deployment:
        yield deployment
