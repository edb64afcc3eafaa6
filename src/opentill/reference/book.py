"""The reference of a deployment (contract.md#reference): pages, rendered on first request.

Compressed pages and the search index are cached. The document is parsed again for each new page, to
save memory.
"""

import gzip
import hashlib
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final, cast

import msgspec

from opentill import merchants
from opentill.core.errors import NotFound
from opentill.core.settings import Settings
from opentill.reference import search
from opentill.reference.chapters import BY_NAME, CHAPTERS, Texts
from opentill.reference.document import EVENTS, Document, Group
from opentill.reference.highlighting import highlight
from opentill.web import assets, templates
from opentill.web.language import Localizer
from opentill.web.markdown import inline

ENVIRONMENT: Final = templates.create_environment(Path(__file__).parent / "templates")
# Globals may have any type, but type checkers only know the types of Jinja2's own globals.
cast("dict[str, Any]", ENVIRONMENT.globals)["highlight"] = highlight
TEXTS: Final = ENVIRONMENT.overlay(autoescape=False)  # for templates of Markdown
GUIDES: Final = "guides/"


MARKDOWN: Final = ".md"  # the suffix of a page's address for its Markdown
LLMS: Final = "llms.txt"  # the list of all pages for programs (https://llmstxt.org)


class CachedPage(msgspec.Struct, frozen=True):
    """A cached page: compressed, with the entity tag of its content."""

    compressed: bytes
    tag: str
    media_type: str


class _Contents(msgspec.Struct, frozen=True):
    """The table of contents on every page."""

    title: str
    version: str
    server: str
    groups: tuple[Group, ...]


class Book:
    """The pages below ``/docs``. Rendering one may take some milliseconds."""

    def __init__(self, settings: Settings, document: bytes) -> None:
        """``document`` is the served OpenAPI document."""
        self._settings = settings
        self._document = document
        self._base = templates.base_path(settings.public_url)
        self._pages: dict[str, CachedPage] = {}
        self._contents: _Contents | None = None
        self._places: tuple[search.Place, ...] = ()

    def page(self, path: str) -> CachedPage:
        """Return the page at a path below ``/docs/``. Raises NotFound.

        A path that ends with ``.md`` leads to the page's Markdown.
        """
        page = self._pages.get(path)
        if page is None:
            is_markdown = path.endswith(MARKDOWN) or path == LLMS
            text = self._markdown(path) if is_markdown else self._draw(path)
            content = text.encode()
            tag = f'W/"{hashlib.sha256(content).hexdigest()[:32]}"'
            media_type = "text/markdown" if is_markdown else "text/html"
            page = CachedPage(gzip.compress(content, 9, mtime=0), tag, media_type)
            self._pages[path] = page
        return page

    def search_page(self, query: str) -> str:
        """Render the page of search results."""
        contents = self._table_of_contents()
        if not self._places:
            self._places = tuple(self._all_places(contents))
        query = query.strip()[: search.LONGEST]
        hits = search.find(self._places, query)
        return self._html(
            "search.html", contents, "search", query=query, hits=hits, most=search.MOST
        )

    def missing_page(self) -> str:
        """Render the page of an address that the reference does not have."""
        return self._html("missing.html", self._table_of_contents(), "search")

    def _table_of_contents(self, document: Document | None = None) -> _Contents:
        if self._contents is None:
            document = document or self._read()
            self._contents = _Contents(
                document.title, document.version, document.server, document.groups
            )
        return self._contents

    def _read(self) -> Document:
        return Document(msgspec.json.decode(self._document))

    def _draw(self, path: str) -> str:
        if path.startswith(GUIDES):
            chapter = BY_NAME.get(path.removeprefix(GUIDES))
            if chapter is None:
                raise NotFound
            texts, at = Texts(self._settings), CHAPTERS.index(chapter)
            return self._html(
                "chapter.html",
                self._table_of_contents(),
                path,
                chapter=chapter,
                text=texts.html(chapter),
                sections=[each for each in texts.sections(chapter) if each.anchor],
                previous_chapter=CHAPTERS[at - 1] if at else None,
                next_chapter=CHAPTERS[at + 1] if at + 1 < len(CHAPTERS) else None,
            )
        if not path:
            return self._html("home.html", self._table_of_contents(), path)
        document = self._read()
        contents = self._table_of_contents(document)
        group = next((group for group in contents.groups if group.slug == path), None)
        if group is None:
            raise NotFound
        operations = document.operations(group)
        events = group.name == EVENTS
        return self._html(
            "group.html",
            contents,
            path,
            group=group,
            about=inline(group.description),
            operations=operations,
            events=events,
        )

    def _markdown(self, path: str) -> str:
        """Return the Markdown of a page, or the list of all pages. Raises NotFound."""
        contents = self._table_of_contents()
        if path in (LLMS, f"index{MARKDOWN}"):
            return self._text("llms.txt", contents=contents, chapters=CHAPTERS)
        name = path.removesuffix(MARKDOWN)
        if name.startswith(GUIDES):
            chapter = BY_NAME.get(name.removeprefix(GUIDES))
            if chapter is None:
                raise NotFound
            return Texts(self._settings).markdown(chapter)
        document = self._read()
        group = next((group for group in document.groups if group.slug == name), None)
        if group is None:
            raise NotFound
        operations = document.operations(group)
        return self._text("group.md", group=group, operations=operations)

    def _text(self, template: str, **values: Any) -> str:
        docs = f"{self._settings.public_url.rstrip('/')}/docs"
        text = TEXTS.get_template(template).render(docs=docs, **values)
        return re.sub(r"\n{3,}", "\n\n", text).strip() + "\n"

    def _html(self, template: str, contents: _Contents, path: str, **values: Any) -> str:
        return ENVIRONMENT.get_template(template).render(
            localizer=(localizer := Localizer("customer", "en")),
            **localizer.functions,
            asset=assets.finder(self._base),
            refresh=None,
            test_mode=not self._settings.livemode,
            base=self._base,
            docs=f"{self._base}/docs",
            here=path,
            source="" if path == "search" else f"{self._base}/docs/{path or 'index'}{MARKDOWN}",
            contents=contents,
            chapters=CHAPTERS,
            prefix=merchants.PREFIXES[self._settings.environment],
            livemode=self._settings.livemode,
            **values,
        )

    def _all_places(self, contents: _Contents) -> Iterator[search.Place]:
        texts = Texts(self._settings)
        for chapter in CHAPTERS:
            for section in texts.sections(chapter):
                anchor = f"#{section.anchor}" if section.anchor else ""
                yield search.Place(
                    title=section.heading,
                    kind="Guide" if not anchor else f"Guide: {chapter.title}",
                    address=f"{GUIDES}{chapter.name}{anchor}",
                    text=section.text,
                )
        document = self._read()
        for group in contents.groups:
            about = {anchor: (text, names) for anchor, text, names in document.words(group)}
            for entry in group.entries:
                text, names = about[entry.anchor]
                yield search.Place(
                    title=entry.summary,
                    kind=group.name,
                    address=f"{group.slug}#{entry.anchor}",
                    method=entry.method,
                    path=entry.path,
                    text=text,
                    names=f"{entry.anchor} {names}",
                )
