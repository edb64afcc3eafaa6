"""Write the message catalogues: `make messages`, after a text in the source was added or changed.

Extracts the texts of each area into its template (``AREA.pot``), and brings the catalogue of each
language up to date with it: new texts are untranslated, changed ones fuzzy, unused ones gone. The
catalogues are read and translated by Poedit, Weblate and the like.
"""

import io
from collections.abc import Iterator
from pathlib import Path
from string import Formatter
from typing import Final

from babel import Locale
from babel.messages import Catalog, Message
from babel.messages.extract import DEFAULT_KEYWORDS, extract
from babel.messages.pofile import read_po, write_po

ROOT: Final = Path(__file__).parents[1]
SOURCE: Final = ROOT / "src" / "opentill"
FOLDER: Final = SOURCE / "locale"
# Area → the files that it is extracted from. Several areas may show the same text.
AREAS: Final[dict[str, tuple[str, ...]]] = {
    "customer": (
        "pages/**/*",
        "web/**/*",
        "mail/customer_*.py",
        "mail/rendering.py",
        "mail/templates/*",
    ),
    "merchant": (
        "auth/**/*",
        "console/**/*",
        "dashboard/**/*",
        "portal/**/*",
        "web/**/*",
        "mail/*.py",
        "mail/templates/*",
    ),
    "sandbox": ("sandbox/**/*",),
}
# Files that only one of the areas shows.
_ONLY: Final = {
    "customer_templates.py": "customer",
    "refund_failures.py": "merchant",
}
KEYWORDS: Final = {**DEFAULT_KEYWORDS, "_gettext": None, "NC_": ((1, "c"), 2)}
_COMMENT: Final = """\
# Translations of OpenTill ({area}).
# Distributed under the license of OpenTill (Apache-2.0).
# docs/recipes/add-a-language.md says how to translate, and `make messages` updates this file.
#"""


def files(area: str) -> Iterator[Path]:
    """Yield the sources of an area's texts."""
    listed = {file for pattern in AREAS[area] for file in SOURCE.glob(pattern)}
    for file in sorted(listed):
        is_template = file.suffix in {".html", ".txt"} and file.parent.name == "templates"
        if (file.suffix == ".py" or is_template) and _ONLY.get(file.name, area) == area:
            yield file


def template(area: str) -> Catalog:
    """Extract the texts of an area."""
    catalogue = _empty(area)
    for file in files(area):
        method = "python" if file.suffix == ".py" else "jinja2"
        with file.open("rb") as source:
            texts = extract(method, source, KEYWORDS, options={"silent": "false"})
            for _, message, _, context in texts:
                place = str(file.relative_to(ROOT))
                catalogue.add(message, locations=[(place, 1)], context=context)
    return catalogue


def languages(area: str) -> list[str]:
    """Return the names of the folders that have a catalogue of an area."""
    return sorted(file.parents[1].name for file in FOLDER.glob(f"*/LC_MESSAGES/{area}.po"))


def path(area: str, language: str) -> Path:
    """Return where the catalogue of a language is."""
    return FOLDER / language / "LC_MESSAGES" / f"{area}.po"


def read(area: str, language: str) -> Catalog:
    """Read the catalogue of a language."""
    with path(area, language).open("rb") as file:
        return read_po(file, locale=language, ignore_obsolete=True)


def updated(area: str, language: str, texts: Catalog) -> Catalog:
    """Return the catalogue of a language with the texts of the template, translated so far."""
    old = read(area, language)
    old.update(texts, no_fuzzy_matching=False)
    old.obsolete.clear()
    new = _empty(area, language)
    for message in old:
        if message.id:
            new.add(
                message.id,
                message.string,
                locations=message.locations,
                flags=message.flags & {"fuzzy"},
                user_comments=message.user_comments,
                previous_id=message.previous_id if message.fuzzy else (),
                context=message.context,
            )
    return new


def written(catalogue: Catalog) -> str:
    """Return a catalogue as it is stored: by file, without lines, which would change often."""
    out = io.BytesIO()
    write_po(out, catalogue, width=100, include_lineno=False, sort_by_file=True)
    lines = out.getvalue().decode().splitlines(keepends=True)
    # Dates and the generator's version are left out: they would differ each time.
    dated = ('"POT-Creation-Date:', '"PO-Revision-Date:', '"Generated-By:')
    people = ('"Last-Translator:', '"Language-Team:', '"Report-Msgid-Bugs-To:')
    left_out = (*dated, *people, '"Project-Id-Version:')
    return "".join(line for line in lines if not line.startswith(left_out))


def placeholders(text: str) -> set[str]:
    """Return the names in braces that a text has values filled in for."""
    return {name for _, name, _, _ in Formatter().parse(text) if name is not None}


def problems(message: Message) -> Iterator[str]:
    """Yield what is wrong with a translation: missing, fuzzy, or with other placeholders."""
    ids = [message.id] if isinstance(message.id, str) else list(message.id)
    strings = [message.string] if isinstance(message.string, str) else list(message.string or ())
    if message.fuzzy:
        yield "fuzzy"
    if not all(strings):
        yield "not translated"
    allowed = [placeholders(text) for text in ids]
    for text in filter(None, strings):
        if placeholders(text) not in allowed:
            yield f"other placeholders: {text}"


def _empty(area: str, language: str | None = None) -> Catalog:
    return Catalog(
        locale=None if language is None else Locale.parse(language),
        domain=area,
        header_comment=_COMMENT.format(area=area),
        fuzzy=False,
    )


def main() -> None:
    """Write all templates and catalogues."""
    for area in AREAS:
        texts = template(area)
        (FOLDER / f"{area}.pot").write_text(written(texts), "utf-8")
        for language in languages(area):
            path(area, language).write_text(written(updated(area, language, texts)), "utf-8")


if __name__ == "__main__":
    main()
