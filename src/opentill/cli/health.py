"""``opentill health``: whether the server that runs here is ready."""

import os
import sys

import typer

from opentill.cli import output
from opentill.cli.output import Json


def register(app: typer.Typer) -> None:
    """Add the command."""
    app.command()(health)


def health(*, as_json: Json = False) -> None:
    """Ask the server of these settings whether it is ready. Exit code 1 if it is not."""
    from opentill import config, healthcheck

    if not as_json:
        sys.exit(healthcheck.main())
    result = healthcheck.check(config.load(os.environ))
    output.show(result, as_json=True)
    sys.exit(0 if result.ready else 1)
