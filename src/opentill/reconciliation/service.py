"""Compare a gateway's settlement report with our books, which does not change the books.

If the comparison is recorded, its differences go to the inbox. Our items are read once and looked
up in the report; then the remaining rows of the report are looked up among our items of any status
and time. Neither side is ever completely in memory.
"""

from collections.abc import Iterable
from typing import IO, Final

import msgspec

from opentill.core import unzip
from opentill.db.database import Db, Tx
from opentill.merchants import Actor
from opentill.reconciliation import alipay, inbox, queries
from opentill.reconciliation.lines import MOST_BYTES, bounded, sha256
from opentill.reconciliation.model import (
    SETTLED,
    STATUSES_AFTER_TAKING,
    Difference,
    Discrepancy,
    Item,
    Period,
    ReportOfAnotherAccount,
    ReportWithoutPeriod,
    Result,
    Row,
)
from opentill.reconciliation.report import Stage, read

# At most this many differences are returned. All are counted and put into the inbox.
MOST: Final = 10_000
_FOREVER: Final = 2**62
_BATCH: Final = 500


class Recording(msgspec.Struct, frozen=True, kw_only=True):
    """What the recording of a comparison needs: the inbox file, its source, and the time.

    ``now`` is Unix ms.
    """

    file_id: str
    source: str
    now: int


class _Findings:
    """The differences so far, and the numbers of items and of matching rows."""

    def __init__(self, recording: Recording | None = None) -> None:
        self.items = 0
        self.matched = 0
        self.difference_count = 0
        self.returned: list[Difference] = []
        self._recording = recording
        self._new: list[Difference] = []
        # Whether an item that an earlier report lacked is still an open difference.
        self._has_missing = False
        self._matched_items: list[tuple[str, str]] = []
        # Items that the report has although our books have them after its end.
        self._early: list[Item] = []

    async def begin(self, db: Db) -> None:
        """Read whether the inbox has an open difference about an item missing from a report."""
        if self._recording is not None:
            source = self._recording.source
            self._has_missing = await db.read(lambda tx: inbox.has_missing(tx, source))

    async def record(self, db: Db, at_least: int = _BATCH) -> None:
        """Write to the inbox, once ``at_least`` rows have accumulated."""
        recording = self._recording
        size = len(self._new) + len(self._matched_items) + len(self._early)
        if recording is None or size < at_least:
            return
        new, matched, early = self._new, self._matched_items, self._early
        self._new, self._matched_items, self._early = [], [], []

        async def write(tx: Tx) -> None:
            await inbox.add(tx, recording.file_id, recording.source, new, recording.now)
            await inbox.resolve_missing(tx, recording.source, matched, recording.now)
            await inbox.add_early(tx, recording.file_id, recording.source, early, recording.now)

        await db.run(write)

    def add(
        self, discrepancy: Discrepancy, row: Row | None, item: Item | None, number: int = 1
    ) -> None:
        """Add a difference; ``number`` distinguishes equal rows of the report."""
        self.difference_count += 1
        subject = item or row
        if subject is None:
            raise AssertionError  # every difference has an item, a row or both
        difference = Difference(
            what=discrepancy,
            kind=subject.kind,
            reference=row.reference if row else item.id if item else "",
            line=row.line if row else None,
            merchant_id=item.merchant_id if item else "",
            ours=f"{_amount(item)} {item.status}" if item else "",
            theirs=inbox.numbered(_amount(row), number) if row else "",
        )
        if self._recording is not None:
            self._new.append(difference)
        if len(self.returned) < MOST:
            self.returned.append(difference)

    def note_early(self, item: Item) -> None:
        """Remember that a report has an item that belongs into a later report by our time of it."""
        if self._recording is not None:
            self._early.append(item)

    def compare(self, item: Item, rows: list[Row]) -> None:
        """Compare an item of ours with the rows about it; there should be one row."""
        first, *others = rows
        same = (first.amount_minor, first.currency) == (item.amount_minor, item.currency)
        is_taken = first.at_once and item.status in STATUSES_AFTER_TAKING[item.kind]
        if same and (is_taken or item.status in SETTLED[item.kind]):
            self.matched += 1
            if self._has_missing:
                self._matched_items.append((item.kind, item.id))
        else:
            self.add("different", first, item)
        for number, row in enumerate(others, 1):
            self.add("double in report", row, item, number)


