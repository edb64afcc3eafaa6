"""What people note about an order or a dispute: plain text, so long and so often at most.

Notes are kept for ever as they were written, so both are bounded, for everybody who writes one.
"""

import re
from typing import Final

from opentill.core.errors import Invalid

LONGEST_NOTE: Final = (
    5_000  # characters, whose form is within the bounds of forms in every language
)
MOST_NOTES: Final = 100  # of an order, and of a dispute
# What no plain text has; line ends and tabs it may.
_UNPRINTABLE: Final = re.compile("[\u0000-\u0008\u000b-\u001f\u007f-\u009f\ud800-\udfff]")


class NotesFull(Invalid):
    """There are as many notes as there may be."""

    def __init__(self) -> None:
        """Say how many that is."""
        super().__init__("note", f"note must be one of at most {MOST_NOTES}")


def read_note(text: str) -> str:
    """Return a note as it is kept: no space around it, plain line ends. Raises Invalid."""
    text = text.replace("\r\n", "\n").strip()
    if not 1 <= len(text) <= LONGEST_NOTE or _UNPRINTABLE.search(text):
        raise Invalid("note", f"note must be plain text of 1 to {LONGEST_NOTE} characters")
    return text
