"""Comparing a gateway's settlement report with our books, which changes nothing in them.

Differences go to the inbox where the comparison is recorded. Our items are read once and looked up
in the report; rows that are left of the report are looked up among our items of any status and
time. Neither side is ever in memory as a whole.
"""

from collections.abc import Iterable
from typing import IO, Final

import msgspec

from opentill.core import unzip
from opentill.db.database import Db, Tx
from opentill.merchants import Actor
from opentill.reconciliation import inbox, queries
from opentill.reconciliation.lines import MOST_BYTES, bounded, sha256
from opentill.reconciliation.model import (
    SETTLED,
    TAKEN_AT_ONCE,
    Difference,
    Item,
    Result,
    Row,
    What,
)
from opentill.reconciliation.report import Stage, read

MOST: Final = 10_000  # differences that are returned; the others are counted, and in the inbox
_FOREVER: Final = 2**62
_BATCH: Final = 500


class Recording(msgspec.Struct, frozen=True, kw_only=True):
    """Which file of the inbox a comparison is, and when it is made."""

    file_id: str
    source: str
    now: int


class _Findings:
    """The differences that were found so far, and how many items agreed."""

    def __init__(self, recording: Recording | None = None) -> None:
        self.items = 0
        self.matched = 0
        self.found = 0
        self.kept: list[Difference] = []
        self._recording = recording
        self._new: list[Difference] = []
        self._missing = False  # is anything open that earlier reports had not?
        self._arrived: list[tuple[str, str]] = []

    async def begin(self, db: Db) -> None:
        """Look whether there is anything that earlier reports had not."""
        if self._recording is not None:
            source = self._recording.source
            self._missing = await db.read(lambda tx: inbox.has_missing(tx, source))

    async def record(self, db: Db, at_least: int = _BATCH) -> None:
        """Put what was found into the inbox, once there is so much of it."""
        recording = self._recording
        if recording is None or len(self._new) + len(self._arrived) < at_least:
            return
        new, arrived = self._new, self._arrived
        self._new, self._arrived = [], []

        async def write(tx: Tx) -> None:
            await inbox.add(tx, recording.file_id, recording.source, new, recording.now)
            await inbox.arrived(tx, recording.source, arrived, recording.now)

        await db.run(write)

    def add(self, what: What, row: Row | None, item: Item | None, number: int = 1) -> None:
        """Take in a difference, or the second and so on of one thing that say the same."""
        self.found += 1
        either = item or row
        if either is None:
            raise AssertionError  # a difference is about something
        difference = Difference(
            what=what,
            kind=either.kind,
            reference=row.reference if row else item.id if item else "",
            line=row.line if row else None,
            merchant_id=item.merchant_id if item else "",
            ours=f"{_amount(item)} {item.status}" if item else "",
            theirs=inbox.numbered(_amount(row), number) if row else "",
        )
        if self._recording is not None:
            self._new.append(difference)
        if len(self.kept) < MOST:
            self.kept.append(difference)

    def compare(self, item: Item, rows: list[Row]) -> None:
        """Take in an item of ours and the rows about it, of which there should be one."""
        first, *others = rows
        same = (first.amount_minor, first.currency) == (item.amount_minor, item.currency)
        taken = first.at_once and item.status in TAKEN_AT_ONCE[item.kind]
        if same and (taken or item.status in SETTLED[item.kind]):
            self.matched += 1
            if self._missing:
                self._arrived.append((item.kind, item.id))
        else:
            self.add("different", first, item)
        for number, row in enumerate(others, 1):
            self.add("double in report", row, item, number)


def _amount(thing: Item | Row) -> str:
    return inbox.amount(thing.amount_minor, thing.currency)


async def is_known(tx: Tx, gateway: str) -> bool:
    """Return whether a gateway ever took payments of ours."""
    return bool(await queries.KNOWN.get(tx, gateway=gateway))


async def reconcile(
    db: Db,
    gateway: str,
    lines: Iterable[str],
    *,
    since: int | None = None,
    until: int | None = None,
    whole: bool = False,
    recording: Recording | None = None,
) -> Result:
    """Compare a report with the books, between two times (Unix ms, inclusive).

    Without times they are those of the report's first and last row: nothing outside of them is said
    to be missing. ``whole`` says that the report has everything there is; with ``recording`` the
    differences go to the inbox. Raises Invalid for a file that is not a report, before anything is
    compared.
    """
    with Stage(read(lines)) as stage:
        span = stage.span()
        if span is not None and not whole:
            since = span[0] if since is None else since
            until = span[1] if until is None else until
        times = (0 if since is None else since, _FOREVER if until is None else until)
        findings = _Findings(recording)
        await findings.begin(db)
        async with db.snapshot() as tx:
            await _ours(db, tx, gateway, stage, times, findings)
            await _theirs(db, tx, gateway, stage, times, findings)
        await findings.record(db, at_least=1)
        return Result(
            gateway=gateway,
            file_id=recording.file_id if recording else None,
            since=since,
            until=until,
            rows=stage.count(*times),
            items=findings.items,
            matched=findings.matched,
            found=findings.found,
            differences=findings.kept,
        )


