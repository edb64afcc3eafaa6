"""Rendering of Markdown. Raw HTML is escaped; only http, https and mailto links are rendered."""

import re
from typing import Final

from markdown_it import MarkdownIt
from markupsafe import Markup

# Such tags can only come from the renderer, because it escapes any HTML in the text.
_HEADING: Final = re.compile("<(/?)h([1-6])>")
_RENDERER: Final = MarkdownIt("commonmark", {"html": False}).enable("table")


def markdown(text: str, below: int = 0) -> Markup:
    """Render a text in Markdown; heading levels are increased by ``below``."""
    html = _RENDERER.render(text)
    if below:
        html = _HEADING.sub(lambda tag: f"<{tag[1]}h{min(int(tag[2]) + below, 6)}>", html)
    return Markup(html)  # noqa: S704 - the renderer escapes


def inline(text: str) -> Markup:
    """Render inline Markdown; several paragraphs become one."""
    return Markup(_RENDERER.renderInline(" ".join(text.split())))  # noqa: S704 - it escapes
