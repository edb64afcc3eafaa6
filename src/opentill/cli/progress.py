"""Progress of operations longer than a second, on standard error if it is a terminal."""

import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Final

SILENT_S: Final = 1.0  # seconds; nothing is shown about shorter operations
_PAUSE_S: Final = 0.5
_ERASE: Final = "\r\x1b[K"
_lines: Final[list["_Line"]] = []  # empty, or the line of the outermost operation


@contextmanager
def progress(text: str, total: int | None = None) -> Iterator[Callable[[int], None]]:
    """Show the operation, its progress and its duration after the first second.

    Yields a function to call with the number of items done since the last call. The line is erased
    at the end.
    """
    if _lines or not sys.stderr.isatty():
        yield lambda _: None
        return
    line = _Line(text, total)
    _lines.append(line)
    thread = threading.Thread(target=line.keep, name="progress", daemon=True)
    thread.start()
    try:
        yield line.advance
    finally:
        line.over.set()
        thread.join()
        _lines.remove(line)


def erase() -> None:
    """Erase the line before other output. The thread writes it again later."""
    if _lines:
        sys.stderr.write(_ERASE)


class _Line:
    """The line, rewritten by a thread, because the work may be one long statement."""

    def __init__(self, text: str, total: int | None) -> None:
        self._text = text
        self._total = total
        self._done = 0
        self._began = time.monotonic()
        self.over = threading.Event()

    def advance(self, count: int) -> None:
        self._done += count

    def keep(self) -> None:
        if self.over.wait(SILENT_S):
            return
        while True:
            sys.stderr.write(_ERASE + self._now())
            sys.stderr.flush()
            if self.over.wait(_PAUSE_S):
                break
        sys.stderr.write(_ERASE)
        sys.stderr.flush()

    def _now(self) -> str:
        """Return the current line, which fits 40 columns."""
        count = f" {self._done:,}" if self._done or self._total else ""
        whole = f" of {self._total:,}" if self._total else ""
        return f"{self._text} …{count}{whole}, {time.monotonic() - self._began:.0f} s"
