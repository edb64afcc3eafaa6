"""The settings of a deployment as one frozen struct, handed down. Read by ``config.py`` only."""

from ipaddress import IPv4Network, IPv6Network
from pathlib import Path
from typing import Literal

import msgspec

Environment = Literal["production", "staging"]


class Settings(msgspec.Struct, frozen=True, kw_only=True):
    """Everything that a deployment can choose; ``opentill settings`` explains each."""

    database_url: str | None = None
    data_dir: Path = Path("opentill-data")
    host: str = "127.0.0.1"
    port: int = 8080
    public_url: str = "http://127.0.0.1:8080"
    environment: Environment = "production"
    limit_ip_per_minute: int = 100
    limit_checkouts_per_minute: int = 60
    trusted_proxies: tuple[IPv4Network | IPv6Network, ...] = ()
    secret_key: str = ""
    gateways: tuple[str, ...] = ("sandbox",)
    sandbox_url: str = "http://127.0.0.1:8081"
    sandbox_host: str = "127.0.0.1"
    sandbox_port: int = 8081
    sandbox_secret: str = ""
    metrics_token: str | None = None
    metrics_port: int | None = None
    db_pool_size: int = 10
    log_level: str = "info"
    agreement_dir: Path | None = None
    operator_name: str = "OpenTill Demo Operator"
    operator_address: str = "1 Example Street, Example City"
    operator_contact: str = "support@example.com"
    request_timeout_s: float = 30.0
    idle_timeout_s: float = 15.0
    header_timeout_s: float = 10.0
    body_timeout_s: float = 10.0
    drain_timeout_s: float = 10.0
