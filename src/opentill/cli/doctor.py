"""``opentill doctor``: looks at everything a deployment needs and says what to do about it."""

import os
import socket
import sys
import time
from collections.abc import Callable, Iterator
from http import HTTPStatus
from typing import TYPE_CHECKING, Final
from urllib.parse import urlsplit

import msgspec
import typer

from opentill import config
from opentill.cli import exposure, output, session
from opentill.cli.exposure import Finding
from opentill.cli.output import Json
from opentill.core import terminal
from opentill.core.errors import ConfigurationError
from opentill.core.settings import Settings
from opentill.server.embedded.datadir import NoDatabase, prepare

if TYPE_CHECKING:
    from opentill.rates import Lacking

OLDEST_PYTHON: Final = (3, 11)
OLDEST_POSTGRES: Final = 15
CLOCK_TOLERANCE_S: Final = 2.0
FREE_BYTES: Final = 1024**3
_SHOWN_PAIRS: Final = 5
_COLOURS: Final = {"ok": "green", "warn": "yellow", "fail": "red"}


def register(app: typer.Typer) -> None:
    """Add the command."""
    app.command()(doctor)


def doctor(*, as_json: Json = False) -> None:
    """Check this deployment and say what to do. Exit code 1 if something fails."""
    findings: list[Finding] = []
    for finding in examine():
        findings.append(finding)
        if not as_json:
            level = typer.style(f"{finding.level:4}", fg=_COLOURS[finding.level])
            typer.echo(f"{level}  {finding.subject:11} {terminal.inert(finding.text)}")
    if as_json:
        output.show(findings, as_json=True)
    sys.exit(1 if any(finding.level == "fail" for finding in findings) else 0)


def examine() -> Iterator[Finding]:
    """Check one thing after another; without settings nothing further can be checked."""
    yield _python()
    missing = ""
    try:
        try:
            settings = session.settings()
        except NoDatabase as error:
            missing, settings = str(error), config.load(os.environ)
    except ConfigurationError as error:
        yield Finding("settings", "fail", str(error))
        return
    yield Finding("settings", "ok", "readable and complete")
    if missing:
        yield Finding("database", "fail", missing)
    else:
        yield _data_dir(settings)
        yield from _database(settings)
    yield from exposure.database_tls(settings)
    for check in (_port, _sandbox, _public_url, exposure.proxies):
        yield check(settings)
    if (finding := exposure.test_mode(settings)) is not None:
        yield finding
    if not settings.sandbox_refused:
        yield from _gateways(settings)


def _python() -> Finding:
    version = ".".join(map(str, sys.version_info[:3]))
    if sys.version_info < OLDEST_PYTHON:
        return Finding("python", "fail", f"{version} is too old; install Python 3.11 or newer")
    return Finding("python", "ok", version)


def _data_dir(settings: Settings) -> Finding:
    path = settings.data_dir.absolute()
    if not path.exists():  # with a database elsewhere and real gateways
        return Finding("data dir", "ok", "not used")
    try:
        prepare(path)  # what of it was open to others is closed by this
    except ConfigurationError as error:
        return Finding("data dir", "fail", str(error))
    status = os.statvfs(path)
    free = status.f_bavail * status.f_frsize
    if free < FREE_BYTES:
        text = f"{path} has {free // 1024**2} MiB left; PostgreSQL stops when the disk is full"
        return Finding("data dir", "warn", text)
    return Finding("data dir", "ok", f"{path}, closed to others, {free // 1024**3} GiB free")


def _database(settings: Settings) -> Iterator[Finding]:
    from opentill import epay

    where = "embedded" if settings.database_url is None else "OPENTILL_DATABASE_URL"
    try:
        with session.running_database(settings) as ready:
            found = session.run(_ask(ready))
    except ConfigurationError as error:
        yield Finding("database", "fail", str(error))
        return
    major = found.version // 10_000
    if major < OLDEST_POSTGRES:
        text = f"PostgreSQL {major} is too old; use {OLDEST_POSTGRES} or newer"
        yield Finding("database", "fail", text)
    else:
        yield Finding("database", "ok", f"PostgreSQL {major}, {where}, schema as it should be")
    ahead = time.time() - found.clock_s
    if abs(ahead) > CLOCK_TOLERANCE_S:
        text = f"differs from the database's by {ahead:.1f} s; synchronise both with NTP"
        yield Finding("clock", "warn", text)
    else:
        yield Finding("clock", "ok", "agrees with the database's")
    yield _business_time(settings, found.ahead_ms)
    if found.stuck:
        text = (
            f"{found.stuck} have waited for a bank's response for over 15 minutes; see the log, and"
        )
        yield Finding("orders", "warn", f"{text} `opentill orders history ORDER`")
    else:
        yield Finding("orders", "ok", "none has waited too long for a bank's response")
    yield _rates(found.lacking)
    if found.epay_opens:
        yield Finding("epay", "ok", "the keys that there are can be read")
    else:
        yield Finding("epay", "fail", epay.WRONG_KEY)


def _business_time(settings: Settings, ahead_ms: int) -> Finding:
    from opentill.db.clock import movable

    if not ahead_ms:
        return Finding("time", "ok", "business time is real time")
    hours = f"{ahead_ms / 3_600_000:.1f} hours ahead"
    if movable(settings.gateways):
        text = f"business time is {hours}, for trying things out; `opentill clock reset` ends that"
        return Finding("time", "warn", text)
    text = f"business time was {hours} and is ignored with real gateways; this database was used"
    return Finding("time", "warn", f"{text} for trying things out, take a new one")


