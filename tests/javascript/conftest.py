"""The JavaScript client, built, and a server that its tests can ask."""

from collections.abc import Iterator

import pytest

from javascript.client_control import controlling
from support.api_server import ApiServer
from support.javascript import javascript_client


@pytest.fixture(scope="session")
def control(api_server: ApiServer) -> Iterator[str]:
    """Address of what the tests in JavaScript ask for merchants."""
    with controlling(api_server) as url:
        yield url


__all__ = ["javascript_client"]
