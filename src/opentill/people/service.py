"""Invitations, roles, and new passwords."""

from typing import NamedTuple

import asyncpg
import msgspec

from opentill import merchants
from opentill.core.errors import Invalid, NotFound, or_not_found
from opentill.core.ids import new_id
from opentill.db.database import Db, Tx
from opentill.http import inputs
from opentill.merchants import Actor
from opentill.people import key_scopes, logins, lost_factors, passwords, queries
from opentill.people.logins import Credentials, NewLogin, normal
from opentill.people.model import (
    LINK_MS,
    Browser,
    Language,
    Link,
    LinkKind,
    Login,
    Member,
    NewLink,
    Person,
    ShownTo,
    Staff,
    digest,
    named,
    new_token,
)
from opentill.people.passwords import COST, Cost
from opentill.people.permissions import MerchantRole, StaffRole
from opentill.people.second_factor import actor_of, lock_for_change

_LONGEST_NAME = 200


class _Place(NamedTuple):
    """Where an invitation leads: to a role at a merchant or among the staff."""

    merchant_id: str | None = None
    role: MerchantRole | None = None
    staff_role: StaffRole | None = None


async def invite(  # noqa: PLR0913 - whom, where to, and who sees the link
    tx: Tx,
    email: str,
    now: int,
    *,
    merchant_id: str | None = None,
    role: MerchantRole | None = None,
    staff_role: StaffRole | None = None,
    actor: Actor,
    shown_to: ShownTo = "operator",
) -> NewLink:
    """Invite somebody to a merchant or, with ``staff_role``, to the staff.

    Earlier invitations of the same person to the same place no longer work. Raises NotFound, and
    Invalid for what is no address or for somebody who is a member already.
    """
    address = normal(inputs.check_email("email", email))
    if merchant_id is not None:
        await merchants.find(tx, merchant_id)
        known = await queries.BY_EMAIL.first(tx, email=address)
        if known is not None and await queries.MEMBER.first(
            tx, merchant_id=merchant_id, person_id=known.id
        ):
            raise Invalid("email", "email must be of somebody who is not a member already")
    elif any(one.email == address for one in await queries.ALL_STAFF.all(tx)):
        raise Invalid("email", "email must be of somebody who is not staff already")
    place = _Place(merchant_id, role, staff_role)
    made = await _new_link(tx, "INVITATION", address, actor, now, shown_to, place)
    subject = f"{made.link.id} {address} as {role or f'staff, {staff_role}'}"
    await merchants.record_audit(tx, actor, "people invite", merchant_id or "", subject, now)
    return made


async def offer_new_password(
    tx: Tx, email: str, now: int, *, actor: Actor, shown_to: ShownTo = "operator"
) -> NewLink:
    """Make the link by which a person chooses a new password. Raises NotFound."""
    address = normal(email)
    person = or_not_found(
        await queries.BY_EMAIL.first(tx, email=address), f"there is no person {address}"
    )
    made = await _new_link(tx, "RESET", address, actor, now, shown_to)
    await merchants.record_audit(tx, actor, "people reset", "", person.id, now)
    return made


async def new_password_asked_for(tx: Tx, email: str, now: int, *, actor: Actor) -> NewLink | None:
    """Make the link that somebody asked for on a page, whoever they are. Raises NotFound.

    None where staff have offered one that still works: it is not replaced.
    """
    offered = await queries.OPEN_RESET.first(tx, email=normal(email))
    if offered and offered.created_by != actor.who and offered.can_be_followed(now):
        return None
    return await offer_new_password(tx, email, now, actor=actor, shown_to="nobody")


async def _new_link(
    tx: Tx,
    kind: LinkKind,
    address: str,
    actor: Actor,
    now: int,
    shown_to: ShownTo,
    place: _Place | None = None,
) -> NewLink:
    token = new_token()
    link = await queries.INSERT_LINK.one(
        tx,
        id=new_id("inv"),
        token_sha256=digest(token),
        kind=kind,
        email=address,
        **(place or _Place())._asdict(),
        created_by=actor.who,
        now=now,
        expires_at=now + LINK_MS,
        shown_to=shown_to,
    )
    return NewLink(link, token)


