"""The table of all commands: sections of ``opentill --help``, and the module of each command."""

from typing import Final

# Each summary repeats the beginning of the command's own help.
SECTIONS: Final = {
    "Every day": (
        # name       file          summary
        ("orders", "orders", "Orders: list, search, refund and confirm."),
        ("refunds", "refunds", "Record results of refunds and refunds made elsewhere."),
        (
            "deposits",
            "deposits",
            "Token transfers that need attention, and refunds that were sent from a wallet.",
        ),
        ("disputes", "disputes", "Disputes and chargebacks."),
        ("links", "links", "Payment links: addresses at which any number of customers can pay."),
        ("webhooks", "webhooks", "Webhook endpoints of merchants, and their deliveries."),
        ("mail", "mail", "Outgoing mail, and its results."),
    ),
    "Money": (
        ("balance", "balance", "A merchant's balance, and its adjustments by operators."),
        ("payouts", "payouts", "Payouts: available money, sent to a merchant's bank."),
        (
            "approvals",
            "approvals",
            "Pending requests for a second person: above OPENTILL_APPROVAL_ABOVE.",
        ),
        ("settle", "settle", "Settle orders: money that is due becomes available."),
        ("rates", "rates", "Exchange rates."),
        ("statement", "statement", "Write a merchant's statement."),
        ("export", "export", "Write a merchant's orders as CSV."),
        (
            "reconcile",
            "reconcile",
            "Compare a gateway's settlement report with the ledger; the inbox.",
        ),
    ),
    "Merchants": (
        ("merchants", "merchants", "Merchants and their terms."),
        ("keys", "keys", "API keys."),
        (
            "people",
            "people",
            "People who log in: members of merchants, and staff of this deployment.",
        ),
        ("login", "login", "Log in as staff: commands then run under your name."),
        ("logout", "login", "Log out: end the login and remove it from its file."),
        ("whoami", "login", "Show under whose name commands run."),
        ("epay", "epay", "Epay credentials, and notifications of paid orders."),
    ),
    "Development": (
        (
            "listen",
            "listen",
            "Print a merchant's events as they happen; forward them with --forward-to.",
        ),
        (
            "trigger",
            "trigger",
            "Make an event happen with the sandbox bank, such as order.paid.",
        ),
    ),
    "Setup": (
        ("demo", "demo", "Run a server with a merchant, a product and a session."),
        ("serve", "serve", "Serve the API and the payment page."),
        ("worker", "serve", "Run the worker."),
        ("sandbox", "serve", "Serve the sandbox bank alone."),
        ("migrate", "migrate", "Bring the database to the schema of this version."),
        ("settings", "settings", "List the settings with their values here."),
        ("gateways", "gateways", "Accounts at gateways, beside those of the environment."),
        ("secret-key", "secret_key", "The key that encrypts Epay keys and webhook secrets."),
        (
            "backup",
            "backup",
            "Write the current database to a new file, while servers keep running.",
        ),
        (
            "restore",
            "backup",
            "Restore a backup into a data directory without a database.",
        ),
        (
            "skip-messages",
            "backup",
            "Do not send waiting messages, which may have been sent since the backup.",
        ),
    ),
    "Diagnosis": (
        ("doctor", "doctor", "Check this deployment and say what to do."),
        ("health", "health", "Ask the server of these settings whether it is ready."),
        ("ledger", "ledger", "The ledger and its integrity rules."),
        ("audit", "audit", "The audit log: what operators did, chained by hashes."),
        ("figures", "figures", "The figures of merchants, by ranges of time."),
        ("clock", "clock", "Business time: move it ahead to test settlements."),
    ),
}
FILES: Final = {name: file for rows in SECTIONS.values() for name, file, _ in rows}
