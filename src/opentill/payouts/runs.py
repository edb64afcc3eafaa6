"""Runs: the payouts of all merchants in one currency, and their one file for the bank.

A run is a row that is committed first. Each payout is made in a transaction of its own, with the
row that says which run it is in, so that a run that was killed anywhere goes on where it stopped:
whoever has a payout of this run already gets no other. Taking the file marks the run as SENT and
fixes what is in it, before the first byte is given away (decision 0090).
"""

import re
from collections.abc import AsyncIterator
from datetime import UTC, datetime
from decimal import Decimal
from functools import partial
from typing import Final

import msgspec

from opentill import merchants
from opentill.core import encryption, money
from opentill.core.errors import Invalid, NotPermitted, or_not_found
from opentill.core.ids import new_id
from opentill.db.database import Db, Tx
from opentill.merchants import Actor, approval_limits, operator_actions
from opentill.payouts import accounts, queries, service
from opentill.payouts.model import (
    DuePayout,
    FileRequest,
    Form,
    InRun,
    Made,
    PayoutRequest,
    Run,
    RunRequest,
    RunView,
    Waiting,
)

_BATCH: Final = 200
_DAY: Final = re.compile(r"[0-9]{4}-[0-9]{2}-[0-9]{2}", re.ASCII)


async def start(tx: Tx, wanted: RunRequest, now: int) -> Run:
    """Begin a run, or return the one that has this reference already.

    Raises Invalid, also for a reference whose run is of another currency, fee or day.
    """
    actor = operator_actions.check_actor(wanted.actor.who, wanted.actor.reason)
    reference = operator_actions.check_reference(wanted.reference)
    fee = wanted.fee_minor
    if fee:
        operator_actions.check_amount("fee", fee, wanted.currency)
    first = await queries.RUN_OF_REFERENCE.first(tx, reference=reference)
    if first is None:
        first = await queries.START_RUN.first(
            tx, id=new_id("run"), reference=reference, currency=wanted.currency, fee_minor=fee,
            pay_on=_day(wanted.pay_on, now), from_holder=wanted.source.holder,
            from_number=wanted.source.number, from_country=wanted.source.country,
            from_bic=wanted.source.bic, from_bank_code=wanted.source.bank_code,
            from_address=None
            if wanted.source.address is None
            else msgspec.json.encode(wanted.source.address).decode(),
            reason=actor.reason, created_by=actor.who, now=now,
        )  # fmt: skip
        if first is not None:
            subject = f"{first.id}: {first.currency}, paid on {first.pay_on}"
            await merchants.record_audit(tx, actor, "payouts run", "", subject, now)
            return first
        # Somebody else began it at the same time.
        first = or_not_found(await queries.RUN_OF_REFERENCE.first(tx, reference=reference))
    same = (first.currency, first.fee_minor, wanted.pay_on or first.pay_on)
    if same != (wanted.currency, fee, first.pay_on):
        reason = f"reference must be new: {first.id} in {first.currency}, paid on {first.pay_on},"
        raise Invalid("reference", f"{reason} has it")
    return first


def _day(text: str | None, now: int) -> str:
    today = f"{datetime.fromtimestamp(now // 1000, UTC):%Y-%m-%d}"
    if text is None:
        return today
    try:
        datetime.strptime(text, "%Y-%m-%d").replace(tzinfo=UTC)
    except ValueError:
        text = ""
    if _DAY.fullmatch(text) is None or text < today:
        raise Invalid("on", f"on must be a day from today on, such as {today}")
    return text


async def perform(db: Db, run: Run, secret_key: str, now: int, most: int | None = None) -> RunView:
    """Make the payouts of a run that are not there yet, and say that they all are.

    A run that is READY or SENT stays as it is. Any number of processes may do this at once. After
    ``most`` payouts the run stays OPEN, and goes on when this is called again.
    """
    after, made, unreadable = "", 0, list[str]()
    while run.status == "OPEN":
        async with db.connection() as tx:
            batch = await queries.DUE_AFTER.all(
                tx, currency=run.currency, after=after, limit=_BATCH
            )
        for due in batch:
            if made == most:
                async with db.connection() as tx:
                    return await view(tx, run.id)
            if due.waits_for(now) is None:
                pay = partial(_pay_one, run=run, due=due, secret_key=secret_key, now=now)
                became = await db.run(pay)
                made += became == "made"
                if became == "unreadable":
                    unreadable.append(due.merchant_id)
        if len(batch) < _BATCH:
            break
        after = batch[-1].merchant_id
    await db.run(lambda tx: queries.FINISH_RUN.first(tx, id=run.id, now=now))
    async with db.connection() as tx:
        done = await view(tx, run.id)
    return msgspec.structs.replace(done, unreadable=tuple(unreadable))


