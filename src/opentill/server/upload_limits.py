"""How many uploads run at once: each holds a file in memory until the database has it."""

import contextlib
from collections import Counter
from collections.abc import Iterator
from typing import Final

from opentill.core.errors import TooManyAtOnce

AT_ONCE: Final = 8  # of all people, in a process
EACH: Final = 2  # of one person
RETRY_AFTER_S: Final = 5
TIME_S: Final = 120.0  # for the file to arrive, beyond what every body has


class Uploads:
    """The uploads of a process."""

    def __init__(self) -> None:
        """Nobody sends a file yet."""
        self._running: Counter[str] = Counter()

    @contextlib.contextmanager
    def turn(self, who: str) -> Iterator[None]:
        """Count an upload while the block runs. Raises TooManyAtOnce."""
        if self._running[who] >= EACH or self._running.total() >= AT_ONCE:
            raise TooManyAtOnce("uploads", EACH, RETRY_AFTER_S)
        self._running[who] += 1
        try:
            yield
        finally:
            self._running[who] -= 1
            if not self._running[who]:
                del self._running[who]
