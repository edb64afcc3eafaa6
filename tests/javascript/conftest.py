"""Fixtures: the built JavaScript client, and the server by which its tests create merchants."""

from collections.abc import Iterator

import pytest

from javascript.client_control import controlling
from support.api_server import ApiServer
from support.javascript import javascript_client


@pytest.fixture(scope="session")
def control(api_server: ApiServer) -> Iterator[str]:
    """Address of the server by which tests in JavaScript create merchants."""
    with controlling(api_server) as url:
        yield url


__all__ = ["javascript_client"]
