"""The queue for hashing passwords, which is bounded: what finds it full is refused at once.

A hash takes a core for some 50 ms, so that only a few run at once. Browsers that have logged in to
the account before, and persons who have proved who they are by a login or a link, wait in a lane of
their own. The lanes take turns: strangers who try many passwords delay each other, and a trusted
hash by one of theirs at most.

A place is reserved before the attempt is counted, so that what is refused here counts nowhere.
"""

import contextlib
from asyncio import Future, get_running_loop
from collections import Counter, deque
from collections.abc import AsyncIterator, Iterator
from typing import Final, Literal

from opentill.core.errors import TooManyAtOnce

Lane = Literal["trusted", "strangers"]

AT_ONCE: Final = 2  # hashes that run
MOST: Final = 32  # places of a lane: what runs and what waits, some one or two seconds in all
EACH: Final = 8  # places of one account, or of one address, in its lane
RETRY_AFTER_S: Final = 2
_OTHER: Final[dict[Lane, Lane]] = {"trusted": "strangers", "strangers": "trusted"}


class HashQueue:
    """The hashes of a process."""

    def __init__(self, at_once: int = AT_ONCE, most: int = MOST, each: int = EACH) -> None:
        """``at_once`` run; ``most`` places of a lane, ``each`` of them for one account."""
        self._free = at_once
        self._most = most
        self._each = each
        self._places: dict[Lane, Counter[str]] = {"trusted": Counter(), "strangers": Counter()}
        self._waiting: dict[Lane, deque[Future[None]]] = {"trusted": deque(), "strangers": deque()}
        self._next: Lane = "trusted"

    @contextlib.contextmanager
    def reserve(self, lane: Lane, who: str) -> Iterator["Place"]:
        """Hold a place while the block runs. Raises TooManyAtOnce if there is none.

        ``who`` is what places are counted under: an account in the lane of the trusted, an address
        in the other.
        """
        places = self._places[lane]
        if places.total() >= self._most or places[who] >= self._each:
            raise TooManyAtOnce("logins", self._most, RETRY_AFTER_S)
        places[who] += 1
        try:
            yield Place(self, lane)
        finally:
            places[who] -= 1
            if not places[who]:
                del places[who]

    @contextlib.asynccontextmanager
    async def turn(self, lane: Lane) -> AsyncIterator[None]:
        """Wait until a hash of this lane may run; it has ended when the block has."""
        if self._free:
            self._free -= 1
        else:
            await self._wait(lane)
        try:
            yield
        finally:
            self._pass_on()

    async def _wait(self, lane: Lane) -> None:
        waiter: Future[None] = get_running_loop().create_future()
        self._waiting[lane].append(waiter)
        try:
            await waiter
        except BaseException:
            if waiter.done() and not waiter.cancelled():
                self._pass_on()  # it was this one's turn already
            raise

    def _pass_on(self) -> None:
        """Let the next one run: of the lane whose turn it is, else of the other."""
        for lane in (self._next, _OTHER[self._next]):
            waiting = self._waiting[lane]
            while waiting:
                waiter = waiting.popleft()
                if not waiter.done():
                    waiter.set_result(None)
                    self._next = _OTHER[lane]
                    return
        self._free += 1


class Place:
    """A place in the queue."""

    def __init__(self, queue: HashQueue, lane: Lane) -> None:
        """Of ``queue``, in ``lane``."""
        self._queue = queue
        self._lane: Lane = lane

    def turn(self) -> contextlib.AbstractAsyncContextManager[None]:
        """Wait until the hash may run; it has ended when the block has."""
        return self._queue.turn(self._lane)


QUEUE: Final = HashQueue()
