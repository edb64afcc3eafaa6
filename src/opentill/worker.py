"""The worker runs jobs on rows that are due. Any number of workers may run, in servers or alone.

Each job claims a batch of due rows (``for update skip locked``) and returns its size. After an
empty batch the job pauses; after any other, it claims the next batch at once.
"""

import asyncio
import time
from collections.abc import Awaitable, Callable, Sequence
from functools import partial
from typing import Final, get_args

import msgspec
import structlog

from opentill import context, gateways, orders, people
from opentill.checkouts import jobs as checkout_jobs
from opentill.context import App
from opentill.core import metrics, tracing
from opentill.core.errors import Unavailable
from opentill.core.settings import Settings
from opentill.db import rate_limits
from opentill.db.clock import now_ms
from opentill.db.database import Db
from opentill.db.jobs import GatewayFilter
from opentill.deposits import jobs as deposit_jobs
from opentill.disputes import jobs as dispute_jobs
from opentill.epay import jobs as epay_jobs
from opentill.figures import jobs as figure_jobs
from opentill.gateways import accounts as gateway_accounts
from opentill.gateways.account import is_account_id
from opentill.http import idempotency, ignored_log, refused
from opentill.integrity import scheduler
from opentill.list_counts import jobs as list_count_jobs
from opentill.mail import Mailer, prepaid_mails
from opentill.mail import jobs as mail_jobs
from opentill.orders import jobs as order_jobs
from opentill.orders.search import jobs as indexing
from opentill.orders.settlement import service as settlement
from opentill.payment_links import jobs as payment_link_jobs
from opentill.refunds import jobs as refund_jobs
from opentill.webhooks import jobs as webhook_jobs
from opentill.webhooks.dispatch import Dispatcher, Options
from opentill.webhooks.hosts import HostLimit
from opentill.webhooks.model import Outcome

_FIRST_PAUSE_S: Final = 0.25
_LONGEST_PAUSE_S: Final = 5.0
_log: Final = structlog.get_logger()


class Job(msgspec.Struct, frozen=True):
    """A job that is repeated; after a run without work, it pauses for ``pause_s`` seconds."""

    name: str
    pause_s: float
    run: Callable[[App], Awaitable[int]]
    # A stop cancels the job instead of waiting for its end. This is for long jobs that can be
    # repeated.
    is_cancelled_on_stop: bool = False


def _per_gateway(others: "_OtherGateways") -> tuple[Job, ...]:
    """Return separate jobs for each gateway of the environment, so that a slow one blocks no other.

    The last two jobs start the work for accounts in the database, and for gateways that are no
    longer in use.
    """
    return (
        *(
            job
            for only in (GatewayFilter((name,)) for name in others.environment)
            for job in (
                Job("check_attempts", 0.5, partial(_check_attempts, only)),
                Job("send_refunds", 0.25, partial(_send_refunds, only)),
            )
        ),
        Job("check_attempts", 0.5, others.check_attempts),
        Job("send_refunds", 0.25, others.send_refunds),
    )


class _OtherGateways:
    """Processes the due rows of gateways and accounts that are not of the environment.

    One statement finds the accounts with due rows, and each of them is processed by itself, so
    that idle accounts cost nothing and a slow one blocks no other.
    """

    def __init__(self, environment: tuple[str, ...]) -> None:
        """``environment`` are the gateways that have jobs of their own."""
        self.environment = environment
        self._running: dict[tuple[str, str], asyncio.Task[None]] = {}

    async def check_attempts(self, app: App) -> int:
        """Start to query the accounts with due attempts."""
        names = await order_jobs.gateways_due(app.db, self.environment, app.clock())
        return self._start("check_attempts", names, app, _check_attempts)

    async def send_refunds(self, app: App) -> int:
        """Start to send the due refunds of the accounts that have some."""
        names = await refund_jobs.gateways_due(app.db, self.environment, app.clock())
        return self._start("send_refunds", names, app, _send_refunds)

    def _start(
        self,
        kind: str,
        names: Sequence[str],
        app: App,
        work: Callable[[GatewayFilter, App], Awaitable[int]],
    ) -> int:
        for name in names:
            key = kind, name
            if key not in self._running:
                task = asyncio.create_task(_work_once(kind, name, work, app))
                self._running[key] = task
                task.add_done_callback(partial(self._forget, key))
        return 0  # 0 makes the job pause: the started work goes on by itself

    def _forget(self, key: tuple[str, str], _task: object) -> None:
        del self._running[key]

    async def finish(self) -> None:
        """Wait until everything that was started has ended."""
        await asyncio.gather(*self._running.values())


