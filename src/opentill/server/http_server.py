"""Serves an ASGI application with uvicorn until a signal, and shuts down gracefully.

One process, or several that share bound sockets, call ``serve``. On SIGTERM or SIGINT it calls
``on_drain`` (which makes ``/readyz`` return 503), stops accepting connections after
``drain_delay_s``, completes running requests with ``connection: close``, and ends the application's
lifespan. A second SIGINT stops immediately, as does a signal during the start.
"""

import asyncio
import contextlib
import gc
import logging
import multiprocessing
import os
import resource
import signal
import socket
from collections.abc import Awaitable, Callable, Iterator, Sequence
from typing import Any, Final

import structlog
import uvicorn
import uvloop

from opentill.core import log
from opentill.core.errors import ConfigurationError
from opentill.core.settings import Settings
from opentill.server.connection_limits import RESERVE, ConnectionLimits
from opentill.server.protocol import LimitedConfig, Protocol, Timeouts, check_deadlines

Asgi = Callable[[Any, Any, Any], Awaitable[None]]
"""An ASGI 3 application of any framework."""

BACKLOG: Final = 2048
# Besides the clients' connections, a process may open this many files, such as connections to the
# database, gateways and endpoints.
OTHER_FILES: Final = 512
PARENT_CHECK_S: Final = 0.5
_log: Final = structlog.get_logger()


class ServeError(ConfigurationError):
    """The server cannot start. The text is one line that says what to do."""


def bind(host: str, port: int, variable: str) -> list[socket.socket]:
    """Bind and listen on every address of ``host``; raises ``ServeError`` naming ``variable``."""
    bound: list[socket.socket] = []
    try:
        infos = socket.getaddrinfo(
            host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE | socket.AI_ADDRCONFIG
        )
        for family, kind, protocol, _, address in dict.fromkeys(infos):
            listener = socket.socket(family, kind, protocol)
            bound.append(listener)
            listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            if family == socket.AF_INET6:
                listener.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, int(host != "::"))
            listener.bind(address)
            listener.listen(BACKLOG)
            listener.setblocking(False)  # noqa: FBT003 - no name in the library
    except (OSError, UnicodeError) as error:  # UnicodeError: the host is no valid name
        for listener in bound:
            listener.close()
        why = error.strerror if isinstance(error, OSError) else "not a host name"
        message = f"cannot listen on {host} port {port} ({why}); set {variable}"
        raise ServeError(message) from None
    return bound


def serve(
    factory: Callable[[], Asgi],
    settings: Settings,
    sockets: Sequence[socket.socket],
    *,
    on_ready: Callable[[], None] | None = None,
    on_drain: Callable[[Asgi], None] | None = None,
    child: bool = False,
) -> int:
    """Serve until a signal. Returns the exit code: 0, or 1 if the application could not start.

    ``sockets`` are listening and are closed at the end. A ``child`` ignores SIGINT, which its
    supervisor handles, and stops when the supervisor's process ends.
    """
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        return runner.run(_serve(factory(), settings, sockets, on_ready, on_drain, child=child))


def create_server(app: Asgi, settings: Settings) -> "Server":
    """Create the server of an application; the caller handles signals."""
    config = LimitedConfig(
        app,
        http=Protocol,
        ws="none",
        loop="none",
        lifespan="on",
        log_config=None,
        access_log=False,
        server_header=False,
        proxy_headers=False,
        timeout_graceful_shutdown=settings.drain_timeout_s,  # type: ignore[arg-type] # seconds
    )
    config.timeouts = Timeouts(
        header_s=settings.header_timeout_s,
        body_s=settings.body_timeout_s,
        idle_s=settings.idle_timeout_s,
        write_s=settings.request_timeout_s,
    )
    config.connection_limits = ConnectionLimits(
        settings.connection_limit, settings.connection_limit_per_address, settings.trusted_proxies
    )
    return Server(config)


