"""Write the message catalogues: `make messages`, after a text in the source was added or changed.

Extracts the texts of each area into its template (``AREA.pot``) and updates the catalogue of each
language: new texts are untranslated, changed texts fuzzy, and unused texts removed. Translators
edit the catalogues with tools such as Poedit or Weblate.
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
# The files from which the texts of each area are extracted. Several areas may use the same file.
AREAS: Final[dict[str, tuple[str, ...]]] = {
    "customer": (
        "pages/**/*",
        "receipts/**/*",
        "web/**/*",
        "mail/customer_*.py",
        "mail/rendering.py",
        "mail/templates/*",
    ),
    "merchant": (
        "auth/**/*",
        "console/**/*",
        "core/settings.py",
        "dashboard/**/*",
        "portal/**/*",
        "web/**/*",
        "mail/*.py",
        "mail/templates/*",
    ),
    "sandbox": ("sandbox/**/*",),
}
# Files that match the patterns of several areas, but belong to only one.
_ONLY: Final = {
    "customer_templates.py": "customer",
    "delivery_faults.py": "merchant",
    "dispute_reasons.py": "merchant",
    "refund_failures.py": "merchant",
}
KEYWORDS: Final = {**DEFAULT_KEYWORDS, "_gettext": None, "NC_": ((1, "c"), 2)}
_COMMENT: Final = """\
# Translations of OpenTill ({area}).
# Distributed under the license of OpenTill (Apache-2.0).
# docs/recipes/add-a-language.md says how to translate, and `make messages` updates this file.
#"""


def source_files(area: str) -> Iterator[Path]:
    """Yield the files that contain an area's texts."""
    matching_files = {file for pattern in AREAS[area] for file in SOURCE.glob(pattern)}
    for file in sorted(matching_files):
        is_template = file.suffix in {".html", ".txt"} and file.parent.name == "templates"
        if (file.suffix == ".py" or is_template) and _ONLY.get(file.name, area) == area:
            yield file


def extract_template(area: str) -> Catalog:
    """Extract the texts of an area into a template."""
    catalogue = _empty(area)
    for file in source_files(area):
        method = "python" if file.suffix == ".py" else "jinja2"
        with file.open("rb") as source:
            texts = extract(method, source, KEYWORDS, options={"silent": "false"})
            for _, message, _, context in texts:
                location = str(file.relative_to(ROOT))
                catalogue.add(message, locations=[(location, 1)], context=context)
    return catalogue


def languages(area: str) -> list[str]:
    """Return the languages that have a catalogue of an area."""
    return sorted(file.parents[1].name for file in FOLDER.glob(f"*/LC_MESSAGES/{area}.po"))


def catalogue_path(area: str, language: str) -> Path:
    """Return the path of a language's catalogue."""
    return FOLDER / language / "LC_MESSAGES" / f"{area}.po"


def read_catalogue(area: str, language: str) -> Catalog:
    """Read the catalogue of a language."""
    with catalogue_path(area, language).open("rb") as file:
        return read_po(file, locale=language, ignore_obsolete=True)


def update_catalogue(area: str, language: str, texts: Catalog) -> Catalog:
    """Return a language's catalogue with the template's texts and the existing translations."""
    old = read_catalogue(area, language)
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


def format_catalogue(catalogue: Catalog) -> str:
    """Return the stored form of a catalogue: sorted by file, without line numbers, which change."""
    out = io.BytesIO()
    write_po(out, catalogue, width=100, include_lineno=False, sort_by_file=True)
    lines = out.getvalue().decode().splitlines(keepends=True)
    # Leave out lines that would differ each time, such as dates and versions.
    dated = ('"POT-Creation-Date:', '"PO-Revision-Date:', '"Generated-By:')
    people = ('"Last-Translator:', '"Language-Team:', '"Report-Msgid-Bugs-To:')
    omitted = (*dated, *people, '"Project-Id-Version:')
    return "".join(line for line in lines if not line.startswith(omitted))


def placeholders(text: str) -> set[str]:
    """Return the names of the placeholders in a text."""
    return {name for _, name, _, _ in Formatter().parse(text) if name is not None}


def find_problems(message: Message) -> Iterator[str]:
    """Yield the problems of a translation: missing, fuzzy, or with other placeholders."""
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
        texts = extract_template(area)
        (FOLDER / f"{area}.pot").write_text(format_catalogue(texts), "utf-8")
        for language in languages(area):
            catalogue_path(area, language).write_text(
                format_catalogue(update_catalogue(area, language, texts)), "utf-8"
            )


if __name__ == "__main__":
    main()
