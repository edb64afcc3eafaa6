"""How much a test tries: more in `make test-nightly` than in `make test`.

``tests/conftest.py`` has the profiles of Hypothesis; at night it tries ten times as many examples.
An expensive test sets its own number. Tests that try many values on all pages are ``pairwise``.
"""

from collections.abc import Sequence
from typing import Final, TypeVar

from hypothesis import settings

T = TypeVar("T")
_SHARE: Final = 3  # of the values of a long test, each place gets one in this many


def examples(number: int, at_night: int = 0) -> int:
    """Return ``number`` in `make test`; at night ``at_night``, at least ten times as many."""
    times = settings.default.max_examples // 100
    return number if times == 1 else max(number * times, at_night)


def is_night() -> bool:
    """Whether this is a nightly run, which includes expensive checks that rarely fail."""
    return examples(1) > 1


def pairwise(places: Sequence[T], values: Sequence[object], value: object) -> list[T]:
    """Return the places where a long test tries a value: at night all, else one in three.

    Each place gets every third value, beginning with another one than the place before. So each
    place gets some values if there are at least three, each value gets some places if there are at
    least three, and every run tries the same pairs.
    """
    if is_night():
        return list(places)
    index = values.index(value)
    return [place for n, place in enumerate(places) if (n + index) % _SHARE == 0]
