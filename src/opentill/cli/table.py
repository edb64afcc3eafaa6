"""Formats tables and records as lines of a given width, without breaking or cutting words.

A column that does not fit is written beneath the row: an id, an address or an amount is never cut,
so that it can be copied and searched for.
"""

import re
import unicodedata
from collections.abc import Sequence
from typing import Final, NamedTuple

_GAP: Final = 2
_INDENT: Final = "  "
_NUMBER: Final = re.compile(r"-?[0-9][0-9.]*( [A-Z]{3})?")


class _Column(NamedTuple):
    heading: str
    texts: list[str]  # one text for each row
    width: int
    flush_right: bool  # whether all of its texts are numbers or amounts

    def pad(self, text: str) -> str:
        """Pad a text to the column's width."""
        space = " " * (self.width - cells(text))
        return space + text if self.flush_right else text + space


def cells(text: str) -> int:
    """Return the number of terminal cells of a text; a Chinese character takes two."""
    if text.isascii():
        return len(text)
    wide = sum(unicodedata.east_asian_width(char) in "WF" for char in text)
    return len(text) + wide - sum(unicodedata.combining(char) > 0 for char in text)


def wrap(text: str, width: int) -> list[str]:
    """Wrap a text into lines of ``width`` cells; a longer word gets its own line."""
    if cells(text) <= width:
        return [text]
    lines = [""]
    for word in text.split(" "):
        if lines[-1] and cells(lines[-1]) + 1 + cells(word) > width:
            lines.append(word)
        else:
            lines[-1] = f"{lines[-1]} {word}" if lines[-1] else word
    return lines


def table(
    headings: Sequence[str], rows: Sequence[Sequence[str]], width: int | None
) -> tuple[list[str], list[str]]:
    """Return the lines of the headings and of the rows, of at most ``width`` cells if possible.

    If not all columns fit, the values of the widest columns are written beneath the row, with their
    headings. Without a ``width``, each row is one line.
    """
    columns = [_column(name, [row[place] for row in rows]) for place, name in enumerate(headings)]
    inside = columns
    if width is not None and sum(column.width + _GAP for column in columns) - _GAP > width:
        columns = [_column(one.heading, one.texts, tight=True) for one in columns]
        inside = _fitting(columns, width)
    lines: list[str] = []
    for number in range(len(rows)):
        lines.append(_join([column.pad(column.texts[number]) for column in inside]))
        beneath = [
            f"{column.heading}: {column.texts[number]}"
            for column in columns
            if column not in inside and column.texts[number]
        ]
        lines += _pack(beneath, width or 0)
    return _headings(inside), lines


def record(pairs: Sequence[tuple[str, str]], width: int | None) -> list[str]:
    """Return the lines of a record, given as pairs of label and value; widths as in ``table``."""
    margin = max((cells(label) for label, _ in pairs), default=0) + _GAP
    lines: list[str] = []
    for label, value in pairs:
        begin = label + " " * (margin - cells(label))
        if width is None:
            lines.append((begin + value).rstrip())
        elif max(map(cells, value.split(" "))) <= width - margin:
            first, *other_lines = wrap(value, width - margin)
            lines += [(begin + first).rstrip(), *(" " * margin + line for line in other_lines)]
        else:
            lines += [label, *(_INDENT + line for line in wrap(value, width - len(_INDENT)))]
    return lines


def _column(heading: str, texts: list[str], *, tight: bool = False) -> _Column:
    """Create a column; with ``tight`` the heading has a line per word."""
    words = heading.split() if tight else [heading]
    width = max(map(cells, [*words, *texts]), default=0)
    return _Column(heading, texts, width, all(_NUMBER.fullmatch(text) for text in texts if text))


def _fitting(columns: list[_Column], width: int) -> list[_Column]:
    """Return the first column and the narrowest others that fit, in order."""
    first, *others = columns
    chosen, remaining = [first], width - first.width
    for column in sorted(others, key=lambda column: column.width):
        remaining -= _GAP + column.width
        if remaining < 0:
            break
        chosen.append(column)
    return [column for column in columns if column in chosen]


def _headings(columns: list[_Column]) -> list[str]:
    """Return the lines of the headings, aligned at the bottom."""
    parts = [wrap(column.heading, column.width) for column in columns]
    height = max(map(len, parts), default=0)
    pad = [[""] * (height - len(part)) + part for part in parts]
    return [
        _join([column.pad(part[number]) for column, part in zip(columns, pad, strict=True)])
        for number in range(height)
    ]


def _join(parts: list[str]) -> str:
    return (" " * _GAP).join(parts).rstrip()


def _pack(texts: list[str], width: int) -> list[str]:
    """Pack texts into indented lines; only texts that exceed a line are wrapped."""
    lines: list[str] = []
    full = True
    for text in texts:
        extended_line = "" if full else f"{lines[-1]}{_INDENT}{text}"
        if extended_line and cells(extended_line) <= width:
            lines[-1] = extended_line
        else:
            first, *other_lines = wrap(text, width - 2 * len(_INDENT))
            lines += [_INDENT + first, *(2 * _INDENT + line for line in other_lines)]
            full = bool(other_lines)
    return lines
