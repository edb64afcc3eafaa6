"""The bank's report about payouts: transfers that were sent, and transfers that came back.

A line ends a payout only if its end-to-end id, amount and currency are those of a payout that is
PENDING, or of a PAID one whose money came back. Every other line goes to the inbox and moves
nothing. Each line is a transaction of its own, so an interrupted report continues when it is read
again. The person who uploads a report vouches for it: returns above the limit wait for a second
person (decision 0141).
"""

from collections import Counter
from collections.abc import Callable
from functools import partial
from itertools import islice
from typing import IO, Final, Literal, cast

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
    Discrepancy,
    WaitingLine,
)

SOURCE: Final = "bank"
_BATCH: Final = 500
_ID_DIGITS: Final = 26
_RETURNED_WITHIN_MS: Final = 90 * 86_400_000  # after this time, the bank returns no payout
_MIN_ID_LENGTH: Final = 20  # a payout's id has this many characters, but PO-2026-17 has fewer
_LONGEST_REASON: Final = 400  # a reason in a report is cut to this many characters
# The effect of a line. BankResult has a field of each name, which counts these lines.
_Effect = Literal["sent", "returned", "repeated", "in_inbox", "unrelated"]


async def apply(  # noqa: PLR0913 - a file, its uploader, and the rules for them
    db: Db,
    file: IO[bytes],
    name: str,
    actor: Actor,
    now: int,
    most: int = inbox.MOST_LINES,
    *,
    rules: approvals.Rules,
    check_requester: Callable[[], None] | None = None,
) -> BankResult:
    """Read a report and end the payouts that it names. The same bytes again change nothing.

    ``file`` must be seekable. ``check_requester`` is called before a request for a second person is
    stored, and raises an error for an actor who must not make it; another person can then continue
    the report. Raises Invalid, before anything is changed, for a file that is no report or has more
    than ``most`` lines, also in a zip archive.
    """
    uploader = _Uploader(actor, rules, check_requester)
    with unzip.open_unpacked(file, MOST_BYTES) as report:
        return await _apply(db, report, name, uploader, now, most)


class _Uploader(msgspec.Struct, frozen=True):
    """The person who reads a report, and the rules for what they may do alone."""

    actor: Actor
    rules: approvals.Rules
    check_requester: Callable[[], None] | None


async def _apply(
    db: Db, file: IO[bytes], name: str, uploader: _Uploader, now: int, most: int
) -> BankResult:
    actor = uploader.actor
    line_count = _count_lines(file, most)
    digest = sha256(file)
    stored = await db.run(
        lambda tx: inbox.begin_file(tx, SOURCE, digest, name, actor, now, "payouts report")
    )
    if stored.status == "DONE":
        requests = await db.read(approvals.waiting_of_reports)
        waiting = [_waiting_line(request) for request in requests if _file_of(request) == stored.id]
        return BankResult(
            file_id=stored.id, is_new=False, lines=stored.rows, sent=0, returned=0, repeated=0,
            in_inbox=stored.difference_count,
            unrelated=stored.rows - stored.matched - stored.difference_count,
            waiting=waiting,
        )  # fmt: skip
    counts: dict[_Effect, int] = dict.fromkeys(
        ("sent", "returned", "repeated", "in_inbox", "unrelated"), 0
    )
    waiting_lines: list[WaitingLine] = []
    seen: set[tuple[str, str]] = set()
    repetitions = Counter[tuple[str, str]]()  # how often equal lines were recorded so far
    lines = bank_lines.read(file)
    while batch := list(islice(lines, _BATCH)):
        # A payout must be PAID before it comes back, but some banks list the newest line first.
        batch.sort(key=lambda line: line.kind == "returned")
        ids = [payout_id_of(line.end_to_end) for line in batch]
        async with db.connection() as tx:
            payouts_by_id = {payout.id: payout for payout in await payouts.find_many(tx, ids)}
            sums = await _sums_of_payouts(tx, batch, now)
        for line, payout_id in zip(batch, ids, strict=True):
            run_id = "" if payout_id else run_id_of(line.payment)
            if run_id:
                booking = _RunBooking(stored.id, line, run_id, again=(line.kind, run_id) in seen)
                effects = await _apply_run_booking(db, booking, uploader, now)
                seen.add((line.kind, run_id))
                for effect, number in effects.items():
                    counts[effect] += number
                continue
            again = (line.kind, payout_id) in seen
            texts = _end_to_end(line), _theirs(line)
            context = _LineContext(
                stored.id, line, payouts_by_id.get(payout_id), again, repetitions[texts] + 1,
                concerns_payouts=bool(payout_id) or _may_concern_payouts(line, sums),
            )  # fmt: skip
            result = await db.run(partial(_apply_line, context=context, uploader=uploader, now=now))
            seen.add((line.kind, payout_id))
            if isinstance(result, WaitingLine):
                waiting_lines.append(result)
                continue
            counts[result] += 1
            if result in {"in_inbox", "unrelated"}:
                repetitions[texts] += 1
    in_inbox = counts["in_inbox"]
    matched = line_count - in_inbox - counts["unrelated"]
    await db.run(lambda tx: inbox.finish_file(tx, stored.id, line_count, matched, in_inbox, now))
    return BankResult(
        file_id=stored.id, is_new=True, lines=line_count, waiting=waiting_lines, **counts
    )


