"""Reading the list of a shop's payments."""

import re
from typing import Any, Final

from dashboard.pages import text_of
from support.api_server import Shop
from support.people import Visitor, create_person
from support.spreadsheets import csv_rows

ROW: Final = re.compile(r'<tr role="row">\s*<td.*?</tr>', re.DOTALL)


class PaymentsList:
    """The list of a shop's payments as a new member with a role sees it."""

    def __init__(self, shop: Shop, role: Any = "owner") -> None:
        """Log in as a new member."""
        self.path = f"/dashboard/{shop.id}/payments"
        self.visitor: Visitor = create_person(shop.api_server, shop.id, role)

    def page(self, **query: str) -> str:
        """Return the page; check that it has no inline scripts and styles."""
        response = self.visitor.get(self.path, params=query)
        assert response.status_code == 200, response.headers
        assert not re.search(r"<script(?! src=)|\sstyle=|\son\w+=", response.text)
        return response.text

    def rows(self, **query: str) -> list[str]:
        """Return the text of each row, with spaces between cells."""
        return [text_of(row) for row in ROW.findall(self.page(**query))]

    def export(self, **query: str) -> list[dict[str, str]]:
        """Return the rows of the exported CSV file."""
        response = self.visitor.get(f"{self.path}.csv", params=query)
        assert response.status_code == 200
        assert response.headers["content-disposition"].startswith('attachment; filename="orders_')
        return csv_rows(response)


def tab_numbers(page: str) -> dict[str, str]:
    """Return the numbers of the tabs by their names, "" for a tab without a number."""
    (tabs,) = re.findall(r'<nav class="tabs counted".*?</nav>', page, re.DOTALL)
    texts = [text_of(text) for text in re.findall(r"<a [^>]*>.*?</a>", tabs)]
    return {text.rstrip(" 0123456789"): re.findall(r"\d*$", text)[0] for text in texts}
