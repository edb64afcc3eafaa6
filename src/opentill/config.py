"""The only reader of the environment: one table of settings, from text to one frozen struct.

The same table checks what is given, names what is wrong and feeds ``opentill settings``.
"""

import difflib
from collections.abc import Callable, Mapping
from ipaddress import ip_address
from pathlib import Path
from typing import Final, cast
from urllib.parse import urlsplit

import msgspec

from opentill.core import secretfiles
from opentill.core import settingvalues as kinds
from opentill.core.settings import KEY_IS_LOST, SANDBOX, SettingError, Settings
from opentill.server.embedded import datadir

PREFIX: Final = "OPENTILL_"
GATEWAY_PREFIX: Final = "OPENTILL_GATEWAY_"
SHORTEST_HISTORY_DAYS: Final = 365
_KEY_FILE: Final = "secret.key"
_LOST_KEY: Final = (
    "the Epay keys and webhook secrets in it are encrypted with that key, and without it none of"
    " them can ever be read again. Restore the file from the backup, or set OPENTILL_SECRET_KEY to"
    f" what was in it. {KEY_IS_LOST}"
)
_LOOPBACK: Final = {"": "127.0.0.1", "0.0.0.0": "127.0.0.1", "::": "::1"}  # noqa: S104 - as input


class Setting(msgspec.Struct, frozen=True):
    """One row: the variable without prefix, how to read it, what it does, whether it is secret.

    The field of ``Settings`` has the variable's name in lower case. ``parse`` raises ``ValueError``
    whose text says what is accepted. ``default`` is given where it depends on other settings.
    """

    variable: str
    parse: Callable[[str], object]
    text: str
    secret: bool = False
    default: str = ""

    @property
    def name(self) -> str:
        """The environment variable."""
        return PREFIX + self.variable

    @property
    def field(self) -> str:
        """The field of ``Settings``."""
        return self.variable.lower()


_PORT: Final = kinds.whole(1, 65535)
_RATE: Final = kinds.whole(0, 1_000_000_000)

