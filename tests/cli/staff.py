"""Staff who have logged in on the command line, each with their own file of logins."""

import asyncio
import copy

from opentill import people
from opentill.db.clock import now_ms
from opentill.db.database import Db
from opentill.people import Browser, StaffRole
from support.commands import Commands
from support.people import CHEAP_HASH, PASSWORD, TESTER


class Colleague(Commands):
    """Runs commands as a member of staff."""

    audit_name: str  # the name by which the audit log calls this person
    email: str


def create_staff(
    opentill: Commands, name: str, role: StaffRole = "admin", code: str = ""
) -> Colleague:
    """Create a member of staff and log in with ``opentill login``."""
    client = copy.copy(opentill)
    client.__class__ = Colleague
    assert isinstance(client, Colleague)
    client.environ = {**opentill.environ, "XDG_CONFIG_HOME": str(opentill.directory / name)}
    client.email = f"{name}@example.com"

    async def join() -> str:
        now = now_ms()
        db = await Db.connect(opentill.environ["OPENTILL_DATABASE_URL"], acquire_timeout_s=20)
        try:
            link = await db.run(
                lambda tx: people.invite(tx, client.email, now, staff_role=role, actor=TESTER)
            )
            browser = Browser("127.0.0.1", "Test")
            login = await people.join(
                db, link.token, name.title(), PASSWORD, browser, now, cost=CHEAP_HASH
            )
        finally:
            await db.close()
        return login.person.id

    client.audit_name = f"{client.email} ({asyncio.run(join())})"
    log_in(client, code)
    return client


def log_in(colleague: Colleague, code: str = "") -> None:
    """Log in on the command line."""
    proof = ("--code", code) if code else ()
    words = ("login", "--email", colleague.email, "--password-stdin", *proof)
    colleague.json(*words, stdin=f"{PASSWORD}\n".encode())
