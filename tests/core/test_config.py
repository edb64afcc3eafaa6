"""Settings: the table, refused values and derived settings."""

import re
from ipaddress import ip_network
from pathlib import Path

import msgspec
import pytest

from opentill import config, gateways
from opentill.config import SETTINGS, SettingError, load
from opentill.core.errors import ConfigurationError
from opentill.core.setting_rows import Setting
from opentill.core.settings import Settings
from opentill.gateways import masked_settings

KEY = "k" * 32
DATABASE = {"OPENTILL_DATABASE_URL": "postgresql://u:pw@db/x", "OPENTILL_SECRET_KEY": KEY}


def test_every_setting_is_in_the_table_or_derived() -> None:
    fields = {field.name for field in msgspec.structs.fields(Settings)}
    derived = {"gateway_options", "sandbox_elsewhere", "sandbox_refused", "secret_key_from"}
    derived |= {"tracing", "tracing_refused"}
    assert {row.field for row in SETTINGS} == fields - derived


@pytest.mark.parametrize("row", SETTINGS, ids=lambda row: row.field)
def test_each_default_parses_to_itself(row: Setting) -> None:
    """The parser of a setting returns values of its field's type."""
    default = getattr(Settings(), row.field)
    if default not in (None, ""):
        assert row.parse(masked_settings.text_of(default)) == default


def test_settings_are_explained_with_examples_defaults_and_the_meaning_of_zero() -> None:
    explanations = {variable: text for variable, _, text in masked_settings.masked_rows(Settings())}
    assert explanations["OPENTILL_HISTORY_DAYS"] == (
        "Payment history kept. How long the history of finished payments is kept. 0: forever."
    )
    assert explanations["OPENTILL_SANDBOX_PORT"] == (
        "Sandbox port. The port on which the sandbox bank accepts connections. Default: PORT + 1."
    )
    assert explanations["OPENTILL_MAIL_FROM"] == (
        "Sender of email. The name and address from which email is sent."
        " Example: Example Pay <pay@example.com>. Default: none; needed with SMTP_URL."
    )
    assert explanations["OPENTILL_METRICS_TOKEN"] == (
        "Metrics token. The token that opens /metrics. OPENTILL_METRICS_TOKEN_FILE: a file with it."
    )


def test_by_default_everything_listens_on_loopback() -> None:
    assert load({}) == Settings()
    assert load({"HOME": "/", "OPENTILLX": "1", "OPENTILL_PORT": ""}) == Settings()


