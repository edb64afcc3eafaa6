"""Second factors: setting up an authenticator, recovery codes, and verifying codes."""

from opentill import merchants
from opentill.core import encryption
from opentill.core.errors import Invalid, NotFound, NotLoggedIn
from opentill.db.clock import now_ms
from opentill.db.database import Tx
from opentill.merchants import Actor
from opentill.people import lost_factors, queries, totp
from opentill.people.model import Login, Person, named

_PURPOSE = "totp {}"


def actor_of(login: Login, reason: str) -> Actor:
    """Return a login's person as an actor of the audit log."""
    return Actor(named(login.email, login.person_id), reason)


async def check(tx: Tx, person: Person, code: str, secret_key: str) -> bool:
    """Verify and consume a code of the person's authenticator or a recovery code.

    Returns False while the factors are suspended (``lost_factors``), and consumes nothing.
    """
    if await lost_factors.suspended_until(tx, person.id) is not None:
        return False
    bare = "".join(code.split())
    if totp.is_code(bare):
        period = _matching(person, person.totp_secret, bare, secret_key, person.totp_period)
        # If several requests use the same code at once, only one of them updates the row.
        return period is not None and bool(
            await queries.SET_TOTP_PERIOD.run(tx, id=person.id, period=period)
        )
    digest = totp.recovery_digest(code)
    return await queries.USE_RECOVERY_CODE.run(tx, person_id=person.id, code_sha256=digest) > 0


def _matching(
    person: Person, encrypted: bytes | None, code: str, secret_key: str, after: int
) -> int | None:
    """Return the period of a valid code, None for a wrong or used one."""
    if encrypted is None:
        return None
    try:
        secret = encryption.decrypt(secret_key, _PURPOSE.format(person.id), encrypted)
    except encryption.WrongKey:  # the deployment's key was replaced: only recovery codes work
        return None
    return totp.matching_period(secret, code, now_ms() // 1000, after)


async def lock_for_change(tx: Tx, login: Login) -> Person:
    """Lock and return the person whose factors a login is about to change.

    Raises NotLoggedIn if the login has ended meanwhile, or lacks a factor that another login of
    the person has set up meanwhile.
    """
    person = await queries.LOCKED.first(tx, id=login.person_id)
    current = await queries.LOGIN_BY_ID.first(tx, id=login.id)
    if person is None or current is None or current.is_pending:
        raise NotLoggedIn
    return person


async def begin(tx: Tx, login: Login, secret_key: str) -> None:
    """Store a new secret to be confirmed; an existing authenticator remains until then.

    Raises NotLoggedIn like ``lock_for_change``, as do all functions here that change factors.
    """
    await lock_for_change(tx, login)
    secret = encryption.encrypt(secret_key, _PURPOSE.format(login.person_id), totp.new_secret())
    await queries.SET_PENDING_TOTP.run(tx, id=login.person_id, secret=secret)


async def pending_secret(tx: Tx, login: Login, secret_key: str) -> str:
    """Return the secret to be confirmed. Raises NotFound if there is none."""
    person = await queries.PERSON.first(tx, id=login.person_id)
    if person is None or person.totp_pending is None:
        raise NotFound
    try:
        purpose = _PURPOSE.format(person.id)
        return encryption.decrypt(secret_key, purpose, person.totp_pending)
    except encryption.WrongKey:
        raise NotFound from None


async def confirm(tx: Tx, login: Login, code: str, secret_key: str, now: int) -> list[str]:
    """Activate the pending secret and return ten new recovery codes.

    Raises NotFound if there is none, and Invalid for a wrong code.
    """
    # Without this lock, another page could replace the secret between its check and its activation.
    person = await lock_for_change(tx, login)
    if person.totp_pending is None:
        raise NotFound
    bare = "".join(code.split())
    # No code of the new secret was used yet, so any period is accepted: 0 is the last one used.
    period = None
    if totp.is_code(bare):
        period = _matching(person, person.totp_pending, bare, secret_key, 0)
    if period is None:
        raise Invalid("code", "code must be the one that the authenticator shows now")
    await queries.CONFIRM_TOTP.run(
        tx, id=person.id, checked=person.totp_pending, period=period, now=now
    )
    await queries.STRENGTHEN.run(tx, id=login.id)
    actor = actor_of(login, "on the page about security")
    await merchants.record_audit(tx, actor, "people second factor", "", f"{person.id} set up", now)
    return await new_codes(tx, person.id)


async def renew_codes(tx: Tx, login: Login, now: int) -> list[str]:
    """Replace the recovery codes by ten new ones.

    Raises NotFound for a person without a factor.
    """
    await lock_for_change(tx, login)
    if not await queries.HAS_FACTOR.get(tx, id=login.person_id):
        raise NotFound
    actor = actor_of(login, "on the page about security")
    await merchants.record_audit(tx, actor, "people recovery codes", "", login.person_id, now)
    return await new_codes(tx, login.person_id)


async def new_codes(tx: Tx, person_id: str) -> list[str]:
    """Replace a person's recovery codes by ten new ones and return them."""
    codes = totp.new_recovery_codes()
    await queries.DELETE_RECOVERY_CODES.run(tx, person_id=person_id)
    await queries.INSERT_RECOVERY_CODES.run(
        tx, person_id=person_id, codes=[totp.recovery_digest(code) for code in codes]
    )
    return codes


async def remove(tx: Tx, login: Login, now: int, *, keep_one: bool = False) -> None:
    """Remove the authenticator. Raises LastFactor if ``keep_one`` and it is the last factor."""
    person = await lock_for_change(tx, login)
    await queries.REMOVE_TOTP.run(tx, id=login.person_id, now=now)
    is_removed = person.totp_secret is not None
    await delete_unused_codes(tx, login, keep_one=keep_one, is_removed=is_removed)
    actor = actor_of(login, "on the page about security")
    subject = f"{login.person_id} removed"
    await merchants.record_audit(tx, actor, "people second factor", "", subject, now)


class LastFactor(Invalid):
    """A person who must have a second factor cannot remove the last one."""

    def __init__(self) -> None:
        """Say what to do first."""
        super().__init__("factor", "factor must not be the last one: set up another one first")


async def delete_unused_codes(
    tx: Tx, login: Login, *, keep_one: bool, is_removed: bool = True
) -> None:
    """Delete the recovery codes of a person without any factor left, and end pending logins.

    A login that has not proved the last factor would be complete without it, even after the ten
    minutes in which it could be proved. ``is_removed``: the person had a factor until now; without
    one, no login is pending. Raises LastFactor if ``keep_one`` and no factor is left.
    """
    if await queries.HAS_FACTOR.get(tx, id=login.person_id):
        return
    if keep_one:
        raise LastFactor
    await queries.DELETE_RECOVERY_CODES.run(tx, person_id=login.person_id)
    if is_removed:
        await queries.END_PENDING_LOGINS.run(tx, person_id=login.person_id)
    await queries.WEAKEN.run(tx, person_id=login.person_id)
