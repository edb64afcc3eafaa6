"""Runs: the payouts of all merchants in one currency, and their one file for the bank.

The run's row is committed first. Each payout is created in a transaction of its own, together with
the row that assigns it to the run, so that a run that was killed can be continued: a merchant that
has a payout of the run gets no second one. Taking the file marks the run as SENT and fixes its
contents before the first byte is returned (decision 0090).
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
    PayoutRequest,
    Run,
    RunRequest,
    RunView,
    UnsentPayout,
)

_BATCH: Final = 200
_DAY: Final = re.compile(r"[0-9]{4}-[0-9]{2}-[0-9]{2}", re.ASCII)


async def start(tx: Tx, requested: RunRequest, now: int) -> Run:
    """Begin a run, or return the one that has this reference already.

    Raises Invalid, also if the reference's run has another currency, fee or day, or if no payout is
    due in the currency.
    """
    actor = operator_actions.check_actor(requested.actor.who, requested.actor.reason)
    reference = operator_actions.check_reference(requested.reference)
    fee, source = requested.fee_minor, requested.source
    if fee:
        operator_actions.check_amount("fee", fee, requested.currency)
    first = await queries.RUN_OF_REFERENCE.first(tx, reference=reference)
    if first is None:
        first = await queries.START_RUN.first(
            tx, id=new_id("run"), reference=reference, currency=requested.currency, fee_minor=fee,
            pay_on=_check_day(requested.pay_on, now), from_holder=source.holder,
            from_number=source.number, from_country=source.country, from_bic=source.bic,
            from_bank_code=source.bank_code,
            from_address=None
            if source.address is None
            else msgspec.json.encode(source.address).decode(),
            reason=actor.reason, created_by=actor.who, now=now,
        )  # fmt: skip
        if first is not None:
            # The check follows the insert, which waits for a concurrent run of this reference.
            await _check_due(tx, first, now)
            subject = f"{first.id}: {first.currency}, paid on {first.pay_on}"
            await merchants.record_audit(tx, actor, "payouts run", "", subject, now)
            return first
        # Another process has begun a run with this reference meanwhile: use that run.
        first = or_not_found(await queries.RUN_OF_REFERENCE.first(tx, reference=reference))
    if (first.currency, first.fee_minor, first.pay_on) != (
        requested.currency, fee, requested.pay_on or first.pay_on
    ):  # fmt: skip
        reason = f"reference must be new: {first.id} in {first.currency}, paid on {first.pay_on},"
        raise Invalid("reference", f"{reason} has it")
    return first


async def _check_due(tx: Tx, run: Run, now: int) -> None:
    """Raise Invalid on ``due`` if a new run would have no payouts."""
    after, is_last = "", False
    while not is_last:
        batch = await queries.NEXT_DUE_MERCHANTS.all(
            tx, currency=run.currency, after=after, limit=_BATCH
        )
        if any(row.waits_for(now) is None and row.available > run.fee_minor for row in batch):
            return
        is_last = len(batch) < _BATCH
        after = "" if is_last else batch[-1].merchant_id
    raise Invalid("due", f"there must be payouts to make: none is due in {run.currency}")


def _check_day(text: str | None, now: int) -> str:
    """Return the day on which the bank shall pay, today for None. Raises Invalid."""
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
    """Create the missing payouts of a run, and mark it as READY.

    A run that is READY or SENT remains as it is. Any number of processes may do this at once. After
    ``most`` payouts the run remains OPEN, also if it has no payout yet; the next call continues it.
    """
    after, created, unreadable = "", 0, list[str]()
    while run.status == "OPEN":
        async with db.connection() as tx:
            batch = await queries.NEXT_DUE_MERCHANTS.all(
                tx, currency=run.currency, after=after, limit=_BATCH
            )
        for due in batch:
            if created == most:
                async with db.connection() as tx:
                    return await view(tx, run.id)
            if due.waits_for(now) is None:
                create = partial(_create_payout, run=run, due=due, secret_key=secret_key, now=now)
                try:
                    created += await db.run(create)
                except encryption.WrongKey:
                    unreadable.append(due.merchant_id)
        if len(batch) < _BATCH:
            break
        after = batch[-1].merchant_id
    await db.run(lambda tx: queries.FINISH_RUN.first(tx, id=run.id, now=now))
    async with db.connection() as tx:
        done = await view(tx, run.id)
    return msgspec.structs.replace(done, unreadable=tuple(unreadable))


async def _create_payout(tx: Tx, run: Run, due: DuePayout, secret_key: str, now: int) -> bool:
    """Create a merchant's payout in the run; return False if the run leaves the merchant out.

    Raises ``encryption.WrongKey`` for an account that is encrypted with another key.
    """
    locked = await queries.RUN_LOCKED.one(tx, id=run.id)
    merchant_id = due.merchant_id
    if locked.status != "OPEN":
        return False
    await merchants.lock(tx, merchant_id)
    if await queries.IS_IN_RUN.get(tx, merchant_id=merchant_id, run_id=run.id):
        return False
    account = await accounts.find(tx, merchant_id)
    if account is None or account.usable_from > now or await accounts.held_since(tx, account):
        return False
    accounts.read(secret_key, account)
    requested = PayoutRequest(
        amount_minor=None, fee_minor=run.fee_minor, reference=run.id, reason=run.reason,
        by=run.created_by,
    )  # fmt: skip
    try:
        async with tx.transaction():
            # The approval limit is not checked here, but when somebody takes the file (``send``).
            payout = await service.create(tx, merchant_id, requested, None, now)
    except (Invalid, NotPermitted):
        return False  # too little is left after the fee, or payouts were switched off meanwhile
    await queries.ADD_TRANSFER.run(
        tx, merchant_id=merchant_id, payout_id=payout.id, run_id=run.id,
        account_version=account.version,
    )  # fmt: skip
    return True


async def find(tx: Tx, run_id: str) -> Run:
    """Return a run. Raises NotFound."""
    return or_not_found(await queries.RUN.first(tx, id=run_id), f"there is no run {run_id}")


async def find_by_reference(tx: Tx, reference: str) -> Run | None:
    """Return the run with a reference, None if there is none."""
    return await queries.RUN_OF_REFERENCE.first(tx, reference=reference)


async def view(tx: Tx, run_id: str) -> RunView:
    """Return a run with the sums of its payouts. Raises NotFound."""
    return RunView(
        run=await find(tx, run_id), sums=await queries.SUMS_OF_RUNS.one(tx, run_id=[run_id])
    )


async def list_newest(tx: Tx, limit: int = 100) -> list[RunView]:
    """Return runs with the sums of their payouts, newest first."""
    runs = await queries.RUNS.all(tx, limit=limit)
    sums = await queries.SUMS_OF_RUNS.all(tx, run_id=[run.id for run in runs])
    sums_by_run = {row.run_id: row for row in sums}
    return [RunView(run=run, sums=sums_by_run[run.id]) for run in runs]


async def list_waiting(tx: Tx, above: Decimal | None, now: int, limit: int = 50) -> list[RunView]:
    """Return runs whose file a second person must take, newest first."""
    if above is None:
        return []
    runs = [
        run
        for run in await queries.READY_RUNS.all(tx, limit=limit)
        if await needs_second(tx, run, above, now)
    ]
    sums = await queries.SUMS_OF_RUNS.all(tx, run_id=[run.id for run in runs])
    sums_by_run = {row.run_id: row for row in sums}
    return [RunView(run=run, sums=sums_by_run[run.id]) for run in runs]


async def list_payouts(tx: Tx, run_id: str, after: str = "", limit: int = 100) -> list[InRun]:
    """Return payouts of a run, by merchant, beginning after the merchant ``after``."""
    return await queries.IN_RUN.all(tx, run_id=run_id, after=after, limit=limit)


async def send(db: Db, run_id: str, request: FileRequest, secret_key: str, now: int) -> Run:
    """Mark a run as SENT, which fixes the contents of the bank's file.

    The same file can be taken again, only in the same form. Payouts to accounts that were changed
    since, to which the bank returned another payout, or which can no longer be decrypted are not in
    the file: they fail, and their money becomes available again. Raises NotFound and Invalid.
    """
    await db.read(lambda tx: _check_request(tx, run_id, request, now))
    await _fail_unusable(db, run_id, request.actor, secret_key, now)
    run = await db.run(lambda tx: _send(tx, run_id, request, now))
    # More accounts may have become unusable between the first call and that transaction.
    await _fail_unusable(db, run_id, request.actor, secret_key, now)
    return run


async def _check_request(tx: Tx, run_id: str, request: FileRequest, now: int) -> RunView:
    """Return the run if it is READY, or SENT in the requested form. Raises NotFound and Invalid."""
    actor = operator_actions.check_actor(request.actor.who, request.actor.reason)
    run_view = await view(tx, run_id)
    run, sums = run_view.run, run_view.sums
    if run.status == "SENT":
        _check_form(run, request.form)
        return run_view
    if run.status == "OPEN":
        reason = f"run must be complete: begin it again with the reference {run.reference}"
        raise Invalid("run", reason)
    if not sums.pending:
        raise Invalid("run", "run must have payouts that wait to be sent: it has none")
    if await needs_second(tx, run, request.above, now):
        operator_actions.check_second_operator(run.created_by, actor.who)
    return run_view


async def needs_second(tx: Tx, run: Run, above: Decimal | None, now: int) -> bool:
    """Whether the person who began the run must not take its file."""
    if above is None:
        return False
    most = int(above.scaleb(money.exponent(run.currency)))
    maker, since = approval_limits.maker_of(run.created_by), now - approval_limits.WINDOW_MS
    exceeds = queries.RUN_EXCEEDS.get(tx, run_id=run.id, maker=maker, since=since, most_minor=most)
    return bool(await exceeds)


async def _fail_unusable(db: Db, run_id: str, actor: Actor, secret_key: str, now: int) -> None:
    """Fail the payouts that are in no file and whose account can no longer be used.

    Each fails in its own transaction, which locks the run so that nobody takes the file meanwhile.
    """
    async with db.snapshot() as tx:
        failures = [
            (payout.payout_id, reason)
            async for payout in queries.WAITING_OF_RUN.each(tx, run_id=run_id, payout_id=None)
            if (reason := _failure_reason(payout, secret_key)) is not None
        ]

    async def fail(tx: Tx, payout_id: str, reason: str) -> None:
        await queries.RUN_LOCKED.one(tx, id=run_id)
        if await queries.WAITING_OF_RUN.first(tx, run_id=run_id, payout_id=payout_id):
            await service.fail(tx, payout_id, reason, actor.who, now)

    for payout_id, reason in failures:
        await db.run(partial(fail, payout_id=payout_id, reason=reason))


def _failure_reason(payout: UnsentPayout, secret_key: str) -> str | None:
    """Return why a payout's account can no longer be used, None if it can."""
    if payout.is_changed:
        return "the bank account was changed after this payout was made"
    if payout.held_since is not None:
        return "the bank returned another payout to this account"
    try:
        accounts.read(secret_key, payout)
    except encryption.WrongKey:
        return "the bank account must be entered again"
    return None


