"""Logging in and out, and who a cookie or token stands for."""

from collections.abc import Awaitable, Callable
from typing import Final, Protocol, TypeVar

import msgspec

from opentill import merchants
from opentill.core.errors import NotFound, NotLoggedIn, or_not_found
from opentill.core.ids import new_id
from opentill.db.database import Db, Tx
from opentill.merchants import Actor
from opentill.people import limits, lost_factors, passwords, queries, second_factor
from opentill.people.hash_queue import QUEUE, Group
from opentill.people.model import (
    HOUR_MS,
    OF_MEMBERS,
    SEEN_MS,
    Access,
    Browser,
    Factors,
    Login,
    Person,
    Security,
    TokenUse,
    Workplace,
    digest,
    named,
    new_token,
)
from opentill.server.client_address import limit_subject

T = TypeVar("T")
BEGUN_MS: Final = HOUR_MS  # for so long a login that was begun is mailed about
_LONGEST_DEVICE: Final = 300
_MAILED_AFTER: Final = 3  # wrong codes with the right password, the person is written to


class WrongCredentials(NotLoggedIn):
    """Address, password or code is wrong; which one is never said."""


class WrongCode(WrongCredentials):
    """The password is right, and the code of the second factor is not; it is never said which."""


class FactorsSuspended(WrongCredentials):
    """The password is right and new; until ``until`` (Unix ms) it opens nothing (lost_factors)."""

    def __init__(self, until: int) -> None:
        """Say until when."""
        super().__init__()
        self.until = until


class Credentials(msgspec.Struct, frozen=True, kw_only=True):
    """What somebody logs in with, and from where."""

    email: str
    password: str
    browser: Browser
    code: str = ""  # of the second factor
    known: bool = False  # the browser has logged in to this account before
    shown: tuple[str, ...] = ()  # what the browser shows for that (``limits.is_trusted``)


class NewLogin(msgspec.Struct, frozen=True):
    """A login just made; ``token`` is what the browser keeps."""

    id: str
    person: Person
    token: str
    pending: bool = False  # the person has a second factor, which is to be proved first


class BeginAs(Protocol):
    """Makes a login as ``begin`` does."""

    async def __call__(
        self, tx: Tx, person: Person, browser: Browser, now: int, /, *, strong: bool
    ) -> NewLogin:
        """Make it."""
        ...


class OfApi(msgspec.Struct, frozen=True):
    """What a login of the API has beside a browser's."""

    merchant_id: str
    refresh_token: str  # the part that changes at each use


def normal(email: str) -> str:
    """Return an e-mail address as it is stored."""
    return email.strip().lower()


async def log_in(
    db: Db, given: Credentials, secret_key: str, now: int, begin_as: "BeginAs | None" = None
) -> NewLogin:
    """Log somebody in; ``begin_as`` makes another login than a browser's.

    The login of a person whose only factor is a passkey is pending until that is proved;
    ``begin_as`` makes none that is pending: a recovery code stands in for the passkey there.
    Raises TooManyRequests and WrongCredentials. An account that is unknown costs as much time as
    one that is known.
    """
    email, address = normal(given.email), given.browser.address
    async with db.connection() as tx:
        person = await queries.BY_EMAIL.first(tx, email=email)
    given = _recognised(given, person, secret_key)
    group: Group = "trusted" if given.known else "strangers"
    with QUEUE.reserve(group, email if given.known else limit_subject(address)) as place:
        attempt = await limits.count(db, email, address, now, known=given.known)
        right = await passwords.matches(given.password, person.password if person else None, place)
    if person is None or not right:
        raise WrongCredentials
    renewed = await passwords.renewed(given.password, person.password, email)

    async def work(tx: Tx) -> NewLogin:
        locked = await lock_unchanged(tx, person)
        until = await lost_factors.suspended_until(tx, person.id)
        if until is not None:
            raise FactorsSuspended(until)
        has_factor = await queries.HAS_FACTOR.get(tx, id=person.id)
        later = not given.code and locked.totp_secret is None and begin_as is None
        strong = bool(has_factor) and not later
        if strong and not await second_factor.check(tx, locked, given.code, secret_key):
            raise WrongCode
        if strong:
            await lost_factors.stop_by_proof(tx, locked, now)
        if renewed is not None:
            await queries.RENEW_PASSWORD.run(tx, id=person.id, password=renewed)
        await limits.succeeded(tx, attempt, now)
        current = msgspec.structs.replace(person, password=renewed or person.password)
        made = await (begin_as or begin)(tx, current, given.browser, now, strong=strong)
        return msgspec.structs.replace(made, pending=bool(has_factor) and not strong)

    return await counting_codes(db, work, person, given, now)


