"""A running deployment: its processes, and the order in which they start and stop.

A single server process runs the API and the worker in one event loop; with several, the worker has
a process of its own. The embedded database and the sandbox bank belong to the process that was
started first, which stops them last.
"""

import asyncio
import contextlib
import os
import signal
import socket
import sys
import threading
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Final

import msgspec
import structlog
import typer

from opentill import __version__, gateways
from opentill.cli import exposure, session
from opentill.core import log, metrics
from opentill.core.errors import ConfigurationError
from opentill.core.settings import Settings
from opentill.server import http_server
from opentill.server.embedded.cluster import CONNECTIONS
from opentill.server.embedded.datadir import DataDirError, Lock, lock_serve, prepare
from opentill.server.supervisor import Child, Supervisor

FINISH_GRACE_S = 5.0
FOR_COMMANDS: Final = 10  # database connections that the servers leave to commands
_log: Final = structlog.get_logger()
_TEST_XPUB: Final = (
    "xpub6Ce9NcJvTk36xtLSrJLZqE7wtgA5deCeYs7rSQtreh4cj6ByPtrg"
    "9sD7V2FNFLPnf8heNP3FGkeV9qwfzvZNSd54JoNXVsXFYSYwHsnJxqP"
)
PRIVATE = 0o077  # umask of long-running processes


class Deployment:
    """Everything that ``opentill serve`` runs."""

    def __init__(
        self,
        settings: Settings,
        *,
        workers: int = 1,
        with_worker: bool = True,
        on_ready: Callable[[Settings], None] | None = None,
    ) -> None:
        """``on_ready`` is called once in the main thread and must not block."""
        self.settings = settings
        self.workers = workers
        self.with_worker = with_worker
        self._on_ready = on_ready

    def run(self) -> int:
        """Serve until stopped and return the exit code. Raises ``ConfigurationError``."""
        # Until the server sets its own handler, SIGTERM must exit and run every ``finally``.
        signal.signal(signal.SIGTERM, session.leave)
        os.umask(PRIVATE)
        settings = self.settings
        # Loading the gateways reports errors in their settings before anything starts.
        gateways.load(settings.gateways, settings)
        self._check_connections()
        if settings.database_read_url is not None:
            session.check_replica(settings.database_read_url)
        if broad := exposure.too_broad_networks(settings):
            _log.warning(exposure.explain_public_trust(broad))
        with contextlib.ExitStack() as cleanup:
            if _data_dir(settings) is not None:
                lock = lock_serve(settings.data_dir, settings.public_url)
                cleanup.callback(lock.release)
            sockets = http_server.bind(
                settings.host, settings.port, "OPENTILL_PORT or OPENTILL_HOST"
            )
            for listener in sockets:
                cleanup.callback(listener.close)
            other_children: list[Child] = []
            if _runs_sandbox(settings):
                cleanup.callback(lock_sandbox(settings).release)
                listeners = bind_sandbox(settings)
                other_children.append(
                    Child("sandbox", sandbox_process, settings, listeners, replaceable=False)
                )
            supervisor = Supervisor(
                other_children, finish_timeout_s=settings.drain_timeout_s + FINISH_GRACE_S
            )
            cleanup.callback(supervisor.finish)
            if self.workers > 1:
                shared = cleanup.enter_context(metrics.shared_directory(_data_dir(settings)))
                os.environ[metrics.VARIABLE] = str(shared)
            for child in other_children:
                child.start()  # its imports run while the database starts
            self.settings = cleanup.enter_context(ready_database(settings, creates=True))
            if self.workers > 1:
                return self._run_many(supervisor, sockets)
            return self._run_one(supervisor, sockets)

    def _check_connections(self) -> None:
        """Raise ConfigurationError if the processes could exceed the database's connections.

        A worker that has its own process counts, even if another command runs it. With several
        servers one more process counts, because a replacement starts before the process that it
        replaces has ended.
        """
        if self.settings.database_url is not None:
            return
        several = self.workers > 1
        processes = self.workers + (several or not self.with_worker) + several
        size = self.settings.db_pool_size
        if processes * size > CONNECTIONS - FOR_COMMANDS:
            available = CONNECTIONS - FOR_COMMANDS
            message = (
                f"{processes} processes (--workers, a worker apart, a successor) x"
                f" OPENTILL_DB_POOL_SIZE {size} are {processes * size} database connections, and"
                f" the embedded database has {available} for them: lower one of both, or set"
                " OPENTILL_DATABASE_URL"
            )
            raise ConfigurationError(message)

    def _run_one(self, supervisor: Supervisor, sockets: Sequence[socket.socket]) -> int:
        from opentill.app import create_app

        settings, with_worker = self.settings, self.with_worker

        def ready() -> None:
            supervisor.wait_ready()
            self._announce()

        with _keeping_running(supervisor):
            return http_server.serve(
                lambda: create_app(settings, run_worker=with_worker),
                settings,
                sockets,
                on_ready=ready,
                on_drain=http_server.set_draining,
            )

    def _run_many(self, supervisor: Supervisor, sockets: Sequence[socket.socket]) -> int:
        if self.with_worker:
            supervisor.children.append(Child("worker", worker_process, self.settings))
        for number in range(self.workers):
            name = f"server {number + 1}"
            supervisor.children.append(Child(name, api_process, self.settings, list(sockets)))
        return supervisor.run(self._announce)

    def _announce(self) -> None:
        settings = self.settings
        line = f"OpenTill {__version__} is ready: {settings.public_url}"
        line += f" (API documentation: {settings.public_url}/docs"
        if _runs_sandbox(settings):
            line += f"; sandbox bank: {settings.sandbox_public_url}"
        typer.echo(line + "). Ctrl-C stops it.")
        sys.stdout.flush()
        if self._on_ready is not None:
            self._on_ready(settings)


