"""Texts and form fields of the console's pages, and rows of the audit log."""

import re
from html import unescape
from typing import Final

from support.api_server import Shop

_HIDDEN: Final = re.compile(r'<input type="hidden" name="(\w+)" value="([^"]*)"')


def visible_text(html: str) -> str:
    """Return the text of the main part of a page."""
    text = unescape(re.sub(r"<[^>]+>", " ", html.partition("<main")[2]))
    return re.sub(r"[\s\u2068\u2069]+", " ", text)


def hidden_fields(html: str) -> dict[str, str]:
    """Return the values of the hidden fields in HTML, by name."""
    return {name: unescape(value) for name, value in _HIDDEN.findall(html)}


def audit_rows(shop: Shop, action: str) -> list[tuple[str, str]]:
    """Return the actor and the reason of each entry about an action at a merchant."""
    rows = shop.api_server.sql(
        "select who, reason from audit_log where merchant_id = $1 and action = $2 order by number",
        shop.id,
        action,
    )
    return [(row["who"], row["reason"]) for row in rows]
