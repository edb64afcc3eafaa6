"""Rate limits of logins, with growing delays. Attempts are counted before anything is hashed.

An attempt counts under up to four subjects, and no longer counts if it succeeds:

- account and client: the browser if a signed cookie shows that it has logged in to the account
  with its present password before, else the address;
- the address, whatever the account: against trying many accounts;
- account and network (IPv6: the /48), which identifies a first attempt;
- the account, from unknown browsers: against trying from many addresses.

A known browser counts only under the first, so that nobody else can delay it. A network's first
attempt at an account does not wait for other clients' failures. Passkeys are not counted.

This bounds the guesses at one account: N first attempts a day from N networks, and for all others
together 20, then 120 an hour. Codes of second factors have limits of their own
(``count_factor``).
"""

import hashlib
import hmac
from collections.abc import Iterable, Mapping
from ipaddress import IPv6Address, ip_address, ip_network
from typing import Final, NamedTuple

from opentill.core.errors import TooManyRequests
from opentill.db.database import Db, Tx
from opentill.people import queries
from opentill.people.lifetimes import HOUR_MS
from opentill.people.model import Person
from opentill.server.client_address import limit_subject

FORGOTTEN_MS: Final = 24 * HOUR_MS  # failures are forgotten after this time without an attempt


class _Delay(NamedTuple):
    """The number of failures without a delay, and the longest delay."""

    free: int
    longest_ms: int


_CLIENT: Final = _Delay(free=5, longest_ms=15 * 60_000)
_ADDRESS: Final = _Delay(free=20, longest_ms=60_000)
_ACCOUNT: Final = _Delay(free=20, longest_ms=30_000)
_NETWORK_BITS: Final = 48  # /48 is the largest IPv6 network that a site usually gets
_FACTOR: Final = _Delay(free=10, longest_ms=15 * 60_000)


class Attempt(NamedTuple):
    """A counted attempt. The first of ``subjects`` stands for its account and client."""

    subjects: tuple[str, ...]

    @property
    def client(self) -> str:
        """The subject that stands for the attempt's account and client."""
        return self.subjects[0]


def known_browser(secret_key: str, account: str) -> str:
    """Return the cookie value of a browser that has logged in to an account: a signature.

    ``account`` is an email address, or the id of a person.
    """
    message = b"opentill known browser 1\0" + account.encode()
    return hmac.digest(secret_key.encode(), message, hashlib.sha256).hex()


def is_known(secret_key: str, account: str, cookie: str) -> bool:
    """Whether a browser's cookie shows that it has logged in to an account before."""
    return hmac.compare_digest(known_browser(secret_key, account).encode(), cookie.encode())


def trusted_browser(secret_key: str, person: Person) -> str:
    """Return the cookie value of a browser that has logged in with the present password.

    It depends on the password: a new one, and so a reset of the account, makes every browser
    unknown. Otherwise an earlier owner of the account could use up the attempts of the present
    owner.
    """
    message = f"opentill trusted browser 1\0{person.id}\0{person.password}"
    return hmac.digest(secret_key.encode(), message.encode(), hashlib.sha256).hex()


def is_trusted(secret_key: str, person: Person | None, cookies: Iterable[str]) -> bool:
    """Whether a browser's cookies show a login with the person's present password."""
    if person is None:
        return False
    expected = trusted_browser(secret_key, person).encode()
    return any(hmac.compare_digest(expected, cookie.encode()) for cookie in cookies)


async def count(
    db: Db, account: str, address: str, now: int, *, is_known_browser: bool = False
) -> Attempt:
    """Count a login attempt before it is made. Raises TooManyRequests without counting it.

    ``is_known_browser`` means that the browser has logged in to the account before.
    """
    name = hashlib.sha256(account.encode()).hexdigest()
    if is_known_browser:
        client = f"here {name} known"
        await db.run(lambda tx: _count(tx, {client: _CLIENT}, now))
        return Attempt((client,))
    place = limit_subject(address)
    client, network = f"here {name} {place}", f"network {name} {_network(address)}"
    limits = {client: _CLIENT, f"address {place}": _ADDRESS}

    async def work(tx: Tx) -> None:
        failure_counts = await _count(tx, limits | {network: None}, now)
        is_first = failure_counts[client] == failure_counts[network] == 1
        # The account is counted last, so that all attempts lock its row after the others.
        await _count(tx, {f"account {name}": _ACCOUNT}, now, is_first=is_first)

    await db.run(work)
    return Attempt((*limits, network, f"account {name}"))


def _network(address: str) -> str:
    """Return the network of an address. Its first attempt at an account does not wait."""
    try:
        parsed = ip_address(address)
    except ValueError:
        return address
    if isinstance(parsed, IPv6Address) and parsed.ipv4_mapped is None:
        return str(ip_network((parsed, _NETWORK_BITS), strict=False))
    return limit_subject(address)


async def count_factor(
    db: Db, person_id: str, address: str, now: int, *, is_known_browser: bool = False
) -> Attempt:
    """Count an attempt to prove a second factor. Raises TooManyRequests.

    It counts for the person, from all addresses together, and for the address, whoever the person
    is: against trying the codes of many people whose passwords were stolen. Only clients with the
    password or the person's cookie get this far. Known browsers count separately, only for the
    person, so that nobody else can delay them.
    """
    name = hashlib.sha256(person_id.encode()).hexdigest()
    if is_known_browser:
        limits = {f"factor {name} known": _FACTOR}
    else:
        limits = {f"factor {name}": _FACTOR, f"factors {limit_subject(address)}": _ADDRESS}
    await db.run(lambda tx: _count(tx, limits, now))
    return Attempt(tuple(limits))


async def failures(tx: Tx, attempt: Attempt) -> int:
    """Return the number of failures of the attempt's account and client."""
    return await queries.FAILURES.get(tx, subject=attempt.client) or 0


async def _count(
    tx: Tx, limits: Mapping[str, _Delay | None], now: int, *, is_first: bool = False
) -> dict[str, int]:
    """Count an attempt under each subject; return their failures. Raises TooManyRequests.

    A subject without a delay is only counted. A first attempt neither waits nor delays others.
    """
    counts = await queries.COUNT_ATTEMPT.all(
        tx, subjects=sorted(limits), now=now, forgotten=now - FORGOTTEN_MS, waits=not is_first
    )
    if len(counts) != len(limits):
        until = await queries.WAIT.get(tx, subjects=list(limits)) or now
        raise TooManyRequests(_CLIENT.free, max(1, -(-(until - now) // 1000)))
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


async def forgive(tx: Tx, attempt: Attempt) -> None:
    """Uncount a successful attempt, and forget earlier failures of its account and client."""
    others = list(attempt.subjects[1:])
    if others:
        await queries.UNCOUNT_FAILURE.run(tx, subjects=others)
    await queries.FORGET_ATTEMPTS.run(tx, subjects=[attempt.client])
