"""The inbox: what reports say and the books do not, each resolved once by somebody with a reason.

A file is known by its SHA-256, so that the same one is read once. A difference is known by what it
says, so that it is there once however many files have it; one that was resolved does not come back,
unless by an adjustment that somebody has rejected. Rows of one file that say the same are several,
and numbered.
"""

from collections.abc import Sequence
from decimal import Decimal
from typing import Final

import msgspec

from opentill import adjustments, merchants
from opentill.adjustments import Adjustment, AdjustmentRequest
from opentill.core.errors import Invalid, or_not_found
from opentill.core.ids import new_id
from opentill.core.money import EXPONENTS, exponent
from opentill.db.database import Tx
from opentill.db.query import columns
from opentill.merchants import OPENTILL, Actor, operator_actions
from opentill.reconciliation import queries
from opentill.reconciliation.model import (
    Difference,
    EarlierResolution,
    NewDifference,
    OpenDifference,
    StoredFile,
)

MOST_LINES: Final = 1_000_000  # of a bank's report
_LONGEST_NAME: Final = 200


def amount(minor: int, currency: str) -> str:
    """Write an amount with its currency."""
    if currency not in EXPONENTS:  # as a provider names it in a row of an unknown type
        return f"{minor} {currency}"
    return f"{Decimal(minor).scaleb(-exponent(currency)):f} {currency}"


def numbered(text: str, number: int) -> str:
    """Write what a report says with which of the rows it is that say the same in one file."""
    return text if number == 1 else f"{text}, no. {number}"


async def begin(
    tx: Tx, source: str, sha256: str, name: str, actor: Actor, now: int, action: str
) -> StoredFile:
    """Note that a file is being read, or return the one that has the same bytes.

    ``action`` is how the audit log calls it. Raises Invalid.
    """
    actor = operator_actions.check_actor(actor.who, actor.reason)
    plain = "".join(one for one in name if one.isprintable())[-_LONGEST_NAME:]
    known = await queries.FILE_OF.first(tx, source=source, sha256=sha256)
    if known is not None:
        return known
    made = await queries.ADD_FILE.first(
        tx, id=new_id("rec"), source=source, sha256=sha256, name=plain, who=actor.who, now=now
    )
    if made is None:  # somebody reads the same file at the same time
        return or_not_found(await queries.FILE_OF.first(tx, source=source, sha256=sha256))
    await merchants.record_audit(tx, actor, action, "", f"{made.id}: {source} {sha256}", now)
    return made


async def finish(tx: Tx, file_id: str, rows: int, matched: int, found: int, now: int) -> None:
    """Note that a file was read to its end."""
    await queries.FINISH_FILE.run(tx, id=file_id, rows=rows, matched=matched, found=found, now=now)


async def add(
    tx: Tx, file_id: str, source: str, differences: Sequence[Difference], now: int
) -> None:
    """Put differences into the inbox; those that were there ever stay as they are."""
    rows = [
        NewDifference(
            id=new_id("dif"), what=one.what, kind=one.kind, reference=one.reference, line=one.line,
            merchant_id=one.merchant_id, ours=one.ours, theirs=one.theirs,
        )
        for one in differences
    ]  # fmt: skip
    await queries.ADD_DIFFERENCES.run(
        tx, **columns(NewDifference, rows), file_id=file_id, source=source, now=now
    )


async def add_booking(tx: Tx, file_id: str, source: str, booking: Difference, now: int) -> None:
    """Record a booking of the bank that concerns nothing here: nobody has to resolve it."""
    await queries.ADD_BOOKING.run(
        tx, id=new_id("dif"), file_id=file_id, source=source, what=booking.what,
        reference=booking.reference, line=booking.line, theirs=booking.theirs, now=now,
        who=OPENTILL.who,
    )  # fmt: skip


async def bookings(tx: Tx, limit: int = 100) -> list[OpenDifference]:
    """Return the bank's bookings that concern no payout, newest first."""
    return await queries.BOOKINGS.all(tx, limit=limit)


async def opened(
    tx: Tx, source: str | None = None, limit: int = 100, *, resolved: bool = False
) -> list[OpenDifference]:
    """Return differences, the oldest open ones first; ``resolved``: the newest resolved ones."""
    if resolved:
        return await queries.RESOLVED.all(tx, source=source, limit=limit)
    return await queries.OPENED.all(tx, source=source, limit=limit)


async def find(tx: Tx, difference_id: str) -> OpenDifference:
    """Return a difference. Raises NotFound."""
    found = await queries.DIFFERENCE.first(tx, id=difference_id)
    return or_not_found(found, f"there is no difference {difference_id}")


