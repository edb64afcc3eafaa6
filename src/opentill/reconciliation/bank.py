"""The bank's report about payouts: what was sent, and what came back.

A line moves a payout only where end-to-end id, amount and currency are those of a payout that
waits, or of one that was PAID and comes back. Every other line goes to the inbox and moves nothing.
Each line is a transaction of its own, so that a report that was cut off goes on when it is read
again. Whoever gives us a report vouches for it: what it would give back to a merchant above the
limit waits for a second person (decision 0141).
"""

from collections import Counter
from collections.abc import Callable
from functools import partial
from itertools import islice
from typing import IO, Final, Literal

import msgspec

from opentill import approvals, merchants, payouts
from opentill.core import money, unzip
from opentill.core.errors import Invalid, NotFound
from opentill.db.database import Db, Tx
from opentill.merchants import Actor
from opentill.payouts import Payout
from opentill.reconciliation import bank_lines, inbox, queries
from opentill.reconciliation.lines import MOST_BYTES, sha256
from opentill.reconciliation.model import (
    BankLine,
    BankResult,
    Difference,
    WaitingLine,
    What,
)

SOURCE: Final = "bank"
_BATCH: Final = 500
_ID_DIGITS: Final = 26
_RETURNED_WITHIN_MS: Final = 90 * 86_400_000  # after a payout was paid
_LIKE_AN_ID: Final = 20  # characters; a shop's own number such as PO-2026-17 has fewer
_LONGEST_REASON: Final = 400  # characters; fewer than an operator may write


async def apply(  # noqa: PLR0913 - a file, whoever reads it, and the rules for them
    db: Db,
    file: IO[bytes],
    name: str,
    actor: Actor,
    now: int,
    most: int = inbox.MOST_LINES,
    *,
    rules: approvals.Rules,
    check_asker: Callable[[], None] | None = None,
) -> BankResult:
    """Read a report and end the payouts that it is about.

    ``file`` can be read twice. The same bytes again change nothing. ``check_asker`` is called
    before a line is stored as a request for a second person, and raises for an actor who cannot
    ask for it; the report goes on from that line when somebody else reads it. Raises Invalid for a
    file that is no report or has more than ``most`` lines, also in a zip archive, before anything
    is changed.
    """
    reader = _Reader(actor, rules, check_asker)
    with unzip.open_unpacked(file, MOST_BYTES) as report:
        return await _apply(db, report, name, reader, now, most)


class _Reader(msgspec.Struct, frozen=True):
    """Whoever reads a report, the rules for what they do alone, and the lines that wait."""

    actor: Actor
    rules: approvals.Rules
    check_asker: Callable[[], None] | None


async def _apply(
    db: Db, file: IO[bytes], name: str, reader: _Reader, now: int, most: int
) -> BankResult:
    actor = reader.actor
    lines = _check(file, most)
    digest = sha256(file)
    stored = await db.run(
        lambda tx: inbox.begin(tx, SOURCE, digest, name, actor, now, "payouts report")
    )
    result = BankResult(
        file_id=stored.id, is_new=stored.status == "OPEN", lines=stored.rows, sent=0, returned=0,
        known=0, found=stored.found, other=stored.rows - stored.matched - stored.found,
        waiting=[],
    )  # fmt: skip
    if stored.status == "DONE":
        waiting = await db.read(approvals.waiting_of_reports)
        lines_of_file = [_waiting_line(one) for one in waiting if _file_of(one) == stored.id]
        return msgspec.structs.replace(result, waiting=lines_of_file)
    counts = {"sent": 0, "returned": 0, "known": 0, "found": 0, "other": 0}
    waiting_lines: list[WaitingLine] = []
    seen: set[tuple[str, str]] = set()
    said = Counter[tuple[str, str]]()  # of the lines that were found
    every = bank_lines.read(file)
    while batch := list(islice(every, _BATCH)):
        # Some banks list the newest booking first: what was sent comes before what came back.
        batch.sort(key=lambda line: line.kind == "returned")
        ids = [_payout_id(line.end_to_end) for line in batch]
        async with db.connection() as tx:
            known = {one.id: one for one in await payouts.named(tx, ids)}
            sums = await _sums_of_payouts(tx, batch, now)
        for line, payout_id in zip(batch, ids, strict=True):
            run_id = "" if payout_id else _run_id(line.payment)
            if run_id:
                booking = _Booking(stored.id, line, run_id, again=(line.kind, run_id) in seen)
                outcomes = await _whole_run(db, booking, reader, now)
                seen.add((line.kind, run_id))
                for outcome, number in outcomes.items():
                    counts[outcome] += number
                continue
            again = (line.kind, payout_id) in seen
            says = _end_to_end(line), _theirs(line)
            found = _Line(
                stored.id, line, known.get(payout_id), again, said[says] + 1,
                concerns_payouts=bool(payout_id) or _may_concern_payouts(line, sums),
            )  # fmt: skip
            what = await db.run(partial(_one, found=found, reader=reader, now=now))
            seen.add((line.kind, payout_id))
            if isinstance(what, WaitingLine):
                waiting_lines.append(what)
                continue
            counts[what] += 1
            if what in {"found", "other"}:
                said[says] += 1
    matched = lines - counts["found"] - counts["other"]
    await db.run(lambda tx: inbox.finish(tx, stored.id, lines, matched, counts["found"], now))
    return BankResult(file_id=stored.id, is_new=True, lines=lines, waiting=waiting_lines, **counts)


