"""The access of a login to a merchant: of its members, and of staff who visit it."""

from opentill import merchants
from opentill.core.errors import NotFound
from opentill.db.database import Db, Tx, storing_nothing
from opentill.merchants import Actor
from opentill.people import queries
from opentill.people.model import Access, Login, LoginWithWorkplaces, Workplace


async def access(db: Db, login: Login, merchant_id: str, now: int) -> Access:
    """Return a login's access to a merchant. Raises NotFound if it has none.

    A closed merchant has no members. The first visit of staff in each login is in the audit log.
    """
    if isinstance(login, LoginWithWorkplaces):
        workplaces = login.decode_workplaces()
    else:
        async with db.connection() as tx:
            workplaces = await queries.WORKPLACES.all(tx, person_id=login.person_id)
    for workplace in workplaces:
        if workplace.merchant_id == merchant_id:
            return Access.of_member(login, workplace, workplaces)
    return await visit(db, login, merchant_id, now, workplaces)


async def visit(
    db: Db, login: Login, merchant_id: str, now: int, workplaces: list[Workplace] | None = None
) -> Access:
    """Return a staff login's access to a merchant, even if the person is also a member.

    The first visit in each login is in the audit log. Raises NotFound.
    """
    if login.staff_role is None:
        raise NotFound
    async with db.connection() as tx:
        merchant = await merchants.find(tx, merchant_id)
    with storing_nothing(is_set=False):  # seeing a page is a visit, also in a rehearsal of its form
        await db.run(lambda tx: _visit(tx, login, merchant_id, now))
    standing = (merchant.status == "SUSPENDED", merchant.charge_off or merchant.payout_off or "")
    zone = merchant.time_zone
    return Access(login, merchant_id, merchant.name, None, workplaces or [], zone, *standing)


async def _visit(tx: Tx, login: Login, merchant_id: str, now: int) -> None:
    if await queries.NOTE_VISIT.get(tx, login_id=login.id, merchant_id=merchant_id, now=now):
        actor = Actor(f"{login.email} ({login.person_id})", f"as staff, {login.staff_role}")
        await merchants.record_audit(tx, actor, "people visit", merchant_id, login.id, now)
