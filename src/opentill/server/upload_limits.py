"""Limits of concurrent uploads, each of which holds a file in memory until it is stored.

Login and permission are checked before an upload counts. Besides the limit of the process there are
limits per person and per address (IPv6: the /64), so that nobody can use up the limit of the
process. Each file must be received within a time limit.
"""

import contextlib
from collections import Counter
from collections.abc import Iterator
from typing import Final

from opentill.core.errors import TooManyAtOnce
from opentill.server.client_address import limit_subject

AT_ONCE: Final = 8  # a process receives at most this many uploads at a time
EACH: Final = 2  # a process receives at most this many uploads at a time from one person
# A process receives at most this many uploads at a time from one client address.
EACH_ADDRESS: Final = 4
RETRY_AFTER_S: Final = 5
TIME_S: Final = 120.0  # a file must be received in this time


class Uploads:
    """Counts and limits the running uploads of a process."""

    def __init__(self, time_s: float = TIME_S) -> None:
        """``time_s`` is the time limit for receiving a file."""
        self.time_s = time_s
        self._by_person: Counter[str] = Counter()
        self._by_address: Counter[str] = Counter()

    @contextlib.contextmanager
    def turn(self, person_id: str, address: str) -> Iterator[None]:
        """Count an upload while the block runs. Raises TooManyAtOnce."""
        network = limit_subject(address)
        if self._by_person[person_id] >= EACH:
            raise TooManyAtOnce("uploads", EACH, RETRY_AFTER_S)
        if self._by_address[network] >= EACH_ADDRESS:
            raise TooManyAtOnce("uploads", EACH_ADDRESS, RETRY_AFTER_S)
        if self._by_person.total() >= AT_ONCE:
            raise TooManyAtOnce("uploads", AT_ONCE, RETRY_AFTER_S)
        with _counting(self._by_person, person_id), _counting(self._by_address, network):
            yield


@contextlib.contextmanager
def _counting(counter: Counter[str], subject: str) -> Iterator[None]:
    counter[subject] += 1
    try:
        yield
    finally:
        counter[subject] -= 1
        if not counter[subject]:
            del counter[subject]