def _file_of(request: approvals.WaitingAction) -> str:
    return "" if request.report is None else request.report.file_id


def _waiting_line(request: approvals.WaitingAction, line: int = 0) -> WaitingLine:
    """Return a request as a waiting line; ``line`` is its number, 0 for the request's number."""
    number = line if request.report is None else line or request.report.line
    return WaitingLine(line=number, payout_id=request.subject, request_id=request.id)


def _count_lines(file: IO[bytes], most: int) -> int:
    """Read the whole file and return its number of lines, so that a broken file changes nothing."""
    number = 0
    for number, _ in enumerate(bank_lines.read(file), 1):
        if number > most:
            raise Invalid("file", f"file must have at most {most} lines")
    return number


def _plain(text: str) -> str:
    """Return an id's letters and digits in lower case: banks replace or drop other characters."""
    return "".join(letter for letter in text.lower() if letter.isascii() and letter.isalnum())


def payout_id_of(text: str) -> str:
    """Return the id of the payout that an end-to-end id names, "" if it names none."""
    plain = _plain(text)
    digits = plain.removeprefix("po")
    return f"po_{digits}" if plain != digits and len(digits) == _ID_DIGITS else ""


def run_id_of(text: str) -> str:
    """Return the id of the run whose file has this payment id (PmtInfId), "" if there is none."""
    plain = _plain(text)
    digits = plain.removeprefix("run")[:_ID_DIGITS]
    return f"run_{digits}" if plain == f"run{digits}1" and len(digits) == _ID_DIGITS else ""


class _RunBooking(msgspec.Struct, frozen=True):
    """A booking of a run's whole file. ``again``: the report contained one for this run before."""

    file_id: str
    line: BankLine
    run_id: str
    again: bool


async def _apply_run_booking(
    db: Db, booking: _RunBooking, uploader: _Uploader, now: int
) -> Counter[_Effect]:
    """Apply a booking of a run's whole file, and count its effects on the payouts.

    If number and sum are those of the file, its payouts become PAID; otherwise the booking goes to
    the inbox. It counts as at most one line in the inbox, however many payouts do not fit.
    """
    line, file_id = booking.line, booking.file_id
    refusal = await db.read(lambda tx: _refusal_of_run(tx, line, booking.run_id))
    if refusal is not None:
        discrepancy, ours = refusal
        difference = Difference(
            what=discrepancy, kind="payout", reference=_printable(line.payment)[:100],
            line=line.line, merchant_id="", ours=ours, theirs=_theirs(line),
        )  # fmt: skip
        await db.run(lambda tx: inbox.add(tx, file_id, SOURCE, [difference], now))
        return Counter[_Effect](["in_inbox"])
    reference = line.bank_reference or line.payment
    effects = Counter[_Effect]()
    async for in_run in payouts.payouts_in_file(db, booking.run_id):
        (payout,) = await db.read(partial(payouts.find_many, payout_ids=[in_run.payout_id]))
        single = msgspec.structs.replace(
            line, end_to_end=payout.id, amount_minor=payout.amount_minor, bank_reference=reference
        )
        context = _LineContext(file_id, single, payout, again=booking.again, number=1)
        result = await db.run(partial(_apply_line, context=context, uploader=uploader, now=now))
        # The result cannot be a WaitingLine: only money that comes back waits for a second person.
        effects[cast("_Effect", result)] += 1
    effects["in_inbox"] = min(1, effects["in_inbox"])
    return effects


