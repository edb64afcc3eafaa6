"""Names and explanations of settings for people; a setting without them shows its variable's."""

from collections.abc import Mapping
from typing import Final

from opentill.web.translations import N_

# The field of ``Settings`` → its name and explanation.
TEXTS: Final[Mapping[str, tuple[str, str]]] = {
    "database_url": (
        N_("Database address"),
        N_("PostgreSQL 15 or newer; without one, OpenTill starts its own."),
    ),
    "database_password": (
        N_("Database password"),
        N_("Used instead of a password in the database’s address."),
    ),
    "database_read_url": (
        N_("Read replica"),
        N_("A copy of the database from which lists and exports are read."),
    ),
    "read_lag_s": (
        N_("Accepted delay of the replica"),
        N_("A replica that is further behind is not read."),
    ),
    "db_prepared": (
        N_("Prepared statements"),
        N_("Turn it off behind a connection pooler in transaction mode."),
    ),
    "data_dir": (
        N_("Data directory"),
        N_("Where the embedded database and generated keys are stored."),
    ),
    "db_pool_size": (N_("Database connections"), N_("Connections that each process may open.")),
    "host": (
        N_("Listen address"),
        N_("The network address on which the server accepts connections."),
    ),
    "port": (N_("Port"), N_("The port on which the server accepts connections.")),
    "public_url": (
        N_("Public address"),
        N_("The address by which customers and merchants reach OpenTill."),
    ),
    "environment": (N_("Environment"), N_("Decides which API keys are accepted.")),
    "trusted_proxies": (
        N_("Trusted proxies"),
        N_("Networks whose X-Forwarded-For header is believed."),
    ),
    "limit_ip_per_minute": (N_("API requests per address"), N_("Per minute.")),
    "limit_checkouts_per_minute": (N_("Checkout sessions per merchant"), N_("Per minute.")),
    "limit_payments_per_minute": (N_("Payment attempts per address"), N_("Per minute.")),
    "limit_resends_per_minute": (N_("Resends of events per merchant"), N_("Per minute.")),
    "webhook_host_at_once": (
        N_("Deliveries to one host at once"),
        N_("Webhook events that are sent to one host at the same time."),
    ),
    "webhook_host_per_second": (
        N_("Deliveries to one host per second"),
        N_("Webhook events that are sent to one host within a second."),
    ),
    "webhook_header_prefix": (
        N_("Webhook header prefix"),
        N_("The names of our headers on webhooks begin with it."),
    ),
    "outgoing_http": (
        N_("Unencrypted webhooks"),
        N_("Allows merchants to receive events at http:// addresses."),
    ),
    "outgoing_allow": (
        N_("Allowed private networks"),
        N_("Private networks to which webhooks may be sent."),
    ),
    "secret_key": (N_("Encryption key"), N_("Encrypts webhook secrets and Epay keys.")),
    "gateways": (N_("Gateways"), N_("The gateways that take payments, in order of preference.")),
    "routes": (N_("Routing rules"), N_("Another order of the gateways for some payment methods.")),
    "sandbox": (
        N_("Sandbox for other databases"),
        N_("Allows the sandbox bank beside a database of your own."),
    ),
    "sandbox_url": (
        N_("Sandbox address"),
        N_("The address by which the server reaches the sandbox bank."),
    ),
    "sandbox_public_url": (
        N_("Sandbox address for browsers"),
        N_("The address by which browsers reach the sandbox bank."),
    ),
    "sandbox_host": (
        N_("Sandbox listen address"),
        N_("The network address on which the sandbox bank accepts connections."),
    ),
    "sandbox_port": (
        N_("Sandbox port"),
        N_("The port on which the sandbox bank accepts connections."),
    ),
    "sandbox_secret": (N_("Sandbox secret"), N_("Shared by the server and the sandbox bank.")),
    "approval_above": (
        N_("Approval limit"),
        N_("Adjustments and payouts above this amount need a second person."),
    ),
    "refund_proof_above": (
        N_("Password for refunds above"),
        N_("Members confirm larger refunds with their password."),
    ),
    "factor_reset_hours": (
        N_("Delay of second-factor resets"),
        N_("Time in which a person can stop the reset of their second factors."),
    ),
    "smtp_url": (
        N_("Mail server"),
        N_("The SMTP server that sends email; without one, nothing is sent."),
    ),
    "mail_from": (N_("Sender of email"), N_("The name and address from which email is sent.")),
    "receipt_font": (N_("Receipt font"), N_("The font of receipts as PDF.")),
    "payout_accounts": (
        N_("Your bank accounts"),
        N_("The accounts from which payouts are paid, by currency."),
    ),
    "payout_address": (
        N_("Your address in bank files"),
        N_("Some banks require the address of the payer."),
    ),
    "bank_account_hold_days": (
        N_("Hold after bank account changes"),
        N_("Payouts wait for this time after a merchant’s bank account has changed."),
    ),
    "epay_time_zone": (
        N_("Epay time zone"),
        N_("The time zone of times and days that Epay clients read."),
    ),
    "rates_max_age_days": (
        N_("Age limit of exchange rates"),
        N_("Older imported rates are not used."),
    ),
    "metrics_token": (N_("Metrics token"), N_("The token that opens /metrics.")),
    "metrics_port": (N_("Metrics port"), N_("A separate port for /metrics.")),
    "metrics_host": (
        N_("Metrics listen address"),
        N_("The network address of the separate port for /metrics."),
    ),
    "history_days": (
        N_("Payment history kept"),
        N_("How long the history of finished payments is kept."),
    ),
    "log_level": (N_("Log level"), N_("Less important messages are not logged.")),
    "agreement_dir": (
        N_("Agreement templates"),
        N_("A directory with your own texts of the agreement."),
    ),
    "agreement_required": (
        N_("Agreement required"),
        N_("Merchants take payments only after they accepted the agreement."),
    ),
    "applications": (
        N_("Merchant applications"),
        N_("Anybody may apply at /apply to become a merchant."),
    ),
    "operator_name": (N_("Your legal name"), N_("Shown in the agreement.")),
    "operator_address": (N_("Your legal address"), N_("Shown in the agreement.")),
    "operator_contact": (
        N_("Your contact"),
        N_("How merchants reach you; shown in the agreement."),
    ),
    "connection_limit": (
        N_("Open connections"),
        N_("Connections that each process keeps open at most."),
    ),
    "connection_limit_per_address": (
        N_("Open connections per address"),
        N_("Connections from one address at most."),
    ),
    "request_timeout_s": (N_("Request timeout"), N_("The longest time for one request.")),
    "idle_timeout_s": (
        N_("Idle timeout"),
        N_("The longest time between two requests of a connection."),
    ),
    "header_timeout_s": (
        N_("Header timeout"),
        N_("The longest time for the headers of a request."),
    ),
    "body_timeout_s": (N_("Body timeout"), N_("The longest time for the body of a request.")),
    "drain_timeout_s": (
        N_("Shutdown timeout"),
        N_("How long running requests may take when the server stops."),
    ),
    "drain_delay_s": (
        N_("Shutdown delay"),
        N_("How long a stopping server still accepts requests."),
    ),
}
# The meaning of 0.
ZERO: Final[Mapping[str, str]] = {
    "history_days": N_("Forever"),
    "rates_max_age_days": N_("No limit"),
    "limit_ip_per_minute": N_("No limit"),
    "limit_checkouts_per_minute": N_("No limit"),
    "limit_payments_per_minute": N_("No limit"),
    "limit_resends_per_minute": N_("No limit"),
    "webhook_host_per_second": N_("No limit"),
    "connection_limit_per_address": N_("No limit"),
    "bank_account_hold_days": N_("None"),
    "factor_reset_hours": N_("None"),
    "drain_delay_s": N_("None"),
    "drain_timeout_s": N_("None"),
}
