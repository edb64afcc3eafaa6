"""Where a page shows the errors of its form, and which field has the focus."""

import re
from collections.abc import Mapping
from typing import Final

from markupsafe import Markup

# The start of a control that a person fills in, up to its id.
_CONTROL: Final = r'<(?:input|select|textarea)\b(?![^>]* type="hidden")[^>]*?'
_ANY_CONTROL: Final = re.compile(rf'{_CONTROL} id="[^"]+"')


def shows_error(html: str, errors: Mapping[str, str] | None) -> bool:
    """Return whether there is a single error and the HTML shows it at its field.

    The text of a field's error has the id ``FIELD-error``.
    """
    if errors is None or len(errors) != 1:
        return False
    (field,) = errors
    return f'id="{field}-error"' in html and _find(html, field) is not None


def focus_error(html: str, errors: Mapping[str, str] | None) -> Markup:
    """Give the field with the single error the focus."""
    if errors is None or not shows_error(html, errors):
        return _focus(html, None)
    return _focus(html, _find(html, next(iter(errors))))


def focus_first(html: str) -> Markup:
    """Give the first field the focus."""
    return _focus(html, _ANY_CONTROL.search(html))


def _focus(html: str, control: re.Match[str] | None) -> Markup:
    if control is not None:
        html = f"{html[: control.end()]} autofocus{html[control.end() :]}"
    return Markup(html)  # noqa: S704 - HTML of a template


def _find(html: str, field: str) -> re.Match[str] | None:
    return re.search(rf'{_CONTROL} id="{re.escape(field)}"', html)
