"""``/healthz``, ``/readyz`` and ``/metrics``."""

import asyncio
import secrets
from collections import deque
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from typing import Final, Literal

import asyncpg
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from opentill import context, disputes, figures, ledger, mail, merchants, queues, refunds
from opentill.core import metrics
from opentill.core.errors import NotFound, Problem, Unauthorized, Unavailable
from opentill.core.metrics import Reading
from opentill.core.settings import Settings
from opentill.db.clock import business_now, now_ms
from opentill.db.database import Db, Tx
from opentill.db.migrations import SchemaMismatch, check
from opentill.db.replica import Replica
from opentill.orders import jobs as order_jobs
from opentill.refunds import jobs as refund_jobs
from opentill.webhooks import jobs as webhook_jobs

_TIMEOUT_S: Final = 1.5
# Reading the metrics may take this long, because scrapers time out after ten seconds.
_READ_S: Final = 8.0
_OVERDUE_MS: Final = 2 * 86_400_000
Positions = deque[tuple[float, int]]
_EVER: Final = 2**53 // 900_000 * 900_000  # the end of a quarter hour in the far future, Unix ms


async def healthz(_request: Request) -> Response:
    """Respond that the process runs."""
    return JSONResponse({"status": "ok"})


async def readyz(request: Request) -> Response:
    """Respond whether the process is ready: database writable, schema current, not draining."""
    app = context.app_of(request.scope)
    why = "draining" if request.app.state.draining else await _trouble(app.db)
    if why is None:
        extra = {"replica": app.replica.state} if isinstance(app.replica, Replica) else {}
        return JSONResponse({"status": "ready"} | extra)
    body = {"status": "unavailable", "reason": why}
    return JSONResponse(body, status_code=503, headers={"retry-after": "1"})


async def _trouble(db: Db) -> str | None:
    try:
        async with asyncio.timeout(_TIMEOUT_S), db.connection() as tx:
            # A newer version of OpenTill may have migrated the schema since this process started.
            await check(tx)
    except (Problem, TimeoutError):
        return "the database does not respond"
    except SchemaMismatch:
        return "the database has another schema: run opentill migrate"
    return await _refused_writes(db) if db.refuses_writes else None


async def _refused_writes(db: Db) -> str | None:
    """Try a write after the database has refused one; return why it is refused again, or None."""
    try:
        async with asyncio.timeout(_TIMEOUT_S):
            await db.try_write()
    except (Problem, TimeoutError):
        return "the database takes no writes: its disk is full, or it is a standby"
    return None


async def metrics_page(request: Request) -> Response:
    """Serve the metrics to clients that send the token. Raises NotFound if no token is set."""
    app = context.app_of(request.scope)
    token = app.settings.metrics_token
    if not token:
        raise NotFound
    credentials = request.headers.get("authorization", "")
    if not secrets.compare_digest(credentials.encode(), f"Bearer {token}".encode()):
        raise Unauthorized
    replica = app.replica if isinstance(app.replica, Replica) else None
    text = metrics.render(await readings(app.db, app.clock, replica))
    return Response(text, headers={"content-type": metrics.CONTENT_TYPE})


class Reader:
    """Reads current metrics over a separate connection, outside of any event loop."""

    def __init__(self, settings: Settings) -> None:
        """Create the reader without connecting."""
        self._settings = settings
        # Positions of the primary in its write-ahead log, by which the replica's lag is measured.
        # None until a replica is read for the first time.
        self._positions: Positions | None = None

    def read(self) -> list[Reading]:
        """Return the current readings. Thread-safe."""
        return asyncio.run(self._read())

    async def _read(self) -> list[Reading]:
        settings = self._settings
        try:
            db = await Db.connect(settings.database_url or "", 1, prepared=settings.db_prepared)
        except Unavailable:
            return [_database(up=False)]
        try:
            async with asyncio.timeout(_READ_S):
                async with db.connection() as tx:
                    now = await business_now(tx, settings.gateways)
                async with self._looking_at_replica(db) as replica:
                    return await readings(db, lambda: now, replica)
        except (Unavailable, TimeoutError):
            return [_database(up=False)]
        except asyncpg.UndefinedTableError:  # the database has not been migrated yet
            return [_database(up=True)]
        finally:
            await db.close()

    @asynccontextmanager
    async def _looking_at_replica(self, db: Db) -> AsyncIterator[Replica | None]:
        """Yield the opened and checked replica, None if there is none.

        The primary's positions are kept for the next check.
        """
        if self._settings.database_read_url is None:
            yield None
            return
        replica = await Replica.open(db, self._settings)
        if self._positions is not None:
            replica.primary_positions = self._positions
        self._positions = replica.primary_positions
        try:
            await replica.check()
            yield replica
        finally:
            await replica.close()


async def readings(
    db: Db, clock: Callable[[], int], replica: Replica | None = None
) -> list[Reading]:
    """Return the current readings of money, queues and the ledger check.

    While the database is unavailable, only ``opentill_database_up`` 0 is returned.
    """
    all_readings = (
        [] if replica is None else replica_readings(usable=replica.usable, lag_s=replica.lag_s)
    )
    try:
        async with asyncio.timeout(_READ_S), db.connection() as tx:
            all_readings += await _queue_readings(tx, clock())
            all_readings += await _money_readings(tx)
    except (Unavailable, TimeoutError):
        return [*all_readings, _database(up=False)]
    return [*all_readings, _database(up=True)]


