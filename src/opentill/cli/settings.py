"""``opentill settings``: every setting, its value here, and what it does."""

import os

import typer

from opentill.cli import output
from opentill.cli.registration import add


def register(app: typer.Typer) -> None:
    """Add the command."""
    add(app, "settings", settings)


def settings() -> list[dict[str, str]]:
    """List the settings with their values here; secrets are not shown."""
    from opentill import config
    from opentill.gateways.masked_settings import masked_rows

    for line in config.warn_about_unknown_variables(os.environ):
        output.say(f"opentill: warning: {line}")
    return [
        {"variable": variable, "value": value, "explanation": explanation}
        for variable, value, explanation in masked_rows(config.load(os.environ))
    ]
