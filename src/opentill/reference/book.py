"""The reference of a deployment (contract.md#reference): pages, rendered on first request.

Compressed pages and the search index are cached. The document is parsed again for each new page, to
save memory.
"""

import gzip
import hashlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

import msgspec

from opentill import merchants
from opentill.core.errors import NotFound
from opentill.core.settings import Settings
from opentill.reference import search
from opentill.reference.chapters import BY_NAME, CHAPTERS, Texts
from opentill.reference.document import EVENTS, Document, Group
from opentill.web import assets, templates
from opentill.web.language import Localizer
from opentill.web.markdown import inline

ENVIRONMENT: Final = templates.create_environment(Path(__file__).parent / "templates")
GUIDES: Final = "guides/"


class CachedPage(msgspec.Struct, frozen=True):
    """A cached page: compressed, with the entity tag of its content."""

    compressed: bytes
    tag: str


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
        """Return the page at a path below ``/docs/``. Raises NotFound."""
        page = self._pages.get(path)
        if page is None:
            html = self._draw(path).encode()
            tag = f'W/"{hashlib.sha256(html).hexdigest()[:32]}"'
            page = self._pages[path] = CachedPage(gzip.compress(html, 9, mtime=0), tag)
        return page

    def search_page(self, query: str) -> str:
        """Render the page of search results."""
        contents = self._table_of_contents()
        if not self._places:
            self._places = tuple(self._all_places(contents))
        query = query.strip()[: search.LONGEST]
        hits = search.find(self._places, query)
        return self._html("search.html", contents, "search", query=query, hits=hits)

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
            html = Texts(self._settings).html(chapter)
            return self._html(
                "chapter.html", self._table_of_contents(), path, chapter=chapter, text=html
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
                    detail=f"{entry.method} {entry.path}".strip(),
                    text=text,
                    names=f"{entry.anchor} {names}",
                )
