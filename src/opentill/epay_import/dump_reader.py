"""Read the rows of an SQL dump, as mysqldump, mariadb-dump and phpMyAdmin write it.

The file is read once, in pieces, so that memory does not grow with it. Only ``INSERT`` and
``REPLACE`` statements yield rows; of the other statements, the columns of ``CREATE TABLE`` and the
character set of ``SET NAMES`` count. Text is matched as bytes: in UTF-8, a quote or a backslash is
never part of another character. Other character sets are refused.
"""

import re
import zlib
from collections.abc import Callable, Iterator, Sequence
from functools import lru_cache
from typing import IO, Final

from opentill.epay_import.model import BadSource, Row

# The columns of a table, and those of them that its rows are made of. None: no rows are needed.
Choose = Callable[[str, Sequence[str]], Sequence[str] | None]

_PIECE: Final = 1 << 20  # bytes read at once
_LONGEST: Final = 64 << 20  # bytes of one row or statement; longer ones are damaged
_TEXT: Final = rb"'(?:[^'\\]++|\\.|'')*+'"
_VALUE: Final = rb"(?:_[a-z0-9]+ ?)?" + _TEXT + rb"|[A-Za-z0-9_.+-]++"
_NAME: Final = rb"(?:`[^`]+`|[A-Za-z0-9_]+)"
_SKIPPED: Final = re.compile(rb"\s++|--(?=[ \t\r\n])[^\n]*+\n|#[^\n]*+\n|/\*(?!!).*?\*/", re.DOTALL)
_INSERT: Final = re.compile(
    rb"(?:INSERT|REPLACE)(?:\s+(?:IGNORE|LOW_PRIORITY|DELAYED|HIGH_PRIORITY))*\s+INTO\s+"
    rb"(?:" + _NAME + rb"\.)?(" + _NAME + rb")\s*(?:\(([^()]*)\)\s*)?VALUES?\s*",
    re.IGNORECASE,
)
_IS_INSERT: Final = re.compile(rb"(?:INSERT|REPLACE)\s", re.IGNORECASE)
_DELIMITER: Final = re.compile(rb"DELIMITER\s+(\S+)[^\n]*\n", re.IGNORECASE)
_STATEMENT: Final = re.compile(
    rb"(?:[^;'\"`/#-]++|" + _TEXT + rb'|"(?:[^"\\]++|\\.)*+"|`[^`]*+`|/\*.*?\*/'
    rb"|--(?=[ \t\r\n])[^\n]*+\n|#[^\n]*+\n|[/-])*+;",
    re.DOTALL,
)
_CREATE: Final = re.compile(
    rb"CREATE\s+TABLE\s+(?:IF\s+NOT\s+EXISTS\s+)?(?:" + _NAME + rb"\.)?(" + _NAME + rb")\s*\((.*)",
    re.IGNORECASE | re.DOTALL,
)
_COLUMN: Final = re.compile(rb"(?:^|\n|,)\s*`([^`]+)`\s+[A-Za-z]")
_NAMES: Final = re.compile(rb"SET\s+NAMES\s+'?([A-Za-z0-9_]+)", re.IGNORECASE)
_UTF8: Final = frozenset({"utf8", "utf8mb3", "utf8mb4"})
_ESCAPE: Final = re.compile(rb"\\(.)|''", re.DOTALL)
_ESCAPES: Final = {b"0": b"\0", b"n": b"\n", b"r": b"\r", b"t": b"\t", b"Z": b"\x1a", b"b": b"\b"}
_WRITERS: Final = (b"-- MySQL dump", b"-- MariaDB dump")
_COMPLETE: Final = b"-- Dump completed"


@lru_cache(maxsize=64)
def _row_pattern(columns: tuple[str, ...], chosen: frozenset[str]) -> "re.Pattern[bytes]":
    """Return the pattern of a row; its groups are the chosen columns, then what follows the row."""
    values = (
        b"(" + _VALUE + b")" if column in chosen else b"(?:" + _VALUE + b")" for column in columns
    )
    return re.compile(rb"\s*+\(\s*+" + rb"\s*+,\s*+".join(values) + rb"\s*+\)\s*+([,;])", re.DOTALL)


