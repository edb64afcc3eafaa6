"""Limits of concurrent uploads, each of which holds a file in memory until it is stored.

Login and permission are checked before an upload takes a place. Places are limited per person and
address (IPv6: the /64), so that nobody can take all of them, and each file has a deadline.
"""

import contextlib
from collections import Counter
from collections.abc import Iterator
from typing import Final

from opentill.core.errors import TooManyAtOnce
from opentill.server.client_address import limit_subject

AT_ONCE: Final = 8  # in a process
EACH: Final = 2  # of one person
EACH_ADDRESS: Final = 4  # of one address
RETRY_AFTER_S: Final = 5
TIME_S: Final = 120.0  # to receive the file


class Uploads:
    """The running uploads of a process."""

    def __init__(self, time_s: float = TIME_S) -> None:
        """``time_s`` is the deadline for receiving a file."""
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
