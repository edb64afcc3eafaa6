"""What the worker does for mail beside sending it: it notes what happened, and removes old rows."""

from typing import Final

from opentill.context import App
from opentill.core.errors import Unavailable
from opentill.db.database import Tx
from opentill.mail import looking, noting, queries, reminding
from opentill.mail.model import KEEP_MS

_BATCH: Final = 500
_OTHERS: Final = (
    noting.audit_log,
    looking.logins,
    looking.for_staff,
    looking.digests,
    reminding.approvals,
    reminding.deadlines,
)


async def note_events(app: App) -> int:
    """Note what happened to payments, disputes and payouts."""
    return await noting.events(app.db, app.settings, app.clock())


async def note_others(app: App) -> int:
    """Note what the audit log has, logins, what staff need, and reminders.

    What fails does not stop the rest: it raises ExceptionGroup after all of them.
    """
    failed: list[Exception] = []
    for note in _OTHERS:
        try:
            await note(app.db, app.settings, app.clock())
        except Unavailable:
            raise  # nothing of the rest can be read, either
        except Exception as error:  # noqa: BLE001 - whatever is wrong with one of them
            failed.append(error)
    if failed:
        message = "not all could be noted for mail"
        raise ExceptionGroup(message, failed)
    return 0  # so that it pauses


async def prune(tx: Tx, now: int) -> int:
    """Delete a batch of what ended long ago, mails and events put aside; return how many."""
    aside = await queries.PRUNE_PUT_ASIDE.run(tx, before=now - KEEP_MS, limit=_BATCH)
    return aside + await queries.PRUNE.run(tx, before=now - KEEP_MS, limit=_BATCH)
