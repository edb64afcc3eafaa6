"""Logging in and out, and finding the login of a cookie or token."""

from collections.abc import Awaitable, Callable
from typing import Any, Final, Protocol, TypeVar

import msgspec

from opentill import merchants
from opentill.core import pasted
from opentill.core.errors import NotLoggedIn, or_not_found
from opentill.core.ids import new_id
from opentill.db.database import Db, Tx
from opentill.db.query import Query
from opentill.merchants import Actor
from opentill.people import access_queries, limits, lost_factors, passwords, queries, second_factor
from opentill.people.hash_queue import QUEUE, Group
from opentill.people.lifetimes import LONGEST_LOGIN_MS, NEW_LOGIN_MAIL_MS, USED_AT_PRECISION_MS
from opentill.people.model import (
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
_LONGEST_DEVICE: Final = 300
# After this many wrong codes with the right password, the person is mailed a warning.
_MAILED_AFTER: Final = 3


class WrongCredentials(NotLoggedIn):
    """The address, password or code is wrong; the response does not say which."""


class WrongCode(WrongCredentials):
    """The password is right but the code of the second factor is wrong."""


class FactorsSuspended(WrongCredentials):
    """The password is right, but the account is closed until ``until`` (see lost_factors)."""

    def __init__(self, until: int) -> None:
        """``until`` is in Unix ms."""
        super().__init__()
        self.until = until


class Credentials(msgspec.Struct, frozen=True, kw_only=True):
    """Credentials, and the browser from which they were sent."""

    email: str
    password: str
    browser: Browser
    code: str = ""  # the code of the second factor; "" if none was entered
    is_known_browser: bool = False  # whether the browser has logged in to this account before
    # The browser's cookies, which may prove ``is_known_browser`` (``limits.is_trusted``).
    cookies: tuple[str, ...] = ()


class NewLogin(msgspec.Struct, frozen=True):
    """A new login; ``token`` is the value of the browser's cookie."""

    id: str
    person: Person
    token: str
    pending: bool = False  # whether the second factor still has to be proved


class BeginAs(Protocol):
    """A function that creates a login, such as ``begin``."""

    async def __call__(
        self, tx: Tx, person: Person, browser: Browser, now: int, /, *, strong: bool
    ) -> NewLogin:
        """Create the login."""
        ...


class OfApi(msgspec.Struct, frozen=True):
    """The values that only a login by the API has."""

    merchant_id: str
    # The second part of the refresh token, which is replaced at each use; the first part is
    # ``NewLogin.token``.
    refresh_token: str


def normalize_email(email: str) -> str:
    """Return an email address in the form in which it is stored."""
    return pasted.trim(email).lower()


async def log_in(
    db: Db, credentials: Credentials, secret_key: str, now: int, begin_as: "BeginAs | None" = None
) -> NewLogin:
    """Log somebody in; ``begin_as`` creates a login for another use than a browser.

    A browser's login of a person with a second factor is pending until that is proved
    (``prove_code``, ``passkeys.prove``); the code of the credentials is not read. A login by
    ``begin_as`` is never pending: it needs the code at once, a recovery code in place of a passkey.
    Raises TooManyRequests and WrongCredentials. An unknown account takes the same time as a
    known one.
    """
    email, address = normalize_email(credentials.email), credentials.browser.address
    async with db.connection() as tx:
        person = await queries.BY_EMAIL.first(tx, email=email)
    if begin_as is None:
        credentials = msgspec.structs.replace(credentials, code="")
    credentials = _recognize_browser(credentials, person, secret_key)
    group: Group = "trusted" if credentials.is_known_browser else "strangers"
    with QUEUE.reserve(
        group, email if credentials.is_known_browser else limit_subject(address)
    ) as place:
        attempt = await limits.count(
            db, email, address, now, is_known_browser=credentials.is_known_browser
        )
        is_match = await passwords.matches(
            credentials.password, person.password if person else None, place
        )
    if person is None or not is_match:
        raise WrongCredentials
    renewed = await passwords.rehash_if_needed(credentials.password, person.password, email)

    async def work(tx: Tx) -> NewLogin:
        locked = await lock_unchanged(tx, person)
        until = await lost_factors.suspended_until(tx, person.id)
        if until is not None:
            raise FactorsSuspended(until)
        has_factor = bool(await queries.HAS_FACTOR.get(tx, id=person.id))
        strong = has_factor and begin_as is not None
        if strong and not await second_factor.check(tx, locked, credentials.code, secret_key):
            raise WrongCode
        if strong:
            await lost_factors.stop_by_proof(tx, locked, now)
        if renewed is not None:
            await queries.RENEW_PASSWORD.run(tx, id=person.id, password=renewed)
        await limits.forgive(tx, attempt)
        current = msgspec.structs.replace(person, password=renewed or person.password)
        login = await (begin_as or begin)(tx, current, credentials.browser, now, strong=strong)
        return msgspec.structs.replace(login, pending=has_factor and not strong)

    return await count_codes(db, work, person, credentials, now)


def _recognize_browser(
    credentials: Credentials, person: Person | None, secret_key: str
) -> Credentials:
    """Set ``is_known_browser`` if a cookie proves it."""
    is_known_browser = credentials.is_known_browser or limits.is_trusted(
        secret_key, person, credentials.cookies
    )
    return msgspec.structs.replace(credentials, is_known_browser=is_known_browser)


async def count_codes(
    db: Db, work: Callable[[Tx], Awaitable[T]], person: Person, credentials: Credentials, now: int
) -> T:
    """Run ``work``, which checks a second factor's code if there is one, and count wrong codes.

    Raises TooManyRequests, and the exceptions of ``work``.
    """
    if not credentials.code:
        return await db.run(work)
    is_known_browser, address = credentials.is_known_browser, credentials.browser.address
    attempt = await limits.count_factor(
        db, person.id, address, now, is_known_browser=is_known_browser
    )

    async def audit_failure(tx: Tx) -> None:
        if await limits.failures(tx, attempt) == _MAILED_AFTER:
            actor = Actor(named(person.email, person.id), f"from {address}")
            await merchants.record_audit(tx, actor, "people factor failed", "", person.id, now)

    async def run_counted(tx: Tx) -> T:
        result = await work(tx)
        await limits.forgive(tx, attempt)
        return result

    try:
        return await db.run(run_counted)
    except WrongCode:
        await db.run(audit_failure)
        raise


async def lock_unchanged(tx: Tx, person: Person) -> Person:
    """Lock and return a person whose password was checked before the transaction.

    Raises WrongCredentials if the password has changed since, because the change ends everything
    that the old one opened.
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
    """Create a login for a person whose identity is proved, with a token for ``use``."""
    token, login_id = new_token(), new_id("ses")
    of_api = use if isinstance(use, OfApi) else None
    values = {
        "id": login_id,
        "person_id": person.id,
        "now": now,
        "address": browser.address,
        "device": browser.device[:_LONGEST_DEVICE],
    }
    await queries.NOTE_BEGUN.run(tx, **values, strong=strong)
    await queries.INSERT_LOGIN.run(
        tx,
        **values,
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
    """Create a login whose token is valid for commands and not as a browser's cookie."""
    return await begin(tx, person, browser, now, strong=strong, use="command")


async def find(
    db: Db,
    token: str,
    address: str,
    now: int,
    *,
    used: bool = True,
    use: TokenUse = "browser",
    with_workplaces: bool = False,
) -> Login | None:
    """Return the active login of a token, None if there is none.

    ``used``: prolong the login, unless it is pending. Requests of a page that updates itself must
    not, since perhaps nobody looks at the page. ``with_workplaces``: also read what ``access``
    needs.
    """
    statement: Query[Any] = (
        access_queries.LOGIN_WITH_WORKPLACES if with_workplaces else queries.LOGIN
    )
    async with db.connection() as tx:
        login: Login | None = await statement.first(tx, token_sha256=digest(token, use))
        if login is None or login.has_ended(now):
            return None
        if used and not login.is_pending:
            await note_use(tx, login, address, now)
        return login


async def note_use(tx: Tx, login: Login, address: str, now: int) -> None:
    """Record that a login was used. The time is written at most once a minute."""
    if now >= login.used_at + USED_AT_PRECISION_MS:
        await queries.SET_USED.run(tx, id=login.id, now=now, address=address)


class Proof(msgspec.Struct, frozen=True):
    """The result of a step-up."""

    person: Person  # as the row was during the proof
    token: str  # the new token that replaces the login's old one


async def prove(
    db: Db,
    login: Login,
    credentials: Credentials,
    secret_key: str,
    now: int,
    *,
    factor_proved: bool = False,
) -> Proof:
    """Verify the person's password as a step-up, and give the login a new token.

    A person with a second factor also proves it, by a code of the authenticator or a recovery
    code, unless ``factor_proved`` says that this was just done; ``passkeys.prove`` verifies
    passkeys. Raises TooManyRequests, WrongCredentials, and NotLoggedIn if the login has ended
    meanwhile.
    """
    with QUEUE.reserve("trusted", login.person_id) as place:
        attempt = await limits.count(
            db, login.person_id, credentials.browser.address, now, is_known_browser=True
        )
        async with db.connection() as tx:
            person = await queries.PERSON.one(tx, id=login.person_id)
        if not await passwords.matches(credentials.password, person.password, place):
            raise WrongCredentials
    token = new_token()

    async def work(tx: Tx) -> None:
        locked = await lock_unchanged(tx, person)
        has_factor = await queries.HAS_FACTOR.get(tx, id=person.id)
        needs_factor = has_factor and not factor_proved
        if needs_factor and not await second_factor.check(tx, locked, credentials.code, secret_key):
            raise WrongCode
        if needs_factor:
            await lost_factors.stop_by_proof(tx, locked, now)
        await limits.forgive(tx, attempt)
        await renew(tx, login, token, now, strong=bool(has_factor))

    await count_codes(db, work, person, credentials, now)
    return Proof(person, token)


async def prove_code(
    db: Db, login: Login, credentials: Credentials, secret_key: str, now: int
) -> Proof:
    """Verify the second factor of a pending login by a code, and give the login a new token.

    Raises TooManyRequests, WrongCredentials, and NotLoggedIn if the login has ended meanwhile.
    """
    async with db.connection() as tx:
        person = await queries.PERSON.one(tx, id=login.person_id)
    token = new_token()

    async def work(tx: Tx) -> None:
        locked = or_not_found(await queries.LOCKED.first(tx, id=person.id))
        if not await second_factor.check(tx, locked, credentials.code, secret_key):
            raise WrongCode
        await lost_factors.stop_by_proof(tx, locked, now)
        await renew(tx, login, token, now, strong=True)

    if not credentials.code:
        raise WrongCode
    await count_codes(db, work, person, _recognize_browser(credentials, person, secret_key), now)
    return Proof(person, token)


async def renew(tx: Tx, login: Login, token: str, now: int, *, strong: bool) -> None:
    """Record that a login's person has proved their identity, and replace the login's token.

    Raises NotLoggedIn if the login has ended meanwhile.
    """
    values = {"token_sha256": digest(token), "now": now, "strong": strong}
    if not await queries.PROVE.run(tx, id=login.id, **values):
        raise NotLoggedIn
    if strong:
        await queries.COMPLETE_BEGUN.run(tx, id=login.id)


async def end(tx: Tx, login: Login) -> None:
    """Log out."""
    await queries.END_LOGIN.run(tx, person_id=login.person_id, id=login.id)


async def end_by_id(tx: Tx, login: Login, other_id: str) -> None:
    """End another login of the same person. Idempotent."""
    await queries.END_LOGIN.run(tx, person_id=login.person_id, id=other_id)


async def end_other_logins(tx: Tx, login: Login) -> None:
    """End all other logins of the same person."""
    await queries.END_OTHER_LOGINS.run(tx, person_id=login.person_id, but=login.id)


async def has_second_factor(tx: Tx, login: Login) -> bool:
    """Whether a login's person has an authenticator or a passkey."""
    return bool(await queries.HAS_FACTOR.get(tx, id=login.person_id))


async def factors_of(tx: Tx, person_id: str) -> Factors:
    """Return a person's second factors; none while they are suspended."""
    if await lost_factors.suspended_until(tx, person_id) is not None:
        return Factors(authenticator=False, passkeys=0)
    person = await queries.PERSON.one(tx, id=person_id)
    passkeys = await queries.PASSKEYS.all(tx, person_id=person_id)
    return Factors(authenticator=person.totp_secret is not None, passkeys=len(passkeys))


async def security_of(tx: Tx, login: Login, now: int) -> Security:
    """Return the security settings of a person's account, with the last used login first."""
    person_id = login.person_id
    all_logins = await queries.LOGINS.all(tx, person_id=person_id)
    person = await queries.PERSON.one(tx, id=person_id)
    return Security(
        authenticator=person.totp_secret is not None,
        has_factor=await has_second_factor(tx, login),
        recovery_codes=await queries.COUNT_RECOVERY_CODES.get(tx, person_id=person_id) or 0,
        language=person.language,
        passkeys=await queries.PASSKEYS.all(tx, person_id=person_id),
        logins=[other for other in all_logins if not other.has_ended(now)],
    )


async def workplaces(tx: Tx, login: Login) -> list[Workplace]:
    """Return the merchants, except closed ones, that a person is a member of, by name."""
    return await queries.WORKPLACES.all(tx, person_id=login.person_id)


async def forget_begun(tx: Tx, login_ids: list[str]) -> None:
    """Delete the records of new logins whose mails have been queued."""
    await queries.FORGET_BEGUN.run(tx, ids=login_ids)


async def prune(tx: Tx, now: int) -> int:
    """Delete expired logins, links, challenges and counts of attempts; return the number."""
    before = now - LONGEST_LOGIN_MS
    return (
        await queries.PRUNE_LOGINS.run(tx, before=before)
        + await queries.PRUNE_LINKS.run(tx, before=before)
        + await queries.PRUNE_CHALLENGES.run(tx, before=now)
        + await queries.PRUNE_BEGUN.run(tx, before=now - NEW_LOGIN_MAIL_MS)
        + await queries.PRUNE_LIMITS.run(tx, before=now - limits.FORGOTTEN_MS)
    )
