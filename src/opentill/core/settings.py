"""The settings of a deployment, as the fields of one frozen struct.

A field declares ``Annotated[type, parser, name, explanation] = default``; the console and
``opentill settings`` show both texts. Further notes: ``SECRET`` for a secret, ``Zero`` for the
meaning of 0, ``Example`` for a value whose form is hard to guess, and finally a text for a default
that depends on other settings. The environment variable is ``OPENTILL_`` and the field's name in
capitals. Fields without ``Annotated`` are derived by ``config.py``, the only reader of the
environment.
"""

from collections.abc import Mapping
from decimal import Decimal
from ipaddress import IPv4Network, IPv6Network
from pathlib import Path
from typing import Annotated, Final, Literal, get_args

import msgspec

from opentill.core import settingvalues as values
from opentill.core.setting_rows import SECRET, Example, Zero, rows
from opentill.core.translatable import N_

Environment = Literal["production", "staging"]
LogLevel = Literal["debug", "info", "warning", "error"]
SANDBOX: Final = "sandbox"  # name of the gateway whose money is not real
KEY_IS_LOST: Final = (
    "If it is lost, `opentill secret-key replace --reason WHY` goes on with another one; every Epay"
    " key and every webhook secret must then be made anew"
)


_Port = Annotated[int, values.whole(1, 65535)]
_Rate = Annotated[int, values.whole(0, 1_000_000_000)]
_YesNo = Annotated[bool, values.yes_no]
_Host = Annotated[str, values.host]
_WebAddress = Annotated[str, values.web]
_Networks = Annotated[tuple[IPv4Network | IPv6Network, ...], values.networks]
_DatabaseUrl = Annotated[str | None, values.database, SECRET]
_Timeout = Annotated[float, values.seconds(0.1, 600)]
_Key = Annotated[str, values.key, SECRET]

_EXAMPLE_CONTACT: Final = "support@example.com"  # nobody reaches the operator with it