async def _pay_one(tx: Tx, run: Run, due: DuePayout, secret_key: str, now: int) -> Made:
    """Make the payout of a merchant, with its place in the run; return what became of it."""
    locked = await queries.RUN_LOCKED.one(tx, id=run.id)
    merchant_id = due.merchant_id
    if locked.status != "OPEN":
        return "left out"
    await merchants.lock(tx, merchant_id)
    if await queries.IS_IN_RUN.get(tx, merchant_id=merchant_id, run_id=run.id):
        return "left out"
    account = await accounts.current(tx, merchant_id)
    if account is None or account.usable_from > now or await accounts.held_since(tx, account):
        return "left out"
    try:
        accounts.read(secret_key, account)
    except encryption.WrongKey:
        return "unreadable"
    wanted = PayoutRequest(
        amount_minor=None, fee_minor=run.fee_minor, reference=run.id, reason=run.reason,
        by=run.created_by,
    )  # fmt: skip
    try:
        async with tx.transaction():
            # Who approves is asked when the file is taken: see ``send``.
            payout = await service.create(tx, merchant_id, wanted, None, now)
    except (Invalid, NotPermitted):
        return "left out"  # less than the minimum after the fee, or may not be paid out now
    await queries.ADD_TRANSFER.run(
        tx, merchant_id=merchant_id, payout_id=payout.id, run_id=run.id,
        account_version=account.version,
    )  # fmt: skip
    return "made"


async def find(tx: Tx, run_id: str) -> Run:
    """Return a run. Raises NotFound."""
    return or_not_found(await queries.RUN.first(tx, id=run_id), f"there is no run {run_id}")


async def view(tx: Tx, run_id: str) -> RunView:
    """Return a run with what its payouts are. Raises NotFound."""
    return RunView(run=await find(tx, run_id), sums=await queries.RUN_SUMS.one(tx, run_id=run_id))


async def newest(tx: Tx, limit: int = 100) -> list[Run]:
    """Return runs, newest first."""
    return await queries.RUNS.all(tx, limit=limit)


async def payouts_of(tx: Tx, run_id: str, after: str = "", limit: int = 100) -> list[InRun]:
    """Return payouts of a run by merchant, those after a merchant's."""
    return await queries.IN_RUN.all(tx, run_id=run_id, after=after, limit=limit)


async def send(db: Db, run_id: str, wanted: FileRequest, secret_key: str, now: int) -> Run:
    """Say that somebody takes the bank's file; what is in it is fixed from then on.

    Whoever takes it again gets the same file in the same form. What was made for an account that
    has changed since, that the bank returned another payout to, or that cannot be read any more, is
    not in it: it fails, and its money is available again. Raises NotFound and Invalid.
    """
    await db.read(lambda tx: _check_taker(tx, run_id, wanted, now))
    await _give_back(db, run_id, wanted.actor, secret_key, now)
    run = await db.run(lambda tx: _send(tx, run_id, wanted, now))
    # Those whose account was changed between the two.
    await _give_back(db, run_id, wanted.actor, secret_key, now)
    return run


async def _check_taker(tx: Tx, run_id: str, wanted: FileRequest, now: int) -> RunView:
    """Return a run whose file they may take: READY, or SENT in this form."""
    actor = operator_actions.check_actor(wanted.actor.who, wanted.actor.reason)
    seen = await view(tx, run_id)
    run, sums = seen.run, seen.sums
    if run.status == "SENT":
        _check_form(run, wanted.form)
        return seen
    if run.status == "OPEN":
        reason = f"run must be complete: begin it again with the reference {run.reference}"
        raise Invalid("run", reason)
    if not sums.pending:
        raise Invalid("run", "run must have payouts that wait to be sent: it has none")
    if await needs_second(tx, run, wanted.above, now):
        operator_actions.check_second_operator(run.created_by, actor.who)
    return seen


async def needs_second(tx: Tx, run: Run, above: Decimal | None, now: int) -> bool:
    """Return whether a run's file is to be taken by somebody else than who began the run."""
    if above is None:
        return False
    most = int(above.scaleb(money.exponent(run.currency)))
    maker, since = approval_limits.maker_of(run.created_by), now - approval_limits.WINDOW_MS
    exceeds = queries.RUN_EXCEEDS.get(tx, run_id=run.id, maker=maker, since=since, most_minor=most)
    return bool(await exceeds)


async def _give_back(db: Db, run_id: str, actor: Actor, secret_key: str, now: int) -> None:
    """Fail the payouts that no file has and whose account is of no use any more.

    Each in a transaction of its own, in which nobody takes the file.
    """
    async with db.snapshot() as tx:
        found = [
            (one.payout_id, why)
            async for one in queries.WAITING_OF_RUN.each(tx, run_id=run_id, payout_id=None)
            if (why := _of_no_use(one, secret_key)) is not None
        ]

    async def one(tx: Tx, payout_id: str, why: str) -> None:
        await queries.RUN_LOCKED.one(tx, id=run_id)
        if await queries.WAITING_OF_RUN.first(tx, run_id=run_id, payout_id=payout_id):
            await service.fail(tx, payout_id, why, actor.who, now)

    for payout_id, why in found:
        await db.run(partial(one, payout_id=payout_id, why=why))