async def _work_once(
    kind: str, name: str, work: Callable[[GatewayFilter, App], Awaitable[int]], app: App
) -> None:
    try:
        await work(GatewayFilter((name,)), app)
    except Unavailable as error:
        _log.warning("job waits for the database", job=kind, gateway=name, reason=error.reason)
    except Exception:  # noqa: BLE001 - one account's defect must not stop the others
        _log.exception("job failed", job=kind, gateway=name)


async def _check_attempts(only: GatewayFilter, app: App) -> int:
    url = app.settings.public_url
    return await order_jobs.check_attempts(app.db, app.gateways, url, app.clock(), only=only)


async def _send_refunds(only: GatewayFilter, app: App) -> int:
    url = app.settings.public_url
    return await refund_jobs.send_due(app.db, app.gateways, url, app.clock(), only=only)


async def _match_disputes(app: App) -> int:
    return await dispute_jobs.match(app.db, app.clock())


async def _match_refunds(app: App) -> int:
    return await refund_jobs.match(app.db, app.clock())


async def _scan_deposits(app: App) -> int:
    await deposit_jobs.scan_all(app.db, app.gateways, app.clock())
    return 0  # 0 makes the job pause: chains have a new block every few seconds


async def _expire_sessions(app: App) -> int:
    return await checkout_jobs.expire_due(app.db, app.clock())


async def _note_uses(app: App) -> int:
    await payment_link_jobs.record_ended(app.db)
    return 0  # 0 makes the job pause: nothing waits for these records


async def _settle(app: App) -> int:
    return await settlement.settle_due(app.db, app.clock())


async def _release_reserves(app: App) -> int:
    return await settlement.release_reserves(app.db, app.clock())


async def _find_forgotten(app: App) -> int:
    return await order_jobs.find_forgotten(app.db, app.clock())


async def _roll_up(app: App) -> int:
    await list_count_jobs.roll_up(app.db)
    return 0  # 0 makes the job pause: a roll-up is worth its cost only after many changes


async def _index_orders(app: App) -> int:
    await indexing.index_orders(app.db)
    return 0  # 0 makes the job pause: indexing is worth its cost only after many changes


async def _index_remaining_orders(app: App) -> int:
    await indexing.index_orders(app.db, at_least=1)
    return 0  # pause, since a search over all merchants reads what is not indexed yet


async def _index_orders_again(app: App) -> int:
    await indexing.index_again(app.db)
    return 0  # pause, so that searches have to read only one batch of marked orders


async def _count_figures(app: App) -> int:
    await figure_jobs.count_all(app.db)
    return 0  # 0 makes the job pause: many entries together cost less than each alone


async def _end_factors(app: App) -> int:
    return await people.lost_factors.end_due(app.db, app.clock())


async def _prune(app: App) -> int:
    async with app.db.connection() as tx:
        windows = await rate_limits.prune(tx, app.clock())
        keys = await idempotency.prune(tx, app.clock())
        requests = await epay_jobs.prune(tx, app.clock())
        stale_logins = await people.prune(tx, app.clock())
        refusals = await refused.prune(tx, app.clock())
        mails = await mail_jobs.prune(tx, app.clock())
        notes = await ignored_log.prune(tx, app.clock())
    return windows + keys + requests + stale_logins + refusals + mails + notes


async def _prune_webhooks(app: App) -> int:
    return await webhook_jobs.prune(app.db, now_ms())


async def _repair_figures(app: App) -> int:
    await figure_jobs.repair_by_gateway(app.db)
    await figure_jobs.repair_by_brand(app.db)
    return 0


JOBS: Final = (
    #   name       pause (s)  function
    Job("match_disputes", 5.0, _match_disputes),
    Job("match_refunds", 5.0, _match_refunds),
    Job("scan_deposits", 2.0, _scan_deposits),
    Job("expire_sessions", 5.0, _expire_sessions),
    Job("settle", 5.0, _settle),
    Job("release_reserves", 5.0, _release_reserves),
    Job("find_forgotten", 60.0, _find_forgotten),
    Job("note_uses", 30.0, _note_uses),
    Job("roll_up_totals", 1.0, _roll_up),
    Job("index_orders", 1.0, _index_orders),
    Job("index_remaining_orders", 300.0, _index_remaining_orders),
    Job("index_orders_again", 1.0, _index_orders_again),
    Job("count_figures", 30.0, _count_figures),
    Job("repair_figures", 3600.0, _repair_figures),
    Job("end_factors", 5.0, _end_factors),
    Job("prune", 60.0, _prune),
    Job("prune_webhooks", 300.0, _prune_webhooks),
)
# Jobs that run only if there is a mail server.
MAIL_JOBS: Final = (
    Job("note_events_for_mail", 1.0, mail_jobs.read_events),
    Job("note_others_for_mail", 15.0, mail_jobs.queue_other_mails),
    Job("note_prepaid_for_mail", 60.0, prepaid_mails.run),
)