def _recognised(given: Credentials, person: Person | None, secret_key: str) -> Credentials:
    """Return credentials that say whether their browser has logged in to the account before."""
    known = given.known or limits.is_trusted(secret_key, person, given.shown)
    return msgspec.structs.replace(given, known=known)


async def counting_codes(
    db: Db, work: Callable[[Tx], Awaitable[T]], person: Person, given: Credentials, now: int
) -> T:
    """Do what checks a code of the second factor, if there is one, and count it if it is wrong.

    Raises TooManyRequests, and what ``work`` raises.
    """
    if not given.code:
        return await db.run(work)
    known, address = given.known, given.browser.address
    attempt = await limits.count_factor(db, person.id, now, known=known)

    async def failed(tx: Tx) -> None:
        if await limits.failures(tx, attempt) == _MAILED_AFTER:
            actor = Actor(named(person.email, person.id), f"from {address}")
            await merchants.record_audit(tx, actor, "people factor failed", "", person.id, now)

    async def counted(tx: Tx) -> T:
        result = await work(tx)
        await limits.succeeded(tx, attempt, now)
        return result

    try:
        return await db.run(counted)
    except WrongCode:
        await db.run(failed)
        raise


async def lock_unchanged(tx: Tx, person: Person) -> Person:
    """Lock a person whose password was checked, as they are now.

    Raises WrongCredentials if the password has changed since: it was right a moment ago, but what
    changed it has ended, or is about to end, everything that the old one opened.
    """
    locked = await queries.LOCKED.first(tx, id=person.id)
    if locked is None or locked.password != person.password:
        raise WrongCredentials
    return locked


async def begin(
    tx: Tx,
    person: Person,
    browser: Browser,
    now: int,
    *,
    strong: bool = False,
    use: OfApi | TokenUse = "browser",
    by_link: bool = False,
) -> NewLogin:
    """Make a login for a person who has proved who they are, with a token for one use."""
    token, login_id = new_token(), new_id("ses")
    of_api = use if isinstance(use, OfApi) else None
    who = {
        "id": login_id,
        "person_id": person.id,
        "now": now,
        "address": browser.address,
        "device": browser.device[:_LONGEST_DEVICE],
    }
    await queries.NOTE_BEGUN.run(tx, **who)
    await queries.INSERT_LOGIN.run(
        tx,
        **who,
        token_sha256=digest(token) if isinstance(use, OfApi) else digest(token, use),
        strong=strong,
        by_link=by_link,
        merchant_id=None if of_api is None else of_api.merchant_id,
        refresh_sha256=None if of_api is None else digest(of_api.refresh_token),
    )
    return NewLogin(login_id, person, token)


async def begin_for_commands(
    tx: Tx, person: Person, browser: Browser, now: int, /, *, strong: bool
) -> NewLogin:
    """Make a login whose token is kept for commands, and is no browser's."""
    return await begin(tx, person, browser, now, strong=strong, use="command")


async def find(
    db: Db, token: str, address: str, now: int, *, used: bool = True, use: TokenUse = "browser"
) -> Login | None:
    """Return the login that a token stands for, None if there is none or it has ended.

    ``used``: somebody does something. A page that updates itself, whether or not anybody looks at
    it, does not keep its login from ending.
    """
    async with db.connection() as tx:
        login = await queries.LOGIN.first(tx, token_sha256=digest(token, use))
        if login is None or login.has_ended(now):
            return None
        if used:
            await note_use(tx, login, address, now)
        return login


