"""Resets of lost second factors: the factors end after a waiting time.

One administrator requests a reset and another confirms it, or the owner of the machine starts it by
a command. During the waiting time the person, who gets a mail, can stop it by a link or by proving
a factor. Choosing a new password without proving a factor starts a reset too. Until it ends, the
factors are suspended, because somebody else may have set them up, and the account is closed to the
password, because somebody else may read the person's mail.
"""

from functools import partial
from typing import Final

import asyncpg

from opentill import merchants
from opentill.core.errors import Invalid, NotFound, or_not_found
from opentill.core.ids import new_id
from opentill.db.database import Db, Tx
from opentill.merchants import OPENTILL, Actor
from opentill.people import queries, reset_queries
from opentill.people.model import (
    FactorReset,
    Person,
    ResetKind,
    digest,
    named,
    new_token,
    person_named,
)
from opentill.people.second_person import Approver, check_second

_BATCH: Final = 100


async def request_reset(
    tx: Tx, email: str, now: int, *, actor: Actor, wait_ms: int | None = None
) -> str:
    """Request a reset of a person's factors, and return its id.

    With ``wait_ms``, the length of its waiting time, it begins without confirmation. Raises
    NotFound, and Invalid for a person without a factor or with an open reset.
    """
    person = or_not_found(
        await queries.BY_EMAIL.first(tx, email=email.strip().lower()),
        f"there is no person {email}",
    )
    if not await queries.HAS_FACTOR.get(tx, id=person.id):
        raise Invalid("email", "email must be of somebody who has a second factor")
    try:
        reset = await _open(tx, person, "LOST", actor, now, wait_ms)
    except asyncpg.UniqueViolationError:
        raise _already_open() from None
    action = "people factors ask" if wait_ms is None else "people factors begin"
    await merchants.record_audit(tx, actor, action, "", _subject(person), now)
    return reset


def _already_open() -> Invalid:
    return Invalid("email", "email must be of somebody of whom no reset of factors is open")


async def _open(
    tx: Tx, person: Person, kind: ResetKind, actor: Actor, now: int, wait_ms: int | None
) -> str:
    if await reset_queries.OPEN_FACTOR_RESET.first(tx, person_id=person.id) is not None:
        raise _already_open()
    reset_id = new_id("fac")
    await reset_queries.INSERT_FACTOR_RESET.run(
        tx,
        id=reset_id,
        person_id=person.id,
        kind=kind,
        status="ASKED" if wait_ms is None else "WAITING",
        asked_by=actor.who,
        reason=actor.reason,
        due_at=None if wait_ms is None else now + wait_ms,
        now=now,
    )
    return reset_id


async def confirm(
    tx: Tx, reset_id: str, approver: Approver, now: int, *, reason: str, wait_ms: int
) -> None:
    """Confirm a reset as a second administrator; the waiting time begins.

    Raises NotFound, and Invalid for the person of the reset and for anyone who cannot be the
    second person (``check_second``).
    """
    reset = or_not_found(await reset_queries.FACTOR_RESET.first(tx, id=reset_id))
    actor = Actor(approver.who, reason)
    if person_named(actor.who) == reset.person_id:
        raise Invalid("person", "the person of the reset cannot confirm it")
    await check_second(tx, reset.asked_by, approver, now)
    if not await reset_queries.CONFIRM_FACTOR_RESET.run(
        tx, id=reset_id, confirmed_by=actor.who, due_at=now + wait_ms
    ):
        raise NotFound
    subject = f"{reset.person_id} {reset.email}, asked for by {reset.asked_by}"
    await merchants.record_audit(tx, actor, "people factors begin", "", subject, now)


async def begin_with_password(
    tx: Tx, person: Person, now: int, *, actor: Actor, wait_ms: int
) -> int:
    """Start the reset for a new password without proof of a factor; return its end in Unix ms.

    An open reset of the same kind continues; one of lost factors is replaced.
    """
    reset = await reset_queries.OPEN_FACTOR_RESET.first(tx, person_id=person.id)
    if reset is not None and reset.kind == "PASSWORD" and reset.due_at is not None:
        return reset.due_at
    if reset is not None:
        await reset_queries.STOP_FACTOR_RESET.run(tx, id=reset.id, by=actor.who, now=now)
    await _open(tx, person, "PASSWORD", actor, now, wait_ms)
    await merchants.record_audit(tx, actor, "people factors begin", "", _subject(person), now)
    return now + wait_ms


def _subject(person: Person) -> str:
    return f"{person.id} {person.email}"


async def suspended_until(tx: Tx, person_id: str) -> int | None:
    """Return until when a person's factors are suspended, None if they are not."""
    reset = await reset_queries.OPEN_FACTOR_RESET.first(tx, person_id=person_id)
    return None if reset is None or reset.kind != "PASSWORD" else reset.due_at