GOOD = [
    # Each row: variable, text, field of the settings, its value.
    ("PORT", "65535", "port", 65535),
    ("HOST", "[::1]", "host", "::1"),
    ("HOST", "fe80::1%eth0", "host", "fe80::1%eth0"),
    ("HOST", "till_1.example.", "host", "till_1.example."),
    ("HOST", f"{'a' * 63}.example", "host", f"{'a' * 63}.example"),
    ("DATA_DIR", "/data", "data_dir", Path("/data")),
    ("ENVIRONMENT", "staging", "environment", "staging"),
    ("LIMIT_IP_PER_MINUTE", "0", "limit_ip_per_minute", 0),
    ("LIMIT_CHECKOUTS_PER_MINUTE", "10000", "limit_checkouts_per_minute", 10000),
    ("LIMIT_RESENDS_PER_MINUTE", "0", "limit_resends_per_minute", 0),
    ("WEBHOOK_HOST_AT_ONCE", "8", "webhook_host_at_once", 8),
    ("WEBHOOK_HOST_PER_SECOND", "0", "webhook_host_per_second", 0),
    ("LIMIT_PAYMENTS_PER_MINUTE", "5", "limit_payments_per_minute", 5),
    ("AGREEMENT_REQUIRED", "yes", "agreement_required", True),
    ("APPLICATIONS", "yes", "applications", True),
    ("PUBLIC_URL", "https://pay.example/", "public_url", "https://pay.example"),
    ("PUBLIC_URL", "HTTPS://pay.example", "public_url", "https://pay.example"),
    ("PUBLIC_URL", "https://example.com/pay", "public_url", "https://example.com/pay"),
    # The URL is stored as browsers write origins, because passkeys are bound to an origin.
    ("PUBLIC_URL", "https://Pay.Example:443/Till/", "public_url", "https://pay.example/Till"),
    ("PUBLIC_URL", "http://Pay.Example:80", "public_url", "http://pay.example"),
    ("PUBLIC_URL", "https://pay.example:80", "public_url", "https://pay.example:80"),
    ("PUBLIC_URL", "https://pay.example:08443/", "public_url", "https://pay.example:8443"),
    ("PUBLIC_URL", "https://pay.example:", "public_url", "https://pay.example"),
    ("PUBLIC_URL", "https://fa\u00df.de/", "public_url", "https://xn--fa-hia.de"),
    ("HOST", "fa\u00df.de", "host", "xn--fa-hia.de"),
    ("PUBLIC_URL", "https://[::1]:/x", "public_url", "https://[::1]/x"),
    ("PUBLIC_URL", "http://[2001:DB8::1]:8080", "public_url", "http://[2001:db8::1]:8080"),
    (
        "TRUSTED_PROXIES",
        "10.0.0.0/8, ::1",
        "trusted_proxies",
        (ip_network("10.0.0.0/8"), ip_network("::1")),
    ),
    ("GATEWAYS", "sandbox, manual", "gateways", ("sandbox", "manual")),
    ("DRAIN_TIMEOUT_S", "0.5", "drain_timeout_s", 0.5),
    ("METRICS_PORT", "9100", "metrics_port", 9100),
    ("METRICS_TOKEN", "a token of metrics", "metrics_token", "a token of metrics"),
    ("METRICS_HOST", "0.0.0.0", "metrics_host", "0.0.0.0"),
    ("LOG_LEVEL", "debug", "log_level", "debug"),
    ("GATEWAY_ACME_TOKEN", "x", "gateway_options", {"acme_token": "x"}),
    ("SANDBOX_URL", "http://bank:1", "sandbox_elsewhere", True),
    ("DB_PREPARED", "no", "db_prepared", False),
    ("HISTORY_DAYS", "365", "history_days", 365),
    ("FACTOR_RESET_HOURS", "48", "factor_reset_hours", 48),
    ("BANK_ACCOUNT_HOLD_DAYS", "0", "bank_account_hold_days", 0),
    (
        "PAYOUT_ACCOUNTS",
        "EUR:DE89370400440532013000",
        "payout_accounts",
        "EUR:DE89370400440532013000",
    ),
    ("PAYOUT_ADDRESS", "town=A;country=DE", "payout_address", "town=A;country=DE"),
    ("RATES_MAX_AGE_DAYS", "0", "rates_max_age_days", 0),
    ("EPAY_TIME_ZONE", "Europe/Berlin", "epay_time_zone", "Europe/Berlin"),
    ("EPAY_TIME_ZONE", "UTC", "epay_time_zone", "UTC"),
    ("WEBHOOK_HEADER_PREFIX", "X-Acme-", "webhook_header_prefix", "X-Acme-"),
    ("WEBHOOK_HEADER_PREFIX", "!#$%&'*+.^_`|~9z-", "webhook_header_prefix", "!#$%&'*+.^_`|~9z-"),
]


@pytest.mark.parametrize(("variable", "text", "field", "value"), GOOD)
def test_valid_values_are_accepted(variable: str, text: str, field: str, value: object) -> None:
    assert getattr(load({f"OPENTILL_{variable}": text}), field) == value


