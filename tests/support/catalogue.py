"""PostgreSQL's catalogue of the migrated database, for tests of the schema."""

import asyncio
from collections.abc import Callable
from typing import Any

import pytest

from support.pooler import connect


@pytest.fixture(scope="module")
def catalogue(postgres_url: str, template: str) -> Callable[..., list[dict[str, Any]]]:
    """A function that runs a statement on the migrated database and returns its rows."""
    url = postgres_url.replace("@/opentill?", f"@/{template}?")

    def run(statement: str, *values: Any) -> list[dict[str, Any]]:
        async def fetch() -> list[dict[str, Any]]:
            connection = await connect(url)
            try:
                return [dict(row) for row in await connection.fetch(statement, *values)]
            finally:
                await connection.close()

        return asyncio.run(fetch())

    return run
