"""``opentill doctor``: checks everything that a deployment needs, and gives advice."""

import asyncio
import os
import socket
import sys
from collections.abc import Iterator
from http import HTTPStatus
from typing import TYPE_CHECKING, Annotated, Final, NoReturn
from urllib.parse import urlsplit

import typer

from opentill import config
from opentill.cli import doctor_database, doctor_mail, exposure, output, session, table
from opentill.cli.exposure import Finding
from opentill.cli.output import Json
from opentill.core import terminal
from opentill.core.errors import ConfigurationError
from opentill.core.settings import SANDBOX, Settings
from opentill.server.embedded.datadir import NoDatabase, prepare

if TYPE_CHECKING:
    from opentill.gateways import Checks, Gateway

OLDEST_PYTHON: Final = (3, 11)
FREE_BYTES: Final = 1024**3
# Columns of the terminal that a finding's level and subject take before its text.
_MARGIN: Final = 18
Statements = Annotated[
    bool,
    typer.Option(
        "--statements",
        help="Only prepare and run all statements of OpenTill on the database; changes nothing.",
    ),
]
_COLORS: Final = {"ok": "green", "warn": "yellow", "fail": "red"}


def register(app: typer.Typer) -> None:
    """Add the command."""
    app.command()(doctor)


def doctor(*, statements: Statements = False, as_json: Json = False) -> None:
    """Check this deployment and say what to do. Exit code 1 if something fails."""
    if statements:
        _survey(as_json=as_json)
    findings: list[Finding] = []
    for finding in examine():
        findings.append(finding)
        if not as_json:
            _print(finding)
    if as_json:
        output.show(findings, as_json=True)
    sys.exit(1 if any(finding.level == "fail" for finding in findings) else 0)


def _survey(*, as_json: bool) -> NoReturn:
    """Survey the statements instead of running the checks, and exit."""
    from opentill.cli import doctor_statements

    survey = doctor_statements.survey_database(session.settings())
    if as_json:
        output.show(survey, as_json=True)
    else:
        for finding in doctor_statements.findings(survey):
            _print(finding)
    sys.exit(1 if doctor_statements.failed(survey) else 0)


def _print(finding: Finding) -> None:
    """Print a finding; on a terminal its text wraps between words."""
    level = typer.style(f"{finding.level:4}", fg=_COLORS[finding.level])
    text = terminal.escape(finding.text)
    room = (output.width() or _MARGIN + len(text)) - _MARGIN
    first, *other_lines = table.wrap(text, room)
    typer.echo(f"{level}  {finding.subject:11} {first}")
    for line in other_lines:
        typer.echo(" " * _MARGIN + line)


def examine() -> Iterator[Finding]:
    """Run all checks. Without valid settings nothing else can be checked."""
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
        yield from doctor_database.findings(settings)
    yield from exposure.database_tls(settings)
    for check in (_port, _sandbox, _public_url, exposure.proxies, doctor_mail.finding):
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
    if not path.exists():
        # A deployment with its own database and real gateways needs no data directory.
        return Finding("data dir", "ok", "not used")
    try:
        prepare(path)  # this also removes the permissions of other users
    except ConfigurationError as error:
        return Finding("data dir", "fail", str(error))
    status = os.statvfs(path)
    free = status.f_bavail * status.f_frsize
    if free < FREE_BYTES:
        text = f"{path} has {free // 1024**2} MiB left; PostgreSQL stops when the disk is full"
        return Finding("data dir", "warn", text)
    return Finding("data dir", "ok", f"{path}, closed to others, {free // 1024**3} GiB free")


def _port(settings: Settings) -> Finding:
    return _listening("port", settings.host, settings.port, "OPENTILL_PORT")


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
        "sandbox", settings.sandbox_host, settings.sandbox_port, "OPENTILL_SANDBOX_PORT"
    )


def _gateways(settings: Settings) -> Iterator[Finding]:
    """Report the methods and currencies of each gateway, and check its credentials."""
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
        texts = [
            f"{method} in {_list_or_count(currencies)}" for method, currencies in takes.items()
        ]
        yield Finding("gateway", "ok", f"{name} takes {', '.join(texts)}")
        gateway = loaded[name]
        if isinstance(gateway, gateways.Checks) and name != SANDBOX:  # _sandbox looks at it
            problem = asyncio.run(_problem(gateway, gateway))
            text = f"{name} accepts queries of your account"
            yield Finding("gateway", "fail" if problem else "ok", problem or text)


async def _problem(gateway: "Gateway", checks: "Checks") -> str | None:
    """Send a gateway a query; return the problem and its remedy, None if the gateway works."""
    try:
        problem = await checks.check()
        return None if problem is None else problem.reason
    finally:
        await gateway.close()


def _list_or_count(currencies: list[str]) -> str:
    many = len(currencies) > 5  # noqa: PLR2004 - a readable number
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
    except (OSError, UnicodeError):
        text = f"{parts.hostname} has no address; correct OPENTILL_PUBLIC_URL or the DNS"
        return Finding("public url", "fail", text)
    return Finding("public url", "ok", settings.public_url)


def _listening(subject: str, host: str, port: int, variable: str) -> Finding:
    """Report whether a port is free or used by an OpenTill server or sandbox bank."""
    from opentill.server.http_server import ServeError, bind

    try:
        for listener in bind(host, port, variable):
            listener.close()
    except ServeError as error:
        if _is_ours(host, port):
            return Finding(subject, "ok", f"{host} port {port}: it runs")
        return Finding(subject, "fail", str(error))
    return Finding(subject, "ok", f"{host} port {port} is free")


def _is_ours(host: str, port: int) -> bool:
    """Whether an OpenTill server or sandbox bank responds at an address."""
    import httpx2

    try:
        response = httpx2.get(f"{config.base_url(host, port)}/healthz", timeout=3)
        return response.status_code == HTTPStatus.OK and response.json().get("status") == "ok"
    except (httpx2.HTTPError, ValueError, AttributeError):
        return False


def _reachable(host: str, port: int) -> bool:
    try:
        with socket.create_connection((host, port), timeout=3):
            return True
    except (OSError, UnicodeError):
        return False