BAD = [
    # Each row: variable, text, what the error says is accepted.
    ("WEBHOOK_HEADER_PREFIX", "X Acme-", "characters of a header's name"),
    ("WEBHOOK_HEADER_PREFIX", "X-Acme:", "characters of a header's name"),
    ("WEBHOOK_HEADER_PREFIX", "X-Acmé-", "characters of a header's name"),
    ("WEBHOOK_HEADER_PREFIX", "X-\r\nEvil: ", "characters of a header's name"),
    ("WEBHOOK_HEADER_PREFIX", "X-\n", "characters of a header's name"),
    ("WEBHOOK_HEADER_PREFIX", "x" * 65, "1 to 64"),
    ("WEBHOOK_HEADER_PREFIX", "Webhook-", "not webhook-"),  # Standard Webhooks has this prefix
    ("PORT", "0", "a whole number from 1 to 65535"),
    ("PORT", "65536", "a whole number from 1 to 65535"),
    ("PORT", "80 80", "a whole number from 1 to 65535"),
    ("PORT", "８０", "a whole number from 1 to 65535"),
    ("HOST", "http://x", "a host name or an IP address"),
    ("HOST", "0.0.0.0:8080", "a host name or an IP address, without a port"),
    ("HOST", "localhost:8080", "a host name or an IP address, without a port"),
    ("HOST", "[::1]:8080", "a host name or an IP address, without a port"),
    ("HOST", "::1::", "a host name or an IP address"),
    ("HOST", "127.0.0.1%eth0", "a host name or an IP address"),
    ("HOST", "a..b", "a host name or an IP address"),
    ("HOST", ".", "a host name or an IP address"),
    ("HOST", f"{'a' * 64}.example", "a host name or an IP address"),
    ("HOST", "a." * 126 + "aa", "a host name or an IP address"),
    ("METRICS_HOST", "0.0.0.0:9100", "a host name or an IP address, without a port"),
    ("DATABASE_URL", "mysql://x", "a postgresql:// address"),
    ("DB_PREPARED", "true", "yes or no"),
    ("READ_LAG_S", "0", "seconds from 0.1 to 3600"),
    ("DATABASE_URL", "postgresql+asyncpg://x", "a postgresql:// address"),
    ("DATABASE_URL", "postgresql://u:a#b@db/x", "with %23 for # in it"),
    ("DATABASE_PASSWORD", "\udcff", "UTF-8 text without NUL"),
    ("ENVIRONMENT", "prod", "production or staging"),
    ("LIMIT_IP_PER_MINUTE", "-1", "a whole number from 0 to 1000000000"),
    ("LIMIT_CHECKOUTS_PER_MINUTE", "none", "a whole number from 0 to 1000000000"),
    ("PUBLIC_URL", "pay.example", "an absolute http:// or https:// address"),
    ("PUBLIC_URL", "ftp://pay.example", "an absolute http:// or https:// address"),
    ("PUBLIC_URL", "https://me:pw@pay.example", "an absolute http:// or https:// address"),
    ("PUBLIC_URL", "https://pay.example/?a=b", "an absolute http:// or https:// address"),
    ("PUBLIC_URL", "https://pay.example:99999", "an absolute http:// or https:// address"),
    ("PUBLIC_URL", "https://[::1", "an absolute http:// or https:// address"),
    ("PUBLIC_URL", "https://[::1]x", "an absolute http:// or https:// address"),
    ("PUBLIC_URL", "https://[pay.example]", "an absolute http:// or https:// address"),
    ("PUBLIC_URL", "https://pay.example:x", "an absolute http:// or https:// address"),
    ("PUBLIC_URL", "https://a\u200db.example", "an absolute http:// or https:// address"),
    ("PUBLIC_URL", "https://pay..example", "an absolute http:// or https:// address"),
    ("PUBLIC_URL", f"https://{'a' * 64}.example", "an absolute http:// or https:// address"),
    ("TRUSTED_PROXIES", "10.0.0.1/8", "addresses or networks"),
    ("TRUSTED_PROXIES", "proxy", "addresses or networks"),
    ("SECRET_KEY", "short", "32 to 256 printable characters, such as `openssl rand -hex 32`"),
    ("SECRET_KEY", "k" * 31, "32 to 256 printable characters, such as `openssl rand -hex 32`"),
    ("SANDBOX_SECRET", "k" * 31, "32 to 256 printable characters, such as"),
    ("METRICS_TOKEN", "x" * 15, "16 to 256 visible ASCII characters"),
    ("METRICS_TOKEN", "x" * 257, "16 to 256 visible ASCII characters"),
    # No client can send these values in a header unchanged.
    ("METRICS_TOKEN", "x" * 16 + "é", "16 to 256 visible ASCII characters"),
    ("METRICS_TOKEN", "x" * 16 + "\n", "16 to 256 visible ASCII characters"),
    ("METRICS_TOKEN", "x" * 16 + " ", "16 to 256 visible ASCII characters"),
    ("METRICS_TOKEN", " " + "x" * 16, "16 to 256 visible ASCII characters"),
    ("SANDBOX", "true", "yes or no"),
    ("GATEWAYS", "sandbox,sandbox", "different names of gateways"),
    ("GATEWAYS", "Sand box", "different names of gateways"),
    ("GATEWAYS", ",", "different names of gateways"),
    ("PAYOUT_ADDRESS", "Berlin", "an address such as town=Berlin;country=DE"),
    ("PAYOUT_ADDRESS", "town=Berlin", "addressCountry must be the two letters"),
    ("PAYOUT_ADDRESS", "town=A;town=B;country=DE", "each of street, building, postcode, town"),
    ("PAYOUT_ACCOUNTS", "EUR:DE89", "accounts by currency, such as EUR:DE89370400440532013000"),
    ("IDLE_TIMEOUT_S", "0", "seconds from 0.1 to 600"),
    ("IDLE_TIMEOUT_S", "1e3", "seconds from 0.1 to 600"),
    ("LOG_LEVEL", "INFO", "debug or info or warning or error"),
    ("OPERATOR_NAME", "a\nb", "1 to 200 printable characters"),
    ("EPAY_TIME_ZONE", "Beijing", "a time zone of the IANA database"),
    ("EPAY_TIME_ZONE", "Asia", "a time zone of the IANA database"),
    ("EPAY_TIME_ZONE", "../etc/passwd", "a time zone of the IANA database"),
    ("EPAY_TIME_ZONE", "+08:00", "a time zone of the IANA database"),
]


