"""How many uploads run at once: each holds a file in memory until the database has it.

Only who may do what the file is for takes a place: the login and the permission are checked first.
Places are bounded for a person and for an address (IPv6: its /64), so that nobody holds all of
them, and a file has a deadline of its own, after which its place is free again.
"""

import contextlib
from collections import Counter
from collections.abc import Iterator
from typing import Final

from opentill.core.errors import TooManyAtOnce
from opentill.server.client_address import limit_subject

AT_ONCE: Final = 8  # of all people, in a process
EACH: Final = 2  # of one person
EACH_ADDRESS: Final = 4  # of one address
RETRY_AFTER_S: Final = 5
TIME_S: Final = 120.0  # for the file to arrive


class Uploads:
    """The uploads of a process."""

    def __init__(self, time_s: float = TIME_S) -> None:
        """Nobody sends a file yet. ``time_s``: how long a file may take to arrive."""
        self.time_s = time_s
        self._by_person: Counter[str] = Counter()
        self._by_address: Counter[str] = Counter()

    @contextlib.contextmanager
    def turn(self, person_id: str, address: str) -> Iterator[None]:
        """Count an upload while the block runs. Raises TooManyAtOnce."""
        place = limit_subject(address)
        if self._by_person[person_id] >= EACH:
            raise TooManyAtOnce("uploads", EACH, RETRY_AFTER_S)
        if self._by_address[place] >= EACH_ADDRESS:
            raise TooManyAtOnce("uploads", EACH_ADDRESS, RETRY_AFTER_S)
        if self._by_person.total() >= AT_ONCE:
            raise TooManyAtOnce("uploads", AT_ONCE, RETRY_AFTER_S)
        with _counted(self._by_person, person_id), _counted(self._by_address, place):
            yield


@contextlib.contextmanager
def _counted(counter: Counter[str], who: str) -> Iterator[None]:
    counter[who] += 1
    try:
        yield
    finally:
        counter[who] -= 1
        if not counter[who]:
            del counter[who]
