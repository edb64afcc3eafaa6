"""The bank's ASGI application: routes, storage and background tasks."""

import asyncio
import logging
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import asynccontextmanager
from http import HTTPStatus
from pathlib import Path
from typing import Final

from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Match, Route

from opentill.sandbox import alipay, api, epay_v2, epusdt, evm, pages, paypal, wechat_pay
from opentill.sandbox.bank import Bank
from opentill.sandbox.callbacks import RECEIVER, Dispatcher
from opentill.sandbox.dialects import Dialect, Dialects
from opentill.sandbox.http import error_response, json_response
from opentill.sandbox.model import Refusal, Timing
from opentill.sandbox.purge import Purger
from opentill.sandbox.storage import FILE, Store
from opentill.sandbox.timers import TIMERS, TimerRunner

_log: Final = logging.getLogger(__name__)
_RESTART_S: Final = 1.0


def create_app(
    *, data_dir: Path, secret: str, public_url: str, timing: Timing | None = None
) -> Starlette:
    """Return the bank as an ASGI application; it opens its storage when it is started.

    ``data_dir`` holds ``sandbox.sqlite3`` and is created if missing. If it has keys of
    ``alipay.create``, ``wechat_pay.create``, ``paypal.create``, ``epusdt.create`` or
    ``epay_v2.create``, the bank speaks that dialect too; with the key of ``evm.create``, it is a
    node of a chain.
    ``secret`` is the bearer token of shops and signs callbacks. ``public_url`` is the bank's URL
    for customers. Only one process may serve a data directory. Raises ValueError if the secret is
    empty.
    """
    if not secret:
        msg = "The sandbox bank needs a secret that is not empty."
        raise ValueError(msg)
    timing = timing or Timing()
    public_url = public_url.rstrip("/")

    def notify(topic: str) -> None:
        if topic == TIMERS:
            timer_runner.notify()
        else:
            dispatcher.notify(topic.removeprefix(RECEIVER))

    dialects = _load_dialects(data_dir, public_url)
    node_key = evm.load(data_dir)
    chain_routes = () if node_key is None else evm.Evm(node_key, timing.block_s).routes
    bank = Bank(public_url, timing, dialects)
    store = Store(data_dir / FILE, notify)
    timer_runner = TimerRunner(store, bank.run_timer)
    dispatcher = Dispatcher(store, secret, timing, dialects)
    purger = Purger(store)

    @asynccontextmanager
    async def running(_: object) -> AsyncGenerator[None, None]:
        await store.open()
        tasks = [
            asyncio.create_task(_keep_running(one.run))
            for one in (timer_runner, dispatcher, purger)
        ]
        try:
            yield
        finally:
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)
            await store.close()

    app = Starlette(
        routes=[
            *api.routes,
            *pages.routes,
            Route("/healthz", healthz),
            *chain_routes,
            *(route for dialect in dialects.values() for route in dialect.routes),
        ],
        exception_handlers={Refusal: _refuse, HTTPException: _refuse, Exception: _refuse},
        lifespan=running,
    )
    app.router.redirect_slashes = False
    app.state.bank, app.state.store = bank, store
    app.state.pages, app.state.secret = pages.Pages(public_url), secret
    return app


def _load_dialects(data_dir: Path, public_url: str) -> Dialects:
    """Return the dialects for which the data directory has keys."""
    dialects: dict[str, Dialect] = {}
    if (app := alipay.load(data_dir)) is not None:
        dialects[alipay.Alipay.name] = alipay.Alipay(app)
    if (merchant := wechat_pay.load(data_dir)) is not None:
        dialects[wechat_pay.WeChatPay.name] = wechat_pay.WeChatPay(merchant, public_url)
    if (account := paypal.load(data_dir)) is not None:
        dialects[paypal.PayPal.name] = paypal.PayPal(account, public_url)
    if (token := epusdt.load(data_dir)) is not None:
        dialects[epusdt.Epusdt.name] = epusdt.Epusdt(token, public_url)
    if (epay_account := epay_v2.load(data_dir)) is not None:
        dialects[epay_v2.EpayV2.name] = epay_v2.EpayV2(epay_account, public_url)
    return dialects


async def healthz(_request: Request) -> Response:
    """Respond that the process runs."""
    return json_response({"status": "ok"})


async def _keep_running(run: Callable[[], Awaitable[None]]) -> None:
    """Run forever; log a defect and start again, which is safe because memory holds no state."""
    while True:
        try:
            await run()
        except Exception:  # noqa: BLE001 - callbacks must continue after any error
            _log.exception("the sandbox bank's background work stopped; it starts again")
        await asyncio.sleep(_RESTART_S)


async def _refuse(request: Request, error: Exception) -> Response:
    """Return a page to a browser, and ``{"error": {"code", "message"}}`` to a program."""
    if isinstance(error, HTTPException):  # the router raises it for an unknown path or method
        # The code is not "not_found", which means that the bank does not know a payment or refund.
        error = Refusal(error.status_code, "invalid_request", error.detail)
    elif not isinstance(error, Refusal):
        _log.error("defect", exc_info=error)
        error = Refusal(500, "internal", "The sandbox bank has a defect.")
    is_page = request.scope.get("route") in pages.routes
    if is_page or "text/html" in request.headers.get("accept", ""):
        response = pages.refusal(request, error.status)
    else:
        response = error_response(error)
    if error.status == HTTPStatus.METHOD_NOT_ALLOWED:
        response.headers["Allow"] = ", ".join(sorted(_methods_of_path(request)))
    return response


def _methods_of_path(request: Request) -> set[str]:
    """Return the methods of all routes that match the path of a request."""
    routes = (one for one in request.app.routes if one.matches(request.scope)[0] is Match.PARTIAL)
    return {method for route in routes for method in route.methods}
