"""The number of examples that Hypothesis tries: ten times as many in `make test-nightly`.

``tests/conftest.py`` has both profiles. An expensive test sets its own number.
"""

from hypothesis import settings


def examples(number: int, at_night: int = 0) -> int:
    """Return ``number`` in `make test`; at night ``at_night``, at least ten times as many."""
    times = settings.default.max_examples // 100
    return number if times == 1 else max(number * times, at_night)


def is_night() -> bool:
    """Whether this is a nightly run, which includes expensive checks that rarely fail."""
    return examples(1) > 1
