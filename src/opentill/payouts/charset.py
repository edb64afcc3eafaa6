"""The characters that banks accept: EPC217-08, "SEPA Requirements for an Extended Character Set".

Allowed are unaccented letters, digits, blanks and ``/ - ? : ( ) . , ' +``. Other characters are
replaced by that document's table: letters lose their diacritics, Greek and Bulgarian Cyrillic are
transliterated, other signs become a similar one, and the rest becomes a full stop.

References, such as an end-to-end id, must not begin or end with a slash or contain two in a row.
Ours are ids whose underscore becomes a hyphen; ids contain no hyphen, so this can be reversed.
"""

import re
import unicodedata
from collections.abc import Mapping
from typing import Final

_ALLOWED: Final = frozenset(
    "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789/-?:().,'+ "
)
_UNKNOWN: Final = "."  # replaces a character that is not in the table
# EPC217-08, chapter 6, without letters such as "é", whose diacritics Unicode decomposition removes.
_TABLE: Final[Mapping[str, str]] = {
    **dict(zip('!"#$%&*;<=>@[\\]^_`{|}~', ".....+.,....(/).-'(/)-", strict=True)),
    **dict.fromkeys("\u2018\u2019\u201a\u201b", "'"),
    **dict.fromkeys("\u2010\u2011\u2012\u2013\u2014\u2212", "-"), "¿": "?",
    "€": "E", "ß": "ss", "ẞ": "SS", "Æ": "AE", "æ": "ae", "Œ": "OE", "œ": "oe", "Ø": "O", "ø": "o",
    "Ł": "L", "ł": "l", "Đ": "D", "đ": "d", "Ð": "D", "ð": "d", "Þ": "TH", "þ": "th", "Ħ": "H",
    "ħ": "h", "ı": "i", "ĸ": "k", "Ŋ": "N", "ŋ": "n", "Ŧ": "T", "ŧ": "t", "ſ": "s",
}  # fmt: skip
# Each letter is followed by its transliteration.
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
    """Return a text in the characters that banks accept, cut to ``longest`` characters."""
    replaced = "".join(map(_replace, unicodedata.normalize("NFC", plain)))
    replaced = re.sub("/{2,}", "/", " ".join(replaced.split())).strip("/ ")
    return replaced[:longest].rstrip("/ ") or _UNKNOWN


def can_write(plain: str) -> bool:
    """Whether a text can be written in the characters of bank files; Chinese cannot."""
    letters = [letter for letter in unicodedata.normalize("NFC", plain) if letter.isalpha()]
    return all(_replace(letter) != _UNKNOWN for letter in letters)


def _replace(character: str) -> str:
    if character in _ALLOWED:
        return character
    if character in _TABLE:
        return _TABLE[character]
    if (small := character.lower()) in _SMALL:
        letters = _SMALL[small]
        return letters if character == small else letters.capitalize()
    if character.isspace():
        return " "
    bare = "".join(
        part for part in unicodedata.normalize("NFKD", character) if not unicodedata.combining(part)
    )
    if bare and bare != character:
        return "".join(map(_replace, bare))
    return _UNKNOWN