async def read_link(tx: Tx, token: str, now: int) -> tuple[Link, Person | None]:
    """Return a link that can be followed, and the person it is for if there is one.

    Raises NotFound.
    """
    link = or_not_found(await queries.LINK.first(tx, token_sha256=digest(token)))
    if not link.can_be_followed(now):
        raise NotFound
    return link, await queries.BY_EMAIL.first(tx, email=link.email)


async def join(
    db: Db,
    token: str,
    name: str,
    password: str,
    browser: Browser,
    now: int,
    *,
    cost: Cost = COST,
) -> NewLogin:
    """Accept an invitation as a new person, who reads the browser's language, and log in.

    An account that is not confirmed is set anew (``accept_anew``). Raises Invalid, and NotFound for
    a link that does not work or whose person has to log in and ``accept``. What is invalid is
    refused before anybody looks for an account: else the refusal would disclose it.
    """
    async with db.connection() as tx:
        link, person = await read_link(tx, token, now)
        if link.kind != "INVITATION":
            raise NotFound
        name = inputs.check_name("name", name, _LONGEST_NAME)
        passwords.check("password", password, link.email, name)
        if person is not None and not await _is_set_anew_by_link(tx, link, person):
            raise NotFound
    if person is not None:
        return await accept_anew(db, token, name, password, browser, now, cost=cost)
    stored = await passwords.hashed(password, cost, who=link.email)

    async def work(tx: Tx) -> NewLogin:
        person = await _create(tx, link, name, stored, browser.language, now)
        await _use_invitation(tx, link, token, person, now)
        return await logins.begin(tx, person, browser, now, by_link=_vouches(link))

    try:
        return await db.run(work)
    except asyncpg.UniqueViolationError:  # the form was sent twice: the other one has joined
        raise NotFound from None


async def accept(tx: Tx, token: str, login: Login, now: int) -> None:
    """Accept an invitation as a person who is logged in, and whose account is confirmed.

    Raises NotFound if it is not for them.
    """
    link, person = await read_link(tx, token, now)
    if link.kind != "INVITATION" or person is None or person.id != login.person_id:
        raise NotFound
    if not person.confirmed:
        raise NotFound
    await _use_invitation(tx, link, token, person, now)
    if _vouches(link):
        await queries.SET_BY_LINK.run(tx, id=login.id)


def _vouches(link: Link) -> bool:
    """Return whether following a link lets staff set up their first second factor.

    Any member of a merchant can invite anybody to it and see the link, so that somebody who only
    knows the password of one of the staff could follow one.
    """
    return link.shown_to != "member"


async def accept_anew(  # noqa: PLR0913 - the fields of the form, and who sends it
    db: Db,
    token: str,
    name: str,
    password: str,
    browser: Browser,
    now: int,
    *,
    login: Login | None = None,
    cost: Cost = COST,
) -> NewLogin:
    """Accept an invitation as a person whose account is not confirmed: set it anew, and log in.

    Somebody else may have seen the link that the account was made by, and prepared it. So whatever
    opens it ends: password, authenticator, recovery codes, passkeys, logins with their tokens, and
    links to a new password. A link that a member of a merchant has seen is not enough for that, nor
    is any for the account of staff: its person has a ``login``, too. Raises Invalid, and NotFound.
    """
    async with db.connection() as tx:
        link, person = await read_link(tx, token, now)
    if link.kind != "INVITATION" or person is None:
        raise NotFound
    name = inputs.check_name("name", name, _LONGEST_NAME)
    passwords.check("password", password, link.email, name)
    stored = await passwords.hashed(password, cost, who=link.email)
    person_id = person.id

    async def work(tx: Tx) -> NewLogin:
        locked = or_not_found(await queries.LOCKED.first(tx, id=person_id))
        if locked.confirmed:
            raise NotFound
        if login is not None:
            await lock_for_change(tx, login)
        elif not await _is_set_anew_by_link(tx, link, locked):
            raise NotFound
        actor = Actor(named(locked.email, person_id), f"invited by {link.created_by}")
        await _use_invitation(tx, link, token, locked, now)
        confirmed = link.shown_to == "nobody"
        await queries.SET_ANEW.run(
            tx, id=person_id, name=name, password=stored, confirmed=confirmed, now=now
        )
        await lost_factors.end_factors(tx, person_id, now)
        await lost_factors.end_open(tx, locked, now, actor=actor)
        await queries.WITHDRAW_RESETS.run(tx, email=locked.email)
        await merchants.record_audit(tx, actor, "people set anew", "", person_id, now)
        by_link = _vouches(link) or (login is not None and login.by_link)
        current = msgspec.structs.replace(locked, password=stored)
        return await logins.begin(tx, current, browser, now, by_link=by_link)

    if login is not None and login.person_id != person_id:
        raise NotFound
    return await db.run(work)


