"""Filters that several lists of the console have."""

from typing import Final
from urllib.parse import urlencode

from opentill.core.ids import is_id
from opentill.portal import lists
from opentill.portal.request import PageRequest
from opentill.web.translations import N_

_NO_FILTERS: Final = frozenset({"before", "lang"})


def merchant_id(request: PageRequest) -> tuple[str, dict[str, str]]:
    """Return the filter ``merchant`` as typed, and an error by field if it is not an id."""
    text = lists.text(request, "merchant", 64)
    if not text or is_id(text):
        return text, {}
    return text, {"merchant": N_("Enter the id of a merchant, such as mer_…, or nothing")}


def query_string(request: PageRequest) -> str:
    """Return the filters of a list as the query string of its first page or its file."""
    filters = {name: text for name, text in request.query.items() if name not in _NO_FILTERS}
    return f"?{urlencode(filters)}" if filters else ""
