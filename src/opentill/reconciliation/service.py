"""Comparing a gateway's settlement report with our books; nothing is changed.

Our items are read once and looked up in the report; rows that are left of the report are looked up
among our items of any status and time. Neither side is ever in memory as a whole.
"""

from collections.abc import Iterable
from decimal import Decimal
from typing import Final

from opentill.core.money import exponent
from opentill.db.database import Db, Tx
from opentill.reconciliation import queries
from opentill.reconciliation.model import SETTLED, Difference, Item, Result, Row, What
from opentill.reconciliation.report import Stage, read

MOST: Final = 10_000  # differences that are kept; the others are counted
_FOREVER: Final = 2**62


class _Findings:
    """The differences that were found so far, and how many items agreed."""

    def __init__(self) -> None:
        self.items = 0
        self.matched = 0
        self.found = 0
        self.kept: list[Difference] = []

    def add(self, what: What, row: Row | None, item: Item | None) -> None:
        self.found += 1
        if len(self.kept) >= MOST:
            return
        either = item or row
        if either is None:
            raise AssertionError  # a difference is about something
        self.kept.append(
            Difference(
                what=what,
                kind=either.kind,
                reference=row.reference if row else item.id if item else "",
                line=row.line if row else None,
                merchant_id=item.merchant_id if item else "",
                ours=f"{_amount(item)} {item.status}" if item else "",
                theirs=_amount(row) if row else "",
            )
        )

    def compare(self, item: Item, rows: list[Row]) -> None:
        """Take in an item of ours and the rows about it, of which there should be one."""
        first, *others = rows
        same = (first.amount_minor, first.currency) == (item.amount_minor, item.currency)
        if same and item.status in SETTLED[item.kind]:
            self.matched += 1
        else:
            self.add("different", first, item)
        for row in others:
            self.add("double in report", row, item)


def _amount(thing: Item | Row) -> str:
    amount = Decimal(thing.amount_minor).scaleb(-exponent(thing.currency))
    return f"{amount:f} {thing.currency}"


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
) -> Result:
    """Compare a report with the books, between two times (Unix ms, inclusive).

    Without times they are those of the report's first and last row: nothing outside of them is said
    to be missing. ``whole`` says that the report has everything there is. Raises Invalid for a file
    that is not a report, before anything is compared.
    """
    with Stage(read(lines)) as stage:
        span = stage.span()
        if span is not None and not whole:
            since = span[0] if since is None else since
            until = span[1] if until is None else until
        times = (0 if since is None else since, _FOREVER if until is None else until)
        findings = _Findings()
        async with db.snapshot() as tx:
            await _ours(tx, gateway, stage, times, findings)
            await _theirs(tx, gateway, stage, times, findings)
        return Result(
            gateway=gateway,
            since=since,
            until=until,
            rows=stage.count(*times),
            items=findings.items,
            matched=findings.matched,
            found=findings.found,
            differences=findings.kept,
        )


async def _ours(
    tx: Tx, gateway: str, stage: Stage, times: tuple[int, int], findings: _Findings
) -> None:
    settled = [(kind, status) for kind, statuses in SETTLED.items() for status in statuses]
    since, until = times
    ours = queries.BETWEEN.each(
        tx,
        gateway=gateway,
        since=since,
        until=until,
        kind=[kind for kind, _ in settled],
        status=[status for _, status in settled],
    )
    async for item in ours:
        findings.items += 1
        if rows := stage.take(item.kind, item.references):
            findings.compare(item, rows)
        else:
            findings.add("missing in report", None, item)


async def _theirs(
    tx: Tx, gateway: str, stage: Stage, times: tuple[int, int], findings: _Findings
) -> None:
    """Look up the rows that are left: not ours, not settled with us, or of another time."""
    line = 0
    while batch := stage.rest(*times, line):
        line = batch[-1].line
        named: dict[tuple[str, str], Item] = {}
        for item in await queries.NAMED.all(
            tx, gateway=gateway, names=[row.reference for row in batch]
        ):
            for reference in item.references:
                before = named.get((item.kind, reference))
                if before is None or before.status not in SETTLED[item.kind]:
                    named[item.kind, reference] = item
        for row in batch:
            found = named.get((row.kind, row.reference))
            if found is None:
                findings.add("missing in ledger", row, None)
            elif rows := stage.take(found.kind, found.references):
                findings.compare(found, rows)
