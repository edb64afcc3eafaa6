"""The output of commands: tables for people, JSON for scripts.

Results go to standard output, everything else to standard error, so that ``--json`` can be piped.
"""

import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Annotated, Any, NamedTuple, cast

import typer

from opentill.core import terminal

if TYPE_CHECKING:
    from collections.abc import Callable

Json = Annotated[bool, typer.Option("--json", help="Print JSON.")]
"""The option of a command that prints by itself; ``commands.py`` gives it to all others."""


class Result(NamedTuple):
    """What a command returns to be printed, where it is more than a record or a list of records."""

    shown: object
    columns: Sequence[str] = ()  # which ones the table has, in their order; JSON always has all
    note: str = ""  # for standard error, after it


def plain(result: object) -> dict[str, Any]:
    """Return a struct as plain data."""
    found: dict[str, Any] = _plain(result)
    return found


def _plain(value: object) -> Any:
    """Return anything as plain data; fields of structs are named as in the API.

    Keys of mappings stay: they may be a merchant's.
    """
    import msgspec

    if isinstance(value, msgspec.Struct):
        names = zip(value.__struct_fields__, value.__struct_encode_fields__, strict=True)
        return {_camel(shown): _plain(getattr(value, name)) for name, shown in names}
    if isinstance(value, Mapping):
        mapping = cast("Mapping[str, object]", value)
        return {key: _plain(one) for key, one in mapping.items()}
    if isinstance(value, (list, tuple)):
        return [_plain(one) for one in cast("Sequence[object]", value)]
    return msgspec.json.decode(msgspec.json.encode(value, enc_hook=str))


def _camel(name: str) -> str:
    first, *rest = name.split("_")
    return first + "".join(word.title() for word in rest)


def show(result: object, *, as_json: bool) -> None:
    """Print a result: one record (a struct or mapping), a sequence of records, or a ``Result``."""
    import msgspec

    given = result if isinstance(result, Result) else Result(result)
    found = _plain(given.shown)
    if as_json:
        typer.echo(terminal.inert(msgspec.json.encode(found).decode()))
    elif isinstance(found, Mapping):
        record = cast("Mapping[str, object]", found)
        _print_table(("", ""), list(record.items()), head=False)
    else:
        rows: list[dict[str, Any]] = list(found)
        names = list(given.columns) or list(rows[0] if rows else {})
        _print_table(names, [[row.get(name) for name in names] for row in rows], head=True)
    if given.note:
        say(given.note)


def say(text: str) -> None:
    """Print what is not the result, to standard error."""
    typer.echo(terminal.inert(text), err=True)


@contextmanager
def progress(text: str, total: int | None = None) -> "Iterator[Callable[[int], None]]":
    """Show progress on standard error, if that is a terminal.

    Yields a function that is called with how many more are done.
    """
    if not sys.stderr.isatty():
        yield lambda _: None
        return
    from rich.console import Console
    from rich.progress import Progress

    with Progress(console=Console(stderr=True), transient=True) as bar:
        task = bar.add_task(text, total=total)
        yield lambda done: bar.advance(task, done)


def _print_table(names: Sequence[str], rows: Sequence[Sequence[object]], *, head: bool) -> None:
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    table = Table(show_header=head, box=None, pad_edge=False, header_style="bold")
    for name in names:
        table.add_column(name, overflow="fold")
    for row in rows:
        table.add_row(*(Text("" if cell is None else _inert(str(cell))) for cell in row))
    width = None if sys.stdout.isatty() else 1000  # a pipe or file is not folded
    Console(width=width).print(table) if rows else say("nothing to show")


def _inert(text: str) -> str:
    """Replace terminal control characters."""
    return "".join(char if char.isprintable() else "\N{REPLACEMENT CHARACTER}" for char in text)
