"""Invitations, roles and changes of passwords."""

from typing import NamedTuple

import asyncpg
import msgspec

from opentill import merchants
from opentill.core.errors import Invalid, NotFound, or_not_found
from opentill.core.ids import new_id
from opentill.core.languages import Language
from opentill.db.database import Db, Tx
from opentill.http import inputs
from opentill.merchants import Actor, Key
from opentill.people import key_scopes, logins, lost_factors, passwords, queries
from opentill.people.lifetimes import LINK_MS
from opentill.people.logins import NewLogin, normalize_email
from opentill.people.model import (
    LONGEST_NAME,
    Browser,
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
from opentill.people.second_factor import lock_for_change


class _Place(NamedTuple):
    """The role that an invitation gives: at a merchant or among the staff."""

    merchant_id: str | None = None
    role: MerchantRole | None = None
    staff_role: StaffRole | None = None


async def invite(  # noqa: PLR0913 - the recipient, the role and who sees the link
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

    Replaces earlier invitations of the same person to the same place. Raises NotFound, and
    Invalid for an invalid address or somebody who is a member already.
    """
    address = normalize_email(inputs.check_email("email", email))
    if merchant_id is not None:
        await merchants.find(tx, merchant_id)
        person = await queries.BY_EMAIL.first(tx, email=address)
        if person is not None and await queries.MEMBER.first(
            tx, merchant_id=merchant_id, person_id=person.id
        ):
            raise Invalid("email", "email must be of somebody who is not a member already")
    elif any(staff.email == address for staff in await queries.ALL_STAFF.all(tx)):
        raise Invalid("email", "email must be of somebody who is not staff already")
    place = _Place(merchant_id, role, staff_role)
    new_link = await _new_link(tx, "INVITATION", address, actor, now, shown_to, place)
    subject = f"{new_link.link.id} {address} as {role or f'staff, {staff_role}'}"
    await merchants.record_audit(tx, actor, "people invite", merchant_id or "", subject, now)
    return new_link


async def offer_new_password(
    tx: Tx, email: str, now: int, *, actor: Actor, shown_to: ShownTo = "operator"
) -> NewLink:
    """Create the link by which a person chooses a new password. Raises NotFound."""
    address = normalize_email(email)
    person = or_not_found(
        await queries.BY_EMAIL.first(tx, email=address), f"there is no person {address}"
    )
    new_link = await _new_link(tx, "RESET", address, actor, now, shown_to)
    await merchants.record_audit(tx, actor, "people reset", "", person.id, now)
    return new_link


async def offer_requested_password(tx: Tx, email: str, now: int, *, actor: Actor) -> NewLink | None:
    """Create the link that an anonymous visitor requested for an address. Raises NotFound.

    A valid link that staff have created is not replaced: then None is returned.
    """
    offered = await queries.OPEN_RESET.first(tx, email=normalize_email(email))
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
    """Return a valid link, and its recipient if they have an account. Raises NotFound."""
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
    """Accept an invitation as a new person, and log in.

    An unconfirmed account is reset (``accept_after_reset``). Raises Invalid, and NotFound if the
    link is invalid or its recipient must log in and ``accept``. The form is validated before the
    account is looked up, so that the error does not disclose whether there is one.
    """
    async with db.connection() as tx:
        link, person = await read_link(tx, token, now)
        if link.kind != "INVITATION":
            raise NotFound
        name = inputs.check_name("name", name, LONGEST_NAME)
        passwords.check("password", password, link.email, name)
        if person is not None and not await _can_reset_by_link(tx, link, person):
            raise NotFound
    if person is not None:
        return await accept_after_reset(db, token, name, password, browser, now, cost=cost)
    password_hash = await passwords.hash_password(password, cost, who=link.email)

    async def work(tx: Tx) -> NewLogin:
        person = await _create(tx, link, name, password_hash, browser.language, now)
        await _use_invitation(tx, link, token, person, now)
        return await logins.begin(tx, person, browser, now, by_link=_allows_first_factor(link))

    try:
        return await db.run(work)
    # The form was submitted twice, and the other submission was faster.
    except asyncpg.UniqueViolationError:
        raise NotFound from None


async def accept(tx: Tx, token: str, login: Login, now: int) -> None:
    """Accept an invitation as a logged-in person with a confirmed account.

    Raises NotFound if it is not addressed to them.
    """
    link, person = await read_link(tx, token, now)
    if link.kind != "INVITATION" or person is None or person.id != login.person_id:
        raise NotFound
    if not person.confirmed:
        raise NotFound
    await _use_invitation(tx, link, token, person, now)
    if _allows_first_factor(link):
        await queries.SET_BY_LINK.run(tx, id=login.id)


def _allows_first_factor(link: Link) -> bool:
    """Whether following a link allows staff to set up their first second factor.

    A link that a member of a merchant has seen does not: a member who knows a staff member's
    password could invite them and follow the link.
    """
    return link.shown_to != "member"


async def accept_after_reset(  # noqa: PLR0913 - the fields of the form and its sender
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
    """Accept an invitation as a person with an unconfirmed account: reset it and log in.

    Somebody else may have used the link by which the account was created, to prepare the account.
    Therefore every way into the account ends: password, authenticator, recovery codes, passkeys,
    logins with their tokens, and links to a new password. A link that a member of a merchant has
    seen does not suffice, nor does any link for a staff account: these also need a ``login`` of
    the person. Raises Invalid and NotFound.
    """
    async with db.connection() as tx:
        link, person = await read_link(tx, token, now)
    if link.kind != "INVITATION" or person is None:
        raise NotFound
    name = inputs.check_name("name", name, LONGEST_NAME)
    passwords.check("password", password, link.email, name)
    password_hash = await passwords.hash_password(password, cost, who=link.email)
    person_id = person.id

    async def work(tx: Tx) -> NewLogin:
        locked = or_not_found(await queries.LOCKED.first(tx, id=person_id))
        if locked.confirmed:
            raise NotFound
        if login is not None:
            await lock_for_change(tx, login)
        elif not await _can_reset_by_link(tx, link, locked):
            raise NotFound
        actor = Actor(named(locked.email, person_id), f"invited by {link.created_by}")
        await _use_invitation(tx, link, token, locked, now)
        confirmed = link.shown_to == "nobody"
        await queries.SET_ANEW.run(
            tx, id=person_id, name=name, password=password_hash, confirmed=confirmed, now=now
        )
        await lost_factors.end_factors(tx, person_id, now)
        await lost_factors.end_open(tx, locked, now, actor=actor)
        await queries.WITHDRAW_RESETS.run(tx, email=locked.email)
        await merchants.record_audit(tx, actor, "people set anew", "", person_id, now)
        by_link = _allows_first_factor(link) or (login is not None and login.by_link)
        current = msgspec.structs.replace(locked, password=password_hash)
        return await logins.begin(tx, current, browser, now, by_link=by_link)

    if login is not None and login.person_id != person_id:
        raise NotFound
    return await db.run(work)


async def _can_reset_by_link(tx: Tx, link: Link, person: Person) -> bool:
    """Whether a link without a login suffices to reset a person's account."""
    if person.confirmed or link.shown_to == "member":
        return False
    return await queries.STAFF.first(tx, person_id=person.id) is None


async def _use_invitation(tx: Tx, link: Link, token: str, person: Person, now: int) -> None:
    await _give_role(tx, await use_link(tx, link, token, now), person, now)


async def use_link(tx: Tx, link: Link, token: str, now: int) -> Link:
    """Consume a link, after any concurrent removal of its creator. Raises NotFound."""
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
    """Return a merchant's members, the longest-standing first."""
    return await queries.MEMBERS.all(tx, merchant_id=merchant_id)


async def all_members_and_staff(tx: Tx) -> tuple[list[Member], list[Staff]]:
    """Return all members of all merchants, and all staff."""
    return await queries.ALL_MEMBERS.all(tx), await queries.ALL_STAFF.all(tx)


async def invitations(tx: Tx, merchant_id: str, now: int) -> list[Link]:
    """Return a merchant's unused, unexpired invitations, oldest first.

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
    """Remove a member of a merchant; ``revoke_keys`` also revokes the API keys they created.

    Raises NotFound, and Invalid for the last owner.
    """
    member = await _lock_member(tx, merchant_id, person_id, stays_owner=False)
    if revoke_keys:
        await key_scopes.revoke_keys_made_by(tx, person_id, now, merchant_id, actor=actor)
    await queries.REMOVE_MEMBER.run(tx, merchant_id=merchant_id, person_id=person_id)
    subject = f"{person_id} {member.email}, {member.role}"
    await merchants.record_audit(tx, actor, "people remove", merchant_id, subject, now)
    return member


async def change_role(
    tx: Tx,
    merchant_id: str,
    person_id: str,
    role: MerchantRole,
    now: int,
    *,
    actor: Actor,
    revoke_keys: bool = False,
) -> list[Key]:
    """Change a member's role; return their valid API keys that may do more than the new role.

    ``revoke_keys`` also revokes these keys. Raises NotFound, and Invalid for the last owner.
    """
    member = await _lock_member(tx, merchant_id, person_id, stays_owner=role == "owner")
    if member.role == role:
        return []
    keys = await key_scopes.keys_beyond_role(tx, merchant_id, person_id, role, now)
    if revoke_keys:
        await key_scopes.revoke(tx, keys, now, actor=actor)
    await queries.SET_ROLE.run(tx, merchant_id=merchant_id, person_id=person_id, role=role)
    subject = f"{person_id} {member.email}, {member.role} becomes {role}"
    await merchants.record_audit(tx, actor, "people role", merchant_id, subject, now)
    return keys


async def change_email(tx: Tx, email: str, new_email: str, now: int, *, actor: Actor) -> Person:
    """Change the address with which a member logs in; both addresses get a mail.

    Raises NotFound, and Invalid for an invalid address, one of somebody else, and for staff, whose
    address decides who may reset an administrator.
    """
    person = await find_by_email(tx, email)
    address = normalize_email(inputs.check_email("new_email", new_email))
    if address == person.email:
        return person
    if await queries.STAFF.first(tx, person_id=person.id) is not None:
        raise Invalid("email", "email must be of no staff: remove them, and invite the new address")
    if await queries.BY_EMAIL.first(tx, email=address) is not None:
        raise Invalid("new_email", "new email must be of nobody who has an account already")
    await queries.SET_EMAIL.run(tx, id=person.id, email=address, now=now)
    subject = f"{person.id} {person.email} → {address}"
    await merchants.record_audit(tx, actor, "people email", "", subject, now)
    return msgspec.structs.replace(person, email=address)


async def withdraw(tx: Tx, merchant_id: str, link_id: str, now: int, *, actor: Actor) -> None:
    """Withdraw an invitation to a merchant. Raises NotFound."""
    link = or_not_found(await queries.WITHDRAW.first(tx, merchant_id=merchant_id, id=link_id))
    subject = f"{link.id} {link.email}"
    await merchants.record_audit(tx, actor, "people withdraw", merchant_id, subject, now)


async def language_of(tx: Tx, who: str) -> Language:
    """Return the language of the person named ``who`` in the audit log, English by default."""
    person = await queries.PERSON.first(tx, id=who.rpartition("(")[2].removesuffix(")"))
    return (None if person is None else person.language) or "en"


async def find_by_id(tx: Tx, person_id: str) -> Person | None:
    """Return a person, None if there is none."""
    return await queries.PERSON.first(tx, id=person_id)


async def email_of(tx: Tx, person_id: str | None) -> str:
    """Return a person's email address, "" if there is no such person."""
    person = None if person_id is None else await queries.PERSON.first(tx, id=person_id)
    return "" if person is None else person.email


async def find_by_email(tx: Tx, email: str) -> Person:
    """Return the person with an email address. Raises NotFound."""
    address = normalize_email(email)
    person = await queries.BY_EMAIL.first(tx, email=address)
    return or_not_found(person, f"there is no person {address}")


async def _lock_member(tx: Tx, merchant_id: str, person_id: str, *, stays_owner: bool) -> Member:
    """Lock the merchant, so that two owners cannot remove each other, and return a member.

    Raises NotFound, and Invalid for the last owner unless ``stays_owner``.
    """
    await merchants.lock(tx, merchant_id)
    member = or_not_found(
        await queries.MEMBER.first(tx, merchant_id=merchant_id, person_id=person_id)
    )
    if member.role != "owner" or stays_owner:
        return member
    if not await queries.OTHER_OWNERS.get(tx, merchant_id=merchant_id, person_id=person_id):
        raise Invalid("role", "role must stay owner: a merchant always has one")
    return member
