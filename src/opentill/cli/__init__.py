"""The command line: one module for each group of commands.

A module's ``register(app)`` adds its commands. It is imported when one of them runs, and imports
slow modules (the database, the framework) inside the commands, so that ``--help`` is fast.
"""

import importlib
from collections.abc import Iterator, MutableMapping
from typing import Any, Final

import typer
from typer.core import TyperGroup

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
EXIT_CODES: Final = (
    "Exit codes: 0 done; 1 a check found something; 2 refused, nothing was changed; 130 Ctrl-C;"
    " 143 ended by SIGTERM."
)
_FILES: Final = {name: file for rows in SECTIONS.values() for name, file, _ in rows}


class _Commands(MutableMapping[str, Any]):
    """All commands by name. A command's module is imported when the command is looked up."""

    def __init__(self) -> None:
        self._loaded: dict[str, Any] = {}

    def __getitem__(self, name: str) -> Any:  # a typer command, whose type is not exported
        if name not in self._loaded:
            part = typer.Typer(rich_markup_mode=None)
            importlib.import_module(f"opentill.cli.{_FILES[name]}").register(part)
            self._loaded |= typer.main.get_group(part).commands
        return self._loaded[name]

    def __setitem__(self, name: str, command: Any) -> None:
        self._loaded[name] = command

    def __delitem__(self, name: str) -> None:
        del self._loaded[name]

    def __iter__(self) -> Iterator[str]:
        return iter(_FILES)

    def __len__(self) -> int:
        return len(_FILES)


class Root(TyperGroup):
    """``opentill``: its help lists the commands in sections without importing their modules."""

    def __init__(self, **options: Any) -> None:
        """Create the group like typer."""
        super().__init__(**options)
        self.commands = _Commands()

    def list_commands(self, ctx: Any) -> list[str]:  # noqa: ARG002 - typer's signature
        """Return the commands' names in the order of ``--help``."""
        return list(self.commands)

    def format_commands(self, ctx: Any, formatter: Any) -> None:  # noqa: ARG002 - likewise
        """Write a section for each group of users."""
        for title, rows in SECTIONS.items():
            with formatter.section(title):
                formatter.write_dl([(name.ljust(10), summary) for name, _, summary in rows])


def build() -> typer.Typer:
    """Create the application with all commands."""
    app = typer.Typer(
        cls=Root,
        name="opentill",
        help="Self-hosted payments for merchants. Start with: opentill demo",
        epilog=EXIT_CODES,
        no_args_is_help=True,
        pretty_exceptions_enable=False,
        rich_markup_mode=None,
        context_settings={"help_option_names": ["-h", "--help"]},
    )
    app.callback()(_options)
    return app


def _version(is_requested: bool) -> None:  # noqa: FBT001 - typer's way
    if is_requested:
        from opentill import __version__

        typer.echo(f"opentill {__version__}")
        raise typer.Exit


def _options(
    version: bool = typer.Option(  # noqa: FBT001 - typer's way
        False,  # noqa: FBT003 - likewise
        "--version",
        callback=_version,
        is_eager=True,
        help="Show the version.",
    ),
) -> None:
    """Self-hosted payments for merchants. Start with: opentill demo."""
