"""The reference of one deployment (contract.md#reference): pages, drawn when first asked for.

Kept are the compressed pages and the places of the search; the document is read again for a page
that is new, so that little stays in memory.
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
from opentill.web.catalogue import FRAME
from opentill.web.language import Localizer
from opentill.web.markdown import inline

ENVIRONMENT: Final = templates.environment(Path(__file__).parent / "templates")
GUIDES: Final = "guides/"


class Kept(msgspec.Struct, frozen=True):
    """A page as it is kept: compressed, with a tag that names what is in it."""

    compressed: bytes
    tag: str


class _Contents(msgspec.Struct, frozen=True):
    """What every page shows beside its own text."""

    title: str
    version: str
    server: str
    groups: tuple[Group, ...]


class Book:
    """The pages below ``/docs``. Its methods draw and may take some milliseconds."""

    def __init__(self, settings: Settings, document: bytes) -> None:
        """``document`` is the OpenAPI document as it is served."""
        self._settings = settings
        self._document = document
        self._base = templates.base_path(settings.public_url)
        self._kept: dict[str, Kept] = {}
        self._contents: _Contents | None = None
        self._places: tuple[search.Place, ...] = ()

    def page(self, path: str) -> Kept:
        """Return the page at a path below ``/docs/``. Raises NotFound."""
        kept = self._kept.get(path)
        if kept is None:
            html = self._draw(path).encode()
            tag = f'W/"{hashlib.sha256(html).hexdigest()[:32]}"'
            kept = self._kept[path] = Kept(gzip.compress(html, 9, mtime=0), tag)
        return kept

    def found(self, query: str) -> str:
        """Return the page of the search for a query; without one, all there is."""
        contents = self._listed()
        if not self._places:
            self._places = tuple(self._all_places(contents))
        query = query.strip()[: search.LONGEST]
        hits = search.find(self._places, query)
        return self._html("search.html", contents, "search", query=query, hits=hits)

    def _listed(self, document: Document | None = None) -> _Contents:
        if self._contents is None:
            read = document or self._read()
            self._contents = _Contents(read.title, read.version, read.server, read.groups)
        return self._contents

    def _read(self) -> Document:
        return Document(msgspec.json.decode(self._document))

    def _draw(self, path: str) -> str:
        if path.startswith(GUIDES):
            chapter = BY_NAME.get(path.removeprefix(GUIDES))
            if chapter is None:
                raise NotFound
            html = Texts(self._settings).html(chapter)
            return self._html("chapter.html", self._listed(), path, chapter=chapter, text=html)
        if not path:
            return self._html("home.html", self._listed(), path)
        document = self._read()
        contents = self._listed(document)
        group = next((one for one in contents.groups if one.slug == path), None)
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
            localizer=(localizer := Localizer(FRAME, "en")),
            say=localizer.say,
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