@pytest.mark.parametrize(("variable", "text", "accepted"), BAD)
def test_invalid_values_are_refused_with_what_is_accepted(
    variable: str, text: str, accepted: str
) -> None:
    with pytest.raises(SettingError) as caught:
        load({f"OPENTILL_{variable}": text})
    line = str(caught.value)
    assert line.startswith(f"OPENTILL_{variable} is ")
    assert accepted in line
    assert "\n" not in line


CONTRADICTORY = [
    # Each row: environment, part of the error.
    ({"OPENTILL_DATABASE_URL": "postgresql://db/x"}, "OPENTILL_SECRET_KEY must be set when"),
    ({"OPENTILL_DATABASE_READ_URL": "postgresql://db/x"}, "needs OPENTILL_DATABASE_URL"),
    ({"OPENTILL_DATABASE_PASSWORD": "x"}, "needs OPENTILL_DATABASE_URL"),
    (DATABASE | {"OPENTILL_DATABASE_PASSWORD": "x"}, "both have a password"),
    ({"OPENTILL_HISTORY_DAYS": "364"}, "it must be 0 (for ever) or at least 365"),
    (
        {"OPENTILL_METRICS_PORT": "9100", "OPENTILL_METRICS_HOST": "0.0.0.0"},
        "set OPENTILL_METRICS_TOKEN",
    ),
]


@pytest.mark.parametrize(("environ", "text"), CONTRADICTORY)
def test_contradictory_settings_are_refused(environ: dict[str, str], text: str) -> None:
    with pytest.raises(SettingError) as caught:
        load(environ)
    assert text in str(caught.value)


def test_a_misspelt_variable_causes_a_warning() -> None:
    warnings = config.warn_about_unknown_variables(
        {"OPENTILL_PROT": "1", "OPENTILL_XYZZY_QUUX": "1", "OPENTILL_PORT": "1", "HOME": "/"}
    )
    assert warnings == [
        "OPENTILL_PROT is not a setting; did you mean OPENTILL_PORT?",
        "OPENTILL_XYZZY_QUUX is not a setting; `opentill settings` lists them",
    ]


ENDPOINT = {"OTEL_EXPORTER_OTLP_ENDPOINT": "http://collector:4318"}
TRACING = [
    # Each row: environment, whether tracing is on, why it is off.
    ({}, False, ""),
    (ENDPOINT, True, ""),
    ({"OTEL_EXPORTER_OTLP_TRACES_ENDPOINT": "http://collector:4318/v1/traces"}, True, ""),
    ({"OTEL_TRACES_EXPORTER": "otlp"}, True, ""),
    (ENDPOINT | {"OTEL_TRACES_EXPORTER": "none"}, False, ""),
    (ENDPOINT | {"OTEL_SDK_DISABLED": "true"}, False, ""),
    (ENDPOINT | {"OTEL_TRACES_EXPORTER": "zipkin"}, False, "OTEL_TRACES_EXPORTER is 'zipkin'"),
    (ENDPOINT | {"OTEL_EXPORTER_OTLP_PROTOCOL": "grpc"}, False, "must be http/protobuf"),
    (ENDPOINT | {"OTEL_EXPORTER_OTLP_PROTOCOL": "http/protobuf"}, True, ""),
]


