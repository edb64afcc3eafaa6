"""The queue for hashing passwords, which is bounded: with no place left, a login is refused.

A hash takes a core for some 50 ms, so that only a few run at once. Browsers that have logged in to
the account before, and persons who have proved who they are by a login or a link, are a group of
their own. The groups take turns: strangers who try many passwords delay each other, and a trusted
hash by one of theirs at most.

A place is reserved before the attempt is counted, so that what is refused here counts nowhere.
"""

import contextlib
from asyncio import Future, get_running_loop
from collections import Counter, deque
from collections.abc import AsyncIterator, Iterator
from typing import Final, Literal

from opentill.core.errors import TooManyAtOnce

Group = Literal["trusted", "strangers"]

AT_ONCE: Final = 2  # hashes that run
MOST: Final = 32  # places of a group, running or waiting: one or two seconds in all
EACH: Final = 8  # places of one account, or of one address, in its group
RETRY_AFTER_S: Final = 2
_OTHER: Final[dict[Group, Group]] = {"trusted": "strangers", "strangers": "trusted"}


class HashQueue:
    """The hashes of a process."""

    def __init__(self, at_once: int = AT_ONCE, most: int = MOST, each: int = EACH) -> None:
        """``at_once`` run; ``most`` places of a group, ``each`` of them for one account."""
        self._free = at_once
        self._most = most
        self._each = each
        self._places: dict[Group, Counter[str]] = {"trusted": Counter(), "strangers": Counter()}
        self._waiting: dict[Group, deque[Future[None]]] = {"trusted": deque(), "strangers": deque()}
        self._next: Group = "trusted"

    @contextlib.contextmanager
    def reserve(self, group: Group, who: str) -> Iterator["Place"]:
        """Hold a place while the block runs. Raises TooManyAtOnce if there is none.

        ``who`` is what places are counted under: an account in the group of the trusted, an address
        in the other.
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
        """Wait until a hash of this group may run; it has ended when the block has."""
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
                self._pass_on()  # it was this one's turn already
            raise

    def _pass_on(self) -> None:
        """Let the next one run: of the group whose turn it is, else of the other."""
        for group in (self._next, _OTHER[self._next]):
            waiting = self._waiting[group]
            while waiting:
                waiter = waiting.popleft()
                if not waiter.done():
                    waiter.set_result(None)
                    self._next = _OTHER[group]
                    return
        self._free += 1


class Place:
    """A place in the queue."""

    def __init__(self, queue: HashQueue, group: Group) -> None:
        """Of ``queue``, in ``group``."""
        self._queue = queue
        self._group: Group = group

    def turn(self) -> contextlib.AbstractAsyncContextManager[None]:
        """Wait until the hash may run; it has ended when the block has."""
        return self._queue.turn(self._group)


QUEUE: Final = HashQueue()
