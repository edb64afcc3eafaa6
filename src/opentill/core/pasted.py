"""Text as people paste it: with spaces and invisible marks around it."""

from typing import Final

_SPACES: Final = (
    "\t\n\v\f\r\x1c\x1d\x1e\x1f \x85\xa0\u1680\u2000\u2001\u2002\u2003\u2004\u2005\u2006\u2007"
    "\u2008\u2009\u200a\u2028\u2029\u202f\u205f\u3000"
)
# Zero-width spaces, the byte order mark, and the marks of text direction (Unicode UAX #9) that
# browsers copy along with an isolated text.
_MARKS: Final = (
    "\u061c\u200b\u200e\u200f\u202a\u202b\u202c\u202d\u202e\u2060\u2066\u2067\u2068\u2069\ufeff"
)
_STRIPPED: Final = _SPACES + _MARKS


def trim(text: str) -> str:
    """Return a text without the spaces and the invisible marks around it."""
    return text.strip(_STRIPPED)