async def _is_set_anew_by_link(tx: Tx, link: Link, person: Person) -> bool:
    """Return whether a link alone is enough to set somebody's account anew."""
    if person.confirmed or link.shown_to == "member":
        return False
    return await queries.STAFF.first(tx, person_id=person.id) is None


async def _use_invitation(tx: Tx, link: Link, token: str, person: Person, now: int) -> None:
    await _give_role(tx, await use_link(tx, link, token, now), person, now)


async def use_link(tx: Tx, link: Link, token: str, now: int) -> Link:
    """Use a link up, after whoever is about to remove its maker. Raises NotFound."""
    if link.merchant_id is not None:
        await merchants.lock(tx, link.merchant_id)
    await queries.LOCK_ADMINS.all(tx)
    used = await queries.USE_LINK.first(tx, token_sha256=digest(token), kind=link.kind, now=now)
    return or_not_found(used)


async def _create(
    tx: Tx, link: Link, name: str, password: str, language: Language | None, now: int
) -> Person:
    person = Person(
        id=new_id("per"),
        email=link.email,
        name=name,
        password=password,
        confirmed=link.shown_to == "nobody",
        totp_secret=None,
        totp_pending=None,
        totp_period=0,
        created_at=now,
        updated_at=now,
        language=language,
    )
    await queries.INSERT_PERSON.run(tx, person)
    return person


async def _give_role(tx: Tx, link: Link, person: Person, now: int) -> None:
    if link.merchant_id is not None:
        await queries.SET_MEMBER.run(
            tx, merchant_id=link.merchant_id, person_id=person.id, role=link.role, now=now
        )
    else:
        await queries.SET_STAFF.run(tx, person_id=person.id, role=link.staff_role, now=now)
    actor = Actor(named(person.email, person.id), f"invited by {link.created_by}")
    subject = f"{link.id} as {link.role or f'staff, {link.staff_role}'}"
    await merchants.record_audit(tx, actor, "people accept", link.merchant_id or "", subject, now)


async def members(tx: Tx, merchant_id: str) -> list[Member]:
    """Return a merchant's members, the longest first."""
    return await queries.MEMBERS.all(tx, merchant_id=merchant_id)


async def everybody(tx: Tx) -> tuple[list[Member], list[Staff]]:
    """Return all members of all merchants, and all staff."""
    return await queries.ALL_MEMBERS.all(tx), await queries.ALL_STAFF.all(tx)


async def invitations(tx: Tx, merchant_id: str, now: int) -> list[Link]:
    """Return the invitations to a merchant that are not used or over, oldest first.

    Those that are ``withdrawn`` cannot be accepted.
    """
    return await queries.INVITATIONS.all(tx, merchant_id=merchant_id, now=now)


async def remove(
    tx: Tx,
    merchant_id: str,
    person_id: str,
    now: int,
    *,
    actor: Actor,
    revoke_keys: bool = False,
) -> Member:
    """Take a role at a merchant away, at once; with ``revoke_keys`` the keys that they made too.

    Raises NotFound, and Invalid for the last owner.
    """
    member = await _member_but_last_owner(tx, merchant_id, person_id)
    if revoke_keys:
        await key_scopes.revoke_made_by(tx, person_id, now, merchant_id, actor=actor)
    await queries.REMOVE_MEMBER.run(tx, merchant_id=merchant_id, person_id=person_id)
    subject = f"{person_id} {member.email}, {member.role}"
    await merchants.record_audit(tx, actor, "people remove", merchant_id, subject, now)
    return member


