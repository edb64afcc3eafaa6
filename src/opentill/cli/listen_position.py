"""How far ``opentill listen`` has come, optionally in a file, so that the next run continues."""

from pathlib import Path

import msgspec

from opentill.core.errors import Invalid


class _Stored(msgspec.Struct, frozen=True):
    server: str
    cursor: str
    handled: int


class Position:
    """A cursor, and how many events after it were handled.

    The same cursor always returns the same events first, so that their number is enough to continue
    in the middle of a page.
    """

    def __init__(self, server: str, file: Path | None) -> None:
        """Read the file, which need not exist yet. Raises Invalid."""
        self.cursor: str | None = None  # None: no event was read, and the file has no cursor
        self.handled = 0
        self._server = server.rstrip("/")
        self._file = file
        if file is None:
            return
        try:
            stored = msgspec.json.decode(file.read_bytes(), type=_Stored)
        except FileNotFoundError:
            return
        except (OSError, msgspec.MsgspecError, UnicodeDecodeError):
            reason = f"state must be a file that opentill listen has written: {file} is none"
            raise Invalid("state", reason) from None
        if stored.server != self._server:
            reason = f"state must be a file for this server: {file} is for {stored.server}"
            raise Invalid("state", reason)
        self.cursor, self.handled = stored.cursor, stored.handled

    def count(self) -> None:
        """Record that one more event was handled. Raises Invalid."""
        self.handled += 1
        self._store()

    def turn(self, cursor: str) -> None:
        """Continue after a page whose events were all handled. Raises Invalid."""
        if (self.cursor, self.handled) != (cursor, 0):
            self.cursor, self.handled = cursor, 0
            self._store()

    def _store(self) -> None:
        from opentill.cli.atomic_write import open_part

        if self._file is None or self.cursor is None:
            return
        stored = _Stored(self._server, self.cursor, self.handled)
        try:
            with open_part(self._file) as (path, part):
                part.write(msgspec.json.encode(stored))
                part.flush()
                path.replace(self._file)
        except OSError as error:
            reason = f"state must be a file that can be written: {error.strerror}"
            raise Invalid("state", reason) from None