def _file_of(request: approvals.WaitingAction) -> str:
    return "" if request.report is None else request.report.file_id


def _waiting_line(request: approvals.WaitingAction, line: int = 0) -> WaitingLine:
    """Return a line that waits; ``line`` 0 is the one that asked for it."""
    asked = line if request.report is None else line or request.report.line
    return WaitingLine(line=asked, payout_id=request.subject, request_id=request.id)


def _check(file: IO[bytes], most: int) -> int:
    """Read all of it once and return how many lines it has: nothing is changed by half a file."""
    number = 0
    for number, _ in enumerate(bank_lines.read(file), 1):
        if number > most:
            raise Invalid("file", f"file must have at most {most} lines")
    return number


def _payout_id(text: str) -> str:
    """Return the payout that an end-to-end id names.

    Some banks give back other signs than letters and digits as a blank, a hyphen or not at all.
    """
    plain = "".join(one for one in text.lower() if one.isascii() and one.isalnum())
    digits = plain.removeprefix("po")
    return f"po_{digits}" if plain != digits and len(digits) == _ID_DIGITS else ""


def _run_id(text: str) -> str:
    """Return the run whose file a payment (PmtInfId) is, "" for none of ours."""
    plain = "".join(letter for letter in text.lower() if letter.isascii() and letter.isalnum())
    digits = plain.removeprefix("run")[:_ID_DIGITS]
    return f"run_{digits}" if plain == f"run{digits}1" and len(digits) == _ID_DIGITS else ""


class _Booking(msgspec.Struct, frozen=True):
    """A line about a run's whole file, and whether the report has had one before."""

    file_id: str
    line: BankLine
    run_id: str
    again: bool


async def _whole_run(db: Db, booking: _Booking, reader: _Reader, now: int) -> Counter[str]:
    """Take in a booking of a run's whole file, and count what it did to the payouts.

    It pays them if number and sum are those of the file; otherwise it waits in the inbox. It counts
    as one line found, however many of its payouts do not fit.
    """
    line, file_id = booking.line, booking.file_id
    refusal = await db.read(lambda tx: _refusal_of_run(tx, line, booking.run_id))
    if refusal is not None:
        what, ours = refusal
        difference = Difference(
            what=what, kind="payout", reference=_printable(line.payment)[:100], line=line.line,
            merchant_id="", ours=ours, theirs=_theirs(line),
        )  # fmt: skip
        await db.run(lambda tx: inbox.add(tx, file_id, SOURCE, [difference], now))
        return Counter(found=1)
    reference = line.bank_reference or line.payment
    outcomes = Counter[str]()
    async for in_run in payouts.in_file_of_run(db, booking.run_id):
        (payout,) = await db.read(partial(payouts.named, payout_ids=[in_run.payout_id]))
        single = msgspec.structs.replace(
            line, end_to_end=payout.id, amount_minor=payout.amount_minor, bank_reference=reference
        )
        part = _Line(file_id, single, payout, again=booking.again, number=1)
        outcome = await db.run(partial(_one, found=part, reader=reader, now=now))
        # A whole file was sent, which gives nothing back: none of it waits for a second person.
        outcomes[str(outcome)] += 1
    outcomes["found"] = min(1, outcomes["found"])
    return outcomes


