"""Choosing a new password by a link, and its effect on second factors."""

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
    """A new password needs proof of a factor, or the statement that it was lost."""


class NewPassword(msgspec.Struct, frozen=True, kw_only=True):
    """The form behind a link to a new password.

    A factor is proved by ``code``, or before this by a passkey (``proved``). With ``lost`` the
    account stays closed for ``wait_ms`` instead. ``enrolls``: staff must have a second factor.
    """

    password: str
    browser: Browser
    code: str = ""
    proved: bool = False
    lost: bool = False
    wait_ms: int = 0
    enrolls: bool = False


class Chosen(msgspec.Struct, frozen=True):
    """Result of ``choose_password``; the account is closed until ``closed_until`` (Unix ms)."""

    person: Person
    closed_until: int | None = None
    login: NewLogin | None = None  # None, except for staff who must set up their first factor


async def choose_password(
    db: Db, token: str, form: NewPassword, secret_key: str, now: int, *, cost: Cost = COST
) -> Chosen:
    """Set the password of a link's recipient, and end all their logins.

    A person with a second factor proves it; otherwise the factors are suspended and the account
    stays closed until they end. Raises NotFound for an invalid link, Invalid, FactorNeeded,
    TooManyRequests and WrongCredentials.
    """
    async with db.connection() as tx:
        link, recipient = await read_link(tx, token, now)
        if link.kind != "RESET" or recipient is None:
            raise NotFound
        person = recipient
    passwords.check("password", form.password, person.email, person.name)
    password_hash = await passwords.hash_password(form.password, cost, who=person.email)
    actor = Actor(named(person.email, person.id), f"by a link of {link.created_by}")

    async def work(tx: Tx) -> Chosen:
        await use_link(tx, link, token, now)
        locked = or_not_found(await queries.LOCKED.first(tx, id=person.id))
        has_factor = bool(await queries.HAS_FACTOR.get(tx, id=person.id))
        until = await lost_factors.suspended_until(tx, person.id)
        if has_factor and until is None and not form.proved:
            until = await _check_code_or_suspend(tx, locked, form, secret_key, now, actor)
        await queries.SET_PASSWORD.run(tx, id=person.id, password=password_hash, now=now)
        await queries.END_OTHER_LOGINS.run(tx, person_id=person.id, but="")
        if until is not None and until <= now:
            await lost_factors.end_now(tx, locked, now)
        await merchants.record_audit(tx, actor, "people password", "", person.id, now)
        login = None
        is_staff = await queries.STAFF.first(tx, person_id=person.id) is not None
        if form.enrolls and is_staff and not has_factor:
            login = await logins.begin(tx, locked, form.browser, now, by_link=True)
        return Chosen(person, until if until is not None and until > now else None, login)

    credentials = Credentials(email=person.email, password="", browser=form.browser, code=form.code)
    return await logins.count_codes(db, work, person, credentials, now)


async def _check_code_or_suspend(
    tx: Tx, person: Person, form: NewPassword, secret_key: str, now: int, actor: Actor
) -> int | None:
    """Verify the code, or suspend lost factors and return when the account opens again."""
    if form.code:
        if not await second_factor.check(tx, person, form.code, secret_key):
            raise logins.WrongCode
        await lost_factors.stop_by_proof(tx, person, now)
        return None
    if not form.lost:
        raise FactorNeeded
    return await lost_factors.begin_with_password(
        tx, person, now, actor=actor, wait_ms=form.wait_ms
    )
