"""The operator's staff, their roles and logins. There is always an administrator."""

from opentill import merchants
from opentill.core.errors import Invalid, NotFound, or_not_found
from opentill.db.database import Tx
from opentill.merchants import Actor
from opentill.people import key_scopes, queries
from opentill.people.model import Colleague, Link, Login, Staff
from opentill.people.permissions import StaffRole


async def colleagues(tx: Tx) -> list[Colleague]:
    """Return all staff, by email."""
    return await queries.COLLEAGUES.all(tx)


async def find_staff(tx: Tx, person_id: str) -> Staff:
    """Return a staff member. Raises NotFound."""
    staff = await queries.STAFF.first(tx, person_id=person_id)
    return or_not_found(staff, f"{person_id} is not staff")


async def is_staff(tx: Tx, person_id: str) -> bool:
    """Whether a person is staff."""
    return await queries.STAFF.first(tx, person_id=person_id) is not None


async def logins_of(tx: Tx, person_id: str, now: int) -> list[Login]:
    """Return a person's active logins, the last used first."""
    logins = await queries.LOGINS.all(tx, person_id=person_id)
    return [login for login in logins if not login.has_ended(now)]


async def staff_invitations(tx: Tx, now: int) -> list[Link]:
    """Return unused, unexpired invitations to the staff, oldest first.

    Those that are ``withdrawn`` cannot be accepted.
    """
    return await queries.STAFF_INVITATIONS.all(tx, now=now)


async def withdraw_staff_invitation(tx: Tx, link_id: str, now: int, *, actor: Actor) -> None:
    """Withdraw an invitation to the staff. Raises NotFound."""
    link = or_not_found(await queries.WITHDRAW_OF_STAFF.first(tx, id=link_id))
    subject = f"{link.id} {link.email}"
    await merchants.record_audit(tx, actor, "people withdraw", "", subject, now)


async def change_staff_role(
    tx: Tx, person_id: str, role: StaffRole, now: int, *, actor: Actor
) -> None:
    """Change a staff member's role.

    Raises NotFound, and Invalid for the last administrator.
    """
    staff = await _lock_staff(tx, person_id, stays_admin=role == "admin")
    if staff.role == role:
        return
    await queries.SET_STAFF.run(tx, person_id=person_id, role=role, now=now)
    subject = f"{person_id} {staff.email}, staff: {staff.role} becomes {role}"
    await merchants.record_audit(tx, actor, "people role", "", subject, now)


async def remove_staff(
    tx: Tx, person_id: str, now: int, *, actor: Actor, revoke_keys: bool = False
) -> None:
    """Remove a staff member.

    ``revoke_keys`` also revokes the valid API keys that they created at any merchant.

    Raises NotFound, and Invalid for the last administrator.
    """
    await _lock_staff(tx, person_id, stays_admin=False)
    if not await queries.REMOVE_STAFF.run(tx, person_id=person_id):
        raise NotFound(reason=f"{person_id} is not staff")
    if revoke_keys:
        await key_scopes.revoke_keys_made_by(tx, person_id, now, actor=actor)
    await merchants.record_audit(tx, actor, "people remove", "", f"{person_id}, staff", now)


async def end_logins(tx: Tx, person_id: str, now: int, *, actor: Actor) -> int:
    """End all logins of a staff member and return their number. Raises NotFound."""
    staff = await find_staff(tx, person_id)
    ended = await queries.END_OTHER_LOGINS.run(tx, person_id=person_id, but="")
    subject = f"{person_id} {staff.email}: {ended} logins"
    await merchants.record_audit(tx, actor, "people logout", "", subject, now)
    return ended


async def _lock_staff(tx: Tx, person_id: str, *, stays_admin: bool) -> Staff:
    admins = await queries.LOCK_ADMINS.all(tx)
    staff = await find_staff(tx, person_id)
    if not stays_admin and [admin.person_id for admin in admins] == [person_id]:
        raise Invalid("role", "role must stay admin: there is always one")
    return staff
