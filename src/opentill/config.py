"""Reads the settings from the environment; no other module reads it.

``core/settings.py`` declares them for this module and for ``opentill settings``.
"""

import difflib
from collections.abc import Mapping
from typing import Final
from urllib.parse import urlsplit

import msgspec

from opentill.core import secretfiles, settingvalues
from opentill.core.setting_rows import SettingError, parse
from opentill.core.settings import (
    GATEWAY_PREFIX,
    KEY_IS_LOST,
    PREFIX,
    SANDBOX,
    SETTINGS,
    Settings,
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
# Options of commands that call a server's API, on machines without settings.
_CLIENT_VARIABLES: Final = ("API_KEY", "API_URL")
_LOOPBACK: Final = {"": "127.0.0.1", "0.0.0.0": "127.0.0.1", "::": "::1"}  # noqa: S104 - as input


def load(environ: Mapping[str, str]) -> Settings:
    """Read the settings and the secret files that they name. Empty variables count as absent.

    Raises ``SettingError``, which names the variable and says what is accepted. Keys in the data
    directory are not read; see ``with_keys``.
    """
    variables = {name: text for name, text in environ.items() if name.startswith(PREFIX) and text}
    files = secretfiles.read_files(
        {row.name for row in SETTINGS if row.secret}, GATEWAY_PREFIX, variables
    )
    values = parse(SETTINGS, variables, files)
    values["gateway_options"] = {
        name.removeprefix(GATEWAY_PREFIX).lower(): text
        for name, text in variables.items()
        if name.startswith(GATEWAY_PREFIX)
    }
    values["tracing"], values["tracing_refused"] = _tracing(environ)
    settings = msgspec.structs.replace(Settings(), **values)
    _check_together(settings)
    return _derive_defaults(settings, values)


def with_keys(settings: Settings, *, anew: bool = False) -> Settings:
    """Add missing secrets from the data directory, creating them if necessary.

    If the directory has a database but no encryption key, a new key is only created if ``anew``.
    Raises ``opentill.server.embedded.datadir.DataDirError``.
    """
    if not settings.secret_key:
        lost = "" if anew else _LOST_KEY
        key = datadir.read_or_create_key(settings.data_dir, _KEY_FILE, lost=lost)
        place = str(settings.data_dir.absolute() / _KEY_FILE)
        settings = msgspec.structs.replace(settings, secret_key=key, secret_key_from=place)
    return with_sandbox_key(settings) if "sandbox" in settings.gateways else settings


def with_sandbox_key(settings: Settings) -> Settings:
    """Add the secret shared with the sandbox bank, like ``with_keys``."""
    key = settings.sandbox_secret or datadir.read_or_create_key(settings.data_dir, "sandbox.key")
    return msgspec.structs.replace(settings, sandbox_secret=key)


def connect_host(host: str) -> str:
    """Return the host by which this machine connects to ``host``: loopback for a wildcard."""
    return _LOOPBACK.get(host, host)


def base_url(host: str, port: int) -> str:
    """Return ``http://host:port``, IPv6 in brackets, with loopback in place of a wildcard host."""
    host = connect_host(host)
    return f"http://[{host}]:{port}" if ":" in host else f"http://{host}:{port}"


def warn_about_unknown_variables(environ: Mapping[str, str]) -> list[str]:
    """Return a warning for each variable that looks like a setting but is not one.

    These are no errors, because orchestrators add variables named after services to every
    container.
    """
    setting_names = [row.field.upper() for row in SETTINGS]
    setting_names += _CLIENT_VARIABLES
    setting_names += [row.field.upper() + secretfiles.SUFFIX for row in SETTINGS if row.secret]
    lines: list[str] = []
    for name in sorted(environ):
        variable = name.removeprefix(PREFIX)
        looks_like_setting = name.startswith(PREFIX) and not name.startswith(GATEWAY_PREFIX)
        if looks_like_setting and variable not in setting_names:
            nearest = difflib.get_close_matches(variable, setting_names, 1)
            suggestion = f"did you mean {PREFIX}{nearest[0]}?" if nearest else ""
            hint = suggestion or "`opentill settings` lists them"
            lines.append(f"{name} is not a setting; {hint}")
    return lines


def _tracing(environ: Mapping[str, str]) -> tuple[bool, str]:
    """Return whether OpenTelemetry's variables enable tracing, and why not if it is unsupported.

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
    is_exposed = settings.metrics_port is not None and not metrics_are_local(settings)
    if is_exposed and not settings.metrics_token:
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


def _derive_defaults(settings: Settings, values: Mapping[str, object]) -> Settings:
    """Set the defaults that depend on other settings."""
    port = settings.port + 1 if settings.port < 65535 else settings.port - 1  # noqa: PLR2004 - the last one
    sandbox_port = settings.sandbox_port if "sandbox_port" in values else port
    default_url = base_url(settings.sandbox_host, sandbox_port)
    sandbox_url = settings.sandbox_url if "sandbox_url" in values else default_url
    public = settings.sandbox_public_url if "sandbox_public_url" in values else sandbox_url
    server_url = base_url(settings.host, settings.port)
    password = settings.database_password
    derived = msgspec.structs.replace(
        settings,
        database_url=secretfiles.add_password(settings.database_url, password),
        database_read_url=secretfiles.add_password(settings.database_read_url, password),
        public_url=settings.public_url if "public_url" in values else settingvalues.web(server_url),
        sandbox_port=sandbox_port,
        sandbox_url=sandbox_url,
        sandbox_public_url=public,
        sandbox_elsewhere="sandbox_url" in values,
    )
    return msgspec.structs.replace(derived, sandbox_refused=_sandbox_refused(derived))


def _sandbox_refused(settings: Settings) -> str:
    """Return why the sandbox bank may not take payments, "" if it may.

    It may not if users could believe that its money is real.
    """
    if SANDBOX not in settings.gateways or settings.sandbox:
        return ""
    if settings.database_url:
        why = "OPENTILL_DATABASE_URL is set"
    elif not is_loopback(settings.public_url):
        why = f"{settings.public_url} is not this machine alone"
    elif not is_loopback(base_url(settings.host, settings.port)) or settings.host in _LOOPBACK:
        why = f"OPENTILL_HOST is {settings.host}, not this machine alone"
    else:
        return ""
    return (
        f"OPENTILL_GATEWAYS names the sandbox bank, whose money is not real, and {why}: set"
        " OPENTILL_GATEWAYS to a gateway that moves real money, or OPENTILL_SANDBOX=yes to try"
        " things out here"
    )


def metrics_are_local(settings: Settings) -> bool:
    """Whether the metrics port is open to this machine only."""
    host = settings.metrics_host
    return host not in _LOOPBACK and is_loopback(base_url(host, 80))


def is_loopback(url: str) -> bool:
    """Whether a URL has a loopback host."""
    return is_loopback_host(urlsplit(url).hostname or "")


def credential_variables(environ: Mapping[str, str]) -> Mapping[str, str]:
    """Return the variables from which a command may read credentials: those of the environment."""
    return environ
