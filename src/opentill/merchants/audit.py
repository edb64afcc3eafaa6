"""The audit log: what operators did, as a chain of hashes that shows any change of it.

Each row's hash is SHA-256 over the hash before it and all of the row; ``audit_head`` holds the last
number and hash. Somebody who can write to the database can change, remove or insert rows, but then
the chain breaks at that place. Rewriting every later row and the head too goes unnoticed: against
that, keep elsewhere a number and hash that ``opentill audit verify`` printed, and pass them to it
later (``--expect``).
"""

import hashlib
import re
import struct
from collections.abc import AsyncIterator
from typing import Final, Literal

import msgspec

from opentill.core.errors import Invalid
from opentill.core.ids import new_id
from opentill.db.database import Tx
from opentill.db.query import like
from opentill.merchants import queries
from opentill.merchants.model import AuditHead, AuditRow

Finding = Literal["altered", "removed", "inserted"]
_PERSON: Final = re.compile(r"\((per_[0-9a-z]+)\)$", re.ASCII)  # as ``people.named`` writes it
_FIRST: Final = hashlib.sha256(b"opentill audit log").hexdigest()


class Actor(msgspec.Struct, frozen=True):
    """Who changes something that the audit log records, and why."""

    who: str
    reason: str

    @property
    def person_id(self) -> str | None:
        """The id of the person, None of what no person has done."""
        named = _PERSON.search(self.who)
        return named and named[1]


OPENTILL: Final = Actor("opentill", "by OpenTill itself")


class Break(msgspec.Struct, frozen=True):
    """A place where the chain breaks: which row, and what happened to it."""

    number: int | None
    id: str | None
    finding: Finding
    detail: str


class Verdict(msgspec.Struct, frozen=True):
    """What verifying the chain found; nothing is wrong if ``breaks`` is empty."""

    rows: int
    head: AuditHead | None
    breaks: list[Break]


def link(before: str, row: AuditRow) -> str:
    """Return the hash of a row that follows the hash ``before``.

    The row's bytes are its fields in the order of ``AuditRow``, but for the hash: each as text in
    UTF-8 after its length in four bytes, so that no two rows have the same bytes.
    """
    sha256 = hashlib.sha256(bytes.fromhex(before))
    for field in AuditRow.__struct_fields__[:-1]:
        text = str(getattr(row, field)).encode()
        sha256.update(struct.pack(">I", len(text)) + text)
    return sha256.hexdigest()


async def record(
    tx: Tx, actor: Actor, action: str, merchant_id: str, subject: str, now: int
) -> None:
    """Write to the audit log what an actor did to ``subject``, which names it without secrets.

    Locks the head of the chain until the transaction ends: operators act one after the other.
    Raises Invalid without a reason.
    """
    if not actor.reason.strip():
        raise Invalid("reason", "reason must say why, in a few words")
    head = await queries.LOCK_AUDIT_HEAD.one(tx)
    row = AuditRow(
        number=head.number + 1,
        id=new_id("aud"),
        at=now,
        who=actor.who,
        action=action,
        merchant_id=merchant_id,
        subject=subject,
        reason=actor.reason.strip(),
        hash=None,
    )
    await queries.INSERT_AUDIT.run(tx, msgspec.structs.replace(row, hash=link(head.hash, row)))


async def lock_log(tx: Tx) -> None:
    """Lock the head of the chain, as ``record`` does, for what locks an order before it records."""
    await queries.LOCK_AUDIT_HEAD.one(tx)


async def newest(tx: Tx, merchant_id: str | None = None, limit: int = 100) -> list[AuditRow]:
    """Return the latest rows, newest first; of one merchant if given."""
    return await queries.NEWEST_AUDIT.all(tx, merchant_id=merchant_id, limit=limit)


class Sought(msgspec.Struct, frozen=True, kw_only=True):
    """Which rows of the audit log are looked for; times are inclusive Unix ms."""

    text: str = ""  # in who, action, subject or reason
    merchant_id: str = ""
    since: int = 0
    until: int = 2**62
    before: int = 2**62  # a number of the chain


async def search(tx: Tx, sought: Sought, limit: int) -> list[AuditRow]:
    """Return rows of the chain, newest first."""
    return await queries.SEARCH_AUDIT.all(tx, sought, like=like(sought.text), limit=limit)


async def verify(tx: Tx, expected: AuditHead | None = None) -> Verdict:
    """Read the whole chain and name every row that was altered, removed or inserted.

    ``tx`` sees the database of one moment and is inside a transaction. ``expected`` is a place that
    the chain must pass through, noted earlier. Constant memory.
    """
    head = await queries.AUDIT_HEAD.first(tx)
    chain = _Chain(head, expected)
    await chain.follow(queries.AUDIT_CHAIN.each(tx))
    chain.end()
    return Verdict(chain.rows, head, chain.breaks)


class _Chain:
    """One pass over the chain."""

    def __init__(self, head: AuditHead | None, expected: AuditHead | None) -> None:
        self.breaks: list[Break] = []
        self.rows = 0
        self._head = head
        self._expected = expected
        self._number = 0
        self._hash = _FIRST
        self._whole = True  # the hash before the next row is known

    def _found(self, number: int | None, row_id: str | None, finding: Finding, why: str) -> None:
        self.breaks.append(Break(number, row_id, finding, why))

    async def follow(self, rows: AsyncIterator[AuditRow]) -> None:
        async for row in rows:
            self.rows += 1
            if row.number is None or row.hash is None:
                self._found(row.number, row.id, "inserted", "it was written past the chain")
            elif row.number <= self._number:
                self._found(row.number, row.id, "inserted", "another row has its number")
            elif self._head is not None and row.number > self._head.number:
                why = f"the head of the chain ends at {self._head.number}"
                self._found(row.number, row.id, "inserted", why)
            else:
                self._missing(row.number - 1)
                self._check(row, row.number, row.hash)

    def _missing(self, last: int) -> None:
        first = self._number + 1
        if first <= last:
            rows = f"row {first} is" if first == last else f"rows {first} to {last} are"
            self._found(first, None, "removed", f"{rows} not there")
            self._whole = False

    def _check(self, row: AuditRow, number: int, found: str) -> None:
        # After a removed row the hash before is not known, so that only what follows is checked.
        if self._whole and link(self._hash, row) != found:
            why = "its hash does not follow from it and the row before"
            self._found(number, row.id, "altered", why)
        expected = self._expected
        if expected is not None and number == expected.number and found != expected.hash:
            self._found(number, row.id, "altered", "its hash is not the expected one")
        self._number, self._hash, self._whole = number, found, True

    def end(self) -> None:
        head, expected = self._head, self._expected
        if head is None:
            self._found(None, None, "removed", "the head of the chain is not there")
        elif head.number > self._number:
            self._missing(head.number)
        elif head.hash != self._hash:
            why = "the head of the chain has another hash of it"
            self._found(self._number, None, "altered", why)
        if expected is not None and expected.number > max(self._number, head.number if head else 0):
            self._found(expected.number, None, "removed", "it was expected")