def _of_no_use(waiting: Waiting, secret_key: str) -> str | None:
    """Return why the account that a payout was made for is of no use, None if it is."""
    if waiting.is_changed:
        return "the bank account was changed after this payout was made"
    if waiting.held_since is not None:
        return "the bank returned another payout to this account"
    try:
        accounts.read(secret_key, waiting)
    except encryption.WrongKey:
        return "the bank account must be entered again"
    return None


async def _send(tx: Tx, run_id: str, wanted: FileRequest, now: int) -> Run:
    await merchants.lock_audit_log(tx)  # so that what is moved at this moment counts
    seen = await _check_taker(tx, run_id, wanted, now)
    if seen.run.status == "SENT":
        return seen.run
    form, actor = wanted.form, wanted.actor
    sent = await queries.SEND_RUN.first(tx, id=run_id, form=form, who=actor.who, now=now)
    if sent is None:  # somebody else was faster
        run = await find(tx, run_id)
        _check_form(run, form)
        return run
    subject = f"{run_id}: {form}, at most {seen.sums.pending} payouts in {sent.currency}"
    await merchants.record_audit(tx, actor, "payouts file", "", subject, now)
    # Under the lock of the audit log's head, which whatever ends a payout, changes an account or
    # switches a merchant's payouts off takes too.
    if not await queries.PUT_IN_FILE.run(tx, run_id=run_id):
        raise Invalid("run", "run must have payouts that may be sent: it has none")
    if wanted.above is not None and actor.who == seen.run.created_by:
        await _record_moved(tx, seen.run, now)
    return sent


async def pay(db: Db, run_id: str, bank_reference: str, actor: Actor, now: int) -> int:
    """Record that the bank has sent the whole file of a run; return how many payouts are PAID now.

    Each in a transaction of its own; those that have ended already stay as they are. Raises
    NotFound and Invalid.
    """
    actor = operator_actions.check_actor(actor.who, actor.reason)
    operator_actions.check_text("bank-reference", bank_reference, service.LONGEST_BANK_REFERENCE)
    run = await db.read(lambda tx: find(tx, run_id))
    if run.status != "SENT":
        reason = f"run must be SENT before the bank can pay it: this one is {run.status}"
        raise Invalid("run", reason)

    async def pay_one(tx: Tx, payout: InRun) -> bool:
        await merchants.lock(tx, payout.merchant_id)
        current = await service.find(tx, payout.merchant_id, payout.payout_id)
        if current.status != "PENDING":
            return False
        await service.pay(tx, current.id, bank_reference, actor.reason, actor.who, now)
        return True

    paid = 0
    async for payout in in_file(db, run_id):
        if payout.status == "PENDING":
            paid += await db.run(partial(pay_one, payout=payout))
    return paid


async def in_file(db: Db, run_id: str) -> AsyncIterator[InRun]:
    """Yield the payouts that are in a run's file, by merchant."""
    after = ""
    while True:
        read = partial(payouts_of, run_id=run_id, after=after, limit=_BATCH)
        batch = await db.read(read)
        for payout in batch:
            if payout.in_file:
                yield payout
        if len(batch) < _BATCH:
            return
        after = batch[-1].merchant_id


async def _record_moved(tx: Tx, run: Run, now: int) -> None:
    """Count the payouts of a run that one person has begun and taken the file of."""
    moved = [
        merchants.SoloMovement(
            merchant_id=payout.merchant_id, id=payout.id, kind="payouts file", who=run.created_by,
            amount_minor=payout.amount_minor, currency=run.currency,
        )
        for payout in await queries.MOVED_BY_RUN.all(tx, run_id=run.id)
    ]  # fmt: skip
    await approval_limits.record_many(tx, moved, now)


def _check_form(run: Run, form: Form) -> None:
    if run.form != form:
        reason = f"format must be {run.form}, in which {run.sent_by} has taken the file already"
        raise Invalid("format", reason)


def described(found: RunView) -> str:
    """Say in a line what a run is, and of one that is SENT what its file has."""
    run, sums = found.run, found.sums
    whole = _counted(sums.payouts, sums.amount_minor, run.currency)
    if run.status == "SENT":
        in_file = _counted(sums.in_file, sums.file_minor, run.currency)
        whole = f"{in_file} in the file; {whole} in the run"
    return f"{run.id} {run.status}: {whole}"


def _counted(payouts: int, minor: int, currency: str) -> str:
    return f"{payouts} payouts, {money.show(minor, currency)} {currency}"
