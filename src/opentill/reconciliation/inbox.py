"""The inbox: differences between reports and the books. A person resolves each once, with a reason.

A file is identified by its SHA-256, so the same file is read once. A difference is identified by
its content, so it is stored once however many files have it. A resolved difference does not come
back, unless it was resolved by an adjustment that is rejected. Equal rows of one file are separate
differences, and numbered.
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
    Item,
    NewDifference,
    OpenDifference,
    StoredFile,
)

MOST_LINES: Final = 1_000_000  # a bank's report may have this many lines
_LONGEST_NAME: Final = 200


def amount(minor: int, currency: str) -> str:
    """Write an amount with its currency."""
    # A provider's row of an unknown type may contain any text instead of a currency.
    if currency not in EXPONENTS:
        return f"{minor} {currency}"
    return f"{Decimal(minor).scaleb(-exponent(currency)):f} {currency}"


def numbered(text: str, number: int) -> str:
    """Append to the text of a row its number among equal rows of the file, unless it is 1."""
    return text if number == 1 else f"{text}, no. {number}"


async def begin_file(
    tx: Tx, source: str, sha256: str, name: str, actor: Actor, now: int, action: str
) -> StoredFile:
    """Store a file as OPEN before it is read, or return the stored file with the same bytes.

    ``source`` is the name of a gateway, or ``bank.SOURCE``; ``action`` is the name of this action
    in the audit log. Raises Invalid.
    """
    actor = operator_actions.check_actor(actor.who, actor.reason)
    plain = "".join(letter for letter in name if letter.isprintable())[-_LONGEST_NAME:]
    existing = await queries.FILE_BY_DIGEST.first(tx, source=source, sha256=sha256)
    if existing is not None:
        return existing
    file = await queries.ADD_FILE.first(
        tx, id=new_id("rec"), source=source, sha256=sha256, name=plain, who=actor.who, now=now
    )
    if file is None:  # another process has begun to read the same file meanwhile
        return or_not_found(await queries.FILE_BY_DIGEST.first(tx, source=source, sha256=sha256))
    await merchants.record_audit(tx, actor, action, "", f"{file.id}: {source} {sha256}", now)
    return file


async def finish_file(
    tx: Tx, file_id: str, rows: int, matched: int, difference_count: int, now: int
) -> None:
    """Record that a file was read to its end."""
    await queries.FINISH_FILE.run(
        tx, id=file_id, rows=rows, matched=matched, difference_count=difference_count, now=now
    )


async def list_of_reference(tx: Tx, reference: str, limit: int) -> list[OpenDifference]:
    """Return the differences with a reference, open and resolved ones, newest first."""
    return await queries.OF_REFERENCE.all(tx, reference=reference, limit=limit)


async def add(
    tx: Tx, file_id: str, source: str, differences: Sequence[Difference], now: int
) -> None:
    """Add differences to the inbox. Differences already in it, resolved or not, do not change."""
    rows = [
        NewDifference(
            id=new_id("dif"), what=difference.what, kind=difference.kind,
            reference=difference.reference, line=difference.line,
            merchant_id=difference.merchant_id, ours=difference.ours, theirs=difference.theirs,
        )
        for difference in differences
    ]  # fmt: skip
    await queries.ADD_DIFFERENCES.run(
        tx, **columns(NewDifference, rows), file_id=file_id, source=source, now=now
    )


async def add_booking(tx: Tx, file_id: str, source: str, booking: Difference, now: int) -> None:
    """Record a booking of the bank that concerns no payout, as resolved."""
    await queries.ADD_BOOKING.run(
        tx, id=new_id("dif"), file_id=file_id, source=source, what=booking.what,
        reference=booking.reference, line=booking.line, theirs=booking.theirs, now=now,
        who=OPENTILL.who,
    )  # fmt: skip


async def list_bookings(tx: Tx, limit: int = 100) -> list[OpenDifference]:
    """Return the bank's bookings that concern no payout, newest first."""
    return await queries.BOOKINGS.all(tx, limit=limit)


async def list_differences(
    tx: Tx, source: str | None = None, limit: int = 100, *, resolved: bool = False
) -> list[OpenDifference]:
    """Return the open differences, oldest first; or the ``resolved`` ones, newest first."""
    if resolved:
        return await queries.RESOLVED.all(tx, source=source, limit=limit)
    return await queries.OPENED.all(tx, source=source, limit=limit)


async def find(tx: Tx, difference_id: str) -> OpenDifference:
    """Return a difference. Raises NotFound."""
    difference = await queries.DIFFERENCE.first(tx, id=difference_id)
    return or_not_found(difference, f"there is no difference {difference_id}")


async def list_files(tx: Tx, limit: int = 100) -> list[StoredFile]:
    """Return the files that were read, newest first."""
    return await queries.FILES.all(tx, limit=limit)


