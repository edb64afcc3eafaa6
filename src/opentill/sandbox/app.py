"""Puts the bank together: routes, storage, and what runs beside them."""

import asyncio
import logging
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Final

from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from opentill.sandbox import api, pages
from opentill.sandbox.bank import Bank
from opentill.sandbox.callbacks import RECEIVER, Postman
from opentill.sandbox.model import Refusal, Timing
from opentill.sandbox.purge import Purger
from opentill.sandbox.storage import Store
from opentill.sandbox.timers import TIMERS, Clock
from opentill.sandbox.wire import json_response

_log: Final = logging.getLogger(__name__)
_RESTART_S: Final = 1.0


def create_app(
    *, data_dir: Path, secret: str, public_url: str, timing: Timing | None = None
) -> Starlette:
    """Return the bank as an ASGI application; it opens its storage when it is started.

    ``data_dir`` holds ``sandbox.sqlite3`` and is made if missing. ``secret`` is what shops send as
    a bearer token and what signs callbacks. ``public_url`` is where customers reach the bank. One
    process serves one data directory. Raises ValueError if the secret is empty.
    """
    if not secret:
        msg = "The sandbox bank needs a secret that is not empty."
        raise ValueError(msg)
    timing = timing or Timing()
    public_url = public_url.rstrip("/")

    def notify(topic: str) -> None:
        if topic == TIMERS:
            clock.notify()
        else:
            postman.notify(topic.removeprefix(RECEIVER))

    bank = Bank(public_url, timing)
    store = Store(data_dir / "sandbox.sqlite3", notify)
    clock = Clock(store, bank.ring)
    postman = Postman(store, secret, timing)
    purger = Purger(store)

    @asynccontextmanager
    async def running(_: object) -> AsyncGenerator[None, None]:
        await store.open()
        tasks = [asyncio.create_task(_keep_running(one.run)) for one in (clock, postman, purger)]
        try:
            yield
        finally:
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)
            await store.close()

    app = Starlette(
        routes=[*api.routes, *pages.routes, Route("/healthz", healthz)],
        exception_handlers={Refusal: _refuse, HTTPException: _refuse, Exception: _refuse},
        lifespan=running,
    )
    app.router.redirect_slashes = False
    app.state.bank, app.state.store = bank, store
    app.state.pages, app.state.secret = pages.Pages(public_url), secret
    return app


async def healthz(_request: Request) -> Response:
    """Say that the process runs."""
    return json_response({"status": "ok"})


async def _keep_running(run: Callable[[], Awaitable[None]]) -> None:
    """Run for ever; after a defect say so and begin again, since nothing is kept in memory."""
    while True:
        try:
            await run()
        except Exception:  # noqa: BLE001 - whatever it was, callbacks must go on
            _log.exception("the sandbox bank's background work stopped; it starts again")
        await asyncio.sleep(_RESTART_S)


async def _refuse(request: Request, error: Exception) -> Response:
    """Show a person a page, and a program ``{"error": {"code", "message"}}``."""
    if request.scope.get("route") in pages.routes or "text/html" in request.headers.get(
        "accept", ""
    ):
        return pages.refuse(request, error)
    status, code, message = 500, "internal", "The sandbox bank has a defect."
    if isinstance(error, Refusal):
        status, code, message = error.status, error.code, error.message
    elif isinstance(error, HTTPException):
        status, code, message = error.status_code, "invalid_request", error.detail
    else:
        _log.error("defect", exc_info=error)
    return json_response({"error": {"code": code, "message": message}}, status)