async def files(tx: Tx, limit: int = 100) -> list[StoredFile]:
    """Return the files that were read, newest first."""
    return await queries.FILES.all(tx, limit=limit)


async def count_open(tx: Tx) -> int:
    """Return how many differences wait for somebody; the table has no more open ones than that."""
    return await queries.COUNT_OPEN.get(tx) or 0


async def resolve(
    tx: Tx,
    difference_id: str,
    actor: Actor,
    now: int,
    adjust: AdjustmentRequest | None = None,
    merchant_id: str = "",
    above: Decimal | None = None,
) -> Adjustment | None:
    """Resolve a difference once, with a reason; perhaps by an adjustment of a balance.

    ``adjust`` says what moves; its reference becomes the difference's id, with a number after an
    adjustment that was rejected. ``merchant_id`` is whose balance, where the difference does not
    say. Raises NotFound and Invalid.
    """
    actor = operator_actions.check_actor(actor.who, actor.reason)
    seen = await find(tx, difference_id)
    made = None
    if adjust is not None and seen.resolved_at is None:
        whose = merchant_id or seen.merchant_id
        if not whose:
            raise Invalid("merchant", "merchant must be the one whose balance is adjusted")
        if seen.merchant_id and whose != seen.merchant_id:
            raise Invalid(
                "merchant", f"merchant must be {seen.merchant_id}, whose difference it is"
            )
        reference = _reference(seen)
        wanted = msgspec.structs.replace(adjust, reference=reference)
        made = await adjustments.request(tx, whose, wanted, above, now)
        if made.status == "REJECTED" or made.created_at != now:
            reason = f"difference must have no adjustment yet: {made.id} has its id as reference"
            raise Invalid("difference", reason)
    done = await queries.RESOLVE.first(
        tx, id=difference_id, who=actor.who, resolution=actor.reason, now=now
    )
    if done is None:
        seen = await find(tx, difference_id)
        reason = f"difference must be open: {seen.resolved_by} has resolved it ({seen.resolution})"
        raise Invalid("difference", reason)
    by = f", by {made.id}" if made else ""
    subject = f"{done.id}: {done.what} {done.kind} {done.reference}{by}"
    await merchants.record_audit(tx, actor, "reconcile resolve", done.merchant_id, subject, now)
    return made


def _reference(seen: OpenDifference) -> str:
    """Name the adjustment that is to resolve a difference: each of them once."""
    number = len(seen.resolutions) + 1
    return seen.id if number == 1 else f"{seen.id}-{number}"


async def reject_adjustment(
    tx: Tx, adjustment_id: str, by: str, reason: str, now: int
) -> Adjustment:
    """Reject an adjustment that waits, and open the difference again that it has resolved.

    Everybody who rejects does it here. Raises NotFound and Invalid.
    """
    made = await adjustments.reject(tx, adjustment_id, by, reason, now)
    difference_id = made.reference.partition("-")[0]
    seen = await queries.DIFFERENCE.first(tx, id=difference_id)
    if seen is None or (seen.resolved_at, _reference(seen)) != (made.created_at, made.reference):
        return made  # it was about something else
    actor = operator_actions.check_actor(by, reason)
    earlier = EarlierResolution(
        at=made.created_at,
        by=seen.resolved_by or "",
        resolution=seen.resolution or "",
        adjustment_id=made.id,
        rejected_at=made.decided_at or now,
        rejected_by=actor.who,
        why=actor.reason,
    )
    again = await queries.REOPEN.one(
        tx, id=seen.id, resolved_at=made.created_at,
        earlier=msgspec.json.encode([*seen.resolutions, earlier]).decode(),
    )  # fmt: skip
    subject = f"{again.id}: {again.what} {again.kind} {again.reference}, {made.id} was rejected"
    await merchants.record_audit(tx, actor, "reconcile reopen", again.merchant_id, subject, now)
    return made


async def has_missing(tx: Tx, source: str) -> bool:
    """Return whether anything is open because a gateway's report had it not."""
    return bool(await queries.HAS_MISSING.get(tx, source=source))


async def arrived(tx: Tx, source: str, items: Sequence[tuple[str, str]], now: int) -> None:
    """Resolve what of these a report had not, by kind and id: a later one has it."""
    await queries.ARRIVED.run(
        tx, source=source, kind=[kind for kind, _ in items], reference=[id_ for _, id_ in items],
        who=OPENTILL.who, now=now,
    )  # fmt: skip