def api_process(
    settings: Settings, sockets: list[socket.socket], *, ready: Callable[[], None]
) -> None:
    """Run one of several server processes."""
    from opentill.app import create_app

    log.configure(settings.log_level)
    code = http_server.serve(
        lambda: create_app(settings, run_worker=False),
        settings,
        sockets,
        on_ready=ready,
        on_drain=http_server.set_draining,
        child=True,
    )
    sys.exit(code)


def worker_process(settings: Settings, *, ready: Callable[[], None]) -> None:
    """Run the worker in a child process of its own."""
    log.configure(settings.log_level)
    run_worker(settings, ready=ready, child=True)


def sandbox_process(
    settings: Settings, sockets: list[socket.socket], *, ready: Callable[[], None]
) -> None:
    """Run the sandbox bank in a child process."""
    log.configure(settings.log_level)
    sys.exit(run_sandbox(settings, sockets, ready=ready, child=True))


def run_worker(
    settings: Settings, *, ready: Callable[[], None] | None = None, child: bool = False
) -> None:
    """Run jobs until a signal arrives; running jobs are completed."""
    from opentill import worker

    async def until_stopped() -> None:
        stop = asyncio.Event()
        loop = asyncio.get_running_loop()
        loop.add_signal_handler(signal.SIGTERM, stop.set)
        loop.add_signal_handler(signal.SIGINT, (lambda: None) if child else stop.set)
        orphaned = loop.create_task(http_server.stop_with_parent(stop.set)) if child else None
        if ready is not None:
            ready()
        await worker.run(settings, stop)
        if orphaned is not None:
            orphaned.cancel()

    session.run(until_stopped())


@contextlib.contextmanager
def ready_database(
    settings: Settings, *, creates: bool = False, patient: bool = False
) -> Iterator[Settings]:
    """Yield the settings of a running database, like ``session``, and serve metrics.

    If the database is the operator's own, metrics are served before it responds, to report an
    outage.
    """
    with contextlib.ExitStack() as cleanup:
        if settings.database_url is not None:
            cleanup.enter_context(metrics_port(settings))
        ready = cleanup.enter_context(
            session.running_database(settings, creates=creates, patient=patient)
        )
        if settings.database_url is None:
            cleanup.enter_context(metrics_port(ready))
        yield ready