async def count_open(tx: Tx) -> int:
    """Count the open differences."""
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
    """Resolve a difference once, with a reason and optionally an adjustment of a balance.

    ``adjust`` is the adjustment; its reference is replaced by the result of ``_reference``. It
    requires ``merchant_id`` if the difference has no merchant. Raises NotFound and Invalid.
    """
    actor = operator_actions.check_actor(actor.who, actor.reason)
    difference = await find(tx, difference_id)
    adjustment = None
    if adjust is not None and difference.resolved_at is None:
        merchant_id = merchant_id or difference.merchant_id
        if not merchant_id:
            raise Invalid("merchant", "merchant must be the one whose balance is adjusted")
        if difference.merchant_id not in {"", merchant_id}:
            reason = f"merchant must be {difference.merchant_id}, whose difference it is"
            raise Invalid("merchant", reason)
        request = msgspec.structs.replace(adjust, reference=_reference(difference))
        adjustment = await adjustments.request(tx, merchant_id, request, above, now)
        if adjustment.status == "REJECTED" or adjustment.created_at != now:
            reason = (
                f"difference must have no adjustment yet: {adjustment.id} has its id as reference"
            )
            raise Invalid("difference", reason)
    resolved = await queries.RESOLVE.first(
        tx, id=difference_id, who=actor.who, resolution=actor.reason, now=now
    )
    if resolved is None:
        difference = await find(tx, difference_id)
        reason = f"difference must be open: {difference.resolved_by} has resolved it"
        raise Invalid("difference", f"{reason} ({difference.resolution})")
    by = f", by {adjustment.id}" if adjustment else ""
    subject = f"{resolved.id}: {resolved.what} {resolved.kind} {resolved.reference}{by}"
    await merchants.record_audit(tx, actor, "reconcile resolve", resolved.merchant_id, subject, now)
    return adjustment


def _reference(difference: OpenDifference) -> str:
    """Return a difference's id, with a number if this is not its first adjustment."""
    number = len(difference.resolutions) + 1
    return difference.id if number == 1 else f"{difference.id}-{number}"


async def reject_adjustment(
    tx: Tx, adjustment_id: str, by: str, reason: str, now: int
) -> Adjustment:
    """Reject a waiting adjustment, and reopen the difference that it resolved.

    Reject adjustments only by this function. Raises NotFound and Invalid.
    """
    adjustment = await adjustments.reject(tx, adjustment_id, by, reason, now)
    difference_id = adjustment.reference.partition("-")[0]
    difference = await queries.DIFFERENCE.first(tx, id=difference_id)
    if difference is None or (difference.resolved_at, _reference(difference)) != (
        adjustment.created_at, adjustment.reference
    ):  # fmt: skip
        return adjustment  # the adjustment had not resolved a difference
    actor = operator_actions.check_actor(by, reason)
    earlier = EarlierResolution(
        at=adjustment.created_at,
        by=difference.resolved_by or "",
        resolution=difference.resolution or "",
        adjustment_id=adjustment.id,
        rejected_at=adjustment.decided_at or now,
        rejected_by=actor.who,
        why=actor.reason,
    )
    reopened = await queries.REOPEN.one(
        tx, id=difference.id, resolved_at=adjustment.created_at,
        earlier=msgspec.json.encode([*difference.resolutions, earlier]).decode(),
    )  # fmt: skip
    subject = (
        f"{reopened.id}: {reopened.what} {reopened.kind} {reopened.reference},"
        f" {adjustment.id} was rejected"
    )
    await merchants.record_audit(tx, actor, "reconcile reopen", reopened.merchant_id, subject, now)
    return adjustment


async def has_missing(tx: Tx, source: str) -> bool:
    """Whether the inbox has an open difference about an item missing from a gateway's reports."""
    return bool(await queries.HAS_MISSING.get(tx, source=source))


async def resolve_missing(tx: Tx, source: str, items: Sequence[tuple[str, str]], now: int) -> None:
    """Resolve the differences about missing items (kind, id) that a report has by now."""
    await queries.RESOLVE_MISSING.run(
        tx, source=source, kind=[kind for kind, _ in items], reference=[id_ for _, id_ in items],
        who=OPENTILL.who, now=now,
    )  # fmt: skip


async def add_early(tx: Tx, file_id: str, source: str, items: Sequence[Item], now: int) -> None:
    """Remember items that a report has although they happened after its end by our books.

    A provider books a payment of midnight on the day before the one on which we learn of it.
    """
    await queries.ADD_EARLY.run(
        tx,
        id=[new_id("dif") for _ in items],
        kind=[item.kind for item in items],
        reference=[item.id for item in items],
        merchant_id=[item.merchant_id for item in items],
        ours=[f"{amount(item.amount_minor, item.currency)} {item.status}" for item in items],
        file_id=file_id, source=source, who=OPENTILL.who, now=now,
    )  # fmt: skip


async def find_early(tx: Tx, source: str, items: Sequence[tuple[str, str]]) -> set[tuple[str, str]]:
    """Return those of the items (kind, id) that ``add_early`` has remembered."""
    names = await queries.FIND_EARLY.all(
        tx, source=source, kind=[kind for kind, _ in items], reference=[id_ for _, id_ in items]
    )
    return {(name.kind, name.reference) for name in names}
