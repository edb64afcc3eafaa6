"""Rendering of Markdown. Raw HTML is escaped; only http, https and mailto links are rendered."""

import re
from html import unescape
from typing import Final

from markdown_it import MarkdownIt
from markupsafe import Markup

# Such tags can only come from the renderer, because it escapes any HTML in the text.
_HEADING: Final = re.compile("<(/?)h([1-6])>")
_TAG: Final = re.compile(r"<[^>]*>")
_RENDERER: Final = MarkdownIt("commonmark", {"html": False}).enable("table")

_WITH_CURLY_QUOTES: Final = (
    MarkdownIt("commonmark", {"html": False, "typographer": True})
    .enable("table")
    .enable("smartquotes")
)


def markdown(text: str, below: int = 0, *, curly_quotes: bool = False) -> Markup:
    """Render a text in Markdown; heading levels are increased by ``below``.

    With ``curly_quotes``, straight quotes and apostrophes are shown as curly ones.
    """
    html = (_WITH_CURLY_QUOTES if curly_quotes else _RENDERER).render(text)
    if below:
        html = _HEADING.sub(lambda tag: f"<{tag[1]}h{min(int(tag[2]) + below, 6)}>", html)
    return Markup(html)  # noqa: S704 - the renderer escapes


def with_contents(html: Markup, level: int = 2) -> tuple[Markup, list[tuple[str, str]]]:
    """Give the headings of a level ids; return the text, and each id with its title."""
    contents: list[tuple[str, str]] = []

    def add_id(match: re.Match[str]) -> str:
        heading_id = f"section-{len(contents) + 1}"
        contents.append((heading_id, unescape(_TAG.sub("", match[1]))))
        return f'<h{level} id="{heading_id}">{match[1]}</h{level}>'

    headings = re.compile(f"<h{level}>(.*?)</h{level}>", re.DOTALL)
    return Markup(headings.sub(add_id, html)), contents  # noqa: S704 - rendered Markdown


def inline(text: str) -> Markup:
    """Render inline Markdown; several paragraphs become one."""
    return Markup(_RENDERER.renderInline(" ".join(text.split())))  # noqa: S704 - it escapes
