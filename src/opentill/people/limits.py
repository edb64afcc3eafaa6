"""Limits of logins: counted before anything is hashed, with delays that grow.

An attempt is counted under up to four subjects, and taken back if it succeeds:

- the account together with where it comes from: the browser, if it has logged in to the account
  with its present password before (it has a signed cookie that says so), else the address;
- the address, whatever the account: somebody who tries many of them;
- the account together with the network (IPv6: its /48), which shows a first try;
- the account, from browsers that it does not know: somebody who tries from many addresses.

A browser that the account knows is counted under the first only, so that nobody else delays it. The
first try of a network at an account does not wait for the others' failures at this account. A
passkey is not counted at all.

Guesses at one account are bounded: from N networks N first tries a day, and for all others together
20 and then 120 an hour.
"""

import hashlib
import hmac
from collections.abc import Iterable, Mapping
from ipaddress import IPv6Address, ip_address, ip_network
from typing import Final, NamedTuple

from opentill.core.errors import TooManyRequests
from opentill.db.database import Db, Tx
from opentill.people import queries
from opentill.people.model import HOUR_MS, Person
from opentill.server.client_address import limit_subject

FORGOTTEN_MS: Final = 24 * HOUR_MS  # after so long without an attempt, counting begins anew


class _Delay(NamedTuple):
    """How many attempts may fail at once, and how long the delay becomes at last."""

    free: int
    longest_ms: int


_HERE: Final = _Delay(free=5, longest_ms=15 * 60_000)
_ADDRESS: Final = _Delay(free=20, longest_ms=60_000)
_ACCOUNT: Final = _Delay(free=20, longest_ms=30_000)
_NETWORK_BITS: Final = 48  # of an IPv6 address: what one customer of a provider has at most
_FACTOR: Final = _Delay(free=10, longest_ms=15 * 60_000)


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


def trusted_browser(secret_key: str, person: Person) -> str:
    """Return what a browser keeps that has logged in to an account with its present password.

    With another password, and so once the account was set anew, it is a stranger's for limits:
    whoever had an account before does not delay whoever has it now.
    """
    message = f"opentill trusted browser 1\0{person.id}\0{person.password}"
    return hmac.digest(secret_key.encode(), message.encode(), hashlib.sha256).hex()


def is_trusted(secret_key: str, person: Person | None, shown: Iterable[str]) -> bool:
    """Return whether a browser shows that it has logged in with a person's present password."""
    if person is None:
        return False
    own = trusted_browser(secret_key, person).encode()
    return any(hmac.compare_digest(own, one.encode()) for one in shown)


async def count(db: Db, account: str, address: str, now: int, *, known: bool = False) -> Attempt:
    """Count an attempt to log in to an account before it is made. Raises TooManyRequests.

    ``known``: the browser has logged in to the account before. What has to wait is not counted.
    """
    name = hashlib.sha256(account.encode()).hexdigest()
    if known:
        here = f"here {name} known"
        await db.run(lambda tx: _count(tx, {here: _HERE}, now))
        return Attempt((here,))
    place = limit_subject(address)
    here, network = f"here {name} {place}", f"network {name} {_network(address)}"
    limits = {here: _HERE, f"address {place}": _ADDRESS}

    async def work(tx: Tx) -> None:
        counted = await _count(tx, limits | {network: None}, now)
        is_first = counted[here] == counted[network] == 1
        # Last, so that all attempts lock the account's row after the others.
        await _count(tx, {f"account {name}": _ACCOUNT}, now, is_first=is_first)

    await db.run(work)
    return Attempt((*limits, network, f"account {name}"))


def _network(address: str) -> str:
    """Return the network whose first try an attempt may be."""
    try:
        parsed = ip_address(address)
    except ValueError:
        return address
    if isinstance(parsed, IPv6Address) and parsed.ipv4_mapped is None:
        return str(ip_network((parsed, _NETWORK_BITS), strict=False))
    return limit_subject(address)


async def count_factor(db: Db, person_id: str, now: int, *, known: bool = False) -> Attempt:
    """Count an attempt to prove a second factor, over all addresses. Raises TooManyRequests.

    Only whoever has the password, or the person's cookie, comes as far as this. A browser that the
    account knows is counted by itself, so that nobody else makes it wait.
    """
    name = hashlib.sha256(person_id.encode()).hexdigest()
    limits = {f"factor {name}{' known' if known else ''}": _FACTOR}
    await db.run(lambda tx: _count(tx, limits, now))
    return Attempt(tuple(limits))


async def failures(tx: Tx, attempt: Attempt) -> int:
    """Return how many attempts have failed where this one was counted."""
    return await queries.FAILURES.get(tx, subject=attempt.here) or 0


async def _count(
    tx: Tx, limits: Mapping[str, _Delay | None], now: int, *, is_first: bool = False
) -> dict[str, int]:
    """Count an attempt under subjects; return the failures of each. Raises TooManyRequests.

    A subject without a delay is only counted. A first try does not wait, and delays nobody.
    """
    counts = await queries.COUNT_ATTEMPT.all(
        tx, subjects=sorted(limits), now=now, forgotten=now - FORGOTTEN_MS, waits=not is_first
    )
    if len(counts) != len(limits):
        until = await queries.WAIT.get(tx, subjects=list(limits)) or now
        raise TooManyRequests(_HERE.free, max(1, -(-(until - now) // 1000)))
    delays = {subject: delay for subject, delay in limits.items() if delay is not None}
    if not is_first:
        await queries.SET_DELAYS.run(
            tx,
            subjects=list(delays),
            free=[delay.free for delay in delays.values()],
            longest_ms=[delay.longest_ms for delay in delays.values()],
            now=now,
        )
    return {count.subject: count.failures for count in counts}


async def succeeded(tx: Tx, attempt: Attempt, now: int) -> None:
    """Take an attempt back, and all that failed before it at the same place."""
    others = list(attempt.subjects[1:])
    if others:
        await queries.GIVE_BACK.run(tx, subjects=others, now=now)
    await queries.FORGET_ATTEMPTS.run(tx, subjects=[attempt.here])
