"""A stream for the log of one test."""

import io
import threading


class OwnThreadStream(io.StringIO):
    """Contains only what the thread that created it writes.

    Servers that other tests of this process share, such as the sandbox bank, log from threads of
    their own at any moment.
    """

    def __init__(self) -> None:
        super().__init__()
        self._thread = threading.get_ident()

    def write(self, text: str, /) -> int:
        """Write ``text``, or discard it if another thread calls this."""
        return super().write(text) if threading.get_ident() == self._thread else len(text)
