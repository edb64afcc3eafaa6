"""The table of all commands: sections of ``opentill --help``, and the module of each command."""

from typing import Final

# Grouped by user. The summaries are the first sentences of the commands' help.
SECTIONS: Final = {
    "Every day": (
        # name       file          summary
        ("orders", "orders", "Orders, and what happened to them."),
        ("refunds", "refunds", "End and record refunds as the operator knows them."),
        ("disputes", "disputes", "Disputes and chargebacks."),
        ("links", "links", "Payment links, at which any number of customers can pay."),
        ("webhooks", "webhooks", "Webhook endpoints of merchants, and their deliveries."),
        ("mail", "mail", "Mail: what went out, and how it ended."),
    ),
    "Money": (
        ("balance", "balance", "A merchant's balance, and its adjustments by operators."),
        ("payouts", "payouts", "Payouts: available money, sent to a merchant's bank."),
        (
            "approvals",
            "approvals",
            "Pending requests for a second person: above OPENTILL_APPROVAL_ABOVE.",
        ),
        ("settle", "settle", "Settle orders: what is due becomes available."),
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
        ("login", "login", "Log in as somebody of the staff: commands then name you."),
        ("logout", "login", "Log out: the login ends, and its file forgets it."),
        ("whoami", "login", "Show who commands are run by."),
        ("epay", "epay", "Epay credentials, and notifications of paid orders."),
    ),
    "Setup": (
        ("demo", "demo", "Serve, with a merchant, a product and a session to pay."),
        ("serve", "serve", "Serve the API and the payment page."),
        ("worker", "serve", "Run the worker."),
        ("sandbox", "serve", "Serve the sandbox bank alone."),
        ("migrate", "migrate", "Bring the database to the schema of this version."),
        ("settings", "settings", "List the settings with their values here."),
        ("secret-key", "secret_key", "The key that encrypts Epay keys and webhook secrets."),
        (
            "backup",
            "backup",
            "Write the database to a new file, as it is at this moment; servers go on.",
        ),
        (
            "restore",
            "backup",
            "Make the database of a backup: in a data directory that has none.",
        ),
        (
            "skip-messages",
            "backup",
            "Send none of the waiting messages: those of a restored backup were sent already.",
        ),
    ),
    "Diagnosis": (
        ("doctor", "doctor", "Check this deployment and say what to do."),
        ("health", "health", "Ask the server of these settings whether it is ready."),
        ("ledger", "ledger", "The ledger and its integrity rules."),
        ("audit", "audit", "The audit log: what operators did, chained by hashes."),
        ("figures", "figures", "The figures of merchants, by ranges of time."),
        ("clock", "clock", "Business time, to try out what takes days."),
    ),
}
FILES: Final = {name: file for rows in SECTIONS.values() for name, file, _ in rows}
