"""The only reader of the environment: from text to the frozen struct that is the table of settings.

The table, ``core/settings.py``, says what is accepted and feeds ``opentill settings``.
"""

import difflib
from collections.abc import Mapping
from typing import Final
from urllib.parse import urlsplit

import msgspec

from opentill.core import secretfiles, settingvalues
from opentill.core.settings import (
    GATEWAY_PREFIX,
    KEY_IS_LOST,
    PREFIX,
    SANDBOX,
    SETTINGS,
    SettingError,
    Settings,
    parse,
)
from opentill.server.client_address import is_loopback_host
from opentill.server.embedded import datadir

SHORTEST_HISTORY_DAYS: Final = 365
_KEY_FILE: Final = "secret.key"
_LOST_KEY: Final = (
    "the Epay keys and webhook secrets in it are encrypted with that key, and without it none of"
    " them can ever be read again. Restore the file from the backup, or set OPENTILL_SECRET_KEY to"
    f" what was in it. {KEY_IS_LOST}"
)
_LOOPBACK: Final = {"": "127.0.0.1", "0.0.0.0": "127.0.0.1", "::": "::1"}  # noqa: S104 - as input


def load(environ: Mapping[str, str]) -> Settings:
    """Read the settings, and the files of secrets that they name. Empty variables count as absent.

    Raises ``SettingError`` that names the variable and what is accepted. Keys that are made in the
    data directory stay empty, see ``with_keys``.
    """
    given = {name: text for name, text in environ.items() if name.startswith(PREFIX) and text}
    files = secretfiles.read_files(
        {row.name for row in SETTINGS if row.secret}, GATEWAY_PREFIX, given
    )
    values = parse(SETTINGS, given, files)
    values["gateway_options"] = {
        name.removeprefix(GATEWAY_PREFIX).lower(): text
        for name, text in given.items()
        if name.startswith(GATEWAY_PREFIX)
    }
    values["tracing"], values["tracing_refused"] = _tracing(environ)
    settings = msgspec.structs.replace(Settings(), **values)
    _check_together(settings)
    return _derived(settings, values)


def with_keys(settings: Settings, *, anew: bool = False) -> Settings:
    """Fill the secrets that were not given from the data directory, where they are made if absent.

    The one that encrypts what a database there holds is not made again, unless ``anew``. Raises
    ``opentill.server.embedded.datadir.DataDirError``.
    """
    if not settings.secret_key:
        lost = "" if anew else _LOST_KEY
        key = datadir.read_or_create_key(settings.data_dir, _KEY_FILE, lost=lost)
        place = str(settings.data_dir.absolute() / _KEY_FILE)
        settings = msgspec.structs.replace(settings, secret_key=key, secret_key_from=place)
    return with_sandbox_key(settings) if "sandbox" in settings.gateways else settings


def with_sandbox_key(settings: Settings) -> Settings:
    """Fill the secret shared with the sandbox bank, as ``with_keys`` fills the others."""
    key = settings.sandbox_secret or datadir.read_or_create_key(settings.data_dir, "sandbox.key")
    return msgspec.structs.replace(settings, sandbox_secret=key)


def reachable(host: str) -> str:
    """Where this machine reaches what listens on ``host``: "any address" is the loopback one."""
    return _LOOPBACK.get(host, host)


def address(host: str, port: int) -> str:
    """``http://host:port``, IPv6 in brackets; "any address" becomes the loopback one."""
    host = reachable(host)
    return f"http://[{host}]:{port}" if ":" in host else f"http://{host}:{port}"


def unknown(environ: Mapping[str, str]) -> list[str]:
    """Return a line for each variable that looks like a setting and is none.

    A warning, not an error: orchestrators put variables named after a service into every container.
    """
    known = [row.field.upper() for row in SETTINGS]
    known += [row.field.upper() + secretfiles.SUFFIX for row in SETTINGS if row.secret]
    lines: list[str] = []
    for name in sorted(environ):
        variable = name.removeprefix(PREFIX)
        ours = name.startswith(PREFIX) and not name.startswith(GATEWAY_PREFIX)
        if ours and variable not in known:
            nearest = difflib.get_close_matches(variable, known, 1)
            asked = f"did you mean {PREFIX}{nearest[0]}?" if nearest else ""
            hint = asked or "`opentill settings` lists them"
            lines.append(f"{name} is not a setting; {hint}")
    return lines


