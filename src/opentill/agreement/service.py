"""Finds, validates and renders the newest template.

A template is a file ``<version>.md`` such as ``1.0.md``. It begins with front matter between two
lines ``---`` (``effectiveDate``, ``acceptanceStatement``, ``actionLabel``), followed by Markdown
with ``{{ operator_name }}``, ``{{ operator_address }}`` and ``{{ operator_contact }}``. The highest
version in the folder applies.
"""

import re
from datetime import date
from functools import lru_cache
from hashlib import sha256
from pathlib import Path
from typing import Final

from babel.dates import format_date

from opentill.agreement.model import Agreement, BrokenTemplate
from opentill.core.settings import Settings

PAGE_PATH: Final = "/legal/merchant-services-agreement"
FIELDS: Final = ("effectiveDate", "acceptanceStatement", "actionLabel")

_SHIPPED: Final = Path(__file__).parent
_NAME: Final = re.compile(r"(\d{1,6}(?:\.\d{1,6}){0,3})\.md", re.ASCII)
_PLACEHOLDER: Final = re.compile(r"{{(.*?)}}")


def current(settings: Settings) -> Agreement:
    """Return the agreement of a deployment. Raises BrokenTemplate.

    Templates are cached, so a new one applies after a restart. The server also calls this when it
    starts, so that it does not start with an invalid template.
    """
    return _agreement(
        settings.agreement_dir or _SHIPPED,
        settings.public_url.rstrip("/") + PAGE_PATH,
        (
            ("operator_name", settings.operator_name),
            ("operator_address", settings.operator_address),
            ("operator_contact", settings.operator_contact),
        ),
    )


@lru_cache(maxsize=4)
def _agreement(folder: Path, url: str, values: tuple[tuple[str, str], ...]) -> Agreement:
    version, path = _find_newest_template(folder)
    try:
        template = path.read_bytes()
        text = template.decode("utf-8").replace("\r\n", "\n")
    except (OSError, UnicodeDecodeError) as error:
        raise BrokenTemplate(path, f"must be a readable file in UTF-8 ({error})") from error
    fields, body = _split_front_matter(path, text)
    day = _day(path, fields["effectiveDate"])
    document = _fill(path, body, dict(values))
    return Agreement(
        agreement_version=version,
        effective_date=day.isoformat(),
        effective_date_display=format_date(day, "long", locale="en_US"),
        template_sha256=sha256(template).hexdigest(),
        rendered_document_sha256=sha256(document.encode()).hexdigest(),
        markdown_content=document,
        acceptance_statement=fields["acceptanceStatement"],
        action_label=fields["actionLabel"],
        document_url=url,
    )


def _find_newest_template(folder: Path) -> tuple[str, Path]:
    """Return the version and path of the folder's newest template; 1.10 is newer than 1.9."""
    try:
        matches = ((_NAME.fullmatch(path.name), path) for path in folder.iterdir())
        templates = [(match[1], path) for match, path in matches if match]
    except OSError as error:
        raise BrokenTemplate(folder, f"must be a readable folder ({error})") from error
    if not templates:
        raise BrokenTemplate(folder, "must hold a template with a name such as 1.0.md")
    return max(templates, key=lambda template: tuple(map(int, template[0].split("."))))


def _split_front_matter(path: Path, text: str) -> tuple[dict[str, str], str]:
    """Return the front matter and the Markdown."""
    opening, _, rest = text.partition("---\n")
    head, closing, body = rest.partition("\n---\n")
    if opening or not closing or not body.strip():
        raise BrokenTemplate(path, 'must begin with fields between two lines "---", then text')
    pairs = (line.partition(":") for line in head.splitlines() if line.strip())
    fields = {name.strip(): value.strip().strip('"') for name, _, value in pairs}
    for name in FIELDS:
        if not fields.get(name):
            raise BrokenTemplate(path, f'must have a line "{name}: …" at its top')
    return fields, body.strip() + "\n"


def _day(path: Path, text: str) -> date:
    try:
        return date.fromisoformat(text)
    except ValueError:
        raise BrokenTemplate(path, "effectiveDate must be a date as 2026-01-15") from None


def _fill(path: Path, body: str, values: dict[str, str]) -> str:
    def value(match: re.Match[str]) -> str:
        name = match[1].strip()
        if name not in values:
            accepted = ", ".join(values)
            raise BrokenTemplate(path, f"{{{{ {name} }}}} must be one of {accepted}")
        return values[name]

    return _PLACEHOLDER.sub(value, body)
