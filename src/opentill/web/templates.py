"""The Jinja2 environment of templates.

Every value is escaped automatically; an undefined name in a template is an error.
"""

import re
from pathlib import Path
from types import ModuleType
from typing import Any, Final, cast
from urllib.parse import urlsplit

import jinja2
from markupsafe import Markup, escape

from opentill.core import times
from opentill.web.template_compiler import Compiler
from opentill.web.translations import N_, NC_

# Characters that reorder or hide adjacent text. Spaces replace them in attributes and titles, in
# which <bdi> cannot isolate a text.
_MARKS: Final = re.compile(
    "[\u0000-\u001f\u007f-\u009f\u061c\u200b-\u200f\u2028-\u202e\u2060-\u206f]+"
)
_FIRST_ISOLATE, _POP_ISOLATE = "\u2068", "\u2069"
# A person in the audit log: the email address and, after it, the person's id.
_NAMED_PERSON: Final = re.compile(r"(\S+) \((per_[0-9a-z]+)\)")
_ID: Final = re.compile(r"\b([a-z]{2,6}_)[0-9a-z]{14,}([0-9a-z]{6})\b")
_SHARED: Final = Path(__file__).parent / "templates"


def create_environment(*folders: Path, labels: ModuleType | None = None) -> jinja2.Environment:
    """Create the environment of a portal; ``folders`` of templates are searched in order.

    ``labels`` has the tables of texts that its templates choose by a value.
    """
    environment = jinja2.Environment(
        loader=jinja2.FileSystemLoader([*folders, _SHARED]),
        autoescape=True,
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        auto_reload=False,
    )
    environment.code_generator_class = Compiler
    environment.filters.update(
        iso=times.iso, short_ids=_short_ids, without_person_ids=_without_person_ids
    )
    # Globals may have any type, but type checkers only know the types of Jinja2's own globals.
    names = cast("dict[str, Any]", environment.globals)
    names.update(N_=N_, NC_=NC_, labels=labels)
    return environment


def base_path(public_url: str) -> str:
    """Return the path of the public URL, which precedes every path of the service."""
    return urlsplit(public_url).path.rstrip("/")


def isolated(text: str) -> str:
    """Isolate text for a title or an attribute, as <bdi> does in a body."""
    return f"{_FIRST_ISOLATE}{_MARKS.sub(' ', text).strip()}{_POP_ISOLATE}"


def _short_ids(text: str) -> Markup:
    """Shorten the ids in a text; their elements have the whole id as title."""
    html = _ID.sub(r'<code class="id" title="\g<0>">\1…\2</code>', str(escape(text)))
    return Markup(html)  # noqa: S704 - escaped


def _without_person_ids(text: str) -> Markup:
    """Remove the ids of people from names of the audit log; their elements have them as title."""
    html = _NAMED_PERSON.sub(r'<span title="\2">\1</span>', str(escape(text)))
    return Markup(html)  # noqa: S704 - escaped