async def _refusal_of_run(tx: Tx, line: BankLine, run_id: str) -> tuple[What, str] | None:
    """Return why a booking is not that of a run's whole file, and what the file has."""
    try:
        view = await payouts.view_run(tx, run_id)
    except NotFound:
        return "missing in ledger", ""
    run, sums = view.run, view.sums
    agrees = (
        run.status == "SENT"
        and line.kind == "sent"
        and not line.is_reversal
        and (line.amount_minor, line.currency) == (sums.file_minor, run.currency)
        and line.payments in ("", str(sums.in_file))
    )
    if agrees:
        return None
    payments = f"{sums.in_file} payouts, {inbox.amount(sums.file_minor, run.currency)}"
    return "different", f"{payments}, {run.status}"


class _Line(msgspec.Struct, frozen=True):
    """A line of a file, the payout that it names, and whether the file has named it before.

    ``number`` is which of the file's lines it is that say the same, if it is for the inbox.
    ``concerns_payouts``: it may be about a payout, even where none is named.
    """

    file_id: str
    line: BankLine
    payout: Payout | None
    again: bool
    number: int
    concerns_payouts: bool = True


async def _one(tx: Tx, found: _Line, reader: _Reader, now: int) -> str | WaitingLine:
    """Take in a line; return what it was counted as: sent, returned, known, found or other."""
    line, payout, actor = found.line, found.payout, reader.actor
    what = _what(line, payout)
    reference = _reference(line, payout)
    if payout is None and not found.concerns_payouts:
        return await _other(tx, found, now)
    if payout is None or what is not None:
        return await _found(tx, found, payout, what or "missing in ledger", now)
    # Another report may be about the same payout at this moment.
    await merchants.lock(tx, payout.merchant_id)
    current = await payouts.find(tx, payout.merchant_id, payout.id)
    decision = _decide(line, current, reference, again=found.again)
    match decision:
        case "known":
            return decision
        case "pay":
            await payouts.pay(tx, payout.id, reference, actor.reason, actor.who, now)
        case "fail" | "return":
            return await _give_back(tx, found, current, decision, reader, now)
        case _:
            return await _found(tx, found, current, decision, now)
    return line.kind


async def _give_back(
    tx: Tx, found: _Line, payout: Payout, decision: Literal["fail", "return"], reader: _Reader,
    now: int,
) -> str | WaitingLine:  # fmt: skip
    """Give the money of a payout back, or store a request for it above the limit.

    Raises what ``reader.check_asker`` does.
    """
    line = found.line
    asked = approvals.ActionRequest(
        action="payout-failed" if decision == "fail" else "payout-returned",
        merchant_id=payout.merchant_id,
        subject=payout.id,
        actor=Actor(reader.actor.who, _why(line)),
        report=approvals.ReportLine(file_id=found.file_id, line=line.line),
    )
    done = await approvals.perform(tx, asked, reader.rules, now)
    if not isinstance(done, approvals.WaitingAction):
        return line.kind
    if reader.check_asker is not None:
        reader.check_asker()
    if found.again and done.report not in (None, asked.report) and _file_of(done) == found.file_id:
        return await _found(tx, found, payout, "double in report", now)
    return _waiting_line(done, line.line)


def _decide(
    line: BankLine, payout: Payout, reference: str, *, again: bool
) -> Literal["known", "pay", "fail", "return"] | What:
    """Return what a line does to its payout, or what kind of difference it is.

    ``again``: the file has such a line about this payout already.
    """
    if line.kind == "sent":
        # A debit that is a reversal takes a credit back, and sends nothing.
        if payout.status == "PENDING" and not line.is_reversal:
            return "pay"
        # A statement also has the debit of a payout that came back since.
        if payout.bank_reference == reference and not (again or line.is_reversal):
            return "known"
        is_double = payout.status == "PAID" and not line.is_reversal
        return "double in report" if is_double else "different"
    if payout.status != "FAILED":
        return "return" if payout.status == "PAID" else "fail"
    if again:
        return "double in report"
    # A payout that failed otherwise, as an operator knew it, has this credit only now.
    return "known" if _says_the_same(line, payout) else "different"


def _what(line: BankLine, payout: Payout | None) -> What | None:
    if payout is None:
        return "missing in ledger"
    same = (line.amount_minor, line.currency) == (payout.amount_minor, payout.currency)
    return None if same else "different"


