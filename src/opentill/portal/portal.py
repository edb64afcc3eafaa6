"""What each group of pages has of its own: its table of pages, its templates and its labels."""

import re
from collections.abc import Iterator, Sequence
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import TYPE_CHECKING, Any, Final, cast

import msgspec
from jinja2 import Environment
from jinja2.ext import Extension

from opentill.core.ids import is_id
from opentill.people import Permission
from opentill.portal import labels, user_agents
from opentill.portal.model import CONSOLE_PATH, SENDER, MenuItem, Page
from opentill.web import templates

if TYPE_CHECKING:
    from opentill.portal.request import PageRequest

_OURS: Final = Path(__file__).parent / "templates"
_IN_BRACES: Final = re.compile(r"{[^}]+}")
# A field is secret if its autocomplete token is that of a password or code, and of the moment only
# if it is marked so.
_SECRET: Final = re.compile(
    r'parts\.field\(_, "(?P<field>\w+)",[^\n]*"(?:current-password|new-password|one-time-code)"'
    r'|<input\b[^>]* name="(?P<input>\w+)"[^>]* data-once\b'
)


class Portal:
    """A group of pages that look as one: the dashboard, the console, or what both share.

    ``not_kept`` are the fields of its forms that are secret, or of the moment only.
    ``place`` is the path that its pages with a menu begin with; ``templates_of`` a folder of
    templates beside the shared ones; ``labels_of`` modules of labels beside the shared ones.
    """

    def __init__(
        self,
        pages: Sequence[Page],
        place: str,
        templates_of: Path | None = None,
        labels_of: Sequence[ModuleType] = (),
    ) -> None:
        """Prepare the templates. Raises what a template's folder raises."""
        self.pages: Final = tuple(pages)
        self._place = place
        self._shown = {_IN_BRACES.sub("*", one.path) for one in pages if one.method == "GET"}
        folders = (_OURS,) if templates_of is None else (templates_of, _OURS)
        self.not_kept: Final = frozenset(_not_kept(folders))
        self.environment: Final = _environment(folders)
        # Jinja2 takes anything here, but type checkers infer the values of its own defaults.
        names = cast("dict[str, Any]", self.environment.globals)
        names.update(menu=self.menu, has_page=self.has_page)
        tables: dict[str, Any] = {}
        for module in (labels, *labels_of):
            tables |= vars(module)
        names["labels"] = SimpleNamespace(**tables)

    @property
    def of_console(self) -> bool:
        """Whether its pages are those of staff."""
        return self._place == CONSOLE_PATH

    def has_page(self, below: str) -> bool:
        """Return whether there is a page at a path below the portal's place; * stands for an id."""
        return _IN_BRACES.sub("*", self._place) + below in self._shown

    def page_of(self, path: str) -> str:
        """Return the nearest page that can be looked at: of a form's address, what it stands on."""
        parts = path.strip("/").split("/")
        while parts:
            if any(_is_of(parts, pattern) for pattern in self._shown):
                return "/" + "/".join(parts)
            parts.pop()
        return path

    def menu(self, request: "PageRequest") -> list[MenuItem]:
        """Return the menu of the page that is asked for: the pages that this person may see."""
        if request.known_access is None and not self.of_console:
            return []
        found: list[MenuItem] = []
        own = self._place.replace("{merchant:id}", request.merchant_id)
        for one in self.pages:
            if not one.menu or one.allowed in {"anyone", "a person"}:
                continue
            permission: Permission = one.allowed  # type: ignore[assignment] # the others are left out
            if request.may(permission):
                below = one.path.removeprefix(self._place)
                path = f"{own}{below}"
                here = request.path.rstrip("/") == path or (
                    below != "" and request.path.startswith(f"{path}/")
                )
                href = f"{request.base}{path}" if below else f"{request.base}{path}/"
                found.append(MenuItem(one.menu, href, here))
        return found


def _is_of(parts: Sequence[str], pattern: str) -> bool:
    """Return whether the parts of a path fit a pattern, in which * stands for an id."""
    wanted = pattern.strip("/").split("/")
    return len(wanted) == len(parts) and all(
        one == part or (one == "*" and is_id(part)) for one, part in zip(wanted, parts, strict=True)
    )


def _not_kept(folders: Sequence[Path]) -> Iterator[str]:
    """Yield the names of fields that no page shows again, by what the templates say of them."""
    for folder in folders:
        for template in folder.glob("*.html"):
            for found in _SECRET.finditer(template.read_text("utf-8")):
                yield found["field"] or found["input"]


class _Senders(Extension):
    """Lets each form say whom it was shown to, so that no other person sends it (kept_forms.py)."""

    _FORM = re.compile(r"<form\b[^>]*\bmethod=\"post\"[^>]*>")
    _FIELD = (
        "{%- if request is defined and request.person %}"
        f'<input type="hidden" name="{SENDER}" value="{{{{ request.person }}}}">'
        "{% endif -%}"
    )

    def preprocess(self, source: str, name: str | None, filename: str | None = None) -> str:
        """Put the field into every form of a template."""
        del name, filename
        return self._FORM.sub(lambda found: found[0] + self._FIELD, source)


def _pretty(json: str) -> str:
    """Return JSON with a line for each value; numbers and strings stay as they are written."""
    return msgspec.json.format(json, indent=2)


def _environment(folders: Sequence[Path]) -> Environment:
    made = templates.create_environment(*folders)
    made.add_extension(_Senders)
    made.filters["device"] = user_agents.describe
    made.filters["pretty"] = _pretty
    return made
