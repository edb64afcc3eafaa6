"""The command line: one file for each group of commands.

A file offers ``register(app)``, which adds its commands or groups. It imports what is slow (the
database, the framework) inside the commands, so that ``--help`` prints at once.
"""

import importlib
from typing import Final

import typer

# In the order of ``--help``: running it first, then the operator's business.
FILES: Final = (
    "serve",
    "demo",
    "doctor",
    "health",
    "settings",
    "migrate",
    "merchants",
    "keys",
    "people",
    "epay",
    "rates",
    "orders",
    "disputes",
    "settle",
    "payouts",
    "balance",
    "audit",
    "figures",
    "ledger",
    "webhooks",
    "export",
    "statement",
    "reconcile",
    "clock",
    "secret_key",
)


def build() -> typer.Typer:
    """Make the application with all its commands."""
    app = typer.Typer(
        name="opentill",
        help="Self-hosted payments for merchants. Start with: opentill demo",
        no_args_is_help=True,
        add_completion=False,
        pretty_exceptions_enable=False,
        rich_markup_mode=None,
    )
    app.callback()(_options)
    for name in FILES:
        importlib.import_module(f"opentill.cli.{name}").register(app)
    return app


def _version(wanted: bool) -> None:  # noqa: FBT001 - typer's way
    if wanted:
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