async def due_at(tx: Tx, person_id: str) -> int | None:
    """Return when a person's open reset ends, None if there is none in its waiting time."""
    reset = await reset_queries.OPEN_FACTOR_RESET.first(tx, person_id=person_id)
    return None if reset is None else reset.due_at


async def stop(tx: Tx, reset_id: str, now: int, *, actor: Actor) -> None:
    """Stop an open reset; the factors remain. Raises NotFound."""
    reset = or_not_found(await reset_queries.FACTOR_RESET.first(tx, id=reset_id))
    if not await reset_queries.STOP_FACTOR_RESET.run(tx, id=reset_id, by=actor.who, now=now):
        raise NotFound
    subject = f"{reset.person_id} {reset.email}"
    await merchants.record_audit(tx, actor, "people factors stop", "", subject, now)


async def stop_by_proof(tx: Tx, person: Person, now: int) -> None:
    """Stop the reset of lost factors of a person who has just proved one."""
    reset = await reset_queries.OPEN_FACTOR_RESET.first(tx, person_id=person.id)
    if reset is not None and reset.kind == "LOST":
        actor = Actor(named(person.email, person.id), "a factor was proved")
        await stop(tx, reset.id, now, actor=actor)


async def new_stop_link(tx: Tx, email: str) -> str | None:
    """Replace the link that stops a person's open reset; return its path, None without a reset."""
    person = await queries.BY_EMAIL.first(tx, email=email)
    token = new_token()
    if person is None or not await reset_queries.SET_STOP_LINK.run(
        tx, person_id=person.id, stop_sha256=digest(token)
    ):
        return None
    return f"/keep-factors/{token}"


async def read_stop_link(tx: Tx, token: str) -> FactorReset:
    """Return the open reset that a link stops. Raises NotFound."""
    return or_not_found(await reset_queries.RESET_OF_LINK.first(tx, stop_sha256=digest(token)))


async def open_resets(tx: Tx) -> list[FactorReset]:
    """Return all open resets, oldest first."""
    return await reset_queries.OPEN_FACTOR_RESETS.all(tx)


async def open_reset_of(tx: Tx, email: str) -> FactorReset:
    """Return the open reset of a person. Raises NotFound."""
    address = email.strip().lower()
    resets = (reset for reset in await open_resets(tx) if reset.email == address)
    return or_not_found(next(resets, None), f"no reset of factors of {address} is open")


async def end_due(db: Db, now: int) -> int:
    """End the factors of resets whose waiting time is over; return their number."""
    async with db.connection() as tx:
        due = await reset_queries.DUE_FACTOR_RESETS.all(tx, now=now, limit=_BATCH)
    for reset in due:
        await db.run(partial(_end, reset=reset, now=now))
    return len(due)


async def _end(tx: Tx, reset: FactorReset, now: int) -> None:
    # Lock the person first, as proving a factor does, so that only one of the two takes effect.
    await queries.LOCKED.first(tx, id=reset.person_id)
    if await reset_queries.END_FACTOR_RESET.run(tx, id=reset.id, by=OPENTILL.who, now=now):
        await end_factors(tx, reset.person_id, now)
        subject = f"{reset.person_id} {reset.email}"
        await merchants.record_audit(tx, OPENTILL, "people factors end", "", subject, now)


async def end_now(tx: Tx, person: Person, now: int) -> None:
    """End the factors of a person's open reset at once, for a waiting time of 0."""
    reset = await reset_queries.OPEN_FACTOR_RESET.first(tx, person_id=person.id)
    if reset is not None:
        await _end(tx, reset, now)


async def end_open(tx: Tx, person: Person, now: int, *, actor: Actor) -> None:
    """Stop the open reset, if any, of a person who no longer has a factor."""
    reset = await reset_queries.OPEN_FACTOR_RESET.first(tx, person_id=person.id)
    if reset is not None:
        await reset_queries.STOP_FACTOR_RESET.run(tx, id=reset.id, by=actor.who, now=now)


async def end_factors(tx: Tx, person_id: str, now: int) -> None:
    """End a person's authenticator, passkeys, recovery codes and logins.

    Logins end last, so that no login by a passkey begins meanwhile.
    """
    await queries.REMOVE_TOTP.run(tx, id=person_id, now=now)
    await queries.REMOVE_PASSKEYS.run(tx, person_id=person_id)
    await queries.REMOVE_CHALLENGES.run(tx, person_id=person_id)
    await queries.DELETE_RECOVERY_CODES.run(tx, person_id=person_id)
    await queries.END_OTHER_LOGINS.run(tx, person_id=person_id, but="")
