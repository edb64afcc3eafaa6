"""What the worker does for mail beside sending it: it notes what happened, and removes old rows."""

from opentill.context import App
from opentill.db.database import Tx
from opentill.mail import looking, noting, queries, reminding
from opentill.mail.model import KEEP_MS

_BATCH = 500


async def note_events(app: App) -> int:
    """Note what happened to payments, disputes and payouts."""
    return await noting.events(app.db, app.settings, app.clock())


async def note_others(app: App) -> int:
    """Note what the audit log has, logins, what staff need, and reminders."""
    db, settings, now = app.db, app.settings, app.clock()
    await noting.audit_log(db, settings, now)
    await looking.logins(db, settings, now)
    await looking.for_staff(db, settings, now)
    await looking.digests(db, settings, now)
    await reminding.approvals(db, settings, now)
    await reminding.deadlines(db, settings, now)
    return 0  # so that it pauses


async def prune(tx: Tx, now: int) -> int:
    """Delete a batch of what ended long ago, mails and events put aside; return how many."""
    aside = await queries.PRUNE_PUT_ASIDE.run(tx, before=now - KEEP_MS, limit=_BATCH)
    return aside + await queries.PRUNE.run(tx, before=now - KEEP_MS, limit=_BATCH)
