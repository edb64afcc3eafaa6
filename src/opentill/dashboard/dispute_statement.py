"""The statement that contests a dispute: typed facts and an explanation, stored as one note."""

import re
from collections.abc import Callable, Mapping, Sequence
from datetime import date
from typing import Final

from opentill.web.dispute_reasons import EvidenceField
from opentill.web.translations import N_

LONGEST_FACT: Final = 200
_FACT: Final = re.compile(rf"[^\x00-\x1f\x7f-\x9f\ud800-\udfff]{{0,{LONGEST_FACT}}}")


def check(form: Mapping[str, str], fields: Sequence[EvidenceField]) -> dict[str, str]:
    """Return the errors of the facts, by field; files and the explanation are checked apart."""
    errors = dict[str, str]()
    for field in fields:
        entry = form.get(field.name, "").strip()
        if field.kind == "text" and _FACT.fullmatch(entry) is None:
            errors[field.name] = N_("Enter one line of at most 200 characters")
        if field.kind == "date" and entry and not _is_date(entry):
            errors[field.name] = N_("Enter a date, such as 2026-11-30")
    return errors


def _is_date(text: str) -> bool:
    try:
        date.fromisoformat(text)
    except ValueError:
        return False
    return True


def compose(
    form: Mapping[str, str],
    fields: Sequence[EvidenceField],
    files: Mapping[str, str],
    translate: Callable[[str], str],
) -> str:
    """Return the note: a line for each fact and each file, then the explanation.

    ``files`` are the names of the added files by field. "" if nothing was entered.
    """
    entries = {**form, **files}
    lines = [
        f"{translate(field.label)}: {entry}"
        for field in fields
        if (entry := entries.get(field.name, "").strip())
    ]
    return "\n\n".join(part for part in ("\n".join(lines), form.get("explanation", "")) if part)


def read_files(statement: str, files: Sequence[str]) -> dict[str, str]:
    """Return what the files are evidence of, such as of the delivery, by their names.

    ``statement`` is a text of ``compose``; files that it does not name are left out.
    """
    lines = (line.partition(": ") for line in statement.splitlines())
    return {name: label for label, _, name in lines if name in files}


def without_files(statement: str, files: Sequence[str]) -> str:
    """Return a text of ``compose`` without the lines of its files."""
    lines = [line for line in statement.splitlines() if line.partition(": ")[2] not in files]
    return "\n".join(lines).strip()