async def _send(tx: Tx, run_id: str, request: FileRequest, now: int) -> Run:
    # The lock makes concurrent movements by the same person count towards the approval limit.
    await merchants.lock_audit_log(tx)
    run_view = await _check_request(tx, run_id, request, now)
    if run_view.run.status == "SENT":
        return run_view.run
    form, actor = request.form, request.actor
    sent = await queries.SEND_RUN.first(tx, id=run_id, form=form, who=actor.who, now=now)
    if sent is None:  # another process has sent the run meanwhile
        run = await find(tx, run_id)
        _check_form(run, form)
        return run
    subject = f"{run_id}: {form}, at most {run_view.sums.pending} payouts in {sent.currency}"
    await merchants.record_audit(tx, actor, "payouts file", "", subject, now)
    # Ending a payout, changing an account and switching payouts off also lock the head of the audit
    # log. So none of these happens before this transaction commits.
    if not await queries.PUT_IN_FILE.run(tx, run_id=run_id):
        raise Invalid("run", "run must have payouts that may be sent: it has none")
    if request.above is not None and actor.who == run_view.run.created_by:
        await _record_solo_movements(tx, run_view.run, now)
    return sent


async def pay(db: Db, run_id: str, bank_reference: str, actor: Actor, now: int) -> int:
    """Record that the bank has sent the whole file of a run; return how many payouts are PAID now.

    Each payout is recorded in its own transaction; payouts that have ended remain as they are.
    Raises NotFound and Invalid.
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
    async for payout in payouts_in_file(db, run_id):
        if payout.status == "PENDING":
            paid += await db.run(partial(pay_one, payout=payout))
    return paid


async def payouts_in_file(db: Db, run_id: str) -> AsyncIterator[InRun]:
    """Yield the payouts that are in a run's file, by merchant."""
    after = ""
    while True:
        read = partial(list_payouts, run_id=run_id, after=after, limit=_BATCH)
        batch = await db.read(read)
        for payout in batch:
            if payout.in_file:
                yield payout
        if len(batch) < _BATCH:
            return
        after = batch[-1].merchant_id


