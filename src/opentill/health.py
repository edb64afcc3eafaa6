"""``/healthz``, ``/readyz`` and ``/metrics``: what an orchestrator asks."""

import asyncio
import secrets
from typing import Final

from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from opentill import context, disputes, ledger, mail
from opentill.context import App
from opentill.core import metrics
from opentill.core.errors import NotFound, Problem, Unauthorized
from opentill.db.database import Db
from opentill.db.migrations import SchemaMismatch, check
from opentill.db.replica import Replica
from opentill.orders import jobs as order_jobs
from opentill.refunds import jobs as refund_jobs
from opentill.webhooks import jobs as webhook_jobs

_TIMEOUT_S: Final = 1.5


async def healthz(_request: Request) -> Response:
    """Say that the process runs."""
    return JSONResponse({"status": "ok"})


async def readyz(request: Request) -> Response:
    """Say whether requests are welcome: database there, schema right, not about to stop."""
    app = context.of(request.scope)
    why = "draining" if request.app.state.draining else await _trouble(app.db)
    if why is None:
        also = {"replica": app.replica.state} if isinstance(app.replica, Replica) else {}
        return JSONResponse({"status": "ready"} | also)
    body = {"status": "unavailable", "reason": why}
    return JSONResponse(body, status_code=503, headers={"retry-after": "1"})


async def _trouble(db: Db) -> str | None:
    try:
        async with asyncio.timeout(_TIMEOUT_S), db.connection() as tx:
            await check(tx, newer_ok=True)  # a newer one migrated ahead of us
    except (Problem, TimeoutError):
        return "the database does not respond"
    except SchemaMismatch:
        return "the database has another schema: run opentill migrate"
    return None


async def metrics_page(request: Request) -> Response:
    """Return the figures for Prometheus, to a bearer of the token; without a token set, nothing."""
    app = context.of(request.scope)
    token = app.settings.metrics_token
    if not token:
        raise NotFound
    given = request.headers.get("authorization", "")
    if not secrets.compare_digest(given.encode(), f"Bearer {token}".encode()):
        raise Unauthorized
    return Response(
        metrics.render(await gauges(app)), headers={"content-type": metrics.CONTENT_TYPE}
    )


async def gauges(app: App) -> dict[str, float]:
    """Return the figures of the moment: what is due for the worker, and what it found."""
    now = app.clock()
    replica: dict[str, float] = {}
    if isinstance(app.replica, Replica):
        replica["opentill_replica_usable"] = app.replica.usable
        if app.replica.lag_s is not None:
            replica["opentill_replica_lag_seconds"] = app.replica.lag_s
    async with app.db.connection() as tx:
        checked = await ledger.checked(tx)
        waiting, oldest_ms = await webhook_jobs.waiting(tx, now)
        mails = await mail.state(tx, now)
        return replica | {
            "opentill_attempts_due": await order_jobs.count_due(tx, now),
            "opentill_refunds_due": await refund_jobs.count_due(tx, now),
            "opentill_orders_stuck": await order_jobs.count_stuck(tx, now),
            "opentill_disputes_unmatched": await disputes.count_unmatched(tx),
            "opentill_webhook_deliveries_waiting": waiting,
            "opentill_webhook_queue_age_seconds": oldest_ms / 1000,
            "opentill_mails_waiting": mails.waiting,
            "opentill_mail_queue_age_seconds": max(0, now - (mails.oldest or now)) / 1000,
            "opentill_mails_unknown_last_day": mails.unknown,
            "opentill_mails_failed_last_day": mails.failed,
            "opentill_ledger_violations": checked.violations,
            "opentill_ledger_entries_checked": checked.entries,
        }


routes: Final = (
    Route("/healthz", healthz),
    Route("/readyz", readyz),
    Route("/metrics", metrics_page),
)
