"""The words by which customers are found: the parts of their names and email addresses.

A word is the rest of a text from the beginning of one of its parts on, so that a search for the
beginning of any part is a search for the beginning of a word. A name is also continued from its
beginning: ``ada brook`` has the words ``ada brook`` and ``brook ada``. Words are without capitals
and accents. An ideograph is a part by itself, since Chinese and Japanese names have no spaces.
"""

import re
import unicodedata
from typing import Final

from opentill.core import pasted

LONGEST: Final = 100  # characters of a word; the rest is cut off
_LEAST_OF_WORD: Final = 3  # characters of a searched text in ASCII that can match customers
_MOST_PARTS: Final = 8  # of a name or an address that are indexed
_PART_OF_NAME: Final = re.compile(r"(?<![^\W_])[^\W_]|[\u3400-\u9fff\uf900-\ufaff]")
_PART_OF_EMAIL: Final = re.compile(r"(?<![^\W_])[^\W_]")


def fold(text: str) -> str:
    """Return a text in the form in which words are compared."""
    folded = unicodedata.normalize("NFKD", pasted.trim(text).casefold())
    plain = "".join(char for char in folded if not unicodedata.combining(char))
    return " ".join(unicodedata.normalize("NFKC", plain).replace("\0", "").split())


def prefix_of(text: str) -> str:
    """Return the beginning that words must have to match a searched text; "" if none can match."""
    return fold(text).lstrip("@.-_ ")[:LONGEST]


def words_of(email: str, name: str | None) -> frozenset[str]:
    """Return the words of a customer."""
    address, name = fold(email), fold(name or "")
    last_dot = address.rfind(".")  # the top-level domain is no word, since too many have the same
    words = {
        address[start:]
        for start in _starts(_PART_OF_EMAIL, address)
        if last_dot < 0 or start < last_dot
    }
    words |= {f"{name[start:]} {name[:start]}" for start in _starts(_PART_OF_NAME, name)}
    return frozenset(word[:LONGEST].strip() for word in words)


def _starts(part: re.Pattern[str], text: str) -> list[int]:
    return [match.start() for match in part.finditer(text)][:_MOST_PARTS]


def is_too_short(prefix: str) -> bool:
    """Whether too many customers would match the beginning of a word that may mean something else.

    A single ideograph may be a whole name, so only ASCII texts can be too short.
    """
    return not prefix or (prefix.isascii() and len(prefix) < _LEAST_OF_WORD)