SETTINGS: Final = (
    Setting(
        "DATABASE_URL",
        kinds.database,
        "PostgreSQL 15 or newer",
        secret=True,
        default="an embedded one",
    ),
    Setting(
        "DATABASE_PASSWORD",
        kinds.password,
        "of the user in DATABASE_URL, as it is: nothing in it is escaped",
        secret=True,
        default="in DATABASE_URL",
    ),
    Setting(
        "DATABASE_READ_URL",
        kinds.database,
        "a replica that lists and exports are read from",
        secret=True,
        default="none",
    ),
    Setting(
        "READ_LAG_S", kinds.seconds(0.1, 3600), "a replica further behind than this is not read"
    ),
    Setting(
        "DB_PREPARED",
        kinds.yes_no,
        "no: the database is behind a pooler in transaction mode (PgBouncer before 1.21)",
    ),
    Setting("DATA_DIR", Path, "embedded database, storage of the sandbox bank, made keys"),
    Setting("HOST", kinds.host, "address to listen on"),
    Setting("PORT", _PORT, "port to listen on"),
    Setting("PUBLIC_URL", kinds.web, "what customers reach this server by", default="HOST:PORT"),
    Setting("ENVIRONMENT", kinds.one_of("production", "staging"), "which API keys are accepted"),
    Setting("LIMIT_IP_PER_MINUTE", _RATE, "API requests of one address per minute; 0: no limit"),
    Setting("LIMIT_CHECKOUTS_PER_MINUTE", _RATE, "new sessions of one merchant; 0: no limit"),
    Setting("LIMIT_PAYMENTS_PER_MINUTE", _RATE, "payment forms from one address; 0: no limit"),
    Setting("LIMIT_RESENDS_PER_MINUTE", _RATE, "calls of one merchant that send events again"),
    Setting("WEBHOOK_HOST_AT_ONCE", kinds.whole(1, 512), "events on their way to one host at once"),
    Setting("WEBHOOK_HOST_PER_SECOND", _RATE, "events sent to one host per second; 0: no limit"),
    Setting("TRUSTED_PROXIES", kinds.networks, "peers whose X-Forwarded-For is believed"),
    Setting(
        "SECRET_KEY", kinds.key, "encrypts what is read back", secret=True, default="in DATA_DIR"
    ),
    Setting("GATEWAYS", kinds.gateways, "where payments go, in order of preference"),
    Setting(
        "SANDBOX",
        kinds.yes_no,
        "yes: the sandbox bank, whose money is not real, may take payments with a database of your"
        " own or beyond this machine",
    ),
    Setting("ROUTES", kinds.routes, "another order for some methods, such as ALIPAY:epay|sandbox"),
    Setting(
        "SANDBOX_URL", kinds.web, "a sandbox bank run elsewhere", default="one is started along"
    ),
    Setting("SANDBOX_PUBLIC_URL", kinds.web, "what browsers reach it by", default="as SANDBOX_URL"),
    Setting("SANDBOX_HOST", kinds.host, "address the sandbox bank listens on"),
    Setting("SANDBOX_PORT", _PORT, "port the sandbox bank listens on", default="PORT + 1"),
    Setting(
        "SANDBOX_SECRET",
        kinds.key,
        "shared with the sandbox bank",
        secret=True,
        default="made in DATA_DIR",
    ),
    Setting(
        "WEBHOOK_HEADER_PREFIX",
        kinds.header_prefix,
        "what the names of our headers on webhooks begin with: X-Acme- for X-Acme-Signature",
    ),
    Setting(
        "OUTGOING_HTTP", kinds.yes_no, "merchants' webhook and notify addresses may be http://"
    ),
    Setting("OUTGOING_ALLOW", kinds.networks, "networks that are not public and may be sent to"),
    Setting(
        "APPROVAL_ABOVE",
        kinds.amount,
        "more than this by hand needs a second operator; in the merchant's currency",
        default="never",
    ),
    Setting("EPAY_TIME_ZONE", kinds.time_zone, "of the times and days that Epay clients read"),
    Setting(
        "RATES_MAX_AGE_DAYS", kinds.whole(0, 3650), "older exchange rates do not count; 0: all do"
    ),
    Setting("METRICS_TOKEN", kinds.text(16, 256), "bearer token that opens /metrics", secret=True),
    Setting("METRICS_PORT", _PORT, "port of its own for /metrics, on loopback"),
    Setting("DB_POOL_SIZE", kinds.whole(2, 1000), "database connections of each process"),
    Setting(
        "HISTORY_DAYS",
        kinds.whole(0, 36500),
        "days that the history of an order that is over is kept; 0: for ever",
    ),
    Setting(
        "LOG_LEVEL", kinds.one_of("debug", "info", "warning", "error"), "the least that is logged"
    ),
    Setting("AGREEMENT_DIR", Path, "your own agreement templates", default="the shipped ones"),
    Setting("OPERATOR_NAME", kinds.text(1, 200), "your legal name, in the agreement"),
    Setting("OPERATOR_ADDRESS", kinds.text(1, 500), "your address, in the agreement"),
    Setting("OPERATOR_CONTACT", kinds.text(1, 200), "how merchants reach you, in the agreement"),
    Setting("CONNECTION_LIMIT", kinds.whole(1, 100_000), "open connections of each process"),
    Setting(
        "CONNECTION_LIMIT_PER_ADDRESS",
        kinds.whole(0, 100_000),
        "of them, of one address that is no trusted proxy (IPv6: one /64); 0: no limit",
    ),
    Setting("REQUEST_TIMEOUT_S", kinds.seconds(1, 600), "for one request, from its first byte"),
    Setting("IDLE_TIMEOUT_S", kinds.seconds(0.1, 600), "between the requests of a connection"),
    Setting("HEADER_TIMEOUT_S", kinds.seconds(0.1, 600), "for the headers of a request"),
    Setting("BODY_TIMEOUT_S", kinds.seconds(0.1, 600), "for the body of a request"),
    Setting("DRAIN_TIMEOUT_S", kinds.seconds(0, 600), "for running requests when stopping"),
    Setting("DRAIN_DELAY_S", kinds.seconds(0, 600), "after SIGTERM, not ready but still accepting"),
)


def load(environ: Mapping[str, str]) -> Settings:
    """Read the settings, and the files of secrets that they name. Empty variables count as absent.

    Raises ``SettingError`` that names the variable and what is accepted. Keys that are made in the
    data directory stay empty, see ``with_keys``.
    """
    given = {name: text for name, text in environ.items() if name.startswith(PREFIX) and text}
    files = secretfiles.read({row.name for row in SETTINGS if row.secret}, GATEWAY_PREFIX, given)
    values: dict[str, object] = {}
    for row in SETTINGS:
        if row.name in given:
            try:
                values[row.field] = row.parse(given[row.name])
            except ValueError as error:
                shown = "is not acceptable" if row.secret else f"is {given[row.name]!r}"
                where = f", in {files[row.name]}," if row.name in files else ""
                message = f"{row.name}{where} {shown}; it must be {error}"
                raise SettingError(message) from None
    values["gateway_options"] = {
        name.removeprefix(GATEWAY_PREFIX).lower(): text
        for name, text in given.items()
        if name.startswith(GATEWAY_PREFIX)
    }
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
        key = datadir.key(settings.data_dir, _KEY_FILE, lost=lost)
        place = str(settings.data_dir.absolute() / _KEY_FILE)
        settings = msgspec.structs.replace(settings, secret_key=key, secret_key_from=place)
    return with_sandbox_key(settings) if "sandbox" in settings.gateways else settings


