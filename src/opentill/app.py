"""The server, put together: the API, the pages and what gateways report to."""

import asyncio
import contextlib
import functools
import hashlib
import re
from collections.abc import AsyncIterator, Mapping
from http import HTTPStatus
from typing import TYPE_CHECKING, Any, Final

import asyncpg
from litestar import Litestar, MediaType, Request, get
from litestar.enums import ScopeType
from litestar.exceptions import HTTPException
from litestar.response import Response

from opentill import agreement, callbacks, epay, gateways, health, merchants, worker
from opentill.agreement import api as agreement_api
from opentill.checkouts import api as checkouts_api
from opentill.context import App
from opentill.core.errors import Internal, Invalid, MethodNotAllowed, NotFound, Problem
from opentill.core.settings import SANDBOX, Settings
from opentill.db import replica
from opentill.db.clock import Clock
from opentill.db.database import Db, patiently
from opentill.disputes import api as disputes_api
from opentill.epay import api as epay_api
from opentill.http import openapi, operations, schemas
from opentill.http.caller import Caller
from opentill.http.incoming import MAX_BODY
from opentill.http.middleware import RequestMiddleware
from opentill.http.operations import Operation
from opentill.ledger import api as ledger_api
from opentill.orders import api as orders_api
from opentill.outgoing.client import to_merchants
from opentill.pages import api as pages_api
from opentill.pages import refusal
from opentill.payouts import api as payouts_api
from opentill.products import api as products_api
from opentill.refunds import api as refunds_api
from opentill.webhooks import api as webhooks_api
from opentill.webhooks import document as webhooks_document

if TYPE_CHECKING:
    from litestar.types import ASGIApp

OPERATIONS: Final[tuple[Operation, ...]] = (
    *agreement_api.operations,
    *products_api.operations,
    *checkouts_api.operations,
    *orders_api.operations,
    *refunds_api.operations,
    *disputes_api.operations,
    *payouts_api.operations,
    *ledger_api.operations,
    *webhooks_api.operations,
)


class Server:
    """The ASGI application; ``state.draining`` turns ``/readyz`` away before a stop."""

    def __init__(self, asgi: "ASGIApp", litestar: Litestar) -> None:
        """Keep the outermost layer and the framework's application inside it."""
        self._asgi = asgi
        self.state = litestar.state
        self.litestar = litestar

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        """Pass a request or the lifespan on."""
        await self._asgi(scope, receive, send)


class _Front:
    """What is hot goes straight to its handler, past the framework's layers; see decision 0003."""

    def __init__(self, litestar: Litestar, direct: "Mapping[str, ASGIApp]") -> None:
        """``direct`` is by the first segment of the path."""
        self._litestar = litestar
        self._direct = direct

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        """Pass a request or the lifespan on."""
        if scope["type"] == ScopeType.HTTP:
            direct = self._direct.get(scope["path"].lstrip("/").partition("/")[0])
            if direct is not None:
                scope["litestar_app"] = self._litestar  # as the framework does
                await direct(scope, receive, send)
                return
        await self._litestar(scope, receive, send)


def document(settings: Settings) -> dict[str, Any]:
    """Return the OpenAPI 3.1 document of this deployment."""
    made = openapi.document(OPERATIONS, settings.public_url, _contact(settings))
    webhooks_document.add(made, settings.webhook_header_prefix)
    return schemas.finished(made)


def _contact(settings: Settings) -> dict[str, str]:
    """Whom an integrator asks: the operator, as the agreement names it."""
    contact = {"name": settings.operator_name}
    told = settings.operator_contact
    if re.fullmatch(r"[^@\s]+@[^@\s]+\.[^@\s]+", told):
        contact["email"] = told
    elif re.fullmatch(r"https?://\S+", told):
        contact["url"] = told
    return contact


@get("/openapi.json", media_type=MediaType.JSON, include_in_schema=False, sync_to_thread=False)
def openapi_json(request: Request[Any, Any, Any]) -> Response[bytes]:
    """Serve the OpenAPI document, or say that the client has it already."""
    tag: str = request.app.state.openapi_tag
    headers = {"etag": tag, "cache-control": "no-cache"}  # may be kept, and is asked about
    known = request.headers.get("if-none-match", "").replace("W/", "").split(",")
    if {tag, "*"} & {each.strip() for each in known}:  # RFC 9110 §13.1.2
        return Response(b"", status_code=304, media_type=MediaType.JSON, headers=headers)
    encoded: bytes = request.app.state.openapi_encoded
    return Response(encoded, media_type=MediaType.JSON, headers=headers)