async def change_role(
    tx: Tx, merchant_id: str, person_id: str, role: MerchantRole, now: int, *, actor: Actor
) -> None:
    """Give a member another role, at once. Raises NotFound, and Invalid for the last owner."""
    if role == "owner":
        await merchants.lock(tx, merchant_id)
        member = or_not_found(
            await queries.MEMBER.first(tx, merchant_id=merchant_id, person_id=person_id)
        )
    else:
        member = await _member_but_last_owner(tx, merchant_id, person_id)
    if member.role == role:
        return
    await queries.SET_ROLE.run(tx, merchant_id=merchant_id, person_id=person_id, role=role)
    subject = f"{person_id} {member.email}, {member.role} becomes {role}"
    await merchants.record_audit(tx, actor, "people role", merchant_id, subject, now)


async def withdraw(tx: Tx, merchant_id: str, link_id: str, now: int, *, actor: Actor) -> None:
    """Make an invitation to a merchant void. Raises NotFound."""
    link = or_not_found(await queries.WITHDRAW.first(tx, merchant_id=merchant_id, id=link_id))
    subject = f"{link.id} {link.email}"
    await merchants.record_audit(tx, actor, "people withdraw", merchant_id, subject, now)


async def change_password(
    db: Db, login: Login, given: Credentials, new: str, secret_key: str, now: int
) -> logins.Proof:
    """Set a new password, end all other logins, and give this one a new token.

    ``given`` has the password until now. A second factor counts as proved for ten minutes.
    Raises TooManyRequests, WrongCredentials, and Invalid.
    """
    passwords.check("password", new, login.email, login.name)
    proved = login.strong and login.is_proved(now) and not given.code
    proof = await logins.prove(db, login, given, secret_key, now, factor_proved=proved)
    stored = await passwords.hashed(new, who=login.email)

    async def work(tx: Tx) -> None:
        await logins.lock_unchanged(tx, proof.person)
        await queries.SET_PASSWORD.run(tx, id=login.person_id, password=stored, now=now)
        await logins.end_others(tx, login)
        actor = actor_of(login, "on the page about security")
        await merchants.record_audit(tx, actor, "people password", "", login.person_id, now)

    await db.run(work)
    person = msgspec.structs.replace(proof.person, password=stored)
    return logins.Proof(person, proof.token)


async def change_language(tx: Tx, login: Login, language: Language, now: int) -> None:
    """Set the language in which a person reads mails to them alone."""
    await queries.SET_LANGUAGE.run(tx, id=login.person_id, language=language, now=now)


async def language_of(tx: Tx, who: str) -> Language:
    """Return the language of whom the audit log calls ``who``: English of nobody we know."""
    person = await queries.PERSON.first(tx, id=who.rpartition("(")[2].removesuffix(")"))
    return (None if person is None else person.language) or "en"


async def find_by_id(tx: Tx, person_id: str) -> Person | None:
    """Return a person, None if there is no such."""
    return await queries.PERSON.first(tx, id=person_id)


async def email_of(tx: Tx, person_id: str | None) -> str:
    """Return a person's e-mail address, "" of nobody."""
    person = None if person_id is None else await queries.PERSON.first(tx, id=person_id)
    return "" if person is None else person.email


async def find_by_email(tx: Tx, email: str) -> Person:
    """Return the person with an e-mail address. Raises NotFound."""
    found = await queries.BY_EMAIL.first(tx, email=normal(email))
    return or_not_found(found, f"there is no person {normal(email)}")


async def _member_but_last_owner(tx: Tx, merchant_id: str, person_id: str) -> Member:
    """Return a member whose role may change. Raises NotFound, and Invalid for the last owner."""
    await merchants.lock(tx, merchant_id)  # so that two owners cannot remove each other at once
    member = or_not_found(
        await queries.MEMBER.first(tx, merchant_id=merchant_id, person_id=person_id)
    )
    others = await queries.OTHER_OWNERS.get(tx, merchant_id=merchant_id, person_id=person_id)
    if member.role == "owner" and not others:
        raise Invalid("role", "role must stay owner: a merchant always has one")
    return member
