"""Only a page with filters says that its filters exclude all rows of a list."""

from pathlib import Path
from typing import Final

import pytest

import opentill

_SOURCE: Final = Path(opentill.__file__).parent
_FILTERED: Final = ("lists.filters(", 'class="filters')
TEMPLATES: Final = [
    path
    for path in sorted(_SOURCE.glob("*/templates/*.html"))
    if "lists.empty(" in path.read_text()
]


@pytest.mark.parametrize("path", TEMPLATES, ids=lambda path: path.name)
def test_a_list_that_mentions_filters_has_filters(path: Path) -> None:
    """``lists.empty`` takes a query for filters; other lists use ``lists.nothing``."""
    assert any(text in path.read_text() for text in _FILTERED)
