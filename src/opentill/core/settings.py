"""The settings of a deployment as one frozen struct, handed down. Read by ``config.py`` only."""

from collections.abc import Mapping
from decimal import Decimal
from ipaddress import IPv4Network, IPv6Network
from pathlib import Path
from typing import Final, Literal

import msgspec

from opentill.core.configuration import ConfigurationError

Environment = Literal["production", "staging"]
LogLevel = Literal["debug", "info", "warning", "error"]
SANDBOX: Final = "sandbox"  # the gateway whose money is not real
KEY_IS_LOST: Final = (
    "If it is lost, `opentill secret-key replace --reason WHY` goes on with another one; every Epay"
    " key and every webhook secret must then be made anew"
)


class SettingError(ConfigurationError):
    """A setting is wrong; the text is one line that names it and says what is accepted."""


class Settings(msgspec.Struct, frozen=True, kw_only=True):
    """Everything that a deployment can choose; ``opentill settings`` explains each."""

    database_url: str | None = None
    database_password: str = ""  # in both addresses already
    database_read_url: str | None = None  # a replica for lists and exports
    read_lag_s: float = 10.0  # a replica that is further behind is not asked
    db_prepared: bool = True  # no: a pooler in transaction mode stands between
    data_dir: Path = Path("opentill-data")
    host: str = "127.0.0.1"
    port: int = 8080
    public_url: str = "http://127.0.0.1:8080"
    environment: Environment = "production"
    limit_ip_per_minute: int = 100
    limit_checkouts_per_minute: int = 60
    limit_payments_per_minute: int = 30
    limit_resends_per_minute: int = 30
    webhook_host_at_once: int = 32
    webhook_host_per_second: int = 100
    trusted_proxies: tuple[IPv4Network | IPv6Network, ...] = ()
    secret_key: str = ""
    secret_key_from: str = "OPENTILL_SECRET_KEY"  # noqa: S105 - its name; or the file that it was read from
    gateways: tuple[str, ...] = ("sandbox",)
    sandbox: bool = False  # asked for by name, where it is not refused without
    sandbox_refused: str = ""  # why the sandbox bank may take no payments here; "": it may
    routes: str = ""  # as core.methods.by_method reads it, with names of gateways
    gateway_options: Mapping[str, str] = {}  # of single gateways: OPENTILL_GATEWAY_…
    sandbox_url: str = "http://127.0.0.1:8081"
    sandbox_public_url: str = "http://127.0.0.1:8081"
    sandbox_host: str = "127.0.0.1"
    sandbox_port: int = 8081
    sandbox_secret: str = ""
    sandbox_elsewhere: bool = False  # OPENTILL_SANDBOX_URL is given: somebody else runs it
    webhook_header_prefix: str = "X-Svc-"  # of the headers that a delivery is signed by
    outgoing_http: bool = False
    outgoing_allow: tuple[IPv4Network | IPv6Network, ...] = ()
    approval_above: Decimal | None = None  # None: one operator is always enough
    epay_time_zone: str = "Asia/Shanghai"  # of the times that Epay clients read
    rates_max_age_days: int = 0  # 0: rates do not age
    metrics_token: str | None = None
    metrics_port: int | None = None
    db_pool_size: int = 10
    history_days: int = 0  # of orders that are long over; 0: kept for ever
    log_level: LogLevel = "info"
    agreement_dir: Path | None = None
    operator_name: str = "OpenTill Demo Operator"
    operator_address: str = "1 Example Street, Example City"
    operator_contact: str = "support@example.com"
    connection_limit: int = 1000
    connection_limit_per_address: int = 200  # 0: no limit
    request_timeout_s: float = 30.0
    idle_timeout_s: float = 15.0
    header_timeout_s: float = 10.0
    body_timeout_s: float = 10.0
    drain_timeout_s: float = 10.0
    drain_delay_s: float = 0.0

    @property
    def livemode(self) -> bool:
        """Whether real money can be paid: some gateway is not the sandbox bank."""
        return any(name != SANDBOX for name in self.gateways)

    @property
    def is_https(self) -> bool:
        """Whether customers and merchants reach this deployment by https."""
        return self.public_url.startswith("https://")

    def __repr__(self) -> str:
        """Name the deployment and nothing that is secret, wherever a log or a trace shows it."""
        return f"Settings(public_url={self.public_url!r}, environment={self.environment!r})"
