"""The text and the form fields of pages, as tests read them."""

import re

import httpx2

from support.people import Visitor


def _html(page: httpx2.Response | str) -> str:
    return page if isinstance(page, str) else page.text


def text_of(page: httpx2.Response | str) -> str:
    """Return the text of a page, or of a part of it, without markup and isolates."""
    text = re.sub(r"<[^>]+>", " ", _html(page).replace("<wbr>", ""))
    return " ".join(re.sub(r"[\u2066-\u2069]", "", text).split())


def hidden_field_values(page: httpx2.Response | str, name: str) -> list[str]:
    """Return the values of the hidden fields of this name, in the order of the page."""
    return re.findall(rf'name="{name}" value="([^"]*)"', _html(page))


def new_form_id(visitor: Visitor, path: str) -> str:
    """Open a page, and return the id of its first form."""
    return hidden_field_values(visitor.get(path), "form_id")[0]


def movement_cells(html: str) -> list[list[str]]:
    """Return the cells of each row of the list of movements."""
    table = html.partition('<table class="list two-lines movements"')[2].partition("</table>")[0]
    return [
        [
            text_of(re.sub(r"<span class=\"on-phone\">.*?</span>", "", cell))
            for cell in re.findall(r"<td.*?>(.*?)</td>", row, re.DOTALL)
        ]
        for row in re.findall(r"<tr role=\"row\".*?>(.*?)</tr>", table, re.DOTALL)[1:]
    ]
