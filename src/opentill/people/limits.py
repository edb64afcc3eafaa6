"""Limits of logins: counted before anything is hashed, with delays that grow.

An attempt is counted under three subjects, and taken back if it succeeds:

- the account together with where it comes from: the browser, if it has logged in to the account
  before (it has a signed cookie that says so), else the address;
- the address, whatever the account: somebody who tries many of them;
- the account, from browsers that it does not know: somebody who tries from many addresses.

Nobody can lock somebody else out: what others try does not count for a browser that the account
knows, and slows down all others for half a minute at most.
"""

import hashlib
import hmac
from typing import Final, NamedTuple

from opentill.core.errors import TooManyRequests
from opentill.db.database import Db, Tx
from opentill.people import queries
from opentill.people.model import HOUR_MS
from opentill.server.client_address import limit_subject

FORGOTTEN_MS: Final = 24 * HOUR_MS  # after so long without an attempt, counting begins anew


class _Delay(NamedTuple):
    """How many attempts may fail at once, and how long the delay becomes at last."""

    free: int
    longest_ms: int


_HERE: Final = _Delay(free=5, longest_ms=15 * 60_000)
_ADDRESS: Final = _Delay(free=20, longest_ms=60_000)
_ACCOUNT: Final = _Delay(free=20, longest_ms=30_000)


class Attempt(NamedTuple):
    """An attempt that was counted: ``here`` is its account and place, first of ``subjects``."""

    subjects: tuple[str, ...]

    @property
    def here(self) -> str:
        """The account together with where the attempt comes from."""
        return self.subjects[0]


def known_browser(secret_key: str, account: str) -> str:
    """Return what a browser keeps that has logged in to an account: a signature of it.

    ``account`` is an e-mail address, or the id of a person.
    """
    message = b"opentill known browser 1\0" + account.encode()
    return hmac.digest(secret_key.encode(), message, hashlib.sha256).hex()


def is_known(secret_key: str, account: str, shown: str) -> bool:
    """Return whether a browser shows that it has logged in to an account before."""
    return hmac.compare_digest(known_browser(secret_key, account).encode(), shown.encode())


async def count(db: Db, account: str, address: str, now: int, *, known: bool = False) -> Attempt:
    """Count an attempt to log in to an account before it is made. Raises TooManyRequests.

    ``known``: the browser has logged in to the account before. What has to wait is not counted.
    """
    name = hashlib.sha256(account.encode()).hexdigest()
    place = limit_subject(address)
    limits = {f"here {name} {'known' if known else place}": _HERE, f"address {place}": _ADDRESS}
    if not known:
        limits[f"account {name}"] = _ACCOUNT

    async def work(tx: Tx) -> None:
        await _count(tx, limits, now)

    await db.run(work)
    return Attempt(tuple(limits))


async def _count(tx: Tx, limits: dict[str, _Delay], now: int) -> None:
    subjects = sorted(limits)
    counted = await queries.COUNT_ATTEMPT.get(
        tx, subjects=subjects, now=now, forgotten=now - FORGOTTEN_MS
    )
    if counted != len(subjects):
        until = await queries.WAIT.get(tx, subjects=subjects) or now
        raise TooManyRequests(_HERE.free, max(1, -(-(until - now) // 1000)))
    await queries.SET_DELAYS.run(
        tx,
        subjects=subjects,
        free=[limits[one].free for one in subjects],
        longest_ms=[limits[one].longest_ms for one in subjects],
        now=now,
    )


async def succeeded(tx: Tx, attempt: Attempt, now: int) -> None:
    """Take an attempt back, and all that failed before it at the same place."""
    await queries.GIVE_BACK.run(tx, subjects=list(attempt.subjects[1:]), now=now)
    await queries.FORGET_ATTEMPTS.run(tx, subjects=[attempt.here])