async def _refusal_of_run(tx: Tx, line: BankLine, run_id: str) -> tuple[Discrepancy, str] | None:
    """Return why a booking contradicts a run's file, and what is in the file; None if it agrees."""
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
    contents = f"{sums.in_file} payouts, {inbox.amount(sums.file_minor, run.currency)}"
    return "different", f"{contents}, {run.status}"


class _LineContext(msgspec.Struct, frozen=True):
    """A line of a file and the payout that it names.

    ``again``: a line of the same kind has named this payout before. ``number`` distinguishes equal
    lines of the file. ``concerns_payouts``: the line may be about a payout even if it names none.
    """

    file_id: str
    line: BankLine
    payout: Payout | None
    again: bool
    number: int
    concerns_payouts: bool = True


async def _apply_line(
    tx: Tx, context: _LineContext, uploader: _Uploader, now: int
) -> _Effect | WaitingLine:
    """Apply a line, and return its effect."""
    line, payout, actor = context.line, context.payout, uploader.actor
    if payout is None:
        add = _add_unnamed if context.concerns_payouts else _record_booking
        return await add(tx, context, now)
    if (line.amount_minor, line.currency) != (payout.amount_minor, payout.currency):
        return await _add_to_inbox(tx, context, payout, "different", now)
    # Lock the merchant, because another process may be reading a report about the same payout.
    await merchants.lock(tx, payout.merchant_id)
    current = await payouts.find(tx, payout.merchant_id, payout.id)
    reference = _reference(line, payout)
    decision = _decide(line, current, reference, again=context.again)
    match decision:
        case "repeated":
            return decision
        case "pay":
            await payouts.pay(tx, payout.id, reference, actor.reason, actor.who, now)
        case "fail" | "return":
            return await _return_money(tx, context, current, decision, uploader, now)
        case _:
            return await _add_to_inbox(tx, context, current, decision, now)
    return line.kind


async def _return_money(
    tx: Tx, context: _LineContext, payout: Payout, decision: Literal["fail", "return"],
    uploader: _Uploader, now: int,
) -> _Effect | WaitingLine:  # fmt: skip
    """Move a payout's money back, or request to do so. Raises what ``check_requester`` raises."""
    line = context.line
    request = approvals.ActionRequest(
        action="payout-failed" if decision == "fail" else "payout-returned",
        merchant_id=payout.merchant_id,
        subject=payout.id,
        actor=Actor(uploader.actor.who, _failure_reason(line)),
        report=approvals.ReportLine(file_id=context.file_id, line=line.line),
    )
    result = await approvals.perform(tx, request, uploader.rules, now)
    if not isinstance(result, approvals.WaitingAction):
        return line.kind
    if uploader.check_requester is not None:
        uploader.check_requester()
    is_of_other_line = result.report not in (None, request.report)
    if context.again and is_of_other_line and _file_of(result) == context.file_id:
        return await _add_to_inbox(tx, context, payout, "double in report", now)
    return _waiting_line(result, line.line)


def _decide(
    line: BankLine, payout: Payout, reference: str, *, again: bool
) -> Literal["repeated", "pay", "fail", "return"] | Discrepancy:
    """Return the effect of a line on its payout, or the discrepancy.

    ``again``: the file has had a line of the same kind about this payout before.
    """
    if line.kind == "sent":
        # A debit that reverses a credit is no payment.
        if payout.status == "PENDING" and not line.is_reversal:
            return "pay"
        # The debit was applied before, even if the bank has returned the payout since.
        if payout.bank_reference == reference and not (again or line.is_reversal):
            return "repeated"
        is_double = payout.status == "PAID" and not line.is_reversal
        return "double in report" if is_double else "different"
    if payout.status != "FAILED":
        return "return" if payout.status == "PAID" else "fail"
    if again:
        return "double in report"
    # The credit is a new one if the payout failed by an operator's action, not by this booking.
    return "repeated" if _is_same_booking(line, payout) else "different"


def _reference(line: BankLine, payout: Payout | None) -> str:
    """Return the bank's reference, or the payout's id if the bank named none."""
    reference = _printable(line.bank_reference)[: payouts.LONGEST_BANK_REFERENCE].strip()
    return reference or (payout.id if payout else "")


def _is_same_booking(line: BankLine, failed: Payout) -> bool:
    """Whether a credit is the booking by which a payout failed.

    The payout's failure reason ends with the bank's reference; the text before that may differ
    between reports of the same booking.
    """
    suffix = _reference_suffix(line)
    if suffix:
        return failed.failure_reason.endswith(suffix)
    return failed.failure_reason == _failure_reason(line)