@contextlib.contextmanager
def metrics_port(settings: Settings) -> Iterator[None]:
    """Serve metrics at a separate address during the block, if configured."""
    from opentill import health
    from opentill.config import metrics_are_local

    port = settings.metrics_port
    if port is None:
        yield
        return
    token = None if metrics_are_local(settings) else settings.metrics_token
    with metrics.listening(settings.metrics_host, port, health.Reader(settings).read, token):
        yield


def run_sandbox(
    settings: Settings,
    sockets: Sequence[socket.socket],
    *,
    ready: Callable[[], None],
    child: bool = False,
) -> int:
    """Serve the sandbox bank until a signal; return the exit code."""
    from opentill import sandbox

    return http_server.serve(
        lambda: sandbox.create_app(
            data_dir=settings.data_dir,
            secret=settings.sandbox_secret,
            public_url=settings.sandbox_public_url,
        ),
        msgspec.structs.replace(settings, drain_delay_s=0.0),
        sockets,
        on_ready=ready,
        child=child,
    )


def alipay_settings(settings: Settings) -> list[str]:
    """Create the keys of the bank's Alipay dialect, and return the settings of its shop."""
    from opentill.sandbox import alipay

    folder = alipay.create(settings.data_dir)
    prefix = "OPENTILL_GATEWAY_ALIPAY_"
    values = {
        "URL": f"{settings.sandbox_public_url}{alipay.PATH}",
        "APP_ID": alipay.APP_ID,
        "SELLER_ID": alipay.SELLER_ID,
        "PRIVATE_KEY_FILE": str(folder / alipay.PRIVATE_KEY),
        "PUBLIC_KEY_FILE": str(folder / alipay.PUBLIC_KEY),
    }
    certificates = {
        f"{name}_FILE": str(folder / file) for file, name in alipay.CERTIFICATES.items()
    }
    return [
        "Alipay's dialect, with its public key:",
        *(f"{prefix}{name}={value}" for name, value in values.items()),
        "With certificates, instead of PUBLIC_KEY_FILE:",
        *(f"{prefix}{name}={value}" for name, value in certificates.items()),
    ]


def wechat_pay_settings(settings: Settings) -> list[str]:
    """Create the keys of the bank's WeChat Pay dialect, and return the settings of its shop."""
    from opentill.sandbox import wechat_pay

    folder = wechat_pay.create(settings.data_dir)
    prefix = "OPENTILL_GATEWAY_WECHAT_PAY_"
    values = {
        "URL": settings.sandbox_public_url,
        "MCHID": wechat_pay.MCHID,
        "APPID": wechat_pay.APPID,
        **{f"{name}_FILE": str(folder / file) for file, name in wechat_pay.SETTINGS.items()},
    }
    public_key = {
        "PUBLIC_KEY_ID": wechat_pay.PUBLIC_KEY_ID,
        "PUBLIC_KEY_FILE": str(folder / wechat_pay.PUBLIC_KEY),
    }
    return [
        "WeChat Pay's dialect, with platform certificates:",
        *(f"{prefix}{name}={value}" for name, value in values.items()),
        "Also, to verify by the public key:",
        *(f"{prefix}{name}={value}" for name, value in public_key.items()),
    ]


def paypal_settings(settings: Settings) -> list[str]:
    """Create the keys of the bank's PayPal dialect, and return the settings of its shop."""
    from opentill.sandbox import paypal

    webhook_url = f"{settings.public_url}/gateways/paypal/callback"
    folder = paypal.create(settings.data_dir, webhook_url)
    values = {
        "URL": settings.sandbox_public_url,
        "CLIENT_ID": paypal.CLIENT_ID,
        "CLIENT_SECRET_FILE": str(folder / paypal.CREDENTIAL_FILE),
        "WEBHOOK_ID": paypal.WEBHOOK_ID,
        "MERCHANT_ID": paypal.MERCHANT_ID,
        "CA_FILE": str(folder / paypal.ROOT_FILE),
    }
    return [
        f"PayPal's dialect, with a webhook for {webhook_url}:",
        *(f"OPENTILL_GATEWAY_PAYPAL_{name}={value}" for name, value in values.items()),
    ]


