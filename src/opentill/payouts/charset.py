"""The letters that banks take: EPC217-08, "SEPA Requirements for an Extended Character Set".

Letters without marks, digits, blanks and ``/ - ? : ( ) . , ' +``. What a text has beside these is
written as that document's table says: letters without their marks, Greek and Bulgarian Cyrillic in
Latin letters, other signs by one that looks alike, and a point for what is left.

References, such as an end-to-end id, neither begin nor end with a slash and have no two in a row.
Ours are ids, whose underscore becomes a hyphen: an id has no hyphen, so it can be read back.
"""

import re
import unicodedata
from collections.abc import Mapping
from typing import Final

_ALLOWED: Final = frozenset(
    "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789/-?:().,'+ "
)
_INSTEAD: Final = "."  # of what has no letters that look alike
# EPC217-08, chapter 6. Letters with marks are read as the letter and its marks, which are left out.
_TABLE: Final[Mapping[str, str]] = {
    **dict(zip('!"#$%&*;<=>@[\\]^_`{|}~', ".....+.,....(/).-'(/)-", strict=True)),
    **dict.fromkeys("\u2018\u2019\u201a\u201b", "'"),
    **dict.fromkeys("\u2010\u2011\u2012\u2013\u2014\u2212", "-"), "¿": "?",
    "€": "E", "ß": "ss", "ẞ": "SS", "Æ": "AE", "æ": "ae", "Œ": "OE", "œ": "oe", "Ø": "O", "ø": "o",
    "Ł": "L", "ł": "l", "Đ": "D", "đ": "d", "Ð": "D", "ð": "d", "Þ": "TH", "þ": "th", "Ħ": "H",
    "ħ": "h", "ı": "i", "ĸ": "k", "Ŋ": "N", "ŋ": "n", "Ŧ": "T", "ŧ": "t", "ſ": "s",
}  # fmt: skip
_PAIRS: Final = (
    "αa βv γg δd εe ζz ηi θth ιi κk λl μm νn ξx οo πp ρr σs τt υy φf χch ψps ωo ςs "
    "аa бb вv гg дd еe жzh зz иi йy кk лl мm нn оo"
    " пp рr сs тt уu фf хh цts чch шsh щsht ъa ьy юyu яya ыy эe"
)
_SMALL: Final = {pair[0]: pair[1:] for pair in _PAIRS.split()}


def reference(our_id: str) -> str:
    """Write one of our ids as a reference: ``po_01h…`` becomes ``po-01h…``."""
    return our_id.replace("_", "-")


def text(plain: str, longest: int) -> str:
    """Write a name or a text in the letters that banks take, cut to ``longest``."""
    written = "".join(map(_written, unicodedata.normalize("NFC", plain)))
    written = re.sub("/{2,}", "/", " ".join(written.split())).strip("/ ")
    return written[:longest].rstrip("/ ") or _INSTEAD


def can_write(plain: str) -> bool:
    """Return whether each letter of a text can be written: none of those of Chinese can."""
    letters = [one for one in unicodedata.normalize("NFC", plain) if one.isalpha()]
    return all(_written(one) != _INSTEAD for one in letters)


def _written(one: str) -> str:
    if one in _ALLOWED:
        return one
    if one in _TABLE:
        return _TABLE[one]
    if (small := one.lower()) in _SMALL:
        letters = _SMALL[small]
        return letters if one == small else letters.capitalize()
    if one.isspace():
        return " "
    bare = "".join(
        mark for mark in unicodedata.normalize("NFKD", one) if not unicodedata.combining(mark)
    )
    if bare and bare != one:
        return "".join(map(_written, bare))
    return _INSTEAD
