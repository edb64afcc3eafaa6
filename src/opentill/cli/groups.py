"""A group of commands: ``opentill NAME COMMAND``."""

from collections.abc import Callable
from typing import Any

import typer


def add_group(
    app: typer.Typer, name: str, summary: str, /, **commands: Callable[..., Any]
) -> typer.Typer:
    """Add a group with its commands, in the order of its ``--help``, and return it."""
    group = typer.Typer(help=summary, no_args_is_help=True)
    for command, function in commands.items():
        group.command(command)(function)
    app.add_typer(group, name=name)
    return group
