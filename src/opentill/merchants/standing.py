"""A merchant's standing: its status and the capabilities that are off (decision 0082).

The status changes by ``model.TRANSITIONS``. A capability is off because the status disables it
(``model.DISABLED_CAPABILITIES``) or because it was switched off individually; then it remains off
when a suspension ends. Each change adds an immutable entry to the merchant's history and one to the
audit log, in the same transaction.
"""

from typing import Any, Final, NamedTuple

import msgspec

from opentill.core import structs
from opentill.core.errors import Invalid, or_not_found
from opentill.db.database import Tx
from opentill.merchants import audit, queries, terms
from opentill.merchants.audit import Actor
from opentill.merchants.model import (
    BY_EVENT,
    CAPABILITIES,
    DISABLED_CAPABILITIES,
    Capability,
    Event,
    Merchant,
    MerchantChange,
    Status,
    StatusEvent,
)
from opentill.merchants.operator_actions import check_text

_NOTES: Final = 2000
# Event → its action in the audit log, which is the name of the command that causes the event.
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
    """The columns of a merchant that a change of the standing writes."""

    id: str
    status: Status
    charge_off: str | None
    refund_off: str | None
    payout_off: str | None
    updated_at: int


class _Line(NamedTuple):
    """A new entry of a merchant's history."""

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
    """Create an ACTIVE merchant; ``values`` are fields of ``Terms`` that differ from the default.

    ``fee_changes`` are rows in the form of ``fee_schedule.apply_changes``. Raises Invalid.
    """
    merchant = terms.draft(name, settlement_currency, now, fee_changes, **values)
    return await create_from_draft(tx, merchant, "created", Actor(who, reason), now)


async def create_from_draft(
    tx: Tx, draft: Merchant, event: StatusEvent, actor: Actor, now: int, why: str = ""
) -> Merchant:
    """Store a draft, whose first event is ``event``.

    ``why`` is the reason for the capabilities that its status disables.
    """
    transition = BY_EVENT[event]
    merchant = _with_standing(draft, transition.target, why, {}, now)
    await terms.insert(tx, merchant, actor, _ACTIONS[event], now)
    await _write(tx, merchant, None, _Line(event, actor), now)
    return merchant


async def change_status(
    tx: Tx, merchant_id: str, event: StatusEvent, actor: Actor, now: int, *, notes: str = ""
) -> Merchant:
    """Take a transition of a merchant's status, effective for requests after the commit.

    The merchant reads ``actor.reason``; only staff read ``notes``. Raises NotFound, and Invalid on
    ``merchant``, ``reason`` and ``notes``.
    """
    actor, notes = _check_input(actor, notes)
    old = await _lock(tx, merchant_id)
    transition = BY_EVENT[event]
    if old.status != transition.source:
        reason = f"merchant must be {transition.source} to be {event}: this one is {old.status}"
        raise Invalid("merchant", reason)
    switches = await switched_off(tx, merchant_id)
    new = _with_standing(old, transition.target, actor.reason, switches, now)
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
    """Switch an individual capability on or off; switching it off again replaces the reason.

    A capability that the status disables remains off. Raises NotFound, and Invalid on
    ``merchant``, ``capability``, ``reason`` and ``notes``.
    """
    actor, notes = _check_input(actor, notes)
    old = await _lock(tx, merchant_id)
    if old.status not in {"ACTIVE", "SUSPENDED"}:
        reason = f"merchant must be ACTIVE or SUSPENDED: this one is {old.status}"
        raise Invalid("merchant", reason)
    switches = await switched_off(tx, merchant_id)
    if on and capability not in switches:
        hint = " by itself: resume the merchant" if old.off(capability) else ": it is on"
        raise Invalid("capability", f"capability must be one that is off{hint}")
    switches.pop(capability, None)
    if not on:
        switches[capability] = actor.reason
    why = old.charge_off or ""  # why the merchant is SUSPENDED; has no effect on an ACTIVE merchant
    new = _with_standing(old, old.status, why, switches, now)
    event: Event = "capability_on" if on else "capability_off"
    return await _set(tx, old, new, _Line(event, actor, notes, capability), now)