def allow_files(count: int) -> None:
    """Raise the soft limit of open files, often 1024, to ``count`` or the hard limit."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    most = count if hard == resource.RLIM_INFINITY else min(count, hard)
    if soft != resource.RLIM_INFINITY and soft < most:
        resource.setrlimit(resource.RLIMIT_NOFILE, (most, hard))


async def _serve(
    app: Asgi,
    settings: Settings,
    sockets: Sequence[socket.socket],
    on_ready: Callable[[], None] | None,
    on_drain: Callable[[Asgi], None] | None,
    *,
    child: bool,
) -> int:
    server = create_server(app, settings)
    allow_files(settings.connection_limit + RESERVE + OTHER_FILES)

    def stop(number: int) -> None:
        if server.draining and number == signal.SIGINT:
            server.force_exit = True
        server.drain(settings.drain_delay_s if number == signal.SIGTERM else 0.0)

    if on_drain is not None:
        server.on_drain = lambda: on_drain(app)
    server.on_ready = on_ready
    loop = asyncio.get_running_loop()
    loop.add_signal_handler(signal.SIGTERM, stop, signal.SIGTERM)
    if child:
        loop.add_signal_handler(signal.SIGINT, lambda: None)
    else:
        loop.add_signal_handler(signal.SIGINT, stop, signal.SIGINT)
    parent_check = loop.create_task(stop_with_parent(lambda: server.drain(0.0))) if child else None
    serving = loop.create_task(_exit_code(server, sockets))
    early = loop.create_task(server.stopped_early.wait())
    try:
        await asyncio.wait({serving, early}, return_when=asyncio.FIRST_COMPLETED)
        if serving.done():
            return serving.result()
        # The start can be aborted, because no connection was accepted yet.
        logging.getLogger("uvicorn.error").disabled = True
        _log.info("stopped before it was ready")
        return 0
    finally:
        early.cancel()
        if parent_check is not None:
            parent_check.cancel()
        log.flush()


async def _exit_code(server: "Server", sockets: Sequence[socket.socket]) -> int:
    try:
        await server.serve(sockets=list(sockets))
    except SystemExit:  # uvicorn raises it when the application fails to start, and has logged why
        return 1
    return 0


class Server(uvicorn.Server):
    """uvicorn's server with other signal handling and callbacks."""

    on_ready: Callable[[], None] | None = None
    on_drain: Callable[[], None] | None = None
    draining = False

    def __init__(self, config: uvicorn.Config) -> None:
        """Create the server without starting it."""
        super().__init__(config)
        self.stopped_early = asyncio.Event()  # is set if a signal to stop comes before it is ready

    @contextlib.contextmanager
    def capture_signals(self) -> Iterator[None]:
        """Install no handlers: uvicorn's would raise the signals again after a clean shutdown."""
        yield

    async def serve(self, sockets: list[socket.socket] | None = None) -> None:
        """Serve until ``should_exit``."""
        checking = asyncio.create_task(check_deadlines(self.server_state))
        try:
            await super().serve(sockets)
        finally:
            checking.cancel()

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        """Start, then call ``on_ready``."""
        await super().startup(sockets)
        # uvicorn's tick sets the default headers. Its own first tick may come after a request.
        await self.on_tick(0)
        # Exclude all imported objects from garbage collection: they are permanent, and a full
        # collection that visits them takes about 50 ms.
        gc.collect()
        gc.freeze()
        if self.on_ready is not None:
            self.on_ready()

    def drain(self, delay_s: float) -> None:
        """Call ``on_drain`` and stop accepting connections after ``delay_s``."""
        if self.draining:
            return
        self.draining = True
        if not self.started:
            self.stopped_early.set()
        if self.on_drain is not None:
            self.on_drain()
        asyncio.get_running_loop().call_later(delay_s, self._stop_accepting)

    def _stop_accepting(self) -> None:
        self.should_exit = True


async def stop_with_parent(stop: Callable[[], None]) -> None:
    """Call ``stop`` when the supervisor was killed and can send no signal."""
    supervisor = multiprocessing.parent_process()
    parent = supervisor.pid if supervisor else os.getppid()
    while os.getppid() == parent:  # noqa: ASYNC110 - no event signals the end of a parent
        await asyncio.sleep(PARENT_CHECK_S)
    _log.warning("the supervisor is gone, stopping")
    stop()


def set_draining(app: Any) -> None:
    """Make an application's ``/readyz`` return 503. Servers call this as ``on_drain``."""
    if (state := getattr(app, "state", None)) is not None:
        state.draining = True