async def run(settings: Settings, stop: asyncio.Event) -> None:
    """Run as a separate process until ``stop`` is set."""
    with tracing.trace_process(enabled=settings.tracing, refused=settings.tracing_refused):
        db = await _connect(settings, stop)
        if db is None:
            return
        adapters = gateways.load(settings.gateways, settings)
        async with (
            context.running(settings, db, adapters) as app,
            gateway_accounts.following(db, adapters, settings, orders.ATTEMPT_ENDS),
        ):
            await work(app, stop)


async def _connect(settings: Settings, stop: asyncio.Event) -> Db | None:
    """Connect to the database, retrying while it is away. Return None if ``stop`` is set first."""
    pause_s = _FIRST_PAUSE_S
    while not stop.is_set():
        try:
            return await Db.connect(
                settings.database_url or "", settings.db_pool_size, prepared=settings.db_prepared
            )
        except Unavailable as error:
            _log.warning("worker waits for the database", reason=error.reason)
        await _pause(stop, pause_s)
        pause_s = min(2 * pause_s, _LONGEST_PAUSE_S)
    return None


async def work(app: App, stop: asyncio.Event) -> None:
    """Run all jobs and send webhooks until ``stop`` is set; running jobs are completed.

    The check of the books is cancelled instead, because one of its statements may take long.
    """
    settings = app.settings
    options = Options(
        drain_s=settings.drain_timeout_s,
        host_limit=HostLimit(settings.webhook_host_at_once, settings.webhook_host_per_second),
        header_prefix=settings.webhook_header_prefix,
    )
    dispatcher = Dispatcher(app.db, app.outgoing, settings.secret_key, app.clock, options)
    notifier = epay_jobs.Notifier(app)
    notices = Job("send_notices", 0.25, lambda _: notifier.run_once())
    pruner = order_jobs.HistoryPruner(app.db, settings.history_days, anywhere=True)
    history = Job("prune_history", 60.0, lambda app: pruner.turn(app.clock()))
    check = scheduler.IncrementalCheck(app.db)

    async def check_books(_: App) -> int:
        await check.turn()
        return 0  # 0 makes the job pause after each part, even if more entries are unchecked

    books = Job("check_books", 5.0, check_books, is_cancelled_on_stop=True)
    mailer = Mailer(app.db, settings, app.clock) if settings.sends_mail else None
    others = _OtherGateways(tuple(name for name in app.gateways if not is_account_id(name)))
    jobs = (*JOBS, notices, history, books, *_per_gateway(others), *_mail_jobs(mailer))
    gateways.initialize_metrics(app.gateways, orders.ATTEMPT_ENDS)
    kinds = {job.name for job in jobs} | {"webhooks"}
    metrics.start_job_series(kinds, ("done", "unavailable", "failed"), get_args(Outcome))
    await asyncio.gather(dispatcher.run(stop), *(_repeat(job, app, stop) for job in jobs))
    await others.finish()
    await notifier.finish()
    if mailer is not None:
        await mailer.finish()


def _mail_jobs(mailer: Mailer | None) -> tuple[Job, ...]:
    if mailer is None:
        return ()
    return (*MAIL_JOBS, Job("send_mails", 0.25, lambda _: mailer.turn()))


async def _repeat(job: Job, app: App, stop: asyncio.Event) -> None:
    while not stop.is_set():
        started = time.perf_counter()
        processed_rows, outcome = 0, "done"
        try:
            processed_rows = await _run(job, app, stop)
        except Unavailable as error:
            outcome = "unavailable"
            _log.warning("job waits for the database", job=job.name, reason=error.reason)
        except Exception:  # noqa: BLE001 - one job's defect must not stop the others
            outcome = "failed"
            _log.exception("job failed", job=job.name)
        metrics.count_job(job.name, outcome, time.perf_counter() - started)
        if outcome != "done":
            await _pause(stop, max(1.0, job.pause_s))
        elif not processed_rows:
            await _pause(stop, job.pause_s)


async def _run(job: Job, app: App, stop: asyncio.Event) -> int:
    if not job.is_cancelled_on_stop:
        return await job.run(app)
    running = asyncio.ensure_future(job.run(app))
    stopped = asyncio.ensure_future(stop.wait())
    try:
        await asyncio.wait((running, stopped), return_when=asyncio.FIRST_COMPLETED)
        return running.result() if running.done() else 0
    finally:
        for task in (running, stopped):
            task.cancel()
        await asyncio.gather(running, stopped, return_exceptions=True)


async def _pause(stop: asyncio.Event, seconds: float) -> None:
    try:
        await asyncio.wait_for(stop.wait(), seconds)
    except TimeoutError:
        return
