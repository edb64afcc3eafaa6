"""The search of the reference: every word must be found, and better places come first."""

from collections.abc import Iterable, Iterator
from typing import Final

import msgspec

LONGEST: Final = 100  # characters of a query that are read
MOST: Final = 30  # hits that are shown
_WORDS: Final = 8  # of a query that count
_SNIPPET: Final = 140
_PEOPLE: Final = "People"  # whose operations repeat many of the merchants', which come first
_REPEATS: Final = 11  # more than a place gets for its text


class Place(msgspec.Struct, frozen=True, kw_only=True):
    """What can be found: a part of a chapter, an operation, an event."""

    title: str
    kind: str  # what it is, as a reader knows it: "Guide", "Orders", "Event"
    address: str  # below /docs
    detail: str = ""  # the route of an operation
    text: str = ""
    names: str = ""  # of fields and parameters


class Hit(msgspec.Struct, frozen=True):
    """A place that was found, and the words around what was looked for."""

    place: Place
    snippet: str


def find(places: Iterable[Place], query: str) -> list[Hit]:
    """Return the places in which every word of a query stands, the best first."""
    words = query[:LONGEST].casefold().split()[:_WORDS]
    if not words:
        return []
    scored = [(score, place) for place in places if (score := _score(place, words))]
    scored.sort(key=lambda found: -found[0])
    return [Hit(place, _snippet(place, words)) for _, place in scored[:MOST]]


def _score(place: Place, words: list[str]) -> int:
    total = 0
    for word in words:
        weight = sum(_weights(place, word))
        if not weight:
            return 0
        total += weight
    return total - (_REPEATS if place.kind == _PEOPLE else 0)


def _weights(place: Place, word: str) -> Iterator[int]:
    title = place.title.casefold()
    if word in title:
        yield 100 if title == word else 80 if word in title.split() else 50
    if word in place.detail.casefold():
        yield 30
    names = place.names.casefold().split()
    if word in names:
        yield 20
    elif any(word in name for name in names):
        yield 10
    if word in place.kind.casefold():
        yield 8
    if word in place.text.casefold():
        yield 5


def _snippet(place: Place, words: list[str]) -> str:
    """Return a piece of the text around the first word that stands in it."""
    text = " ".join(place.text.split())
    at = min((found for word in words if (found := text.casefold().find(word)) >= 0), default=0)
    start = text.rfind(" ", 0, max(at - _SNIPPET // 3, 0)) + 1
    piece = text[start : start + _SNIPPET]
    if start + _SNIPPET < len(text):
        piece = f"{piece.rpartition(' ')[0]} …"
    return f"… {piece}" if start else piece