async def note_use(tx: Tx, login: Login, address: str, now: int) -> None:
    """Note that a login is used, once in a minute."""
    if now >= login.used_at + SEEN_MS:
        await queries.SET_USED.run(tx, id=login.id, now=now, address=address)


class Proof(msgspec.Struct, frozen=True):
    """That a person has proved again who they are."""

    person: Person  # as they were then
    token: str  # the login's new one


async def prove(
    db: Db,
    login: Login,
    given: Credentials,
    secret_key: str,
    now: int,
    *,
    factor_proved: bool = False,
) -> Proof:
    """Have a person prove by a password who they are, and give the login a new token.

    Whoever has a second factor proves that, too, by a code of the authenticator or a recovery code;
    a passkey is proved by ``passkeys.prove``. ``factor_proved``: that was done just
    now. Raises TooManyRequests, WrongCredentials, and NotLoggedIn for a login that has ended
    meanwhile.
    """
    with QUEUE.reserve("trusted", login.person_id) as place:
        attempt = await limits.count(db, login.person_id, given.browser.address, now, known=True)
        async with db.connection() as tx:
            person = await queries.PERSON.one(tx, id=login.person_id)
        if not await passwords.matches(given.password, person.password, place):
            raise WrongCredentials
    token = new_token()

    async def work(tx: Tx) -> None:
        locked = await lock_unchanged(tx, person)
        has_factor = await queries.HAS_FACTOR.get(tx, id=person.id)
        asked = has_factor and not factor_proved
        if asked and not await second_factor.check(tx, locked, given.code, secret_key):
            raise WrongCode
        if asked:
            await lost_factors.stop_by_proof(tx, locked, now)
        await limits.succeeded(tx, attempt, now)
        await renew(tx, login, token, now, strong=bool(has_factor))

    await counting_codes(db, work, person, given, now)
    return Proof(person, token)


async def prove_code(db: Db, login: Login, given: Credentials, secret_key: str, now: int) -> Proof:
    """Prove the second factor of a login that is pending, by a code, and give it a new token.

    Raises TooManyRequests, WrongCredentials, and NotLoggedIn for a login that has ended meanwhile.
    """
    async with db.connection() as tx:
        person = await queries.PERSON.one(tx, id=login.person_id)
    token = new_token()

    async def work(tx: Tx) -> None:
        locked = or_not_found(await queries.LOCKED.first(tx, id=person.id))
        if not await second_factor.check(tx, locked, given.code, secret_key):
            raise WrongCode
        await lost_factors.stop_by_proof(tx, locked, now)
        await renew(tx, login, token, now, strong=True)

    if not given.code:
        raise WrongCode
    await counting_codes(db, work, person, _recognised(given, person, secret_key), now)
    return Proof(person, token)


async def renew(tx: Tx, login: Login, token: str, now: int, *, strong: bool) -> None:
    """Note that a login's person has proved who they are, and give it another token.

    Raises NotLoggedIn for a login that has ended meanwhile.
    """
    values = {"token_sha256": digest(token), "now": now, "strong": strong}
    if not await queries.PROVE.run(tx, id=login.id, **values):
        raise NotLoggedIn


async def end(tx: Tx, login: Login) -> None:
    """Log out."""
    await queries.END_LOGIN.run(tx, person_id=login.person_id, id=login.id)


async def access(db: Db, login: Login, merchant_id: str, now: int) -> Access:
    """Return what somebody may do at a merchant. Raises NotFound if that is nothing at all.

    A closed merchant has nobody but staff.

    Staff who look at a merchant's pages for the first time since they logged in are named in the
    audit log.
    """
    async with db.connection() as tx:
        all_of_them = await queries.WORKPLACES.all(tx, person_id=login.person_id)
        for one in all_of_them:
            if one.merchant_id == merchant_id:
                return Access(login, merchant_id, one.merchant_name, one.role, all_of_them)
    return await visit(db, login, merchant_id, now, all_of_them)


