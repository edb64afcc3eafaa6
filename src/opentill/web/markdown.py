"""Markdown as markup: raw HTML stays text, and only http, https and mailto links become links."""

from typing import Final

from markdown_it import MarkdownIt
from markupsafe import Markup

_RENDERER: Final = MarkdownIt("commonmark", {"html": False}).enable("table")


def markdown(text: str) -> Markup:
    """Return the markup of a text in Markdown."""
    return Markup(_RENDERER.render(text))  # noqa: S704 - the renderer escapes


def inline(text: str) -> Markup:
    """Return the markup of a line in Markdown; several paragraphs become one."""
    return Markup(_RENDERER.renderInline(" ".join(text.split())))  # noqa: S704 - it escapes