def _failure_reason(line: BankLine) -> str:
    """Return why a payout came back, with the bank's reference of the booking if it names one."""
    suffix = _reference_suffix(line)
    reason = _printable(line.reason) or "the bank gave it back"
    return f"{reason[: _LONGEST_REASON - len(suffix)].rstrip()}{suffix}"


def _reference_suffix(line: BankLine) -> str:
    reference = _reference(line, None)
    return f"{payouts.BANK_REFERENCE}{reference})" if reference else ""


def _printable(text: str) -> str:
    letters = "".join(letter if letter.isprintable() else " " for letter in text)
    return " ".join(letters.split())[:_LONGEST_REASON]


def _end_to_end(line: BankLine) -> str:
    return _printable(line.end_to_end)[:100]


def _theirs(line: BankLine) -> str:
    """Describe a line as the bank reports it."""
    theirs = "no amount"
    if line.amount_minor is not None:
        side = {"sent": "debit", "returned": "credit"}[line.kind]
        theirs = f"{inbox.amount(line.amount_minor, line.currency)} {side}"
    if line.payments:
        theirs = f"{_printable(line.payments)[:15]} payouts, {theirs}"
    reference = _printable(line.bank_reference)
    return f"{theirs}, {reference}" if reference else theirs


async def _sums_of_payouts(tx: Tx, lines: list[BankLine], now: int) -> set[tuple[int, str]]:
    """Return which amounts of the lines are also the amount of a payout or of a run's file."""
    sums = await queries.SUMS_OF_PAYOUTS.all(
        tx, since=now - _RETURNED_WITHIN_MS,
        amount_minor=[line.amount_minor for line in lines if line.amount_minor is not None],
        currency=[line.currency for line in lines if line.amount_minor is not None],
    )  # fmt: skip
    return {(row.amount_minor, row.currency) for row in sums}


def _may_concern_payouts(line: BankLine, sums: set[tuple[int, str]]) -> bool:
    """Whether a line that names no payout may be about one.

    It may if it reports a returned transfer, has no readable amount, has an id that begins like one
    of ours, or has the amount of a payout that is PENDING or was paid recently.
    """
    plain = _plain(line.end_to_end)
    return (
        bool(line.reason)
        or line.is_reversal
        or line.amount_minor is None
        or (plain.startswith("po") and len(plain) >= _MIN_ID_LENGTH)
        or (line.amount_minor, line.currency) in sums
    )


async def _add_unnamed(tx: Tx, context: _LineContext, now: int) -> _Effect:
    """Add to the inbox a line that may be about a payout but names none of ours."""
    return await _add_to_inbox(tx, context, None, "missing in ledger", now)


async def _record_booking(tx: Tx, context: _LineContext, now: int) -> _Effect:
    """Record a booking that concerns no payout, outside the inbox: it needs no attention."""
    difference = _difference(context, None, "missing in ledger")
    booking = msgspec.structs.replace(difference, kind="booking")
    await inbox.add_booking(tx, context.file_id, SOURCE, booking, now)
    return "unrelated"


async def _add_to_inbox(
    tx: Tx, context: _LineContext, payout: Payout | None, discrepancy: Discrepancy, now: int
) -> _Effect:
    difference = _difference(context, payout, discrepancy)
    await inbox.add(tx, context.file_id, SOURCE, [difference], now)
    return "in_inbox"


def _difference(
    context: _LineContext, payout: Payout | None, discrepancy: Discrepancy
) -> Difference:
    """Return the difference for the inbox that a line causes.

    If the line names neither a payout nor a bank reference, the difference is identified by file
    and line number, because an equal line elsewhere is another booking.
    """
    line = context.line
    reference = _end_to_end(line) or _printable(line.bank_reference)[:100]
    if payout is None and not _printable(line.bank_reference):
        reference = f"{reference} line {line.line} of {context.file_id}".strip()
    ours = ""
    if payout is not None:
        ours = f"{money.show(payout.amount_minor, payout.currency)} {payout.currency}"
        ours = f"{ours} {payout.status}"
    return Difference(
        what=discrepancy,
        kind="payout",
        reference=reference,
        line=line.line,
        merchant_id=payout.merchant_id if payout else "",
        ours=ours,
        theirs=inbox.numbered(_theirs(line), context.number),
    )