_ANY_ROW: Final = re.compile(rb"\s*+\((?:[^()']++|" + _TEXT + rb")*+\)\s*+([,;])", re.DOTALL)
_START_OF_ROW: Final = re.compile(rb"\s*+\(")


def _replace_escape(match: "re.Match[bytes]") -> bytes:
    character = match[1]
    return b"'" if character is None else _ESCAPES.get(character, character)


def _name(text: bytes) -> str:
    return text.strip().strip(b"`").decode(errors="replace")


def _value(text: bytes) -> bytes | None:
    """Return a value as the database has it, None for NULL."""
    if text.endswith(b"'"):
        content = text[text.index(b"'") + 1 : -1]
        if b"\\" in content or b"''" in content:
            return _ESCAPE.sub(_replace_escape, content)
        return content
    if text.upper() == b"NULL":
        return None
    if text[:2] in (b"0x", b"0X"):  # MySQL reads 0xF as 0x0F
        digits = text[2:].decode("ascii")
        return bytes.fromhex("0" * (len(digits) % 2) + digits)
    return text


class DumpReader:
    """The rows of a dump; ``table`` and ``row`` say how far it was read."""

    def __init__(self, file: IO[bytes], choose: Choose) -> None:
        """``choose`` decides about each table once its columns are known."""
        # Of a cut gzip file, ``read`` would lose what it has decompressed already.
        self._read: Callable[[int], bytes] = getattr(file, "read1", file.read)
        self._choose = choose
        self._buffer = b""
        self._at = 0
        self._ended = False
        self._tail = b""  # the last bytes that were read
        self._head = b""
        self._columns: dict[str, tuple[str, ...]] = {}
        self._counts: dict[str, int] = {}
        self.table = ""
        self.row = 0

    def __iter__(self) -> Iterator[Row]:
        """Yield the rows of the chosen tables. Raises BadSource with the table and the row."""
        while self._skip():
            if self._matches_at(_IS_INSERT):
                yield from self._insert()
            elif (delimiter := _DELIMITER.match(self._buffer, self._at)) is not None:
                self._skip_routine(delimiter[1], delimiter.end())
            else:
                self._read_statement()
        if self._head.lstrip().startswith(_WRITERS) and _COMPLETE not in self._tail:
            raise self._truncated()

    def _problem(self, reason: str) -> BadSource:
        return BadSource(reason, self.table, self.row)

    def _truncated(self) -> BadSource:
        return self._problem("the file ends here, before its end: make or copy it again")

    def _fill(self) -> bool:
        """Read more; return whether there was more."""
        if self._ended:
            return False
        try:
            piece = self._read(_PIECE)
        except (EOFError, zlib.error, OSError) as error:
            reason = f"the file cannot be read any further ({error}): make or copy it again"
            raise self._problem(reason) from None
        if not piece:
            self._ended = True
            return False
        self._head = self._head or piece[:200].removeprefix(b"\xef\xbb\xbf")
        self._tail = (self._tail + piece)[-400:]
        rest = self._buffer[self._at :]
        if len(rest) > _LONGEST:
            msg = "the row or statement after this one is damaged: it has no end"
            raise self._problem(msg)
        self._buffer = (rest + piece).removeprefix(b"\xef\xbb\xbf") if not rest else rest + piece
        self._at = 0
        return True

    def _matches_at(self, pattern: "re.Pattern[bytes]") -> bool:
        return pattern.match(self._buffer, self._at) is not None

    def _skip(self) -> bool:
        """Skip space and comments; return whether a statement follows."""
        while True:
            match = _SKIPPED.match(self._buffer, self._at)
            if match is not None:
                self._at = match.end()
            elif len(self._buffer) - self._at >= 64 or not self._fill():  # noqa: PLR2004 - longer than each word that is looked for
                rest = self._buffer[self._at :]
                if self._ended and rest.startswith((b"--", b"#")):  # without a last newline
                    return False
                if rest.startswith(b"/*") and not rest.startswith(b"/*!"):
                    if not self._fill():
                        raise self._truncated()
                    continue
                if rest.startswith((b"--", b"#")) and b"\n" not in rest:
                    self._fill()
                    continue
                return bool(rest)

    def _match(self, pattern: "re.Pattern[bytes]") -> "re.Match[bytes]":
        """Match at the present position, reading as much as necessary. Raises BadSource."""
        least = 2 * _PIECE
        while (match := pattern.match(self._buffer, self._at)) is None:
            before = len(self._buffer) - self._at
            while len(self._buffer) - self._at < least and self._fill():
                pass
            if len(self._buffer) - self._at == before:
                raise self._truncated()
            least *= 2
        self._at = match.end()
        return match

    def _read_statement(self) -> None:
        text = self._match(_STATEMENT)[0]
        self._read_character_set(text)
        created = _CREATE.match(text)
        if created is not None:
            name = _name(created[1])
            columns = tuple(_name(column) for column in _COLUMN.findall(b"\n" + created[2]))
            self._columns[name] = columns
            self.table, self.row = name, 0
            self._choose(name, columns)

    def _read_character_set(self, text: bytes) -> None:
        names = _NAMES.search(text)
        if names is None:
            return
        character_set = names[1].decode("ascii").lower()
        if character_set not in _UTF8:
            msg = (
                f"the file is in the character set {character_set}: make it again with"
                " --default-character-set=utf8mb4"
            )
            raise self._problem(msg)

    def _skip_routine(self, delimiter: bytes, at: int) -> None:
        """Skip triggers and procedures, which have a delimiter of their own."""
        self._at = at
        if delimiter == b";":
            return
        end = re.compile(rb".*?\nDELIMITER\s+;[^\n]*\n", re.IGNORECASE | re.DOTALL)
        self._match(end)

    def _insert(self) -> Iterator[Row]:
        head = self._match(_INSERT)
        name = _name(head[1])
        listed = tuple(_name(column) for column in head[2].split(b",")) if head[2] else None
        self.table, self.row = name, self._counts.get(name, 0)
        columns = listed or self._columns.get(name)
        if columns is None:
            msg = "its columns are unknown: export the structure of the tables too"
            raise self._problem(msg)
        chosen = self._choose(name, columns)
        if chosen is None:
            self._skip_rows()
        else:
            yield from self._rows(name, columns, chosen)
        self._counts[name] = self.row

    def _skip_rows(self) -> None:
        while True:
            follows = self._match(_ANY_ROW)[1]
            self.row += 1
            if follows == b";":
                return

    def _rows(self, name: str, columns: tuple[str, ...], chosen: Sequence[str]) -> Iterator[Row]:
        pattern = _row_pattern(columns, frozenset(chosen))
        present = [column for column in columns if column in chosen]
        positions = [present.index(column) if column in present else -1 for column in chosen]
        while True:
            match = pattern.match(self._buffer, self._at)
            if match is None:
                match = self._match_row(pattern, len(columns))
            else:
                self._at = match.end()
            self.row += 1
            texts = match.groups()
            yield Row(
                name,
                self.row,
                tuple([None if at < 0 else _value(texts[at]) for at in positions]),
            )
            if texts[-1] == b";":
                return

    def _match_row(self, pattern: "re.Pattern[bytes]", count: int) -> "re.Match[bytes]":
        """Match a row that is not whole in the buffer. Raises BadSource for a damaged one."""
        while (match := pattern.match(self._buffer, self._at)) is None:
            whole = _ANY_ROW.match(self._buffer, self._at)
            if whole is not None or not self._fill():
                self.row += 1
                if whole is None and self._ended and _START_OF_ROW.match(self._buffer, self._at):
                    raise self._truncated()
                if whole is None and self._ended and not self._buffer[self._at :].strip():
                    raise self._truncated()
                msg = f"the row must have {count} values, one for each column of the table"
                raise self._problem(msg)
        self._at = match.end()
        return match
