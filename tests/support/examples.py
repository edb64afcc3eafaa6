"""How many examples Hypothesis tries: the same few in `make test`, ten times as many at night.

``tests/conftest.py`` has both profiles. A test that costs much says how many are enough for it.
"""

from hypothesis import settings


def examples(number: int, at_night: int = 0) -> int:
    """Return ``number`` in `make test`; at night ``at_night``, at least ten times as many."""
    times = settings.default.max_examples // 100
    return number if times == 1 else max(number * times, at_night)


def is_night() -> bool:
    """Return whether this is a nightly run, which also does what is dear and seldom finds."""
    return examples(1) > 1