async def add_note(tx: Tx, merchant_id: str, notes: str, actor: Actor, now: int) -> MerchantChange:
    """Add a note that only staff read. Raises NotFound, and Invalid on ``notes``."""
    text = _notes(notes)
    if not text:
        raise Invalid("notes", "notes must be text")
    old = await _lock(tx, merchant_id)
    entry = await _write(tx, old, old.status, _Line("noted", actor, text), now)
    subject = f"note {entry.number}"
    await audit.record(tx, actor, _ACTIONS["noted"], merchant_id, subject, now)
    return entry


async def status_history(tx: Tx, merchant_id: str, limit: int = 200) -> list[MerchantChange]:
    """Return a merchant's history, newest first. Raises NotFound."""
    merchant = await queries.BY_ID.first(tx, merchant_id=merchant_id)
    or_not_found(merchant, f"there is no merchant {merchant_id}")
    return await queries.HISTORY.all(tx, merchant_id=merchant_id, limit=limit)


async def require(tx: Tx, merchant_id: str, capability: Capability) -> Merchant:
    """Return a merchant whose capability is on, and keep it on until the end of ``tx``.

    Raises NotFound and CapabilityOff.
    """
    row = await queries.FIND_SHARED.first(tx, merchant_id=merchant_id)
    merchant = or_not_found(row, f"there is no merchant {merchant_id}")
    merchant.require(capability)
    return merchant


async def switched_off(tx: Tx, merchant_id: str) -> dict[Capability, str]:
    """Return the capabilities that are switched off individually, with the reasons."""
    entries = await queries.STANDING.all(tx, merchant_id=merchant_id, capability=CAPABILITIES)
    return {
        entry.capability: entry.reason
        for entry in entries
        if entry.capability is not None and entry.event == "capability_off"
    }


async def closed_at(tx: Tx, merchant_id: str) -> int | None:
    """Return when a merchant was closed (Unix ms), None if it was not."""
    return await queries.CLOSED_AT.get(tx, merchant_id=merchant_id)


def _check_input(actor: Actor, notes: str) -> tuple[Actor, str]:
    """Check the actor and notes of a change. Raises Invalid."""
    return Actor(check_text("by", actor.who), check_text("reason", actor.reason)), _notes(notes)


def _notes(text: str) -> str:
    """Trim notes, which may have several lines. Raises Invalid on ``notes``."""
    trimmed = "\n".join(line.rstrip() for line in text.strip().splitlines())
    lines = trimmed.replace("\n", "")
    if len(trimmed) > _NOTES or not (lines.isprintable() or not lines):
        raise Invalid("notes", f"notes must be text of at most {_NOTES} printable characters")
    return trimmed


async def _lock(tx: Tx, merchant_id: str) -> Merchant:
    """Lock a merchant against transactions that rely on its standing. Raises NotFound."""
    merchant = await queries.LOCK_FOR_UPDATE.first(tx, merchant_id=merchant_id)
    return or_not_found(merchant, f"there is no merchant {merchant_id}")


def _with_standing(
    old: Merchant, status: Status, why: str, switches: dict[Capability, str], now: int
) -> Merchant:
    """Return the merchant with another standing.

    ``why`` is the reason for the capabilities that the status disables, ``switches`` are the
    reasons for those that are switched off individually.
    """
    off = {
        f"{capability}_off": why
        if capability in DISABLED_CAPABILITIES[status]
        else switches.get(capability)
        for capability in CAPABILITIES
    }
    return msgspec.structs.replace(old, status=status, updated_at=now, **off)


async def _set(tx: Tx, old: Merchant, new: Merchant, line: _Line, now: int) -> Merchant:
    await queries.SET_STANDING.run(tx, structs.convert(new, _Standing))
    await _write(tx, new, old.status, line, now)
    prefix = f"{line.capability}: " if line.capability else ""
    off = ", ".join(name for name in CAPABILITIES if new.off(name)) or "nothing"
    subject = f"{prefix}{old.status} → {new.status}, off: {off}"
    await audit.record(tx, line.actor, _ACTIONS[line.event], new.id, subject, now)
    return new


async def _write(
    tx: Tx, merchant: Merchant, before: Status | None, line: _Line, now: int
) -> MerchantChange:
    return await queries.INSERT_CHANGE.one(
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