def with_sandbox_key(settings: Settings) -> Settings:
    """Fill the secret that is shared with the sandbox bank, likewise."""
    key = settings.sandbox_secret or datadir.key(settings.data_dir, "sandbox.key")
    return msgspec.structs.replace(settings, sandbox_secret=key)


def reachable(host: str) -> str:
    """Where this machine reaches what listens on ``host``: "any address" is the loopback one."""
    return _LOOPBACK.get(host, host)


def address(host: str, port: int) -> str:
    """``http://host:port``, IPv6 in brackets; "any address" becomes the loopback one."""
    host = reachable(host)
    return f"http://[{host}]:{port}" if ":" in host else f"http://{host}:{port}"


def shown(settings: Settings) -> list[tuple[str, str, str]]:
    """Rows for people: ``(variable, value, explanation)``, secrets masked."""
    rows: list[tuple[str, str, str]] = []
    for row in SETTINGS:
        value: object = getattr(settings, row.field)
        text = ("(set)" if value else "") if row.secret else _text_of(value)
        explanation = f"{row.text} (default: {row.default})" if row.default else row.text
        also = f"; {row.name}{secretfiles.SUFFIX}: a file with it" if row.secret else ""
        rows.append((row.name, text, explanation + also))
    return rows + _gateway_options(settings)


def _gateway_options(settings: Settings) -> list[tuple[str, str, str]]:
    """Rows for the options of the gateways that are on, and for all that are given."""
    from opentill.gateways.registry import OPTIONS  # with it comes an HTTP client

    given = dict(settings.gateway_options)
    rows: list[tuple[str, str, str]] = []
    for option in OPTIONS:
        value = given.pop(option.name, "")
        if value or option.gateway in settings.gateways:
            text = f"{option.text} (default: {option.default})" if option.default else option.text
            shown_value = "(set)" if value and option.secret else value
            rows.append((GATEWAY_PREFIX + option.name.upper(), shown_value, text))
    others = "read by the gateway that it names"
    return rows + [(GATEWAY_PREFIX + name.upper(), "(set)", others) for name in sorted(given)]


def _text_of(value: object) -> str:
    """Write a value the way it may be given."""
    match value:
        case None:
            return ""
        case bool():
            return "yes" if value else "no"
        case float():
            return f"{value:g}"
        case tuple():
            return ",".join(map(str, cast("tuple[object, ...]", value)))
        case _:
            return str(value)


def unknown(environ: Mapping[str, str]) -> list[str]:
    """Return a line for each variable that looks like a setting and is none.

    A warning, not an error: orchestrators put variables named after a service into every container.
    """
    known = [row.variable for row in SETTINGS]
    known += [row.variable + secretfiles.SUFFIX for row in SETTINGS if row.secret]
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


def _check_together(settings: Settings) -> None:
    if settings.database_url and not settings.secret_key:
        message = (
            "OPENTILL_SECRET_KEY must be set when OPENTILL_DATABASE_URL is: 32 to 256 characters,"
            " such as `openssl rand -hex 32` gives; keep it, stored secrets need it"
        )
        raise SettingError(message)
    if settings.database_read_url and not settings.database_url:
        message = (
            "OPENTILL_DATABASE_READ_URL needs OPENTILL_DATABASE_URL: the primary of the replica"
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
        database_url=secretfiles.with_password(settings.database_url, password),
        database_read_url=secretfiles.with_password(settings.database_read_url, password),
        public_url=settings.public_url if "public_url" in values else own,
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


def is_loopback(url: str) -> bool:
    """Tell whether an address leads to this machine, from this machine only."""
    host = urlsplit(url).hostname or ""
    try:
        return ip_address(host).is_loopback
    except ValueError:
        return host == "localhost" or host.endswith(".localhost")  # RFC 6761 §6.3
