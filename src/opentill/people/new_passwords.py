"""A new password by a link, and what becomes of the second factors then."""

import msgspec

from opentill import merchants
from opentill.core.errors import NotFound, or_not_found
from opentill.db.database import Db, Tx
from opentill.merchants import Actor
from opentill.people import logins, lost_factors, passwords, queries, second_factor
from opentill.people.logins import Credentials, NewLogin
from opentill.people.model import Browser, Person, named
from opentill.people.passwords import COST, Cost
from opentill.people.service import read_link, use_link


class FactorNeeded(Exception):
    """Somebody who chooses a new password neither proves a factor nor says that they lost it."""


class NewPassword(msgspec.Struct, frozen=True, kw_only=True):
    """What somebody enters who follows a link to a new password.

    A factor is proved by ``code`` or, before this, by a passkey (``proved``); ``lost``: they have
    none any more. ``wait_ms`` is for how long the account stays closed then. ``enrolls``: staff
    must have a second factor.
    """

    password: str
    browser: Browser
    code: str = ""
    proved: bool = False
    lost: bool = False
    wait_ms: int = 0
    enrolls: bool = False


class Chosen(msgspec.Struct, frozen=True):
    """A new password was set; the account is closed until ``closed_until`` (Unix ms)."""

    person: Person
    closed_until: int | None = None
    login: NewLogin | None = None  # of staff who have to set up their first factor


async def choose_password(
    db: Db, token: str, given: NewPassword, secret_key: str, now: int, *, cost: Cost = COST
) -> Chosen:
    """Set the password of the person a link is for, and end all their logins.

    Whoever has a second factor proves it; otherwise their factors open nothing from now on, and
    the account stays closed until they end. Raises NotFound for a link that does not work, Invalid,
    FactorNeeded, TooManyRequests and WrongCredentials.
    """
    async with db.connection() as tx:
        link, found = await read_link(tx, token, now)
    if link.kind != "RESET" or found is None:
        raise NotFound
    person = found
    passwords.check("password", given.password, person.email, person.name)
    stored = await passwords.hashed(given.password, cost, who=person.email)
    actor = Actor(named(person.email, person.id), f"by a link of {link.created_by}")

    async def work(tx: Tx) -> Chosen:
        await use_link(tx, link, token, now)
        locked = or_not_found(await queries.LOCKED.first(tx, id=person.id))
        has_factor = bool(await queries.HAS_FACTOR.get(tx, id=person.id))
        until = await lost_factors.suspended_until(tx, person.id)
        if has_factor and until is None and not given.proved:
            until = await _without_passkey(tx, locked, given, secret_key, now, actor)
        await queries.SET_PASSWORD.run(tx, id=person.id, password=stored, now=now)
        await queries.END_OTHER_LOGINS.run(tx, person_id=person.id, but="")
        if until is not None and until <= now:
            await lost_factors.end_now(tx, locked, now)
        await merchants.record_audit(tx, actor, "people password", "", person.id, now)
        login = None
        is_staff = await queries.STAFF.first(tx, person_id=person.id) is not None
        if given.enrolls and is_staff and not has_factor:
            login = await logins.begin(tx, locked, given.browser, now, by_link=True)
        return Chosen(person, until if until is not None and until > now else None, login)

    credentials = Credentials(
        email=person.email, password="", browser=given.browser, code=given.code
    )
    return await logins.counting_codes(db, work, person, credentials, now)


async def _without_passkey(
    tx: Tx, person: Person, given: NewPassword, secret_key: str, now: int, actor: Actor
) -> int | None:
    """Return when the account opens again of somebody who has no passkey to prove; None: now."""
    if given.code:
        if not await second_factor.check(tx, person, given.code, secret_key):
            raise logins.WrongCode
        await lost_factors.stop_by_proof(tx, person, now)
        return None
    if not given.lost:
        raise FactorNeeded
    return await lost_factors.begin_with_password(
        tx, person, now, actor=actor, wait_ms=given.wait_ms
    )
