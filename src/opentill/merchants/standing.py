"""A merchant's standing: its status, and which capabilities are off (decision 0082).

The status changes by the table ``model.TRANSITIONS``. A capability is off because the status takes
it away (``model.TAKEN``) or because it was switched off by itself; what was switched off stays off
when a suspension ends. Each change is a line of the merchant's history, never changed, and an entry
of the audit log, in one transaction with what it says.
"""

from typing import Any, Final, NamedTuple

import msgspec

from opentill.core import structs
from opentill.core.errors import Invalid, or_not_found
from opentill.db.database import Tx
from opentill.db.query import Statement
from opentill.merchants import audit, queries, terms
from opentill.merchants.audit import Actor
from opentill.merchants.model import (
    BY_EVENT,
    CAPABILITIES,
    TAKEN,
    Capability,
    Event,
    Merchant,
    MerchantChange,
    Status,
    StatusEvent,
)
from opentill.merchants.operator_actions import words

_NOTES: Final = 2000
# What the audit log calls an event: the name of its command.
_ACTIONS: Final[dict[Event, str]] = {
    "created": "merchants create",
    "applied": "merchants apply",
    "approved": "merchants approve",
    "declined": "merchants decline",
    "suspended": "merchants suspend",
    "resumed": "merchants resume",
    "closed": "merchants close",
    "capability_on": "merchants capability",
    "capability_off": "merchants capability",
    "noted": "merchants note",
}


class _Standing(msgspec.Struct, frozen=True):
    """What a change writes."""

    id: str
    status: Status
    charge_off: str | None
    refund_off: str | None
    payout_off: str | None
    updated_at: int


class _Line(NamedTuple):
    """What is about to be a line of a history."""

    event: Event
    actor: Actor
    notes: str = ""
    capability: Capability | None = None


async def create(
    tx: Tx,
    *,
    name: str,
    now: int,
    settlement_currency: str = "USD",
    fee_changes: tuple[str, ...] = (),
    who: str = "opentill",
    reason: str = "merchant created",
    **values: Any,
) -> Merchant:
    """Make an ACTIVE merchant; ``values`` are fields of ``Terms`` that are not as by default.

    ``fee_changes`` are rows of the fee schedule as ``fees.changed`` takes them. Raises Invalid.
    """
    merchant = terms.draft(name, settlement_currency, now, fee_changes, **values)
    return await make(tx, merchant, "created", Actor(who, reason), now)


async def make(
    tx: Tx, draft: Merchant, event: StatusEvent, actor: Actor, now: int, why: str = ""
) -> Merchant:
    """Make a merchant by the first event of its life; ``why``: of what its status takes away."""
    transition = BY_EVENT[event]
    made = _with(draft, transition.target, why, {}, now)
    await terms.insert(tx, made, actor, _ACTIONS[event], now)
    await _write(tx, made, None, _Line(event, actor), now)
    return made


async def take(
    tx: Tx, merchant_id: str, event: StatusEvent, actor: Actor, now: int, *, notes: str = ""
) -> Merchant:
    """Take a transition of a merchant's status, for every request that comes after the commit.

    ``actor.reason`` is what the merchant reads, ``notes`` only staff do. Raises NotFound, and
    Invalid on ``merchant``, ``reason`` and ``notes``.
    """
    actor, notes = _checked(actor, notes)
    old = await _locked(tx, merchant_id)
    transition = BY_EVENT[event]
    if old.status != transition.source:
        reason = f"merchant must be {transition.source} to be {event}: this one is {old.status}"
        raise Invalid("merchant", reason)
    switches = await switched_off(tx, merchant_id)
    new = _with(old, transition.target, actor.reason, switches, now)
    return await _set(tx, old, new, _Line(event, actor, notes), now)


async def set_capability(
    tx: Tx,
    merchant_id: str,
    capability: Capability,
    *,
    on: bool,
    actor: Actor,
    now: int,
    notes: str = "",
) -> Merchant:
    """Switch a capability on or off, by itself; off again has another reason.

    What the status takes away stays off. Raises NotFound, and Invalid on ``merchant``,
    ``capability``, ``reason`` and ``notes``.
    """
    actor, notes = _checked(actor, notes)
    old = await _locked(tx, merchant_id)
    if old.status not in {"ACTIVE", "SUSPENDED"}:
        reason = f"merchant must be ACTIVE or SUSPENDED: this one is {old.status}"
        raise Invalid("merchant", reason)
    switches = await switched_off(tx, merchant_id)
    if on and capability not in switches:
        taken = " by itself: resume the merchant" if old.off(capability) else ": it is on"
        raise Invalid("capability", f"capability must be one that is off{taken}")
    switches.pop(capability, None)
    if not on:
        switches[capability] = actor.reason
    why = old.charge_off or ""  # the status takes it, if it takes anything
    new = _with(old, old.status, why, switches, now)
    event: Event = "capability_on" if on else "capability_off"
    return await _set(tx, old, new, _Line(event, actor, notes, capability), now)


