"""``opentill settings``: every setting, its value here, and what it does."""

import os

import typer

from opentill.cli import output
from opentill.cli.output import Json


def register(app: typer.Typer) -> None:
    """Add the command."""
    app.command()(settings)


def settings(*, as_json: Json = False) -> None:
    """List the settings with their values here; secrets are not shown."""
    from opentill import config

    for line in config.unknown(os.environ):
        output.say(f"opentill: warning: {line}")
    rows = [
        {"variable": variable, "value": value, "explanation": explanation}
        for variable, value, explanation in config.shown(config.load(os.environ))
    ]
    output.show(rows, as_json=as_json)
