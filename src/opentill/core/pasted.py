"""Text as people paste it: with spaces and invisible marks around it."""

import re
from typing import Final

# Marks of the direction of text (Unicode UAX #9), which browsers copy with a text that is isolated,
# zero-width spaces and the byte order mark.
_AROUND: Final = r"[\s\u061c\u200b\u200e\u200f\u202a-\u202e\u2060\u2066-\u2069\ufeff]+"
_ENDS: Final = re.compile(f"^{_AROUND}|{_AROUND}$")


def trim(text: str) -> str:
    """Return a text without the spaces and the invisible marks around it."""
    return _ENDS.sub("", text)
