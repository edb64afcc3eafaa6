"""The audit log of operators' actions, as a tamper-evident hash chain.

Each row's hash is the SHA-256 of the previous hash and the row; ``audit_head`` has the last number
and hash. Changing, removing or inserting a row in the database breaks the chain there. Rewriting
all later rows and the head is not detectable from the database alone: copy a number and hash from
``opentill audit verify`` to another place, and pass them to it later (``--expect``).
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
# Matches the id at the end of ``a@b.org (per_1a2)``.
_PERSON: Final = re.compile(r"\((per_[0-9a-z]+)\)$", re.ASCII)
_FIRST: Final = hashlib.sha256(b"opentill audit log").hexdigest()


class Actor(msgspec.Struct, frozen=True):
    """Who performs an audited action, and why."""

    who: str
    reason: str

    @property
    def person_id(self) -> str | None:
        """The person's id, None if the actor is no person."""
        match = _PERSON.search(self.who)
        return match and match[1]


OPENTILL: Final = Actor("opentill", "by OpenTill itself")


class Break(msgspec.Struct, frozen=True):
    """A break of the chain: the row and the kind of manipulation."""

    number: int | None
    id: str | None
    finding: Finding
    detail: str


class Verdict(msgspec.Struct, frozen=True):
    """The result of verifying the chain, which is intact if ``breaks`` is empty."""

    rows: int
    head: AuditHead | None
    breaks: list[Break]


def link(before: str, row: AuditRow) -> str:
    """Return the hash of a row; ``before`` is the hash of the row before it, in hexadecimal.

    After that hash, the fields of ``AuditRow`` except its hash are hashed in order: each as UTF-8
    text preceded by its length in four bytes, so that different rows have different bytes.
    """
    sha256 = hashlib.sha256(bytes.fromhex(before))
    for field in AuditRow.__struct_fields__[:-1]:
        text = str(getattr(row, field)).encode()
        sha256.update(struct.pack(">I", len(text)) + text)
    return sha256.hexdigest()


async def record(
    tx: Tx, actor: Actor, action: str, merchant_id: str, subject: str, now: int
) -> None:
    """Append an action to the audit log; ``subject`` describes its object without secrets.

    Locks the head of the chain until the transaction ends, which serializes operators' actions.
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
    """Lock the head of the chain like ``record``, for callers that then lock other rows."""
    await queries.LOCK_AUDIT_HEAD.one(tx)


async def newest(tx: Tx, merchant_id: str | None = None, limit: int = 100) -> list[AuditRow]:
    """Return the latest rows, of a merchant or all, newest first."""
    return await queries.NEWEST_AUDIT.all(tx, merchant_id=merchant_id, limit=limit)


class AuditQuery(msgspec.Struct, frozen=True, kw_only=True):
    """A search of the audit log; times are inclusive Unix ms."""

    text: str = ""  # is searched in who, action, subject and reason
    action: str = ""
    merchant_id: str = ""
    since: int = 0
    until: int = 2**62
    before: int = 2**62  # return only rows with a smaller number


async def search(tx: Tx, audit_query: AuditQuery, limit: int) -> list[AuditRow]:
    """Return rows of the chain, newest first."""
    return await queries.SEARCH_AUDIT.all(tx, audit_query, like=like(audit_query.text), limit=limit)


async def verify(tx: Tx, expected: AuditHead | None = None) -> Verdict:
    """Read the chain and report every row that was altered, removed or inserted.

    ``tx`` must be a transaction with one snapshot. ``expected`` is an earlier head that the chain
    must contain. Uses constant memory.
    """
    head = await queries.AUDIT_HEAD.first(tx)
    chain = _Chain(head, expected)
    await chain.follow(queries.AUDIT_CHAIN.each(tx))
    chain.end()
    return Verdict(chain.rows, head, chain.breaks)


class _Chain:
    """The state of verifying the audit log's chain of hashes, row by row."""

    def __init__(self, head: AuditHead | None, expected: AuditHead | None) -> None:
        self.breaks: list[Break] = []
        self.rows = 0
        self._head = head
        self._expected = expected
        self._number = 0
        self._hash = _FIRST
        self._is_contiguous = True  # whether ``_hash`` belongs to the row right before the next one

    def _add_break(
        self, number: int | None, row_id: str | None, finding: Finding, why: str
    ) -> None:
        self.breaks.append(Break(number, row_id, finding, why))

    async def follow(self, rows: AsyncIterator[AuditRow]) -> None:
        async for row in rows:
            self.rows += 1
            if row.number is None or row.hash is None:
                self._add_break(row.number, row.id, "inserted", "it was written past the chain")
            elif row.number <= self._number:
                self._add_break(row.number, row.id, "inserted", "another row has its number")
            elif self._head is not None and row.number > self._head.number:
                why = f"the head of the chain ends at {self._head.number}"
                self._add_break(row.number, row.id, "inserted", why)
            else:
                self._check_gap(row.number - 1)
                self._check(row, row.number, row.hash)

    def _check_gap(self, last: int) -> None:
        first = self._number + 1
        if first <= last:
            rows = f"row {first} is" if first == last else f"rows {first} to {last} are"
            self._add_break(first, None, "removed", f"{rows} not there")
            self._is_contiguous = False

    def _check(self, row: AuditRow, number: int, row_hash: str) -> None:
        # If the previous row was removed, its hash is unknown, so this row cannot be checked.
        if self._is_contiguous and link(self._hash, row) != row_hash:
            why = "its hash does not follow from it and the row before"
            self._add_break(number, row.id, "altered", why)
        expected = self._expected
        if expected is not None and number == expected.number and row_hash != expected.hash:
            self._add_break(number, row.id, "altered", "its hash is not the expected one")
        self._number, self._hash, self._is_contiguous = number, row_hash, True

    def end(self) -> None:
        head, expected = self._head, self._expected
        if head is None:
            self._add_break(None, None, "removed", "the head of the chain is not there")
        elif head.number > self._number:
            self._check_gap(head.number)
        elif head.hash != self._hash:
            why = "the head of the chain has another hash of it"
            self._add_break(self._number, None, "altered", why)
        if expected is not None and expected.number > max(self._number, head.number if head else 0):
            self._add_break(expected.number, None, "removed", "it was expected")