async def _record_solo_movements(tx: Tx, run: Run, now: int) -> None:
    """Count the payouts towards the limit of the person who began the run and took its file."""
    movements = [
        merchants.SoloMovement(
            merchant_id=payout.merchant_id, id=payout.id, kind="payouts file", who=run.created_by,
            amount_minor=payout.amount_minor, currency=run.currency,
        )
        for payout in await queries.MOVED_BY_RUN.all(tx, run_id=run.id)
    ]  # fmt: skip
    await approval_limits.record_many(tx, movements, now)


def _check_form(run: Run, form: Form) -> None:
    if run.form != form:
        reason = f"format must be {run.form}, in which {run.sent_by} has taken the file already"
        raise Invalid("format", reason)


def describe(run_view: RunView) -> str:
    """Describe a run in a line, with the contents of its file if it is SENT."""
    run, sums = run_view.run, run_view.sums
    text = _describe_sum(sums.payouts, sums.amount_minor, run.currency)
    if run.status == "SENT":
        in_file = _describe_sum(sums.in_file, sums.file_minor, run.currency)
        text = f"{in_file} in the file; {text} in the run"
    return f"{run.id} {run.status}: {text}"


def _describe_sum(payouts: int, minor: int, currency: str) -> str:
    return f"{payouts} payouts, {money.show(minor, currency)} {currency}"