async def note(tx: Tx, merchant_id: str, notes: str, actor: Actor, now: int) -> MerchantChange:
    """Add a note that only staff read. Raises NotFound, and Invalid on ``notes``."""
    kept = _notes(notes)
    if not kept:
        raise Invalid("notes", "notes must be text")
    old = await _locked(tx, merchant_id)
    made = await _write(tx, old, old.status, _Line("noted", actor, kept), now)
    subject = f"note {made.number}"
    await audit.record(tx, actor, _ACTIONS["noted"], merchant_id, subject, now)
    return made


async def changes(tx: Tx, merchant_id: str, limit: int = 200) -> list[MerchantChange]:
    """Return the lines of a merchant's history, newest first. Raises NotFound."""
    found = await queries.BY_ID.first(tx, merchant_id=merchant_id)
    or_not_found(found, f"there is no merchant {merchant_id}")
    return await queries.HISTORY.all(tx, merchant_id=merchant_id, limit=limit)


async def require(tx: Tx, merchant_id: str, capability: Capability) -> Merchant:
    """Return a merchant whose capability is on, and stays so until the end of ``tx``.

    Raises NotFound and CapabilityOff.
    """
    if Statement.distributes:
        await queries.HOLD_STANDING.get(tx, merchant_id=merchant_id)
    found = await queries.HELD.first(tx, merchant_id=merchant_id)
    merchant = or_not_found(found, f"there is no merchant {merchant_id}")
    merchant.require(capability)
    return merchant


async def switched_off(tx: Tx, merchant_id: str) -> dict[Capability, str]:
    """Return which capabilities are switched off by themselves, and why."""
    last = await queries.STANDING.all(tx, merchant_id=merchant_id, capability=CAPABILITIES)
    return {
        one.capability: one.reason
        for one in last
        if one.capability is not None and one.event == "capability_off"
    }


async def closed_at(tx: Tx, merchant_id: str) -> int | None:
    """Return when a merchant was closed, Unix ms; None for one that was not."""
    return await queries.CLOSED_AT.get(tx, merchant_id=merchant_id)


def _checked(actor: Actor, notes: str) -> tuple[Actor, str]:
    """Check who changes a standing, why, and what they note. Raises Invalid."""
    return Actor(words("by", actor.who), words("reason", actor.reason)), _notes(notes)


def _notes(text: str) -> str:
    """Trim notes, which may have several lines. Raises Invalid on ``notes``."""
    trimmed = "\n".join(line.rstrip() for line in text.strip().splitlines())
    lines = trimmed.replace("\n", "")
    if len(trimmed) > _NOTES or not (lines.isprintable() or not lines):
        raise Invalid("notes", f"notes must be text of at most {_NOTES} printable characters")
    return trimmed


async def _locked(tx: Tx, merchant_id: str) -> Merchant:
    """Lock a merchant against everything that its standing is about. Raises NotFound."""
    if Statement.distributes:
        await queries.LOCK_STANDING.get(tx, merchant_id=merchant_id)
    found = await queries.LOCKED_WHOLE.first(tx, merchant_id=merchant_id)
    return or_not_found(found, f"there is no merchant {merchant_id}")


def _with(
    old: Merchant, status: Status, why: str, switches: dict[Capability, str], now: int
) -> Merchant:
    """Return a merchant of another standing; ``why`` is the reason of what the status takes."""
    off = {f"{one}_off": why if one in TAKEN[status] else switches.get(one) for one in CAPABILITIES}
    return msgspec.structs.replace(old, status=status, updated_at=now, **off)


async def _set(tx: Tx, old: Merchant, new: Merchant, line: _Line, now: int) -> Merchant:
    await queries.SET_STANDING.run(tx, structs.convert(new, _Standing))
    await _write(tx, new, old.status, line, now)
    what = f"{line.capability}: " if line.capability else ""
    off = ", ".join(one for one in CAPABILITIES if new.off(one)) or "nothing"
    subject = f"{what}{old.status} → {new.status}, off: {off}"
    await audit.record(tx, line.actor, _ACTIONS[line.event], new.id, subject, now)
    return new


async def _write(
    tx: Tx, merchant: Merchant, before: Status | None, line: _Line, now: int
) -> MerchantChange:
    return await queries.NOTE_CHANGE.one(
        tx,
        merchant_id=merchant.id,
        at=now,
        event=line.event,
        from_status=before,
        to_status=merchant.status,
        capability=line.capability,
        who=line.actor.who,
        reason="" if line.event == "noted" else line.actor.reason,
        notes=line.notes,
    )
