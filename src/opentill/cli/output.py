"""The output of commands: tables for people, JSON for scripts.

Results go to standard output, everything else to standard error, so that ``--json`` can be piped.
What people see fits their terminal; in a pipe or file each row is one line (decision 0062).
"""

import os
import shutil
import sys
from collections.abc import Mapping, Sequence
from typing import Annotated, Any, Final, NamedTuple, cast

import typer

from opentill.cli.progress import erase, progress
from opentill.core import terminal

__all__ = ["Json", "Result", "plain", "progress", "say", "show", "width"]

Json = Annotated[bool, typer.Option("--json", help="Print JSON.")]
"""The option of a command that prints by itself; ``registration.py`` gives it to all others."""
_USUAL_WIDTH: Final = 80


class Result(NamedTuple):
    """The result of a command that has columns, a note or a text for an empty list.

    All other commands return a record or a list of records.
    """

    shown: object
    columns: Sequence[str] = ()  # fields that people see, in this order; () means all, as in JSON
    note: str = ""  # printed to standard error after the result
    empty: str = "nothing to show"  # printed to standard error for an empty list


def plain(result: object) -> dict[str, Any]:
    """Convert a struct to plain data."""
    data: dict[str, Any] = _plain(result)
    return data


def _plain(value: object) -> Any:
    """Convert anything to plain data; fields of structs are named as in the API.

    Keys of mappings do not change, because they may be a merchant's own.
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
    if isinstance(value, str):  # a path may have bytes that are not UTF-8
        return os.fsencode(value).decode(errors="replace") if _has_bytes(value) else value
    return msgspec.json.decode(msgspec.json.encode(value, enc_hook=str))


def _has_bytes(text: str) -> bool:
    """Whether a text has surrogate escapes of a path that is not UTF-8."""
    return any("\udc80" <= character <= "\udcff" for character in text)


def _camel(name: str) -> str:
    first, *other_words = name.split("_")
    return first + "".join(word.title() for word in other_words)


def show(result: object, *, as_json: bool) -> None:
    """Print a result: one record (a struct or mapping), a sequence of records, or a ``Result``."""
    import msgspec

    whole_result = result if isinstance(result, Result) else Result(result)
    data = _plain(whole_result.shown)
    if as_json:
        typer.echo(terminal.escape(msgspec.json.encode(data).decode()))
    elif isinstance(data, Mapping):
        _show_record(cast("Mapping[str, object]", data), whole_result.columns)
    elif data:
        _show_table(data, whole_result.columns)
    else:
        say(whole_result.empty)
    if whole_result.note:
        say(whole_result.note)


def say(text: str, *, wrap: bool = True) -> None:
    """Print a message to standard error; on a terminal it wraps between words."""
    from opentill.cli import table

    lines = terminal.escape(text).split("\n")
    if wrap and sys.stderr.isatty():
        width = shutil.get_terminal_size().columns
        lines = [part for line in lines for part in table.wrap(line, width)]
    erase()
    typer.echo("\n".join(lines), err=True)


def _show_record(record: Mapping[str, object], columns: Sequence[str]) -> None:
    from opentill.cli import readable, table

    names = readable.fields(record, columns)
    pairs = [(readable.heading(name), readable.text(name, record)) for name in names]
    typer.echo("\n".join(table.record(pairs, width())))


def _show_table(rows: Sequence[Mapping[str, object]], columns: Sequence[str]) -> None:
    from opentill.cli import readable, table

    names = readable.fields(rows[0], columns)
    headings = [readable.heading(name) for name in names]
    texts = [[readable.text(name, row) for name in names] for row in rows]
    head, lines = table.table(headings, texts, width())
    if sys.stdout.isatty():
        head = [typer.style(line, bold=True) for line in head]
    typer.echo("\n".join([*head, *lines]))


def width() -> int | None:
    """Return the width of the output: COLUMNS or the terminal's; None for a pipe or file."""
    columns = shutil.get_terminal_size((0, 0)).columns
    return columns or (_USUAL_WIDTH if sys.stdout.isatty() else None)
