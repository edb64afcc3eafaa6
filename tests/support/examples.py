"""How many examples Hypothesis tries: the same few in `make test`, ten times as many at night.

``tests/conftest.py`` has both profiles. A test that costs much says how many are enough for it.
"""

from hypothesis import settings


def examples(number: int) -> int:
    """Return ``number`` in `make test`, ten times as many in `make test-nightly`."""
    return number * settings.default.max_examples // 100