def _reference(line: BankLine, payout: Payout | None) -> str:
    """Return the bank's reference, or the payout's id where it gave none."""
    given = _printable(line.bank_reference)[: payouts.LONGEST_BANK_REFERENCE].strip()
    return given or (payout.id if payout else "")


def _says_the_same(line: BankLine, failed: Payout) -> bool:
    """Return whether a credit is the booking that a payout has failed by.

    The payout has the bank's reference in its reason; other reports of the same booking may have
    other words before it.
    """
    named = _named(line)
    return failed.failure_reason.endswith(named) if named else failed.failure_reason == _why(line)


def _why(line: BankLine) -> str:
    """Say why a payout came back, and by which booking if the bank names it."""
    named = _named(line)
    reason = _printable(line.reason) or "the bank gave it back"
    return f"{reason[: _LONGEST_REASON - len(named)].rstrip()}{named}"


def _named(line: BankLine) -> str:
    given = _reference(line, None)
    return f"{payouts.BANK_REFERENCE}{given})" if given else ""


def _printable(text: str) -> str:
    return " ".join("".join(one if one.isprintable() else " " for one in text).split())[
        :_LONGEST_REASON
    ]


def _end_to_end(line: BankLine) -> str:
    return _printable(line.end_to_end)[:100]


def _theirs(line: BankLine) -> str:
    """Write what the bank says of a line."""
    theirs = "no amount"
    if line.amount_minor is not None:
        side = {"sent": "debit", "returned": "credit"}[line.kind]
        theirs = f"{inbox.amount(line.amount_minor, line.currency)} {side}"
    if line.payments:
        theirs = f"{_printable(line.payments)[:15]} payouts, {theirs}"
    reference = _printable(line.bank_reference)
    return f"{theirs}, {reference}" if reference else theirs


async def _sums_of_payouts(tx: Tx, lines: list[BankLine], now: int) -> set[tuple[int, str]]:
    """Return those amounts of these lines that some payout has which may be meant."""
    sums = await queries.SUMS_OF_PAYOUTS.all(
        tx, since=now - _RETURNED_WITHIN_MS,
        amount_minor=[line.amount_minor for line in lines if line.amount_minor is not None],
        currency=[line.currency for line in lines if line.amount_minor is not None],
    )  # fmt: skip
    return {(one.amount_minor, one.currency) for one in sums}


def _may_concern_payouts(line: BankLine, sums: set[tuple[int, str]]) -> bool:
    """Return whether a line that names no payout may be about one.

    That is if it says that money came back, has no amount that can be read, has an id that began as
    one of ours, or the amount of a payout that waits or was paid lately.
    """
    plain = "".join(one for one in line.end_to_end.lower() if one.isascii() and one.isalnum())
    return (
        bool(line.reason)
        or line.is_reversal
        or line.amount_minor is None
        or (plain.startswith("po") and len(plain) >= _LIKE_AN_ID)
        or (line.amount_minor, line.currency) in sums
    )


async def _other(tx: Tx, found: _Line, now: int) -> str:
    """Record a booking that concerns no payout, where nobody has to look at it."""
    what: What = "missing in ledger"
    booking = msgspec.structs.replace(_difference(found, None, what), kind="booking")
    await inbox.add_booking(tx, found.file_id, SOURCE, booking, now)
    return "other"


async def _found(tx: Tx, found: _Line, payout: Payout | None, what: What, now: int) -> str:
    """Put a line into the inbox."""
    await inbox.add(tx, found.file_id, SOURCE, [_difference(found, payout, what)], now)
    return "found"


def _difference(found: _Line, payout: Payout | None, what: What) -> Difference:
    """Return a line as the inbox has it.

    One that names neither a payout nor a booking of the bank is known by its file and its place
    there: another one that reads the same is another booking.
    """
    line = found.line
    reference = _end_to_end(line) or _printable(line.bank_reference)[:100]
    if payout is None and not _printable(line.bank_reference):
        reference = f"{reference} line {line.line} of {found.file_id}".strip()
    ours = ""
    if payout is not None:
        ours = f"{money.show(payout.amount_minor, payout.currency)} {payout.currency}"
        ours = f"{ours} {payout.status}"
    return Difference(
        what=what,
        kind="payout",
        reference=reference,
        line=line.line,
        merchant_id=payout.merchant_id if payout else "",
        ours=ours,
        theirs=inbox.numbered(_theirs(line), found.number),
    )
