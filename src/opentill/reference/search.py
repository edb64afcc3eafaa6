"""The search of the reference: results must contain every word, and are ranked."""

import re
from collections.abc import Iterable, Iterator
from typing import Final

import msgspec
from markupsafe import Markup

from opentill.reference.document import PEOPLE_PREFIX

LONGEST: Final = 100  # of a longer query, the characters after this many are ignored
MOST: Final = 30  # a query returns at most this many results
_MAX_WORDS: Final = 8  # of a longer query, the words after this many are ignored
_SNIPPET: Final = 140
# Endings without which words are compared, and the least number of letters before an ending.
_ENDINGS: Final = ("ially", "ency", "ently", "ent", "ial", "ing", "ly", "ed", "es", "s")
_SHORTEST_STEM: Final = 4
# Many operations of people do the same as one of the merchant API. Their weight is reduced by
# _REPEATS, so that they rank below the merchant API's.
_REPEATS: Final = 11


class Place(msgspec.Struct, frozen=True, kw_only=True):
    """An entry of the index: a section of a chapter, an operation or an event."""

    title: str
    kind: str  # the kind that results show, such as "Guide", "Orders" or "Event"
    address: str  # the path below /docs
    method: str = ""  # of an operation; "" for other entries
    path: str = ""  # the path of an operation, or the name of an event
    text: str = ""
    names: str = ""  # names of an operation's fields and parameters, separated by spaces


class Hit(msgspec.Struct, frozen=True):
    """A search result with an excerpt around the match, in which the words are marked."""

    place: Place
    snippet: Markup


def find(places: Iterable[Place], query: str) -> list[Hit]:
    """Return the places that contain every word of a query, best first."""
    words = query[:LONGEST].casefold().split()[:_MAX_WORDS]
    if not words:
        return []
    scored = [(score, place) for place in places if (score := _score(place, words))]
    scored.sort(key=lambda result: -result[0])
    return [Hit(place, _mark(_snippet(place, words), words)) for _, place in scored[:MOST]]


def _mark(text: str, words: list[str]) -> Markup:
    """Escape a text, and mark the words of the query in it."""
    pattern = re.compile("|".join(re.escape(_stem(word)) + r"\w*" for word in words), re.IGNORECASE)
    marked, at = Markup(), 0
    for match in pattern.finditer(text):
        marked += text[at : match.start()] + Markup("<mark>{}</mark>").format(match[0])
        at = match.end()
    return marked + text[at:]


def _stem(word: str) -> str:
    """Return a word without its ending: "idempotency" and "idempotent" have the same stem."""
    for ending in _ENDINGS:
        if word.endswith(ending) and len(word) - len(ending) >= _SHORTEST_STEM:
            return word.removesuffix(ending)
    return word


def _score(place: Place, words: list[str]) -> int:
    total = 0
    for word in words:
        weight = sum(_weights(place, word, _stem(word)))
        if not weight:
            return 0
        total += weight
    return total - (_REPEATS if place.path.startswith(PEOPLE_PREFIX) else 0)


def _weights(place: Place, word: str, stem: str) -> Iterator[int]:
    title = place.title.casefold()
    if word in title:
        yield 100 if title == word else 80 if word in title.split() else 50
    elif stem in title:
        yield 45
    if word in f"{place.method} {place.path}".casefold():
        yield 30
    names = place.names.casefold().split()
    if word in names:
        yield 20
    elif any(word in name for name in names):
        yield 10
    if word in place.kind.casefold():
        yield 8
    text = place.text.casefold()
    if word in text:
        yield 5
    elif stem in text:
        yield 4


def _snippet(place: Place, words: list[str]) -> str:
    """Return an excerpt of the text around its first matching word."""
    text = " ".join(place.text.split())
    folded = text.casefold()
    positions = (folded.find(word if word in folded else _stem(word)) for word in words)
    at = min((index for index in positions if index >= 0), default=0)
    start = text.rfind(" ", 0, max(at - _SNIPPET // 3, 0)) + 1
    piece = text[start : start + _SNIPPET]
    if start + _SNIPPET < len(text):
        piece = f"{piece.rpartition(' ')[0]} …"
    return f"… {piece}" if start else piece
