"""Markdown as markup: raw HTML stays text, and only http, https and mailto links become links."""

import re
from typing import Final

from markdown_it import MarkdownIt
from markupsafe import Markup

_HEADING: Final = re.compile("<(/?)h([1-6])>")  # of the renderer: all else is escaped
_RENDERER: Final = MarkdownIt("commonmark", {"html": False}).enable("table")


def markdown(text: str, below: int = 0) -> Markup:
    """Return the markup of a text in Markdown; its headings stand ``below`` others of the page."""
    made = _RENDERER.render(text)
    if below:
        made = _HEADING.sub(lambda tag: f"<{tag[1]}h{min(int(tag[2]) + below, 6)}>", made)
    return Markup(made)  # noqa: S704 - the renderer escapes


def inline(text: str) -> Markup:
    """Return the markup of a line in Markdown; several paragraphs become one."""
    return Markup(_RENDERER.renderInline(" ".join(text.split())))  # noqa: S704 - it escapes