def _rates(lacking: list["Lacking"]) -> Finding:
    if not lacking:
        return Finding("rates", "ok", "there is one for each currency that needs one")
    pairs = ", ".join(f"{one.base} to {one.quote}" for one in lacking[:_SHOWN_PAIRS])
    more = f" and {len(lacking) - _SHOWN_PAIRS} more" if len(lacking) > _SHOWN_PAIRS else ""
    opening = any(one.opening for one in lacking)
    stopped = "no session opens" if opening else "no refund is taken, since it shows USD,"
    text = f"none from {pairs}{more}: {stopped} without; `opentill rates set` or `rates import`"
    return Finding("rates", "warn", text)


class _Asked(msgspec.Struct, frozen=True):
    """What the database says."""

    version: int
    clock_s: float
    ahead_ms: int
    stuck: int
    epay_opens: bool
    lacking: list["Lacking"]


async def _ask(settings: Settings) -> _Asked:
    from opentill import epay, rates
    from opentill.db import clock
    from opentill.db import connection as connections
    from opentill.orders import jobs

    connection = await connections.connect(
        settings.database_url or "", prepared=settings.db_prepared
    )
    try:
        version = await connection.fetchval("select current_setting('server_version_num')::int")
        seconds = await connection.fetchval("select extract(epoch from clock_timestamp())::float8")
        ahead_ms = await clock.ahead_ms(connection)
        now = await clock.business_now(connection, settings.gateways)
        stuck = await jobs.count_stuck(connection, now)
        opens = await epay.key_decrypts(connection, settings.secret_key)
        oldest = rates.oldest_valid_from(now, settings.rates_max_age_days)
        lacking = await rates.lacking(connection, now, oldest)
        return _Asked(int(version), float(seconds), ahead_ms, stuck, opens, lacking)
    finally:
        await connection.close()


def _port(settings: Settings) -> Finding:
    return _listening(
        "port",
        settings.host,
        settings.port,
        lambda: _get(settings.host, settings.port, "/healthz"),
        "OPENTILL_PORT",
    )


def _sandbox(settings: Settings) -> Finding:
    if "sandbox" not in settings.gateways:
        return Finding("sandbox", "ok", "not used")
    if settings.sandbox_elsewhere:
        parts = urlsplit(settings.sandbox_url)
        port = parts.port or (443 if parts.scheme == "https" else 80)
        if _reachable(parts.hostname or "", port):
            return Finding("sandbox", "ok", f"{settings.sandbox_url} responds")
        text = f"{settings.sandbox_url} does not respond; start it or unset OPENTILL_SANDBOX_URL"
        return Finding("sandbox", "fail", text)
    return _listening(
        "sandbox",
        settings.sandbox_host,
        settings.sandbox_port,
        lambda: _get(settings.sandbox_host, settings.sandbox_port, "/healthz"),
        "OPENTILL_SANDBOX_PORT",
    )


def _gateways(settings: Settings) -> Iterator[Finding]:
    """Say what each gateway takes; whether the sandbox bank responds is reported before."""
    from opentill import gateways
    from opentill.core.money import EXPONENTS

    try:
        loaded = gateways.load(settings.gateways, settings)
    except ConfigurationError as error:
        yield Finding("gateway", "fail", str(error))
        return
    for name in loaded:
        takes: dict[str, list[str]] = {}
        for currency in EXPONENTS:
            for method in gateways.methods_of(loaded, name, currency):
                takes.setdefault(method, []).append(currency)
        if not takes:
            yield Finding(
                name, "warn", f"takes nothing; see OPENTILL_GATEWAY_{name.upper()}_METHODS"
            )
            continue
        texts = [f"{method} in {_several(currencies)}" for method, currencies in takes.items()]
        yield Finding("gateway", "ok", f"{name} takes {', '.join(texts)}")


def _several(currencies: list[str]) -> str:
    many = len(currencies) > 5  # noqa: PLR2004 - as many as are read at a glance
    return f"{len(currencies)} currencies" if many else " ".join(currencies)


def _public_url(settings: Settings) -> Finding:
    parts = urlsplit(settings.public_url)
    if config.is_loopback(settings.public_url):
        text = f"{settings.public_url} is for this machine only; set OPENTILL_PUBLIC_URL"
        return Finding("public url", "warn" if settings.host != "127.0.0.1" else "ok", text)
    if parts.scheme != "https":
        text = f"{settings.public_url}: customers should reach you by https only"
        return Finding("public url", "warn", text)
    try:
        socket.getaddrinfo(parts.hostname, None)
    except OSError:
        text = f"{parts.hostname} has no address; correct OPENTILL_PUBLIC_URL or the DNS"
        return Finding("public url", "fail", text)
    return Finding("public url", "ok", settings.public_url)


def _listening(
    subject: str, host: str, port: int, ours: Callable[[], bool], variable: str
) -> Finding:
    """A port is well if it is free, or if what listens there is ours."""
    from opentill.server.http_server import ServeError, bind

    try:
        for listener in bind(host, port, variable):
            listener.close()
    except ServeError as error:
        if ours():
            return Finding(subject, "ok", f"{host} port {port}: it runs")
        return Finding(subject, "fail", str(error))
    return Finding(subject, "ok", f"{host} port {port} is free")


def _get(host: str, port: int, path: str) -> bool:
    """Return whether an OpenTill server responds there."""
    import httpx2

    from opentill.config import address

    try:
        response = httpx2.get(address(host, port) + path, timeout=3)
        return response.status_code == HTTPStatus.OK and response.json().get("status") == "ok"
    except (httpx2.HTTPError, ValueError, AttributeError):
        return False


def _reachable(host: str, port: int) -> bool:
    try:
        with socket.create_connection((host, port), timeout=3):
            return True
    except OSError:
        return False
