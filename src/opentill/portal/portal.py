"""A portal: its table of pages, its templates and its labels."""

import re
from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any, Final, cast

import msgspec
from jinja2 import Environment
from jinja2.ext import Extension

from opentill.core.ids import is_id
from opentill.portal import form_errors, labels, sheets
from opentill.portal.model import CONSOLE_PATH, SENDER, Creation, Page
from opentill.web import dispute_reasons, templates, user_agents
from opentill.web.delivery_faults import ADVICE

_SHARED_TEMPLATES: Final = Path(__file__).parent / "templates"
_IN_BRACES: Final = re.compile(r"{[^}]+}")
# Finds the secret fields in templates: those with the autocomplete token of a password or code, or
# with the attribute data-once.
_SECRET: Final = re.compile(
    r'parts\.field\(_, "(?P<field>\w+)",[^\n]*"(?:current-password|new-password|one-time-code)"'
    r'|<input\b[^>]* name="(?P<input>\w+)"[^>]* data-once\b'
)


class Portal:
    """A group of pages with one frame: the dashboard, the console, or the pages of logging in.

    Paths of its pages with a menu begin with ``path``. ``own_templates`` and ``own_labels`` are
    added to the shared ones. ``secret_fields`` are the fields of forms that no page shows
    again: passwords, codes and responses of passkeys.
    """

    def __init__(
        self,
        pages: Sequence[Page[Any]],
        path: str,
        own_templates: Path,
        own_labels: Sequence[ModuleType] = (),
        count_waiting: Callable[[Any], Awaitable[Mapping[str, int]]] | None = None,
        creations: Sequence[Creation] = (),
    ) -> None:
        """Prepare the templates. Raises OSError if they cannot be read.

        ``count_waiting`` takes a ``PageRequest``, and returns how much waits for the person on
        pages of the menu, by their paths below ``path``. ``creations`` are the links of the menu
        "Create" in the header.
        """
        self.pages: Final = tuple(pages)
        self.path: Final = path
        self.count_waiting: Final = count_waiting
        self.creations: Final = tuple(creations)
        # The console and the dashboard, whose menus the person's own pages show. ``app.py`` sets
        # them, because portals do not import each other.
        self.neighbors: tuple[Portal, Portal] | None = None
        self._patterns = {_IN_BRACES.sub("*", row.path) for row in pages if row.method == "GET"}
        files = {_IN_BRACES.sub("*", row.path) for row in pages if row.is_file}
        self._form_patterns = self._patterns - files
        folders = (own_templates, _SHARED_TEMPLATES)
        self.secret_fields: Final = frozenset(_secret_fields(folders))
        self.environment: Final = _create_environment(folders)
        # Globals may have any type, but type checkers only know the types of Jinja2's own globals.
        names = cast("dict[str, Any]", self.environment.globals)
        tables: dict[str, Any] = {}
        for module in (labels, *own_labels):
            tables |= vars(module)
        names.update(has_page=self.has_page, labels=SimpleNamespace(**tables, FAULT=ADVICE))

    @property
    def is_console(self) -> bool:
        """Whether its pages are for staff."""
        return self.path == CONSOLE_PATH

    def has_page(self, path: str) -> bool:
        """Return whether the portal has a page at this path, relative to the portal's own.

        ``*`` stands for an id.
        """
        return _IN_BRACES.sub("*", self.path) + path in self._patterns

    def nearest_page(self, path: str) -> str:
        """Return the nearest path at or above ``path`` that has a page: the page of the form."""
        return self._nearest(path) or path

    def form_page(self, path: str) -> str:
        """Return the page whose form is sent to ``path``; the login if no page is above it."""
        return self._nearest(path) or "/login"

    def _nearest(self, path: str) -> str | None:
        segments = path.strip("/").split("/")
        while segments:
            if any(_matches(segments, pattern) for pattern in self._form_patterns):
                return "/" + "/".join(segments)
            segments.pop()
        return None


def _matches(segments: Sequence[str], pattern: str) -> bool:
    """Return whether the segments of a path match a pattern, in which * stands for an id."""
    expected = pattern.strip("/").split("/")
    return len(expected) == len(segments) and all(
        name == segment or (name == "*" and is_id(segment))
        for name, segment in zip(expected, segments, strict=True)
    )


def _secret_fields(folders: Sequence[Path]) -> Iterator[str]:
    """Yield the names of the secret fields in the templates."""
    for folder in folders:
        for template in folder.glob("*.html"):
            for match in _SECRET.finditer(template.read_text("utf-8")):
                yield match["field"] or match["input"]


class _Forms(Extension):
    """Adds a hidden field to every form, and shows the server's errors in place of the browser's.

    The field has the person to whom the form was shown (``kept_forms.py``). With ``novalidate`` an
    empty or wrong field has its error below it, in the language of the page. Browsers still
    check forms with a date, because they send a half-typed one as if it were empty, and forms with
    a passkey, so that nobody uses it for a form that is then refused.
    """

    _FORM = re.compile(r"<form\b([^>]*\bmethod=\"post\"[^>]*>)(.*?</form>)", re.DOTALL)
    _FIELD = (
        "{%- if request is defined and request.person %}"
        f'<input type="hidden" name="{SENDER}" value="{{{{ request.person }}}}">'
        "{% endif -%}"
    )
    _CHECKED_BY_BROWSER = ('type="date"', "data-passkey", "novalidate")

    def preprocess(self, source: str, name: str | None, filename: str | None = None) -> str:
        """Complete the forms of a template."""
        del name, filename
        return self._FORM.sub(self._complete, source)

    def _complete(self, form: re.Match[str]) -> str:
        is_checked = any(text in form[0] for text in self._CHECKED_BY_BROWSER)
        return f"<form{'' if is_checked else ' novalidate'}{form[1]}{self._FIELD}{form[2]}"


def _indent_json(json: str) -> str:
    """Return JSON with a line for each value; numbers and strings stay as they are written."""
    return msgspec.json.format(json, indent=2)


def _initials(name: str) -> str:
    """Return the first letters of the first and the last word of a person's name."""
    words = name.split()
    return "".join(word[0] for word in (words[:1] + words[1:][-1:])).upper()


def _create_environment(folders: Sequence[Path]) -> Environment:
    environment = templates.create_environment(*folders)
    environment.add_extension(_Forms)
    environment.filters["device"] = user_agents.describe
    environment.filters["pretty"] = _indent_json
    environment.filters["initials"] = _initials
    own_filters: dict[str, Any] = {
        "focus_error": form_errors.focus_error,
        "focus_first": form_errors.focus_first,
        "shows_error": form_errors.shows_error,
        "with_cancel": sheets.with_cancel,
        "dispute_reason": dispute_reasons.text_of,
        "dispute_reason_name": dispute_reasons.name_of,
    }
    environment.filters.update(own_filters)
    return environment
