"""Finds the fields that a form has in some states only, by reading all branches of its template."""

import re
from collections.abc import Iterator
from typing import Final

_TAG: Final = re.compile(r"({%.*?%}|{{.*?}}|{#.*?#})", re.DOTALL)
_MACRO: Final = re.compile(r"{% macro (\w+)\(.*?%}(.*?){% endmacro %}", re.DOTALL)
_FORM: Final = re.compile(
    r'<form\b(?:(?!</form>).)*?method="post".*?</form>'
    r"|{% call parts\.confirmation\(.*?{% endcall %}",
    re.DOTALL,
)
# A field in the markup or made by ``parts.field`` and its like, or a macro that contains fields.
_FIELD: Final = re.compile(
    r'<(?:input|select|textarea)\b[^<]*?\bname="([^"]+)"'
    r'|\b(?:\w*field|choice|entry|country|confirming_word)\((?:_, )?"(\w+)"'
    r"|\b(form_once|mail_language|account_form|fields|reason_and_notes)\(",
    re.DOTALL,
)
_MACRO_FIELDS: Final = {"form_once": "form_id", "mail_language": "language"}


def _names(source: str) -> set[str]:
    matches = (next(filter(None, match.groups())) for match in _FIELD.finditer(source))
    return {_MACRO_FIELDS.get(name, name) for name in matches}


def _split(source: str) -> Iterator[list[str]]:
    """Yield the branches of each outer ``if``. The last one is empty if there is no ``else``."""
    branches = [""]
    depth = 0
    has_else = False
    for part in _TAG.split(source):
        word = part[2:-2].strip("-+ ").split(" ")[0] if part.startswith("{%") else ""
        if word == "if":
            depth += 1
            if depth == 1:
                branches, has_else = [""], False
                continue
        if word == "endif":
            depth -= 1
            if depth == 0:
                yield branches if has_else else [*branches, ""]
                continue
        if depth == 1 and word in {"elif", "else"}:
            branches.append("")
            has_else = has_else or word == "else"
        elif depth:
            branches[-1] += part


def _drop_ifs(source: str) -> str:
    """Return the source without all that is in an ``if``."""
    parts = list[str]()
    depth = 0
    for part in _TAG.split(source):
        word = part[2:-2].strip("-+ ").split(" ")[0] if part.startswith("{%") else ""
        depth += word == "if"
        if not depth:
            parts.append(part)
        depth -= word == "endif"
    return "".join(parts)


def _find_conditional(source: str) -> set[str]:
    """Return the fields that are in some branches of the source and not in others."""
    fields = set[str]()
    for branches in _split(source):
        names = [_names(branch) for branch in branches]
        fields |= set.union(*names) - set.intersection(*names)
        fields |= set[str]().union(*map(_find_conditional, branches))
    return fields - _names(_drop_ifs(source))


def find_conditional_fields(source: str) -> set[str]:
    """Return the conditional fields of the forms, and of the macros with fields, of a template."""
    forms = [match[0] for match in _FORM.finditer(source)]
    macros = [match[2] for match in _MACRO.finditer(source) if "<form" not in match[2]]
    return set[str]().union(*map(_find_conditional, (*forms, *macros)))