class Report(msgspec.Struct, frozen=True, kw_only=True):
    """A settlement report to compare; the times as ``reconcile`` takes them."""

    gateway: str
    file: IO[bytes]  # which can be read twice
    name: str
    since: int | None = None
    until: int | None = None
    whole: bool = False


async def reconcile_file(db: Db, report: Report, actor: Actor, now: int) -> Result:
    """Compare a report as ``reconcile`` does, and keep its digest and its differences.

    A file that was read before is compared again, and what the inbox has of it stays as it is.
    Raises as ``reconcile`` does.
    """
    with unzip.open_unpacked(report.file, MOST_BYTES) as file:
        return await _reconcile_file(db, msgspec.structs.replace(report, file=file), actor, now)


async def _reconcile_file(db: Db, report: Report, actor: Actor, now: int) -> Result:
    gateway, file = report.gateway, report.file
    with Stage(read(bounded(file))):
        pass  # nothing is recorded of a file that is no report
    digest = sha256(file)
    stored = await db.run(
        lambda tx: inbox.begin(tx, gateway, digest, report.name, actor, now, "reconcile")
    )
    file.seek(0)
    recording = Recording(file_id=stored.id, source=gateway, now=now)
    result = await reconcile(
        db,
        gateway,
        bounded(file),
        since=report.since,
        until=report.until,
        whole=report.whole,
        recording=recording,
    )
    await db.run(
        lambda tx: inbox.finish(tx, stored.id, result.rows, result.matched, result.found, now)
    )
    return result


async def _ours(
    db: Db, tx: Tx, gateway: str, stage: Stage, times: tuple[int, int], findings: _Findings
) -> None:
    settled = [(kind, status) for kind, statuses in SETTLED.items() for status in statuses]
    at_once = stage.takes_at_once()
    if at_once:
        settled += [(kind, status) for kind, found in TAKEN_AT_ONCE.items() for status in found]
    since, until = times
    ours = queries.BETWEEN.each(
        tx,
        gateway=gateway,
        since=since,
        until=until,
        kind=[kind for kind, _ in settled],
        status=[status for _, status in settled],
        at_once=at_once,
    )
    async for item in ours:
        await findings.record(db)
        findings.items += 1
        if rows := stage.take(item.kind, item.references):
            findings.compare(item, rows)
        else:
            findings.add("missing in report", None, item)


async def _theirs(
    db: Db, tx: Tx, gateway: str, stage: Stage, times: tuple[int, int], findings: _Findings
) -> None:
    """Look up the rows that are left: not ours, not settled with us, or of another time."""
    line = 0
    at_once = stage.takes_at_once()
    while batch := stage.rest(*times, line):
        await findings.record(db)
        line = batch[-1].line
        named: dict[tuple[str, str], Item] = {}
        for item in await queries.NAMED.all(
            tx, gateway=gateway, names=[row.reference for row in batch], at_once=at_once
        ):
            for reference in item.references:
                before = named.get((item.kind, reference))
                if before is None or before.status not in SETTLED[item.kind]:
                    named[item.kind, reference] = item
        for row in batch:
            found = named.get((row.kind, row.reference))
            if found is None:
                same = stage.take(row.kind, (row.reference,))
                for number, each in enumerate(same, 1):
                    if times[0] <= each.settled_at <= times[1]:
                        findings.add("missing in ledger", each, None, number)
            else:
                _compare_named(stage, found, findings)


def _compare_named(stage: Stage, item: Item, findings: _Findings) -> None:
    rows = stage.take(item.kind, item.references)
    if rows and _came_back(stage, item, rows):
        findings.matched += 2
    elif rows:
        findings.compare(item, rows)


def _came_back(stage: Stage, item: Item, rows: list[Row]) -> bool:
    """Return whether the report has a refund that failed here, and that its money came back.

    A provider may count a refund when it begins, which is no money of ours before it succeeds.
    """
    if (item.kind, item.status) != ("refund", "FAILED") or len(rows) != 1:
        return False
    (row,) = rows
    same = (row.amount_minor, row.currency) == (item.amount_minor, item.currency)
    if not same or stage.look("refund_failure", item.references) != [
        (row.amount_minor, row.currency)
    ]:
        return False
    stage.take("refund_failure", item.references)
    return True
