"""Filters that several lists of the console have."""

from typing import Final
from urllib.parse import urlencode

from opentill import merchants
from opentill.db.database import Tx
from opentill.merchants import Merchant
from opentill.portal import lists
from opentill.portal.request import PageRequest
from opentill.web.translations import N_

_NO_FILTERS: Final = frozenset({"before", "lang"})


async def find_merchant(
    tx: Tx, request: PageRequest
) -> tuple[str, Merchant | None, dict[str, str]]:
    """Find the merchant of the filter ``merchant`` by id, name or a part of the name.

    Returns the text as typed, the merchant (None without a text), and an error by field unless
    exactly one merchant matches. A list with this error shows no rows.
    """
    text = lists.text(request, "merchant")
    if not text:
        return text, None, {}
    ids = await merchants.ids_by_name(tx, text)
    if len(ids) == 1:
        return text, await merchants.find(tx, ids[0]), {}
    candidates, _ = await merchants.search(tx, text, 1, 2)
    if len(candidates) == 1:
        return text, candidates[0], {}
    error = (
        N_("Several merchants have this in their name. Enter all of the name, or the ID")
        if candidates
        else N_("No merchant has this ID or name")
    )
    return text, None, {"merchant": error}


def query_string(request: PageRequest) -> str:
    """Return the filters of a list as the query string of its first page or its file."""
    filters = {name: text for name, text in request.query.items() if name not in _NO_FILTERS}
    return f"?{urlencode(filters)}" if filters else ""
