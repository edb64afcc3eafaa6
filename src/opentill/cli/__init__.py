"""The command line: one module for each group of commands.

A module is imported when one of its commands runs, and its ``register(app)`` adds the commands.
Slow modules (the database, the framework) are imported by the commands, so that ``--help`` is fast.
"""

import contextlib
import importlib
import os
import signal
import sys
from collections.abc import Iterator, MutableMapping
from typing import Any, Final

import typer
from typer.core import TyperGroup

from opentill.cli import commands

EXIT_CODES: Final = (
    "Exit codes: 0 done; 1 a check found something; 2 refused, nothing was changed; 130 Ctrl-C;"
    " 141 the reader of the output has ended; 143 ended by SIGTERM."
)


class _Commands(MutableMapping[str, Any]):
    """All commands by name. A command's module is imported when the command is looked up."""

    def __init__(self) -> None:
        self._loaded: dict[str, Any] = {}

    def __getitem__(self, name: str) -> Any:  # typer does not export the type of its commands
        if name not in self._loaded:
            part = typer.Typer(rich_markup_mode=None)
            importlib.import_module(f"opentill.cli.{commands.FILES[name]}").register(part)
            self._loaded |= typer.main.get_group(part).commands
        return self._loaded[name]

    def __setitem__(self, name: str, command: Any) -> None:
        self._loaded[name] = command

    def __delitem__(self, name: str) -> None:
        del self._loaded[name]

    def __iter__(self) -> Iterator[str]:
        return iter(commands.FILES)

    def __len__(self) -> int:
        return len(commands.FILES)


@contextlib.contextmanager
def _ending_with_the_reader() -> Iterator[None]:
    """End this process quietly if the reader of its output has ended, such as ``head``."""
    try:
        yield
        sys.stdout.flush()
    except BrokenPipeError:
        # Python writes what is buffered when it exits, which would fail again.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        sys.exit(128 + signal.SIGPIPE)


class Root(TyperGroup):
    """``opentill``: its help lists the commands in sections without importing their modules."""

    def __init__(self, **options: Any) -> None:
        """Create the root group; ``options`` are those of ``TyperGroup``."""
        super().__init__(**options)
        self.commands = _Commands()

    def make_context(self, *arguments: Any, **options: Any) -> Any:
        """Parse the command line like typer, and end like ``invoke``."""
        with _ending_with_the_reader():
            return super().make_context(*arguments, **options)

    def invoke(self, ctx: Any) -> Any:
        """Run the command; end with exit code 141 if the reader of its output has ended.

        typer would exit with 1, which means that a check found something.
        """
        with _ending_with_the_reader():
            return super().invoke(ctx)

    def list_commands(self, ctx: Any) -> list[str]:  # noqa: ARG002 - typer's signature
        """Return the commands' names in the order of ``--help``."""
        return list(self.commands)

    def format_commands(self, ctx: Any, formatter: Any) -> None:  # noqa: ARG002 - typer's signature
        """Write each section of ``SECTIONS``: its commands with their summaries."""
        for title, rows in commands.SECTIONS.items():
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


def _version(is_requested: bool) -> None:  # noqa: FBT001 - typer passes options like this
    if is_requested:
        from opentill import __version__

        typer.echo(f"opentill {__version__}")
        raise typer.Exit


def _options(
    version: bool = typer.Option(  # noqa: FBT001 - typer passes options like this
        False,  # noqa: FBT003 - typer passes defaults like this
        "--version",
        callback=_version,
        is_eager=True,
        help="Show the version.",
    ),
) -> None:
    """Self-hosted payments for merchants. Start with: opentill demo."""
