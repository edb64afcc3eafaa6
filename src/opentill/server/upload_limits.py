"""How many uploads run at once: each holds a file in memory until the database has it."""

import contextlib
from collections import Counter
from collections.abc import Iterator
from typing import Final

from opentill.core.errors import TooManyAtOnce

AT_ONCE: Final = 16  # of all merchants, in a process
EACH: Final = 4  # of one merchant
RETRY_AFTER_S: Final = 5
TIME_S: Final = 120.0  # for the file to arrive, beyond what every body has


class Uploads:
    """The uploads of a process."""

    def __init__(self) -> None:
        """Nobody sends a file yet."""
        self._running: Counter[str] = Counter()

    @contextlib.contextmanager
    def turn(self, merchant_id: str) -> Iterator[None]:
        """Count an upload while the block runs. Raises TooManyAtOnce."""
        if self._running[merchant_id] >= EACH or self._running.total() >= AT_ONCE:
            raise TooManyAtOnce("uploads", EACH, RETRY_AFTER_S)
        self._running[merchant_id] += 1
        try:
            yield
        finally:
            self._running[merchant_id] -= 1
            if not self._running[merchant_id]:
                del self._running[merchant_id]
