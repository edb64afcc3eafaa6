"""The blocking client in the repository is generated from the asynchronous one."""

import re

from tools import blocking_client


def test_the_blocking_client_is_generated_from_the_asynchronous_one() -> None:
    generated = blocking_client.to_blocking(blocking_client.SOURCE.read_text())
    assert blocking_client.TARGET.read_text() == generated, "run: make client"
    assert not re.search(r"\b(async|await|asyncio|Async\w+)\b", generated.split('"""', 2)[2])