@pytest.mark.parametrize(("environ", "is_on", "reason"), TRACING)
def test_the_standard_variables_turn_tracing_on(
    environ: dict[str, str], is_on: bool, reason: str
) -> None:
    settings = load(environ)
    assert settings.tracing == is_on
    assert reason in settings.tracing_refused
    assert bool(settings.tracing_refused) == bool(reason)


DERIVED = [
    # Each row: environment, public_url, sandbox_port, sandbox_url, sandbox_public_url.
    ({"PORT": "9000"}, "http://127.0.0.1:9000", 9001, "http://127.0.0.1:9001", None),
    ({"PORT": "65535"}, "http://127.0.0.1:65535", 65534, "http://127.0.0.1:65534", None),
    ({"HOST": "localhost", "PORT": "80"}, "http://localhost", 81, "http://127.0.0.1:81", None),
    ({"HOST": "::1"}, "http://[::1]:8080", 8081, "http://127.0.0.1:8081", None),
    ({"HOST": "0.0.0.0"}, "http://127.0.0.1:8080", 8081, "http://127.0.0.1:8081", None),
    ({"HOST": "::"}, "http://[::1]:8080", 8081, "http://127.0.0.1:8081", None),
    ({"SANDBOX_PORT": "7"}, "http://127.0.0.1:8080", 7, "http://127.0.0.1:7", None),
    ({"SANDBOX_URL": "http://b:1"}, "http://127.0.0.1:8080", 8081, "http://b:1", None),
    (
        {"SANDBOX_PUBLIC_URL": "https://bank.example"},
        "http://127.0.0.1:8080",
        8081,
        "http://127.0.0.1:8081",
        "https://bank.example",
    ),
]


@pytest.mark.parametrize(("environ", "public", "port", "bank", "bank_public"), DERIVED)
def test_defaults_follow_the_settings_on_which_they_depend(
    environ: dict[str, str], public: str, port: int, bank: str, bank_public: str | None
) -> None:
    settings = load({f"OPENTILL_{name}": text for name, text in environ.items()})
    assert settings.public_url == public
    assert settings.sandbox_port == port
    assert settings.sandbox_url == bank
    assert settings.sandbox_public_url == (bank_public or bank)


def test_missing_keys_are_created_in_the_data_directory(tmp_path: Path) -> None:
    settings = load({"OPENTILL_DATA_DIR": str(tmp_path)})
    filled = config.with_keys(settings)
    assert len(filled.secret_key) == 64
    assert len(filled.sandbox_secret) == 64
    assert config.with_keys(settings) == filled
    settings = load({"OPENTILL_SECRET_KEY": KEY, "OPENTILL_SANDBOX_SECRET": KEY})
    assert config.with_keys(settings) == settings


def test_with_a_configured_database_and_gateway_the_data_directory_is_not_created(
    tmp_path: Path,
) -> None:
    data_dir = tmp_path / "data"
    environ = DATABASE | {"OPENTILL_DATA_DIR": str(data_dir), "OPENTILL_GATEWAYS": "manual"}
    assert config.with_keys(load(environ)).sandbox_secret == ""
    assert not data_dir.exists()


def test_every_setting_is_explained() -> None:
    for variable, _, explanation in masked_settings.masked_rows(load({})):
        assert variable.startswith("OPENTILL_")
        assert len(explanation) > 10


def test_options_of_gateways_are_shown_and_their_secrets_are_not() -> None:
    environ = {
        "OPENTILL_GATEWAYS": "stripe",
        "OPENTILL_GATEWAY_STRIPE_SECRET_KEY": "sk_live_hunter2",
        "OPENTILL_GATEWAY_STRIPE_API_BASE": "http://127.0.0.1:1",
        "OPENTILL_GATEWAY_ACME_TOKEN": "hunter2",
    }
    values = {variable: value for variable, value, _ in masked_settings.masked_rows(load(environ))}
    assert values["OPENTILL_GATEWAY_STRIPE_SECRET_KEY"] == "(set)"
    assert values["OPENTILL_GATEWAY_STRIPE_WEBHOOK_SECRET"] == ""
    assert values["OPENTILL_GATEWAY_STRIPE_API_BASE"] == "http://127.0.0.1:1"
    assert values["OPENTILL_GATEWAY_ACME_TOKEN"] == "(set)"
    assert not any("STRIPE" in variable for variable, _, _ in masked_settings.masked_rows(load({})))