def _single(name: str, text: str, value: float) -> Reading:
    return Reading(f"opentill_{name}", text, [({}, value)])


def _database(*, up: bool) -> Reading:
    return _single("database_up", "Whether the database responded to this scrape", up)


def replica_readings(*, usable: bool, lag_s: float | None) -> list[Reading]:
    """Return the readings of a replica, whose lag may be unknown."""
    replica_readings = [
        _single("replica_usable", "Whether lists are read from the replica", usable)
    ]
    if lag_s is not None:
        text = "How far the replica is behind the primary"
        replica_readings.append(_single("replica_lag_seconds", text, lag_s))
    return replica_readings


async def _queue_readings(tx: Tx, now: int) -> list[Reading]:
    ages: list[tuple[Mapping[str, str], float]] = []
    for name, queue in queues.QUEUES.items():
        ages.append(({"queue": name}, queues.age(await queue.oldest(tx), now) / 1000))
    waiting, oldest_ms = await webhook_jobs.measure_backlog(tx, now)
    ages.append(({"queue": "webhooks"}, max(0, oldest_ms) / 1000))
    mails = await mail.queue_state(tx, now)
    ages.append(({"queue": "mail"}, queues.age(mails.oldest, now) / 1000))
    checked = await ledger.count_violations(tx)
    return [
        Reading(
            "opentill_queue_age_seconds",
            "How long ago the oldest row of a queue was due",
            ages,
        ),
        _single(
            "webhook_queue_age_seconds",
            "The same of webhooks; older boards read it",
            max(0, oldest_ms) / 1000,
        ),
        _single(
            "webhook_deliveries_waiting", "Deliveries that are to be sent, at most 10000", waiting
        ),
        _single("mails_waiting", "Mails that are to be sent, at most 10000", mails.waiting),
        _single(
            "mails_unknown_last_day",
            "Mails of 24 hours of which nobody knows whether they were sent, at most 10000",
            mails.unknown,
        ),
        _single(
            "mails_failed_last_day",
            "Mails of 24 hours that were given up, at most 10000",
            mails.failed,
        ),
        _single(
            "mail_events_put_aside_last_day",
            "Events of 24 hours that no mail could be made of, at most 10000",
            mails.dead_letters,
        ),
        _single(
            "attempts_due",
            "Payment attempts about which a gateway is to be asked now, at most 10000",
            await order_jobs.count_due(tx, now),
        ),
        _single(
            "refunds_due",
            "Refunds that are to be sent now, at most 10000",
            await refund_jobs.count_due(tx, now),
        ),
        _single(
            "orders_stuck",
            "Orders whose payment has been on its way for more than 15 minutes, at most 10000",
            await order_jobs.count_stuck(tx, now),
        ),
        _single(
            "disputes_unmatched",
            "Disputes that a gateway reported and no order explains",
            await disputes.count_unmatched(tx),
        ),
        _single(
            "refunds_unmatched",
            "Refunds made at a gateway that are in no order",
            await refunds.count_unmatched(tx),
        ),
        _single(
            "ledger_violations", "What the incremental check found in the books", checked.violations
        ),
        _single("ledger_entries_checked", "Entries that it has checked", checked.entries),
        _single(
            "ledger_checks_overdue",
            "Balances of which it has not checked every rule for two days",
            await ledger.count_overdue(tx, now_ms() - _OVERDUE_MS),
        ),
    ]


async def _money_readings(tx: Tx) -> list[Reading]:
    """Read the sums of money by currency; 0 for a settlement currency without payments."""
    currency_sums = await figures.sum_counted(tx, None, 0, _EVER)
    paid = {sums.currency for sums in currency_sums}
    unpaid = sorted(set(await merchants.settlement_currencies(tx)) - paid)
    currency_sums += [figures.CurrencySums(currency=currency) for currency in unpaid]
    return [
        Reading(
            f"opentill_{name}",
            f"{text}, by settlement currency",
            [({"currency": sums.currency}, getattr(sums, field)) for sums in currency_sums],
            kind,
        )
        for name, field, kind, text in MONEY
    ]


# Counters only increase; values that operators or banks can reverse are gauges.
MONEY: Final[Sequence[tuple[str, str, Literal["counter", "gauge"], str]]] = (
    ("payments_confirmed_total", "all_payments", "counter", "Payments confirmed"),
    ("money_confirmed_minor_total", "paid_minor", "counter", "Minor units confirmed"),
    (
        "money_paid_directly_minor_total",
        "direct_minor",
        "counter",
        "Minor units paid to merchants' own accounts",
    ),
    ("refunds_succeeded", "refunds", "gauge", "Refunds that succeeded and were not reversed"),
    ("money_refunded_minor", "refunded_minor", "gauge", "Minor units refunded"),
    ("disputes_lost", "disputes", "gauge", "Disputes lost and not recovered"),
    ("money_disputed_minor", "disputed_minor", "gauge", "Minor units lost to disputes"),
    ("fees_minor", "fees_minor", "gauge", "Minor units of fees, less those given back"),
)
routes: Final = (
    Route("/healthz", healthz),
    Route("/readyz", readyz),
    Route("/metrics", metrics_page),
)
