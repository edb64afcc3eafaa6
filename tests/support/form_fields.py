"""Compares the fields of rendered forms with the fields that their pages declare."""

import functools
import re
from html.parser import HTMLParser
from typing import Any, Final

from opentill.app import PORTALS
from opentill.portal.model import SECRET_PREFIX, SENDER, Page
from opentill.portal.portal import Portal
from opentill.web import dispute_reasons

# Fields that a page shows only in some states or to some roles. Their handlers check them.
CONDITIONAL: Final = frozenset({
    "adjust",  # of differences that an adjustment can resolve
    "amount",  # of actions on payments and differences with an amount
    "confirm",  # of closing a merchant
    "correction",  # of differences for which the page proposes one
    "description",  # of payment links without a product
    "explanation",  # of a dispute that is contested
    "form_id",
    "keys",  # asked for in a second step
    "language",  # of the owner's invitation when a merchant is approved
    "merchant",
    "methods_shown",  # of checkout sessions with a choice of methods
    "name",  # of payment links without a product
    "order",
    "owner",  # for staff who may invite people
    "reason",  # of bank accounts in the console
    "reference",  # of payouts that were paid
    "subject",
    SENDER,
    # Facts of a dispute that is contested, by its reason.
    *(fact.name for reason in dispute_reasons.CODES for fact in dispute_reasons.fields_for(reason)),
})  # fmt: skip
# Pages that send a form again with all of its fields.
_REPEATS: Final = ("proof_", "login_")
_TYPES_WITHOUT_VALUE: Final = {"checkbox", "file", "submit", "button", "password"}
# Fields of the rows of a form, by the field with their number.
_ROW_FIELDS: Final = {
    "fee_rows": re.compile(r"fee_[a-z]+_\d+"),
    "limit_rows": re.compile(r"limit_[a-z_]+_\d+"),
}
_CREDENTIALS: Final = ("credential_", SECRET_PREFIX)  # which a gateway declares, not a page
_POST_FORM: Final = re.compile(r"<form\b(?=[^>]*\bmethod=\"post\").*?</form>", re.DOTALL)
_IN_BRACES: Final = re.compile(r"{[^}]+}")


class _Forms(HTMLParser):
    """Collects the POST forms of a page: action, and field → type."""

    def __init__(self) -> None:
        super().__init__()
        self.forms: list[tuple[str, dict[str, str]]] = []
        self.sendable = set[int]()  # the forms with a button
        self._is_in_form = False

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        attributes = dict(attrs)
        if tag == "form":
            self._is_in_form = attributes.get("method") == "post"
            if self._is_in_form:
                self.forms.append((attributes.get("action") or "", {}))
        name = attributes.get("name")
        if self._is_in_form and attributes.get("type") == "submit":
            self.sendable.add(len(self.forms) - 1)
        is_user_name = attributes.get("autocomplete") == "username"  # for password managers
        if (
            self._is_in_form
            and name
            and not is_user_name
            and tag in {"input", "select", "textarea"}
        ):
            self.forms[-1][1].setdefault(name, attributes.get("type") or tag)

    def handle_endtag(self, tag: str) -> None:
        if tag == "form":
            self._is_in_form = False


@functools.cache
def _rows() -> list[tuple[re.Pattern[str], Portal, Page[Any]]]:
    return [
        (re.compile(_IN_BRACES.sub("[^/]+", page.path)), portal, page)
        for portal in PORTALS
        for page in portal.pages
        if page.method == "POST" and page.allowed != "anyone"
    ]


def find_form_mistakes(html: str) -> list[str]:
    """Return the declared fields that forms of a page lack, and their fields that none declares."""
    parser = _Forms()
    parser.feed("".join(_POST_FORM.findall(html)))  # parsing whole pages takes three times as long
    mistakes = []
    for action, controls in (parser.forms[index] for index in sorted(parser.sendable)):
        path = action.partition("?")[0]
        matches = [row for row in _rows() if row[0].fullmatch(path)]
        if not matches or any(name.startswith(_REPEATS) for name in controls):
            continue
        _, portal, page = matches[0]
        values = {name for name, kind in controls.items() if kind not in _TYPES_WITHOUT_VALUE}
        missing = set(page.fields) - set(controls)
        for number, row_field in _ROW_FIELDS.items():
            if number in page.fields:
                values = {name for name in values if not row_field.fullmatch(name)}
        values = {name for name in values if not name.startswith(_CREDENTIALS)}
        undeclared = values - set(page.fields) - CONDITIONAL - portal.secret_fields
        if missing or undeclared:
            mistakes.append(f"{page.path}: lacks {missing or 'none'}, new {undeclared or 'none'}")
    return mistakes


def fill_in_empty_fields(path: str, form: dict[str, str]) -> dict[str, str]:
    """Return a form with its empty fields too, as browsers send it."""
    matches = [row for row in _rows() if row[0].fullmatch(path.partition("?")[0])]
    return {**dict.fromkeys(matches[0][2].fields if matches else (), ""), **form}