def _tracing(environ: Mapping[str, str]) -> tuple[bool, str]:
    """Return whether OpenTelemetry's variables ask for traces, and why they are not sent then.

    https://opentelemetry.io/docs/specs/otel/configuration/sdk-environment-variables/
    """
    exporter = environ.get("OTEL_TRACES_EXPORTER", "").strip().lower()
    places = ("OTEL_EXPORTER_OTLP_TRACES_ENDPOINT", "OTEL_EXPORTER_OTLP_ENDPOINT")
    disabled = environ.get("OTEL_SDK_DISABLED", "").strip().lower() == "true"
    if disabled or exporter == "none" or not (exporter or any(map(environ.get, places))):
        return False, ""
    if exporter not in ("", "otlp"):
        return False, f"OTEL_TRACES_EXPORTER is {exporter!r}; traces are sent by otlp only"
    protocol = environ.get("OTEL_EXPORTER_OTLP_TRACES_PROTOCOL") or environ.get(
        "OTEL_EXPORTER_OTLP_PROTOCOL"
    )
    if protocol not in (None, "", "http/protobuf"):
        return False, f"OTEL_EXPORTER_OTLP_PROTOCOL is {protocol!r}; it must be http/protobuf"
    return True, ""


def _check_together(settings: Settings) -> None:
    if settings.database_url and not settings.secret_key:
        message = (
            "OPENTILL_SECRET_KEY must be set when OPENTILL_DATABASE_URL is: 32 to 256 characters,"
            " such as `openssl rand -hex 32` gives; keep it, stored secrets need it"
        )
        raise SettingError(message)
    shown = settings.metrics_port is not None and not metrics_stay_here(settings)
    if shown and not settings.metrics_token:
        message = (
            f"OPENTILL_METRICS_HOST is {settings.metrics_host}, not this machine alone: set"
            " OPENTILL_METRICS_TOKEN, since the metrics show how much money comes in"
        )
        raise SettingError(message)
    if settings.database_read_url and not settings.database_url:
        message = (
            "OPENTILL_DATABASE_READ_URL needs OPENTILL_DATABASE_URL: the primary of the replica"
        )
        raise SettingError(message)
    if settings.smtp_url and not settings.mail_from:
        message = (
            "OPENTILL_MAIL_FROM must be set when OPENTILL_SMTP_URL is: the sender of all mail, such"
            " as Example Pay <pay@example.com>"
        )
        raise SettingError(message)
    if settings.database_password:
        secretfiles.check_password(settings)
    if 0 < settings.history_days < SHORTEST_HISTORY_DAYS:
        message = (
            f"OPENTILL_HISTORY_DAYS is {settings.history_days}; it must be 0 (for ever) or at least"
            f" {SHORTEST_HISTORY_DAYS}: disputes come late"
        )
        raise SettingError(message)


def _derived(settings: Settings, values: Mapping[str, object]) -> Settings:
    """Fill the defaults that depend on other settings."""
    port = settings.port + 1 if settings.port < 65535 else settings.port - 1  # noqa: PLR2004 - the last one
    sandbox_port = settings.sandbox_port if "sandbox_port" in values else port
    own = address(settings.sandbox_host, sandbox_port)
    sandbox_url = settings.sandbox_url if "sandbox_url" in values else own
    public = settings.sandbox_public_url if "sandbox_public_url" in values else sandbox_url
    own = address(settings.host, settings.port)
    password = settings.database_password
    derived = msgspec.structs.replace(
        settings,
        database_url=secretfiles.add_password(settings.database_url, password),
        database_read_url=secretfiles.add_password(settings.database_read_url, password),
        public_url=settings.public_url if "public_url" in values else settingvalues.web(own),
        sandbox_port=sandbox_port,
        sandbox_url=sandbox_url,
        sandbox_public_url=public,
        sandbox_elsewhere="sandbox_url" in values,
    )
    return msgspec.structs.replace(derived, sandbox_refused=_sandbox_refused(derived))


def _sandbox_refused(settings: Settings) -> str:
    """Say why the sandbox bank may take no payments: who is here may believe its money is real."""
    if SANDBOX not in settings.gateways or settings.sandbox:
        return ""
    if settings.database_url:
        why = "OPENTILL_DATABASE_URL is set"
    elif not is_loopback(settings.public_url):
        why = f"{settings.public_url} is not this machine alone"
    elif not is_loopback(address(settings.host, settings.port)) or settings.host in _LOOPBACK:
        why = f"OPENTILL_HOST is {settings.host}, not this machine alone"
    else:
        return ""
    return (
        f"OPENTILL_GATEWAYS names the sandbox bank, whose money is not real, and {why}: set"
        " OPENTILL_GATEWAYS to a gateway that moves real money, or OPENTILL_SANDBOX=yes to try"
        " things out here"
    )


def metrics_stay_here(settings: Settings) -> bool:
    """Return whether the port of the metrics is open to this machine only."""
    host = settings.metrics_host
    return host not in _LOOPBACK and is_loopback(address(host, 80))


def is_loopback(url: str) -> bool:
    """Return whether an address leads to this machine, from this machine only."""
    return is_loopback_host(urlsplit(url).hostname or "")
