"""The settings of a deployment, as the fields of one frozen struct.

A field declares ``Annotated[type, parser, explanation] = default``, with ``SECRET`` for a secret,
and finally a text for a default that depends on other settings. The environment variable is
``OPENTILL_`` and the field's name in capitals. Fields without ``Annotated`` are derived by
``config.py``, the only reader of the environment.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping
from decimal import Decimal
from ipaddress import IPv4Network, IPv6Network
from pathlib import Path
from typing import Annotated, Any, Final, Literal, get_args

import msgspec

from opentill.core import settingvalues as values
from opentill.core.errors import ConfigurationError

Environment = Literal["production", "staging"]
LogLevel = Literal["debug", "info", "warning", "error"]
SANDBOX: Final = "sandbox"  # name of the gateway whose money is not real
KEY_IS_LOST: Final = (
    "If it is lost, `opentill secret-key replace --reason WHY` goes on with another one; every Epay"
    " key and every webhook secret must then be made anew"
)


class SettingError(ConfigurationError):
    """An invalid setting; the text is one line that names it and says what is accepted."""


SECRET: Final = object()  # marks a setting that is never shown and may be read from a file
_Port = Annotated[int, values.whole(1, 65535)]
_Rate = Annotated[int, values.whole(0, 1_000_000_000)]
_YesNo = Annotated[bool, values.yes_no]
_Host = Annotated[str, values.host]
_WebAddress = Annotated[str, values.web]
_Networks = Annotated[tuple[IPv4Network | IPv6Network, ...], values.networks]
_DatabaseUrl = Annotated[str | None, values.database, SECRET]
_Timeout = Annotated[float, values.seconds(0.1, 600)]
_Key = Annotated[str, values.key, SECRET]


class Settings(msgspec.Struct, frozen=True, kw_only=True):
    """All settings of a deployment; ``opentill settings`` explains them."""

    database_url: Annotated[_DatabaseUrl, "PostgreSQL 15 or newer", "an embedded one"] = None
    database_password: Annotated[
        str,
        values.password,
        SECRET,
        "of the user in DATABASE_URL, as it is: nothing in it is escaped",
        "in DATABASE_URL",
    ] = ""
    database_read_url: Annotated[
        _DatabaseUrl, "a replica that lists and exports are read from", "none"
    ] = None
    read_lag_s: Annotated[
        float, values.seconds(0.1, 3600), "a replica further behind than this is not read"
    ] = 10.0
    db_prepared: Annotated[
        _YesNo, "no: the database is behind a pooler in transaction mode (PgBouncer before 1.21)"
    ] = True
    data_dir: Annotated[Path, Path, "embedded database, storage of the sandbox bank, made keys"] = (
        Path("opentill-data")
    )
    host: Annotated[_Host, "address to listen on"] = "127.0.0.1"
    port: Annotated[_Port, "port to listen on"] = 8080
    public_url: Annotated[_WebAddress, "what customers reach this server by", "HOST:PORT"] = (
        "http://127.0.0.1:8080"
    )
    environment: Annotated[
        Environment, values.one_of(*get_args(Environment)), "which API keys are accepted"
    ] = "production"
    limit_ip_per_minute: Annotated[_Rate, "API requests of one address per minute; 0: no limit"] = (
        100
    )
    limit_checkouts_per_minute: Annotated[_Rate, "new sessions of one merchant; 0: no limit"] = 60
    limit_payments_per_minute: Annotated[_Rate, "payment forms from one address; 0: no limit"] = 30
    limit_resends_per_minute: Annotated[_Rate, "calls of one merchant that send events again"] = 30
    webhook_host_at_once: Annotated[
        int, values.whole(1, 512), "events on their way to one host at once"
    ] = 32
    webhook_host_per_second: Annotated[_Rate, "events sent to one host per second; 0: no limit"] = (
        100
    )
    trusted_proxies: Annotated[_Networks, "peers whose X-Forwarded-For is believed"] = ()
    secret_key: Annotated[_Key, "encrypts what is read back", "in DATA_DIR"] = ""
    secret_key_from: str = "OPENTILL_SECRET_KEY"  # noqa: S105 - its name; or the file that it was read from
    gateways: Annotated[
        tuple[str, ...], values.gateways, "where payments go, in order of preference"
    ] = ("sandbox",)
    sandbox: Annotated[
        _YesNo,
        "yes: the sandbox bank, whose money is not real, may take payments with a database of your"
        " own or beyond this machine",
    ] = False
    sandbox_refused: str = ""  # why the sandbox bank may not take payments here, "" if it may
    routes: Annotated[
        str, values.routes, "another order for some methods, such as ALIPAY:epay|sandbox"
    ] = ""
    # The environment variables OPENTILL_GATEWAY_…, which the gateways read.
    gateway_options: Mapping[str, str] = {}
    sandbox_url: Annotated[_WebAddress, "a sandbox bank run elsewhere", "one is started along"] = (
        "http://127.0.0.1:8081"
    )
    sandbox_public_url: Annotated[_WebAddress, "what browsers reach it by", "as SANDBOX_URL"] = (
        "http://127.0.0.1:8081"
    )
    sandbox_host: Annotated[_Host, "address the sandbox bank listens on"] = "127.0.0.1"
    sandbox_port: Annotated[_Port, "port the sandbox bank listens on", "PORT + 1"] = 8081
    sandbox_secret: Annotated[_Key, "shared with the sandbox bank", "made in DATA_DIR"] = ""
    # Whether OPENTILL_SANDBOX_URL is set: the bank then runs separately.
    sandbox_elsewhere: bool = False
    webhook_header_prefix: Annotated[
        str,
        values.header_prefix,
        "what the names of our headers on webhooks begin with: X-Acme- for X-Acme-Signature",
    ] = "X-Svc-"
    outgoing_http: Annotated[_YesNo, "merchants' webhook and notify addresses may be http://"] = (
        False
    )
    outgoing_allow: Annotated[_Networks, "networks that are not public and may be sent to"] = ()
    approval_above: Annotated[
        Decimal | None,
        values.amount,
        "adjustments of more than this need a second operator; in the merchant's currency",
        "never",
    ] = None
    refund_proof_above: Annotated[
        Decimal | None,
        values.amount,
        "a member's refund of more than this asks for the password again; in the order's currency",
        "never",
    ] = Decimal(1000)
    smtp_url: Annotated[
        str,
        values.smtp,
        SECRET,
        "the mail server: smtp://, smtp+starttls:// or smtps://, with USER:PASSWORD@ if it asks",
        "none, and no mail is sent",
    ] = ""
    mail_from: Annotated[
        str,
        values.mailbox,
        "sender of all mail, such as Example Pay <pay@example.com>",
        "none; needed with SMTP_URL",
    ] = ""
    receipt_font: Annotated[
        Path | None,
        Path,
        "TrueType or OpenType font of receipts as PDF",
        "one of this machine that has Chinese, if there is any",
    ] = None
    factor_reset_hours: Annotated[
        int,
        values.whole(0, 720),
        "hours that a reset of lost second factors waits, so that the person can stop it; 0: none",
    ] = 24
    payout_accounts: Annotated[
        str,
        values.operator_accounts,
        "your own bank accounts that payouts are paid from, by currency, such as"
        " EUR:DE89370400440532013000:COBADEFFXXX,USD:000123456789:US021000021",
        "none: no bank files",
    ] = ""
    payout_address: Annotated[
        str,
        values.operator_address,
        "your own address in bank files, such as"
        " town=Berlin;country=DE;street=Hauptstr.;building=1;postcode=10117",
        "none",
    ] = ""
    bank_account_hold_days: Annotated[
        int,
        values.whole(0, 365),
        "days that payouts to a merchant wait after its bank account was changed; 0: none",
    ] = 3
    epay_time_zone: Annotated[
        str, values.time_zone, "of the times and days that Epay clients read"
    ] = "Asia/Shanghai"
    rates_max_age_days: Annotated[
        int,
        values.whole(0, 3650),
        "days that imported exchange rates count; 0: for ever. Rates that were set count until they"
        " are replaced",
    ] = 7
    metrics_token: Annotated[
        str | None, values.token(16, 256), SECRET, "bearer token that opens /metrics"
    ] = None
    metrics_port: Annotated[
        int | None, values.whole(1, 65535), "port of its own for /metrics, also of `worker`"
    ] = None
    metrics_host: Annotated[
        _Host, "address of METRICS_PORT; beyond loopback it asks for METRICS_TOKEN"
    ] = "127.0.0.1"
    tracing: bool = False  # whether OpenTelemetry's variables (OTEL_…) request traces
    tracing_refused: str = ""  # why the requested traces are impossible, "" if they are possible
    db_pool_size: Annotated[int, values.whole(2, 1000), "database connections of each process"] = 10
    history_days: Annotated[
        int,
        values.whole(0, 36500),
        "days that the history of an order that is over is kept; 0: for ever",
    ] = 0
    log_level: Annotated[
        LogLevel, values.one_of(*get_args(LogLevel)), "the least that is logged"
    ] = "info"
    agreement_dir: Annotated[
        Path | None, Path, "your own agreement templates", "the shipped ones"
    ] = None
    agreement_required: Annotated[
        _YesNo, "yes: a merchant takes payments only once an owner has accepted the agreement"
    ] = False
    applications: Annotated[
        _YesNo, "yes: anybody may apply at /apply to become a merchant; staff decide"
    ] = False
    operator_name: Annotated[str, values.text(1, 200), "your legal name, in the agreement"] = (
        "OpenTill Demo Operator"
    )
    operator_address: Annotated[str, values.text(1, 500), "your address, in the agreement"] = (
        "1 Example Street, Example City"
    )
    operator_contact: Annotated[
        str, values.text(1, 200), "how merchants reach you, in the agreement"
    ] = "support@example.com"
    connection_limit: Annotated[
        int, values.whole(1, 100_000), "open connections of each process"
    ] = 1000
    connection_limit_per_address: Annotated[
        int,
        values.whole(0, 100_000),
        "of them, of one address that is no trusted proxy (IPv6: one /64); 0: no limit",
    ] = 200
    request_timeout_s: Annotated[
        float, values.seconds(1, 600), "for one request, from its first byte"
    ] = 30.0
    idle_timeout_s: Annotated[_Timeout, "between the requests of a connection"] = 15.0
    header_timeout_s: Annotated[_Timeout, "for the headers of a request"] = 10.0
    body_timeout_s: Annotated[_Timeout, "for the body of a request"] = 10.0
    drain_timeout_s: Annotated[
        float, values.seconds(0, 600), "for running requests when stopping"
    ] = 10.0
    drain_delay_s: Annotated[
        float, values.seconds(0, 600), "after SIGTERM, not ready but still accepting"
    ] = 0.0

    @property
    def livemode(self) -> bool:
        """Whether real payments are possible: any gateway is not the sandbox bank."""
        return any(name != SANDBOX for name in self.gateways)

    @property
    def sends_mail(self) -> bool:
        """Whether a mail server is configured; otherwise no page promises mail."""
        return bool(self.smtp_url)

    @property
    def is_https(self) -> bool:
        """Whether customers and merchants reach this deployment by https."""
        return self.public_url.startswith("https://")

    def __repr__(self) -> str:
        """Name the deployment without secrets, because logs and traces may show it."""
        return f"Settings(public_url={self.public_url!r}, environment={self.environment!r})"


class Setting(msgspec.Struct, frozen=True):
    """The declaration of a setting.

    ``parse`` raises ``ValueError``, whose text says what is accepted. ``default`` describes a
    default that depends on other settings.
    """

    name: str  # the environment variable
    field: str
    parse: Callable[[str], object]
    text: str
    secret: bool
    default: str


def rows(table: type[msgspec.Struct], prefix: str) -> Iterator[Setting]:
    """Yield the settings that a struct declares; their variables begin with ``prefix``."""
    for field in msgspec.structs.fields(table):
        notes: tuple[Any, ...] = getattr(field.type, "__metadata__", ())
        if notes:
            name = prefix + field.name.upper()
            text, *default = (note for note in notes if isinstance(note, str))
            yield Setting(name, field.name, notes[0], text, SECRET in notes, "".join(default))


def parse(
    table: Iterable[Setting], variables: Mapping[str, str], files: Mapping[str, str]
) -> dict[str, object]:
    """Return the values of the fields whose variables are set.

    ``files`` maps variables to the files that they were read from, for the message of
    ``SettingError``, which is raised for an invalid value.
    """
    values: dict[str, object] = {}
    for row in table:
        if row.name in variables:
            try:
                values[row.field] = row.parse(variables[row.name])
            except ValueError as error:
                value_text = "is not acceptable" if row.secret else f"is {variables[row.name]!r}"
                where = f", in {files[row.name]}," if row.name in files else ""
                message = f"{row.name}{where} {value_text}; it must be {error}"
                raise SettingError(message) from None
    return values


PREFIX: Final = "OPENTILL_"
GATEWAY_PREFIX: Final = "OPENTILL_GATEWAY_"
SETTINGS: Final = tuple(rows(Settings, PREFIX))
