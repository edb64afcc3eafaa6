"""A bounded queue for hashing passwords: a login is refused when it is full.

A hash uses a core for about 50 ms, so only a few run at once. Known browsers, and persons with a
login or a link, form a group of their own. The groups take turns: strangers who try many passwords
delay each other, but a trusted hash waits for one of theirs at most.

A place is reserved before the attempt is counted, so that a refused attempt does not count.
"""

import contextlib
from asyncio import Future, get_running_loop
from collections import Counter, deque
from collections.abc import AsyncIterator, Iterator
from typing import Final, Literal

from opentill.core.errors import TooManyAtOnce

Group = Literal["trusted", "strangers"]

AT_ONCE: Final = 2  # this many passwords are hashed at the same time
# At most this many hashes of a group run or wait. All of these take one or two seconds.
MOST: Final = 32
EACH: Final = 8  # a group has at most this many hashes for the same account or address
RETRY_AFTER_S: Final = 2
_OTHER_GROUP: Final[dict[Group, Group]] = {"trusted": "strangers", "strangers": "trusted"}


class HashQueue:
    """The queue of hashes of one process."""

    def __init__(self, at_once: int = AT_ONCE, most: int = MOST, each: int = EACH) -> None:
        """At most ``at_once`` hashes run at a time; at most ``most`` run or wait in a group.

        Of a group's hashes at most ``each`` are for one account (trusted) or address (strangers).
        """
        self._free = at_once
        self._most = most
        self._each = each
        self._places: dict[Group, Counter[str]] = {"trusted": Counter(), "strangers": Counter()}
        self._waiting: dict[Group, deque[Future[None]]] = {"trusted": deque(), "strangers": deque()}
        self._next: Group = "trusted"

    @contextlib.contextmanager
    def reserve(self, group: Group, who: str) -> Iterator["Place"]:
        """Hold a place while the block runs. Raises TooManyAtOnce if the queue is full.

        Places are counted by ``who``: an account in the trusted group, an address in the other.
        """
        places = self._places[group]
        if places.total() >= self._most or places[who] >= self._each:
            raise TooManyAtOnce("logins", self._most, RETRY_AFTER_S)
        places[who] += 1
        try:
            yield Place(self, group)
        finally:
            places[who] -= 1
            if not places[who]:
                del places[who]

    @contextlib.asynccontextmanager
    async def turn(self, group: Group) -> AsyncIterator[None]:
        """Wait for a turn of this group, and hold it while the block runs."""
        if self._free:
            self._free -= 1
        else:
            await self._wait(group)
        try:
            yield
        finally:
            self._pass_on()

    async def _wait(self, group: Group) -> None:
        waiter: Future[None] = get_running_loop().create_future()
        self._waiting[group].append(waiter)
        try:
            await waiter
        except BaseException:
            if waiter.done() and not waiter.cancelled():
                self._pass_on()  # the caller was cancelled just after it got the turn
            raise

    def _pass_on(self) -> None:
        """Give the turn to the first waiter of the next group, or else of the other group."""
        for group in (self._next, _OTHER_GROUP[self._next]):
            waiting = self._waiting[group]
            while waiting:
                waiter = waiting.popleft()
                if not waiter.done():
                    waiter.set_result(None)
                    self._next = _OTHER_GROUP[group]
                    return
        self._free += 1


class Place:
    """A place that a caller has reserved in the queue of hashes."""

    def __init__(self, queue: HashQueue, group: Group) -> None:
        """Use ``HashQueue.reserve`` instead."""
        self._queue = queue
        self._group: Group = group

    def turn(self) -> contextlib.AbstractAsyncContextManager[None]:
        """Wait until the place may hash, which it may until the block ends."""
        return self._queue.turn(self._group)


QUEUE: Final = HashQueue()