def epay_v2_settings(settings: Settings) -> list[str]:
    """Create the keys of the bank's Epay V2 dialect, and return the settings of its shop."""
    from opentill.sandbox import epay_v2

    folder, prefix = epay_v2.create(settings.data_dir), "OPENTILL_GATEWAY_EPAY_V2_"
    values = {
        "URL": f"{settings.sandbox_public_url}{epay_v2.PATH}/",
        "PID": epay_v2.PID,
        "PRIVATE_KEY_FILE": str(folder / epay_v2.PRIVATE_KEY),
        "PUBLIC_KEY_FILE": str(folder / epay_v2.PUBLIC_KEY),
    }
    return ["Epay V2's dialect:", *(f"{prefix}{name}={value}" for name, value in values.items())]


def epusdt_settings(settings: Settings) -> list[str]:
    """Create the token of the bank's epusdt dialect, and return the settings of its shop."""
    from opentill.sandbox import epusdt

    file = epusdt.create(settings.data_dir) / epusdt.CREDENTIAL_FILE
    prefix = "OPENTILL_GATEWAY_EPUSDT_"
    return [
        "epusdt's dialect:",
        f"{prefix}URL={settings.sandbox_public_url}{epusdt.PATH}",
        f"{prefix}TOKEN_FILE={file}",
        "That of its fork bepusdt, instead of URL:",
        f"{prefix}URL={settings.sandbox_public_url}{epusdt.FORK_PATH}",
        f"{prefix}SERVER=bepusdt",
    ]


def evm_settings(settings: Settings) -> list[str]:
    """Create the key of the bank's node, and return the settings of its shop.

    The extended public key is that of the well-known mnemonic of test chains, m/44'/60'/0'.
    """
    from opentill.sandbox import evm

    key = (evm.create(settings.data_dir) / evm.CREDENTIAL_FILE).read_text().strip()
    tokens = (evm.TOKENS[symbol] for symbol in ("USDT", "USDC"))
    values = {
        "RPC_URL": f"{settings.sandbox_public_url}{evm.PATH}/{key}",
        "CHAIN_ID": str(evm.CHAIN_ID),
        "TOKENS": ",".join(f"{each.symbol}:{each.address}:{each.decimals}" for each in tokens),
        "XPUB": _TEST_XPUB,
    }
    return [
        "A node of a test chain; the key is of a public mnemonic:",
        *(f"OPENTILL_GATEWAY_EVM_{name}={value}" for name, value in values.items()),
    ]


def bind_sandbox(settings: Settings) -> list[socket.socket]:
    """Listen at the sandbox bank's address. Raises ``ServeError``."""
    return http_server.bind(settings.sandbox_host, settings.sandbox_port, "OPENTILL_SANDBOX_PORT")


def lock_sandbox(settings: Settings) -> Lock:
    """Lock the data directory for one sandbox bank. Raises ``DataDirError``."""
    path = prepare(settings.data_dir)
    lock = Lock(path / "sandbox.lock")
    if not lock.take(wait=False):
        lock.release()
        message = f"another sandbox bank uses {path}; stop it, or set OPENTILL_DATA_DIR"
        raise DataDirError(message)
    return lock


def _data_dir(settings: Settings) -> Path | None:
    """Return the data directory if a process of this deployment uses it."""
    return settings.data_dir if settings.database_url is None or _runs_sandbox(settings) else None


def _runs_sandbox(settings: Settings) -> bool:
    return "sandbox" in settings.gateways and not settings.sandbox_elsewhere


@contextlib.contextmanager
def _keeping_running(supervisor: Supervisor) -> Iterator[None]:
    """Restart children that end, in a thread next to this process's server."""
    stop = threading.Event()

    def keep_running() -> None:
        while not stop.wait(0.2):
            supervisor.keep_running()

    thread = threading.Thread(target=keep_running, name="supervisor", daemon=True)
    if supervisor.children:
        thread.start()
    try:
        yield
    finally:
        stop.set()
        if supervisor.children:
            thread.join()
