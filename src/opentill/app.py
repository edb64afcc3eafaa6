"""The ASGI application: all routes, and the objects that live as long as the server."""

import asyncio
import contextlib
import functools
import hashlib
import re
from collections.abc import AsyncIterator
from typing import Any, Final

import asyncpg
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from opentill import (
    agreement,
    callbacks,
    context,
    epay,
    gateways,
    health,
    merchants,
    orders,
    worker,
)
from opentill.agreement import api as agreement_api
from opentill.auth import page_table as auth_pages
from opentill.checkouts import api as checkouts_api
from opentill.console import page_table as console_pages
from opentill.context import App
from opentill.core import tracing
from opentill.core.settings import SANDBOX, Settings
from opentill.dashboard import page_table as dashboard_pages
from opentill.db import replica
from opentill.db.database import Db, retry_while_away
from opentill.disputes import api as disputes_api
from opentill.disputes import events as dispute_events
from opentill.epay import api as epay_api
from opentill.epay.v2 import api as epay_v2_api
from opentill.gateways import accounts as gateway_accounts
from opentill.http import openapi, responses, routing, schemas
from opentill.http.caller import Caller
from opentill.http.ignored_log import AcceptedRequests
from opentill.http.middleware import RequestMiddleware, RequestRecorders
from opentill.http.operations import Operation
from opentill.http.refused import RefusedRequests
from opentill.ledger import api as ledger_api
from opentill.mail import api as mail_api
from opentill.orders import api as orders_api
from opentill.orders import events as order_events
from opentill.orders.payments import account_health
from opentill.pages import api as pages_api
from opentill.pages import errors, refusal
from opentill.payment_links import api as payment_links_api
from opentill.payouts import api as payouts_api
from opentill.payouts import events as payout_events
from opentill.people import api as people_api
from opentill.products import api as products_api
from opentill.receipts import pdf
from opentill.reference import api as reference_api
from opentill.reference.book import Book
from opentill.refunds import api as refunds_api
from opentill.refunds import events as refund_events
from opentill.web import assets
from opentill.web.responses import matches_etag
from opentill.webhooks import api as webhooks_api
from opentill.webhooks import document as webhooks_document
from opentill.webhooks import endpoint_test

OPERATIONS: Final[tuple[Operation, ...]] = (
    *agreement_api.operations,
    *products_api.operations,
    *checkouts_api.operations,
    *payment_links_api.operations,
    *orders_api.operations,
    *refunds_api.operations,
    *disputes_api.operations,
    *payouts_api.operations,
    *ledger_api.operations,
    *webhooks_api.operations,
)
# Operations for persons, authenticated by a token instead of an API key.
PEOPLE_OPERATIONS: Final[tuple[Operation, ...]] = (
    *people_api.operations,
    *mail_api.operations,
)
# Pages for persons, authenticated by a cookie.
PORTALS: Final = (auth_pages.PORTAL, dashboard_pages.PORTAL, console_pages.PORTAL)
auth_pages.PORTAL.neighbors = (console_pages.PORTAL, dashboard_pages.PORTAL)
PAYLOADS: Final = (
    order_events.PAYLOADS
    | refund_events.PAYLOADS
    | dispute_events.PAYLOADS
    | payout_events.PAYLOADS
    | endpoint_test.PAYLOADS
)


def openapi_document(settings: Settings) -> dict[str, Any]:
    """Return the OpenAPI 3.1 document of this deployment."""
    document = openapi.build_document(
        (*OPERATIONS, *PEOPLE_OPERATIONS), settings.public_url, _contact(settings)
    )
    webhooks_document.add(document, PAYLOADS, settings.webhook_header_prefix)
    return schemas.rewrite_document(document)


def _contact(settings: Settings) -> dict[str, str]:
    """Return OpenAPI's Contact Object: the operator's name, and their email or URL if set."""
    contact = {"name": settings.operator_name}
    operator_contact = settings.public_contact
    if re.fullmatch(r"[^@\s]+@[^@\s]+\.[^@\s]+", operator_contact):
        contact["email"] = operator_contact
    elif re.fullmatch(r"https?://\S+", operator_contact):
        contact["url"] = operator_contact
    return contact