def _refused(_request: Request[Any, Any, Any], error: Exception) -> Response[bytes]:
    """Turn whatever the framework or a handler raises into the one error body."""
    problem: Problem
    if isinstance(error, Problem):
        problem = error
    elif isinstance(error, HTTPException) and error.status_code == HTTPStatus.NOT_FOUND:
        problem = NotFound()
    elif isinstance(error, HTTPException) and error.status_code == HTTPStatus.METHOD_NOT_ALLOWED:
        problem = MethodNotAllowed()
    elif isinstance(error, HTTPException) and error.status_code < HTTPStatus.INTERNAL_SERVER_ERROR:
        problem = Invalid("request", "request must be as the documentation at /docs says")
    else:
        operations.log_defect(error)
        problem = Internal()
    status, body, own = operations.failure(problem)
    headers = {name.decode(): value.decode() for name, value in own}
    if isinstance(error, HTTPException) and "allow" in (error.headers or {}):
        headers["allow"] = (error.headers or {})["allow"]  # RFC 9110 §15.5.6
    return Response(body, status_code=status, media_type=MediaType.JSON, headers=headers)


async def _check_epay(db: Db, settings: Settings) -> None:
    async with db.connection() as tx:
        await epay.check_key(tx, settings.secret_key)


def create_app(settings: Settings, *, run_worker: bool = False) -> Server:
    """Make the server. ``settings.database_url`` must be there; ``run_worker`` works inside it.

    Raises BrokenTemplate for an agreement template that cannot be filled in, and ConfigurationError
    for a gateway that is not there or not set up.
    """
    agreement.current(settings)
    adapters = gateways.load(settings.gateways, settings)

    @contextlib.asynccontextmanager
    async def lifespan(litestar: Litestar) -> AsyncIterator[None]:
        address, size = settings.database_url or "", settings.db_pool_size
        db = await patiently(lambda: Db.connect(address, size, prepared=settings.db_prepared))
        clock = Clock(db, settings.gateways)
        outgoing = to_merchants(settings)
        app = App(settings=settings, db=db, gateways=adapters, outgoing=outgoing, clock=clock.now)
        app.return_address = functools.partial(epay.return_address, app)
        litestar.state.app = app
        litestar.state.confirmations = callbacks.confirmations(app)
        litestar.state.refusal_page = functools.partial(refusal.submission_refused, settings)
        litestar.state.notified = callbacks.notified(app)
        litestar.state.db = db
        litestar.state.gateways = adapters
        with contextlib.suppress(asyncpg.UndefinedTableError):  # not migrated yet: see /readyz
            await patiently(lambda: _check_epay(db, settings))
        stop = asyncio.Event()
        working = asyncio.create_task(worker.work(app, stop)) if run_worker else None
        try:
            async with clock.following(), replica.beside(app.db, settings) as app.read_from:
                yield
        finally:
            stop.set()
            if working is not None:
                await working
            for adapter in adapters.values():
                await adapter.close()
            await outgoing.close()
            await db.close()

    litestar = Litestar(
        route_handlers=[
            *pages_api.routes,
            health.healthz,
            health.readyz,
            health.metrics_page,
            openapi_json,
        ],
        lifespan=[lifespan],
        exception_handlers={Exception: _refused},
        openapi_config=None,
        logging_config=None,
        request_max_body_size=MAX_BODY,
        debug=False,
    )
    litestar.state.draining = False
    litestar.state.settings = settings
    litestar.state.openapi = document(settings)
    litestar.state.openapi_encoded = operations.encode(litestar.state.openapi)
    digest = hashlib.sha256(litestar.state.openapi_encoded).hexdigest()
    litestar.state.openapi_tag = f'"{digest[:32]}"'

    async def door(key: str | None, address: str) -> Caller | None:
        app: App = litestar.state.app
        return await merchants.authenticate(app.db, settings, key, address, app.clock())

    direct = {
        "v1": operations.serve(OPERATIONS),
        "gateways": callbacks.callback,
        "epay": epay_api.door,
        **dict.fromkeys(epay_api.AT_THE_ROOT, epay_api.door),
    }
    front = _Front(litestar, direct)
    edge = RequestMiddleware(
        front,
        door,
        settings.trusted_proxies,
        https=settings.is_https,
        test_mode=SANDBOX in settings.gateways,
    )
    return Server(edge, litestar)