class Settings(msgspec.Struct, frozen=True, kw_only=True):
    """All settings of a deployment; ``opentill settings`` explains them."""

    database_url: Annotated[
        _DatabaseUrl,
        N_("Database address"),
        N_("PostgreSQL 15 or newer; without one, OpenTill starts its own."),
        "an embedded one",
    ] = None
    database_password: Annotated[
        str,
        values.password,
        SECRET,
        N_("Database password"),
        N_("Used instead of a password in the database’s address; nothing in it is escaped."),
        "in DATABASE_URL",
    ] = ""
    database_read_url: Annotated[
        _DatabaseUrl,
        N_("Read replica"),
        N_("A copy of the database from which lists and exports are read."),
        "none",
    ] = None
    read_lag_s: Annotated[
        float,
        values.seconds(0.1, 3600),
        N_("Accepted delay of the replica"),
        N_("A replica that is further behind is not read."),
    ] = 10.0
    db_prepared: Annotated[
        _YesNo,
        N_("Prepared statements"),
        N_("Turn it off behind a connection pooler in transaction mode (PgBouncer before 1.21)."),
    ] = True
    data_dir: Annotated[
        Path,
        Path,
        N_("Data directory"),
        N_("Where the embedded database and generated keys are stored."),
    ] = Path("opentill-data")
    host: Annotated[
        _Host,
        N_("Listen address"),
        N_("The network address on which the server accepts connections."),
    ] = "127.0.0.1"
    port: Annotated[_Port, N_("Port"), N_("The port on which the server accepts connections.")] = (
        8080
    )
    public_url: Annotated[
        _WebAddress,
        N_("Public address"),
        N_("The address by which customers and merchants reach OpenTill."),
        "HOST:PORT",
    ] = "http://127.0.0.1:8080"
    environment: Annotated[
        Environment,
        values.one_of(*get_args(Environment)),
        N_("Environment"),
        N_("Decides which API keys are accepted."),
    ] = "production"
    limit_ip_per_minute: Annotated[
        _Rate, N_("API requests per address"), N_("Per minute."), Zero(N_("No limit"))
    ] = 100
    limit_checkouts_per_minute: Annotated[
        _Rate, N_("Checkout sessions per merchant"), N_("Per minute."), Zero(N_("No limit"))
    ] = 60
    limit_payments_per_minute: Annotated[
        _Rate, N_("Payment attempts per address"), N_("Per minute."), Zero(N_("No limit"))
    ] = 30
    limit_resends_per_minute: Annotated[
        _Rate, N_("Resends of events per merchant"), N_("Per minute."), Zero(N_("No limit"))
    ] = 30
    webhook_host_at_once: Annotated[
        int,
        values.whole(1, 512),
        N_("Deliveries to one host at once"),
        N_("Webhook events that are sent to one host at the same time."),
    ] = 32
    webhook_host_per_second: Annotated[
        _Rate,
        N_("Deliveries to one host per second"),
        N_("Webhook events that are sent to one host within a second."),
        Zero(N_("No limit")),
    ] = 100
    trusted_proxies: Annotated[
        _Networks, N_("Trusted proxies"), N_("Networks whose X-Forwarded-For header is believed.")
    ] = ()
    secret_key: Annotated[
        _Key, N_("Encryption key"), N_("Encrypts webhook secrets and Epay keys."), "in DATA_DIR"
    ] = ""
    secret_key_from: str = "OPENTILL_SECRET_KEY"  # noqa: S105 - its name; or the file that it was read from
    gateways: Annotated[
        tuple[str, ...],
        values.gateways,
        N_("Gateways"),
        N_("The gateways that take payments, in order of preference."),
    ] = ("sandbox",)
    sandbox: Annotated[
        _YesNo,
        N_("Sandbox for other databases"),
        N_("Allows the sandbox bank beside a database of your own."),
    ] = False
    sandbox_refused: str = ""  # why the sandbox bank may not take payments here, "" if it may
    routes: Annotated[
        str,
        values.routes,
        N_("Routing rules"),
        N_("Another order of the gateways for some payment methods."),
        Example("ALIPAY:epay|sandbox"),
    ] = ""
    # The environment variables OPENTILL_GATEWAY_…, which the gateways read.
    gateway_options: Mapping[str, str] = {}
    sandbox_url: Annotated[
        _WebAddress,
        N_("Sandbox address"),
        N_("The address by which the server reaches the sandbox bank."),
        "one is started along",
    ] = "http://127.0.0.1:8081"
    sandbox_public_url: Annotated[
        _WebAddress,
        N_("Sandbox address for browsers"),
        N_("The address by which browsers reach the sandbox bank."),
        "as SANDBOX_URL",
    ] = "http://127.0.0.1:8081"
    sandbox_host: Annotated[
        _Host,
        N_("Sandbox listen address"),
        N_("The network address on which the sandbox bank accepts connections."),
    ] = "127.0.0.1"
    sandbox_port: Annotated[
        _Port,
        N_("Sandbox port"),
        N_("The port on which the sandbox bank accepts connections."),
        "PORT + 1",
    ] = 8081
    sandbox_secret: Annotated[
        _Key,
        N_("Sandbox secret"),
        N_("Shared by the server and the sandbox bank."),
        "made in DATA_DIR",
    ] = ""
    # Whether OPENTILL_SANDBOX_URL is set: the bank then runs separately.
    sandbox_elsewhere: bool = False
    webhook_header_prefix: Annotated[
        str,
        values.header_prefix,
        N_("Webhook header prefix"),
        N_("The names of our headers on webhooks begin with it."),
        Example("X-Acme-"),
    ] = "X-Svc-"
    outgoing_http: Annotated[
        _YesNo,
        N_("Unencrypted addresses of merchants"),
        N_(
            "Allows merchants to enter http:// addresses, for events, Epay notifications and their "
            "own gateway accounts."
        ),
    ] = False
    outgoing_allow: Annotated[
        _Networks,
        N_("Allowed private networks"),
        N_(
            "Private networks to which webhooks may be sent, and in which servers of merchants’ "
            "own gateway accounts may be."
        ),
    ] = ()
    approval_above: Annotated[
        Decimal | None,
        values.amount,
        N_("Approval limit"),
        N_(
            "Payouts, refunds and adjustments above this amount, in the merchant’s currency, need "
            "a second person."
        ),
        "never",
    ] = None
    refund_proof_above: Annotated[
        Decimal | None,
        values.amount,
        N_("Password for refunds above"),
        N_("Members confirm larger refunds, in the order’s currency, with their password."),
        "never",
    ] = Decimal(1000)
    smtp_url: Annotated[
        str,
        values.smtp,
        SECRET,
        N_("Mail server"),
        N_("The SMTP server that sends email; without one, nothing is sent."),
        Example("smtp+starttls://USER:PASSWORD@mail.example.com"),
        "none, and no mail is sent",
    ] = ""
    mail_from: Annotated[
        str,
        values.mailbox,
        N_("Sender of email"),
        N_("The name and address from which email is sent."),
        Example("Example Pay <pay@example.com>"),
        "none; needed with SMTP_URL",
    ] = ""
    receipt_font: Annotated[
        Path | None,
        Path,
        N_("Receipt font"),
        N_("The TrueType or OpenType font of receipts as PDF."),
        "one of this machine that has Chinese, if there is any",
    ] = None
    factor_reset_hours: Annotated[
        int,
        values.whole(0, 720),
        N_("Delay of second-factor resets"),
        N_("Time in which a person can stop the reset of their second factors."),
        Zero(N_("None")),
    ] = 24
    payout_accounts: Annotated[
        str,
        values.operator_accounts,
        N_("Your bank accounts"),
        N_("The accounts from which payouts are paid, by currency."),
        Example("EUR:DE89370400440532013000:COBADEFFXXX"),
        "none, and no bank files",
    ] = ""
    payout_address: Annotated[
        str,
        values.operator_address,
        N_("Your address in bank files"),
        N_("Some banks require the address of the payer."),
        Example("town=Berlin;country=DE;street=Hauptstr.;building=1;postcode=10117"),
        "none",
    ] = ""
    bank_account_hold_days: Annotated[
        int,
        values.whole(0, 365),
        N_("Hold after bank account changes"),
        N_("Payouts wait for this time after a merchant’s bank account has changed."),
        Zero(N_("None")),
    ] = 3
    epay_time_zone: Annotated[
        str,
        values.time_zone,
        N_("Epay time zone"),
        N_("The time zone of times and days that Epay clients read."),
    ] = "Asia/Shanghai"
    rates_max_age_days: Annotated[
        int,
        values.whole(0, 3650),
        N_("Age limit of exchange rates"),
        N_(
            "Older imported rates are not used. Rates set by staff are used until they are "
            "replaced."
        ),
        Zero(N_("No limit")),
    ] = 7
    metrics_token: Annotated[
        str | None,
        values.token(16, 256),
        SECRET,
        N_("Metrics token"),
        N_("The token that opens /metrics."),
    ] = None
    metrics_port: Annotated[
        int | None,
        values.whole(1, 65535),
        N_("Metrics port"),
        N_("A separate port for /metrics of servers and workers."),
    ] = None
    metrics_host: Annotated[
        _Host,
        N_("Metrics listen address"),
        N_(
            "The network address of the separate port for /metrics; beyond loopback, a metrics "
            "token is required."
        ),
    ] = "127.0.0.1"
    tracing: bool = False  # whether OpenTelemetry's variables (OTEL_…) request traces
    tracing_refused: str = ""  # why the requested traces are impossible, "" if they are possible
    db_pool_size: Annotated[
        int,
        values.whole(2, 1000),
        N_("Database connections"),
        N_("Connections that each process may open."),
    ] = 10
    history_days: Annotated[
        int,
        values.whole(0, 36500),
        N_("Payment history kept"),
        N_("How long the history of finished payments is kept."),
        Zero(N_("Forever")),
    ] = 0
    log_level: Annotated[
        LogLevel,
        values.one_of(*get_args(LogLevel)),
        N_("Log level"),
        N_("Less important messages are not logged."),
    ] = "info"
    agreement_dir: Annotated[
        Path | None,
        Path,
        N_("Agreement templates"),
        N_("A directory with your own texts of the agreement."),
        "the shipped ones",
    ] = None
    agreement_required: Annotated[
        _YesNo,
        N_("Agreement required"),
        N_("Merchants take payments only after they accepted the agreement."),
    ] = False
    applications: Annotated[
        _YesNo,
        N_("Merchant applications"),
        N_("Anybody may apply at /apply to become a merchant; staff decide."),
    ] = False
    operator_name: Annotated[
        str, values.text(1, 200), N_("Your legal name"), N_("Shown in the agreement.")
    ] = "OpenTill Demo Operator"
    operator_address: Annotated[
        str, values.text(1, 500), N_("Your legal address"), N_("Shown in the agreement.")
    ] = "1 Example Street, Example City"
    operator_contact: Annotated[
        str,
        values.text(1, 200),
        N_("Your contact"),
        N_("How merchants reach you; shown in the agreement."),
    ] = _EXAMPLE_CONTACT
    connection_limit: Annotated[
        int,
        values.whole(1, 100_000),
        N_("Open connections"),
        N_("Connections that each process keeps open at most."),
    ] = 1000
    connection_limit_per_address: Annotated[
        int,
        values.whole(0, 100_000),
        N_("Open connections per address"),
        N_("Connections from one address (IPv6: one /64) that is no trusted proxy."),
        Zero(N_("No limit")),
    ] = 200
    request_timeout_s: Annotated[
        float,
        values.seconds(1, 600),
        N_("Request timeout"),
        N_("The longest time for one request."),
    ] = 30.0
    idle_timeout_s: Annotated[
        _Timeout, N_("Idle timeout"), N_("The longest time between two requests of a connection.")
    ] = 15.0
    header_timeout_s: Annotated[
        _Timeout, N_("Header timeout"), N_("The longest time for the headers of a request.")
    ] = 10.0
    body_timeout_s: Annotated[
        _Timeout, N_("Body timeout"), N_("The longest time for the body of a request.")
    ] = 10.0
    drain_timeout_s: Annotated[
        float,
        values.seconds(0, 600),
        N_("Shutdown timeout"),
        N_("How long running requests may take when the server stops."),
        Zero(N_("None")),
    ] = 10.0
    drain_delay_s: Annotated[
        float,
        values.seconds(0, 600),
        N_("Shutdown delay"),
        N_("How long a stopping server still accepts requests."),
        Zero(N_("None")),
    ] = 0.0

    @property
    def livemode(self) -> bool:
        """Whether real payments are possible: any gateway is not the sandbox bank."""
        return any(name != SANDBOX for name in self.gateways)

    @property
    def public_contact(self) -> str:
        """How people reach the operator, "" if the setting is still the example."""
        return "" if self.operator_contact == _EXAMPLE_CONTACT else self.operator_contact

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


PREFIX: Final = "OPENTILL_"
GATEWAY_PREFIX: Final = "OPENTILL_GATEWAY_"
SETTINGS: Final = tuple(rows(Settings, PREFIX))