async def visit(
    db: Db, login: Login, merchant_id: str, now: int, workplaces: list[Workplace] | None = None
) -> Access:
    """Return what somebody may see of a merchant as staff, whatever they are there as a member.

    The first visit since they logged in is in the audit log. Raises NotFound.
    """
    if login.staff_role is None:
        raise NotFound
    async with db.connection() as tx:
        merchant = await merchants.find(tx, merchant_id)
    await db.run(lambda tx: _visit(tx, login, merchant_id, now))
    return Access(login, merchant_id, merchant.name, None, workplaces or [])


async def _visit(tx: Tx, login: Login, merchant_id: str, now: int) -> None:
    if await queries.NOTE_VISIT.get(tx, login_id=login.id, merchant_id=merchant_id, now=now):
        actor = Actor(f"{login.email} ({login.person_id})", f"as staff, {login.staff_role}")
        await merchants.record_audit(tx, actor, "people visit", merchant_id, login.id, now)


async def end_by_id(tx: Tx, login: Login, other_id: str) -> None:
    """End another login of the same person; one that is not there has ended already."""
    await queries.END_LOGIN.run(tx, person_id=login.person_id, id=other_id)


async def end_others(tx: Tx, login: Login) -> None:
    """End every login of the same person but this one."""
    await queries.END_OTHER_LOGINS.run(tx, person_id=login.person_id, but=login.id)


async def has_second_factor(tx: Tx, login: Login) -> bool:
    """Return whether a person has an authenticator or a passkey."""
    return bool(await queries.HAS_FACTOR.get(tx, id=login.person_id))


async def factors_of(tx: Tx, person_id: str) -> Factors:
    """Return which second factors a person has; none while they are suspended."""
    if await lost_factors.suspended_until(tx, person_id) is not None:
        return Factors(authenticator=False, passkeys=0)
    person = await queries.PERSON.one(tx, id=person_id)
    passkeys = await queries.PASSKEYS.all(tx, person_id=person_id)
    return Factors(authenticator=person.totp_secret is not None, passkeys=len(passkeys))


async def security_of(tx: Tx, login: Login, now: int) -> Security:
    """Return how a person's account is kept safe; the login that was used last comes first."""
    person_id = login.person_id
    found = await queries.LOGINS.all(tx, person_id=person_id)
    person = await queries.PERSON.one(tx, id=person_id)
    return Security(
        authenticator=person.totp_secret is not None,
        has_factor=await has_second_factor(tx, login),
        recovery_codes=await queries.COUNT_RECOVERY_CODES.get(tx, person_id=person_id) or 0,
        language=person.language,
        passkeys=await queries.PASSKEYS.all(tx, person_id=person_id),
        logins=[one for one in found if not one.has_ended(now)],
    )


async def workplaces(tx: Tx, login: Login) -> list[Workplace]:
    """Return the merchants that a person is a member of and that are not closed, by name."""
    return await queries.WORKPLACES.all(tx, person_id=login.person_id)


async def looked_at(tx: Tx, login_ids: list[str]) -> None:
    """Forget that logins were begun: the mails about them are written."""
    await queries.FORGET_BEGUN.run(tx, ids=login_ids)


async def prune(tx: Tx, now: int) -> int:
    """Delete what nobody can use any more: logins, links and counted attempts."""
    before = now - OF_MEMBERS.whole
    return (
        await queries.PRUNE_LOGINS.run(tx, before=before)
        + await queries.PRUNE_LINKS.run(tx, before=before)
        + await queries.PRUNE_CHALLENGES.run(tx, before=now)
        + await queries.PRUNE_BEGUN.run(tx, before=now - BEGUN_MS)
        + await queries.PRUNE_LIMITS.run(tx, before=now - limits.FORGOTTEN_MS)
    )
