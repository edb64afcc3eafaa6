"""The environment in which templates are filled in, and what all of them may use.

Every value is escaped by Jinja2's autoescape; an unknown name in a template is an error and never
an empty space.
"""

import re
from pathlib import Path
from typing import Final
from urllib.parse import urlsplit

import jinja2

from opentill.core import times

# marks that turn or hide text around them; attributes and titles have no <bdi> to hold them
_MARKS: Final = re.compile(
    "[\u0000-\u001f\u007f-\u009f\u061c\u200b-\u200f\u2028-\u202e\u2060-\u206f]+"
)
_FIRST_ISOLATE, _POP_ISOLATE = "\u2068", "\u2069"
_SHARED: Final = Path(__file__).parent / "templates"


def environment(*folders: Path) -> jinja2.Environment:
    """Return the environment of a face whose templates are in ``folders``, the first first."""
    made = jinja2.Environment(
        loader=jinja2.FileSystemLoader([*folders, _SHARED]),
        autoescape=True,
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        auto_reload=False,
    )
    made.filters["iso"] = _iso
    return made


def base_path(public_url: str) -> str:
    """Return the path that the public address puts before every path of ours."""
    return urlsplit(public_url).path.rstrip("/")


def isolated(text: str) -> str:
    """Return text for a title or an attribute: nothing in it reaches out, as in <bdi>."""
    return f"{_FIRST_ISOLATE}{_MARKS.sub(' ', text).strip()}{_POP_ISOLATE}"


def _iso(time_ms: int) -> str:
    return times.moment(time_ms).strftime("%Y-%m-%dT%H:%M:%SZ")
