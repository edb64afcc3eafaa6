"""Notes about an order or a dispute: plain text, bounded in length and number.

Notes are stored permanently and never changed.
"""

import re
from typing import Final

from opentill.core.errors import Invalid

# A note has at most this many characters: percent-encoded, they take at most 60,000 bytes of a
# form's 64 KiB.
LONGEST_NOTE: Final = 5_000
MOST_NOTES: Final = 100  # an order or a dispute has at most this many notes
# Control characters except line feeds and tabs, and lone surrogates.
_UNPRINTABLE: Final = re.compile("[\u0000-\u0008\u000b-\u001f\u007f-\u009f\ud800-\udfff]")


class NotesFull(Invalid):
    """The maximum number of notes is reached."""

    def __init__(self) -> None:
        """The error names the maximum."""
        super().__init__("note", f"note must be one of at most {MOST_NOTES}")


def clean_note(text: str) -> str:
    """Return a note without surrounding space and with plain line ends. Raises Invalid."""
    text = text.replace("\r\n", "\n").strip()
    if not 1 <= len(text) <= LONGEST_NOTE or _UNPRINTABLE.search(text):
        raise Invalid("note", f"note must be plain text of 1 to {LONGEST_NOTE} characters")
    return text