def _amount(subject: Item | Row) -> str:
    return inbox.amount(subject.amount_minor, subject.currency)


async def has_payments(tx: Tx, gateway: str) -> bool:
    """Whether payments were ever attempted through a gateway."""
    return bool(await queries.HAS_PAYMENTS.get(tx, gateway=gateway))


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

    The times default to those that the report states, else to those of its first and last row;
    items outside, or at the moment of such a first or last row, are not reported as missing (see
    ``Period``). ``whole``: the report is complete, so there are no default times. With
    ``recording``, the differences go to the inbox. Raises Invalid for a file that is not a report,
    before anything is compared.
    """
    stated = Period()
    with Stage(read(lines, stated)) as stage:
        span, complete = stage.span(), stage.complete()
        if stated.since is not None:
            span = complete = stated
        if not whole:
            if span.since is None and (since is None or until is None):
                reason = "the report has no rows; say from when to when it is with --from and --to"
                raise ReportWithoutPeriod("file", f"file must have a period: {reason}")
            complete = Period(
                since=complete.since if since is None else since,
                until=complete.until if until is None else until,
            )
            since = span.since if since is None else since
            until = span.until if until is None else until
        else:
            complete = Period(since=since, until=until)
        times = _range(Period(since=since, until=until))
        findings = _Findings(recording)
        await findings.begin(db)
        async with db.snapshot() as tx:
            complete.kinds = stated.kinds
            await _compare_items(db, tx, gateway, stage, times, complete, findings)
            await _compare_remaining_rows(db, tx, gateway, stage, times, findings)
        await findings.record(db, at_least=1)
        return Result(
            gateway=gateway,
            file_id=recording.file_id if recording else None,
            since=since,
            until=until,
            rows=stage.count(*times),
            items=findings.items,
            matched=findings.matched,
            difference_count=findings.difference_count,
            differences=findings.returned,
        )


def _range(period: Period) -> tuple[int, int]:
    return (
        0 if period.since is None else period.since,
        _FOREVER if period.until is None else period.until,
    )


class Report(msgspec.Struct, frozen=True, kw_only=True):
    """A settlement report, and the parameters of ``reconcile``."""

    gateway: str
    file: IO[bytes]  # must be seekable
    name: str
    since: int | None = None
    until: int | None = None
    whole: bool = False
    account: str = ""  # the configured account's number at the provider, "" if it is unknown


async def reconcile_file(db: Db, report: Report, actor: Actor, now: int) -> Result:
    """Compare a report like ``reconcile``, and store its digest and its differences.

    A file that was read before is compared again; its differences in the inbox do not change.
    Raises the exceptions of ``reconcile``.
    """
    with unzip.open_unpacked(report.file, MOST_BYTES, alipay.is_sums) as file:
        return await _reconcile_file(db, msgspec.structs.replace(report, file=file), actor, now)


async def _reconcile_file(db: Db, report: Report, actor: Actor, now: int) -> Result:
    gateway, file = report.gateway, report.file
    encoding = alipay.encoding_of(file)
    stated = Period()
    with Stage(read(bounded(file, encoding), stated)):
        pass  # read the whole file first, so that a file that is no report is not recorded
    if report.account and stated.account not in ("", report.account):
        raise ReportOfAnotherAccount(stated.account, report.account)
    digest = sha256(file)
    stored = await db.run(
        lambda tx: inbox.begin_file(tx, gateway, digest, report.name, actor, now, "reconcile")
    )
    file.seek(0)
    recording = Recording(file_id=stored.id, source=gateway, now=now)
    result = await reconcile(
        db,
        gateway,
        bounded(file, encoding),
        since=report.since,
        until=report.until,
        whole=report.whole,
        recording=recording,
    )
    await db.run(
        lambda tx: inbox.finish_file(
            tx, stored.id, result.rows, result.matched, result.difference_count, now
        )
    )
    return result


async def _compare_items(
    db: Db,
    tx: Tx,
    gateway: str,
    stage: Stage,
    times: tuple[int, int],
    complete: Period,
    findings: _Findings,
) -> None:
    """Look up our items between ``times`` in the report, which has all of those in ``complete``."""
    settled = [(kind, status) for kind, statuses in SETTLED.items() for status in statuses]
    at_once = stage.takes_at_once()
    if at_once:
        settled += [
            (kind, status)
            for kind, statuses in STATUSES_AFTER_TAKING.items()
            for status in statuses
        ]
    since, until = times
    complete_since, complete_until = _range(complete)
    items = queries.BETWEEN.each(
        tx,
        gateway=gateway,
        since=since,
        until=until,
        kind=[kind for kind, _ in settled],
        status=[status for _, status in settled],
        at_once=at_once,
    )
    missing: list[Item] = []
    async for item in items:
        await findings.record(db)
        if rows := stage.take(item.kind, item.references):
            findings.items += 1
            findings.compare(item, rows)
        elif complete_since <= item.at <= complete_until and (
            complete.kinds is None or item.kind in complete.kinds
        ):
            missing.append(item)
            if len(missing) >= _BATCH:
                await _add_missing(db, gateway, missing, findings)
                missing = []
    await _add_missing(db, gateway, missing, findings)


async def _add_missing(db: Db, gateway: str, items: list[Item], findings: _Findings) -> None:
    """Add differences about items that the report lacks, and no earlier report has."""
    names = [(item.kind, item.id) for item in items]
    early = await db.read(lambda tx: inbox.find_early(tx, gateway, names))
    for item in items:
        if (item.kind, item.id) not in early:
            findings.items += 1
            findings.add("missing in report", None, item)


async def _compare_remaining_rows(
    db: Db, tx: Tx, gateway: str, stage: Stage, times: tuple[int, int], findings: _Findings
) -> None:
    """Look up rows without an item: unknown here, not settled here, or settled at another time."""
    line = 0
    at_once = stage.takes_at_once()
    end = stage.end_of_moment(times[1])
    while batch := stage.untaken(*times, line):
        await findings.record(db)
        line = batch[-1].line
        items: dict[tuple[str, str], Item] = {}
        for item in await queries.NAMED.all(
            tx, gateway=gateway, names=[row.reference for row in batch], at_once=at_once
        ):
            for reference in item.references:
                before = items.get((item.kind, reference))
                if before is None or before.status not in SETTLED[item.kind]:
                    items[item.kind, reference] = item
        for row in batch:
            match = items.get((row.kind, row.reference))
            if match is None:
                same = stage.take(row.kind, (row.reference,))
                for number, each in enumerate(same, 1):
                    if times[0] <= each.settled_at <= times[1]:
                        findings.add("missing in ledger", each, None, number)
            else:
                _compare_match(stage, match, findings)
                if match.at > end:
                    findings.note_early(match)


def _compare_match(stage: Stage, item: Item, findings: _Findings) -> None:
    rows = stage.take(item.kind, item.references)
    if rows and _is_refund_that_failed(stage, item, rows):
        findings.matched += 2
    elif rows:
        findings.compare(item, rows)


def _is_refund_that_failed(stage: Stage, item: Item, rows: list[Row]) -> bool:
    """Whether an item is a failed refund, and the report has both the refund and its failure.

    A provider may report a refund when it begins; our books have it only once it has succeeded.
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
