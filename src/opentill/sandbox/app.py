"""Puts the bank together: handlers, storage, and the two things that run beside them."""

import asyncio
import logging
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, Final

from litestar import Litestar, Request, Response, get
from litestar.di import Provide
from litestar.exceptions import HTTPException, ValidationException

from opentill.sandbox import api, pages
from opentill.sandbox.bank import Bank
from opentill.sandbox.callbacks import RECEIVER, Postman
from opentill.sandbox.model import Refusal, Timing
from opentill.sandbox.purge import Purger
from opentill.sandbox.storage import Store
from opentill.sandbox.timers import TIMERS, Clock

_log: Final = logging.getLogger(__name__)
_MAX_BODY: Final = 64 * 1024
_RESTART_S: Final = 1.0


def create_app(
    *, data_dir: Path, secret: str, public_url: str, timing: Timing | None = None
) -> Litestar:
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

    def wake(topic: str) -> None:
        if topic == TIMERS:
            clock.wake()
        else:
            postman.wake(topic.removeprefix(RECEIVER))

    bank = Bank(public_url, timing)
    store = Store(data_dir / "sandbox.sqlite3", wake)
    clock = Clock(store, bank.ring)
    postman = Postman(store, secret, timing)
    purger = Purger(store)
    sheets = pages.Pages(public_url)

    @asynccontextmanager
    async def running(_: Litestar) -> AsyncGenerator[None, None]:
        await store.open()
        tasks = [asyncio.create_task(_keep_running(one.run)) for one in (clock, postman, purger)]
        try:
            yield
        finally:
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)
            await store.close()

    def refuse(request: Request[Any, Any, Any], error: Exception) -> Response[Any]:
        if "text/html" in request.headers.get("accept", ""):
            return sheets.refuse(request, error)
        return _refuse(error)

    return Litestar(
        route_handlers=[api.router(secret), pages.router(sheets), healthz],
        dependencies={
            "bank": Provide(lambda: bank, sync_to_thread=False),
            "store": Provide(lambda: store, sync_to_thread=False),
            "pages": Provide(lambda: sheets, sync_to_thread=False),
        },
        exception_handlers={Exception: refuse},
        lifespan=[running],
        openapi_config=None,
        logging_config=None,
        request_max_body_size=_MAX_BODY,
        debug=False,
    )


@get("/healthz")
async def healthz() -> dict[str, str]:
    """Say that the process answers."""
    return {"status": "ok"}


async def _keep_running(run: Callable[[], Awaitable[None]]) -> None:
    """Run for ever; after a defect say so and begin again, since nothing is kept in memory."""
    while True:
        try:
            await run()
        except Exception:  # noqa: BLE001 - whatever it was, callbacks must go on
            _log.exception("the sandbox bank's background work stopped; it starts again")
        await asyncio.sleep(_RESTART_S)


def _refuse(error: Exception) -> Response[dict[str, dict[str, str]]]:
    """Answer a program: ``{"error": {"code", "message"}}``, never a stack trace."""
    status, code, message = 500, "internal", "The sandbox bank has a defect."
    if isinstance(error, Refusal):
        status, code, message = error.status, error.code, error.message
    elif isinstance(error, ValidationException):
        status, code, message = 400, "invalid_request", _fields(error)
    elif isinstance(error, HTTPException):
        status, code, message = error.status_code, "invalid_request", error.detail
    else:
        _log.error("defect", exc_info=error)
    return Response({"error": {"code": code, "message": message}}, status_code=status)


def _fields(error: ValidationException) -> str:
    parts = error.extra if isinstance(error.extra, list) else []
    texts = [f"{part.get('key', 'body')}: {part.get('message', '')}" for part in parts]
    return "; ".join(texts) or error.detail