def test_every_option_that_a_recipe_names_is_listed_for_its_gateway() -> None:
    def list_variables(names: str) -> set[str]:
        rows = masked_settings.masked_rows(load({"OPENTILL_GATEWAYS": names}))
        return {variable for variable, _, _ in rows}

    recipes = Path(__file__).parents[2] / "docs" / "recipes"
    for gateway, recipe in (("stripe", "take-stripe.md"), ("epay", "epay-upstream.md")):
        options = set(re.findall("OPENTILL_GATEWAY_[A-Z_]*[A-Z]", (recipes / recipe).read_text()))
        assert options
        assert options <= list_variables(gateway)
    listed = list_variables("manual,sandbox")
    assert "OPENTILL_GATEWAY_MANUAL_INSTRUCTIONS" in listed
    assert "OPENTILL_GATEWAY_SANDBOX_METHODS" in listed


SANDBOX = [
    # Each row: environment without the prefix OPENTILL_, part of the error ("": no error).
    ({}, ""),
    ({"PORT": "9000", "DATA_DIR": "/data"}, ""),
    ({"HOST": "::1"}, ""),
    ({"HOST": "127.8.8.8"}, ""),
    ({"HOST": "localhost", "PUBLIC_URL": "http://localhost:8080"}, ""),
    ({"PUBLIC_URL": "https://shop.localhost"}, ""),
    ({"DATABASE_URL": "postgresql://u:pw@db/x"}, "OPENTILL_DATABASE_URL is set"),
    ({"DATABASE_URL": "postgresql://127.0.0.1/x"}, "OPENTILL_DATABASE_URL is set"),
    ({"PUBLIC_URL": "https://pay.example"}, "https://pay.example is not this machine alone"),
    ({"PUBLIC_URL": "http://localhost.example"}, "not this machine alone"),
    ({"PUBLIC_URL": "http://192.0.2.7"}, "not this machine alone"),
    ({"HOST": "0.0.0.0"}, "OPENTILL_HOST is 0.0.0.0"),
    ({"HOST": "::"}, "OPENTILL_HOST is ::"),
    ({"HOST": "10.0.0.8", "PUBLIC_URL": "http://127.0.0.1"}, "OPENTILL_HOST is 10.0.0.8"),
    ({"HOST": "0.0.0.0", "GATEWAYS": "manual,sandbox"}, "OPENTILL_HOST is 0.0.0.0"),
    ({"HOST": "0.0.0.0", "SANDBOX": "no"}, "OPENTILL_HOST is 0.0.0.0"),
    ({"HOST": "0.0.0.0", "GATEWAYS": "manual"}, ""),
    ({"DATABASE_URL": "postgresql://db/x", "GATEWAYS": "manual"}, ""),
    ({"PUBLIC_URL": "https://pay.example", "HOST": "0.0.0.0", "SANDBOX": "yes"}, ""),
    ({"DATABASE_URL": "postgresql://db/x", "SANDBOX": "yes"}, ""),
]


@pytest.mark.parametrize(("environ", "reason"), SANDBOX)
def test_the_sandbox_must_be_enabled_explicitly_where_real_money_is_expected(
    environ: dict[str, str], reason: str
) -> None:
    environ = {
        "SECRET_KEY": KEY,
        "SANDBOX_SECRET": KEY,
        "GATEWAY_MANUAL_INSTRUCTIONS": "IBAN",
    } | environ
    settings = load({f"OPENTILL_{name}": text for name, text in environ.items()})
    if not reason:
        gateways.load(settings.gateways, settings)
        return
    with pytest.raises(ConfigurationError, match="OPENTILL_SANDBOX=yes") as caught:
        gateways.load(settings.gateways, settings)
    assert reason in str(caught.value)
    assert "\n" not in str(caught.value)
    assert "pw@db" not in str(caught.value)
