"""The server, put together: every route that is served, and what lives as long as the server."""

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
from opentill.backoffice import api as backoffice_api
from opentill.checkouts import api as checkouts_api
from opentill.console import api as console_api
from opentill.context import App
from opentill.core import tracing
from opentill.core.settings import SANDBOX, Settings
from opentill.dashboard import api as dashboard_api
from opentill.db import replica
from opentill.db.database import Db, patiently
from opentill.disputes import api as disputes_api
from opentill.disputes import events as dispute_events
from opentill.epay import api as epay_api
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
from opentill.pages import api as pages_api
from opentill.pages import errors, pdf, refusal
from opentill.payment_links import api as payment_links_api
from opentill.payouts import api as payouts_api
from opentill.payouts import events as payout_events
from opentill.people import api as people_api
from opentill.products import api as products_api
from opentill.reference import api as reference_api
from opentill.reference.book import Book
from opentill.refunds import api as refunds_api
from opentill.refunds import events as refund_events
from opentill.web import assets
from opentill.web.responses import matches_etag
from opentill.webhooks import api as webhooks_api
from opentill.webhooks import document as webhooks_document
from opentill.webhooks import events as webhook_events

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
# Of people, who come with a token of their own and no API key.
PEOPLE_OPERATIONS: Final[tuple[Operation, ...]] = (
    *people_api.operations,
    *mail_api.operations,
)
# The pages of people, who come with a cookie.
FACES: Final = (backoffice_api.FACE, dashboard_api.FACE, console_api.FACE)
PAYLOADS: Final = (
    order_events.PAYLOADS
    | refund_events.PAYLOADS
    | dispute_events.PAYLOADS
    | payout_events.PAYLOADS
    | webhook_events.PAYLOADS
)


def document(settings: Settings) -> dict[str, Any]:
    """Return the OpenAPI 3.1 document of this deployment."""
    made = openapi.build_document(
        (*OPERATIONS, *PEOPLE_OPERATIONS), settings.public_url, _contact(settings)
    )
    webhooks_document.add(made, PAYLOADS, settings.webhook_header_prefix)
    return schemas.rewrite_document(made)


def _contact(settings: Settings) -> dict[str, str]:
    """Return the operator, as the agreement names it, for integrators to ask."""
    contact = {"name": settings.operator_name}
    given = settings.operator_contact
    if re.fullmatch(r"[^@\s]+@[^@\s]+\.[^@\s]+", given):
        contact["email"] = given
    elif re.fullmatch(r"https?://\S+", given):
        contact["url"] = given
    return contact


async def openapi_json(request: Request) -> Response:
    """Serve the OpenAPI document, or say that the client has it already."""
    encoded: bytes = request.app.state.openapi
    tag = _entity_tag(encoded)
    headers = {"etag": tag, "cache-control": "no-cache"}  # may be stored, and is asked about
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
    *pages_api.routes,
    *backoffice_api.routes,
    *dashboard_api.routes,
    *console_api.routes,
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
    """Do what is due while the block runs; what is begun is finished."""
    stop = asyncio.Event()
    task = asyncio.create_task(worker.work(app, stop))
    try:
        yield
    finally:
        stop.set()
        await task


def create_app(settings: Settings, *, run_worker: bool = False) -> Starlette:
    """Make the server. ``settings.database_url`` must be there; ``run_worker`` works inside it.

    ``state.draining`` makes ``/readyz`` say 503 before a stop. Raises BrokenTemplate for an
    agreement template that cannot be filled in, and ConfigurationError for a gateway that is not
    there or not set up.
    """
    agreement.current(settings)
    adapters = gateways.load(settings.gateways, settings)

    @contextlib.asynccontextmanager
    async def lifespan(_: object) -> AsyncIterator[None]:
        with tracing.running(enabled=settings.tracing, refused=settings.tracing_refused):
            try:
                async with serving():
                    yield
            finally:
                pdf.close()

    @contextlib.asynccontextmanager
    async def serving() -> AsyncIterator[None]:
        address, size = settings.database_url or "", settings.db_pool_size
        db = await patiently(lambda: Db.connect(address, size, prepared=settings.db_prepared))
        async with context.running(settings, db, adapters) as app:
            gateways.begin_series(adapters, orders.ENDS)
            app.return_address = epay.return_address
            server.state.app = app
            server.state.confirmations = callbacks.create_confirmations(app)
            with contextlib.suppress(asyncpg.UndefinedTableError):  # not migrated yet: see /readyz
                await patiently(lambda: _check_epay(db, settings))
            working = _working(app) if run_worker else contextlib.nullcontext()
            async with (
                working,
                key_uses.writing(db),
                refused.writing(db),
                accepted.writing(db),
                replica.beside(db, settings) as app.read_from,
            ):
                yield

    async def authenticate(key: str | None, address: str) -> Caller | None:
        app: App = server.state.app
        now = app.clock()
        caller = await merchants.authenticate(app.db, settings, key, address, now)
        if caller is not None:
            key_uses.note(caller.key_id, now)
        return caller

    server = Starlette()
    server.state.key_uses = key_uses = merchants.KeyUses()
    server.state.refused = refused = RefusedRequests()
    server.state.accepted = accepted = AcceptedRequests()
    server.router = routing.PathRouter(ROUTES, lifespan)
    # In place of Starlette's own two for exceptions, which would have none left to handle.
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
    server.state.openapi = responses.encode(document(settings))
    server.state.reference = Book(settings, server.state.openapi)
    return server
