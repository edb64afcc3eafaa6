"""One deployment for all tests of commands that work beside a server."""

from collections.abc import Iterator

import pytest

from cli.commands import nursery
from cli.deployment import Deployment, running

__all__ = ["deployment", "nursery"]


@pytest.fixture(scope="module")
def deployment() -> Iterator[Deployment]:
    """Serve; the books are right at the end."""
    with running() as deployment:
        yield deployment
        assert '"violations":[]' in deployment.done("ledger", "check", "--json")