async def openapi_json(request: Request) -> Response:
    """Serve the OpenAPI document, or 304 if the client has it."""
    encoded: bytes = request.app.state.openapi
    tag = _entity_tag(encoded)
    # ``no-cache``: clients may store the document but must revalidate it.
    headers = {"etag": tag, "cache-control": "no-cache"}
    if matches_etag(request, tag):
        return Response(status_code=304, headers=headers)
    return Response(encoded, media_type="application/json", headers=headers)


@functools.cache
def _entity_tag(encoded: bytes) -> str:
    return f'"{hashlib.sha256(encoded).hexdigest()[:32]}"'


ROUTES: Final[tuple[Route, ...]] = (
    *routing.operation_routes((*OPERATIONS, *PEOPLE_OPERATIONS)),
    *callbacks.routes,
    *epay_api.routes(refusal.submission_refused),
    *epay_v2_api.routes(refusal.submission_refused),
    *pages_api.routes,
    *auth_pages.routes,
    *dashboard_pages.routes,
    *console_pages.routes,
    *reference_api.routes,
    *health.routes,
    *assets.routes,
    Route("/openapi.json", openapi_json),
)


async def _check_epay(db: Db, settings: Settings) -> None:
    async with db.connection() as tx:
        await epay.check_key(tx, settings.secret_key)


@contextlib.asynccontextmanager
async def _working(app: App) -> AsyncIterator[None]:
    """Run the worker during the block; running jobs are completed at its end."""
    stop = asyncio.Event()
    task = asyncio.create_task(worker.work(app, stop))
    try:
        yield
    finally:
        stop.set()
        await task


def create_app(settings: Settings, *, run_worker: bool = False) -> Starlette:
    """Create the application; ``settings.database_url`` must be set.

    ``run_worker``: the application runs the worker too. ``state.draining`` makes ``/readyz`` return
    503 before a shutdown. Raises BrokenTemplate for an invalid agreement template, and
    ConfigurationError for an unknown or unconfigured gateway.
    """
    agreement.current(settings)
    adapters = gateways.load(settings.gateways, settings)

    @contextlib.asynccontextmanager
    async def lifespan(_: object) -> AsyncIterator[None]:
        with tracing.trace_process(enabled=settings.tracing, refused=settings.tracing_refused):
            try:
                async with serving():
                    yield
            finally:
                pdf.close()

    @contextlib.asynccontextmanager
    async def serving() -> AsyncIterator[None]:
        address, size = settings.database_url or "", settings.db_pool_size
        db = await retry_while_away(
            lambda: Db.connect(address, size, prepared=settings.db_prepared)
        )
        async with (
            context.running(settings, db, adapters) as app,
            gateway_accounts.following(db, adapters, settings, orders.ATTEMPT_ENDS),
            account_health.following(db, adapters, app.clock),
        ):
            gateways.initialize_metrics(adapters, orders.ATTEMPT_ENDS)
            app.return_address = epay.return_address
            server.state.app = app
            server.state.confirmations = callbacks.Confirmations(app)
            # Before the first migration this check fails, because its tables do not exist; /readyz
            # reports the missing migration.
            with contextlib.suppress(asyncpg.UndefinedTableError):
                await retry_while_away(lambda: _check_epay(db, settings))
            working = _working(app) if run_worker else contextlib.nullcontext()
            async with (
                working,
                key_uses.writing(db),
                refused.writing(db),
                accepted.writing(db),
                replica.open_replica(db, settings) as app.read_from,
            ):
                yield

    async def authenticate(key: str | None, address: str) -> Caller | None:
        app: App = server.state.app
        now = app.clock()
        caller = await merchants.authenticate(app.db, settings, key, address, now)
        if caller is not None:
            key_uses.record(caller.key_id, now)
        return caller

    server = Starlette()
    server.state.key_uses = key_uses = merchants.KeyUses()
    server.state.refused = refused = RefusedRequests()
    server.state.accepted = accepted = AcceptedRequests()
    server.router = routing.PathRouter(ROUTES, lifespan)
    # Starlette's own middlewares for exceptions are omitted: RequestMiddleware handles every
    # exception.
    server.middleware_stack = RequestMiddleware(
        server.router,
        authenticate,
        settings.trusted_proxies,
        error_page=errors.error_page,
        recorders=RequestRecorders(refused.record, accepted.record),
        https=settings.is_https,
        test_mode=SANDBOX in settings.gateways,
    )
    server.state.settings = settings
    server.state.draining = False
    server.state.openapi = responses.encode(openapi_document(settings))
    server.state.reference = Book(settings, server.state.openapi)
    return server
