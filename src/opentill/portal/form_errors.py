"""Where a page shows the errors of its form, and which field has the focus."""

import re
from collections.abc import Mapping
from typing import Final

from markupsafe import Markup

# The start of a control that a person fills in, up to its id.
_CONTROL_TAG: Final = r'<(?:input|select|textarea)\b(?![^>]* type="hidden")'
_CONTROL: Final = rf"{_CONTROL_TAG}[^>]*?"
_ANY_CONTROL: Final = re.compile(rf'{_CONTROL_TAG}(?:[^>]*? id="[^"]+")?')
_GROUP: Final = r"<fieldset\b(?=[^>]* tabindex=)[^>]*?"  # of check boxes, which can have the focus


def shows_error(html: str, errors: Mapping[str, str] | None) -> bool:
    """Return whether there are errors and the HTML shows each of them at its field.

    The text of a field's error has the id ``FIELD-error``.
    """
    return bool(errors) and all(
        f'id="{field}-error"' in html and _find(html, field) is not None for field in errors or ()
    )


def focus_error(html: str, errors: Mapping[str, str] | None) -> Markup:
    """Give the first field with an error the focus, if all errors are shown at their fields."""
    if errors is None or not shows_error(html, errors):
        return _focus(html, None)
    controls = [control for field in errors if (control := _find(html, field)) is not None]
    return _focus(html, min(controls, key=lambda control: control.start()))


def focus_first(html: str) -> Markup:
    """Give the first field the focus."""
    return _focus(html, _ANY_CONTROL.search(html))


def _focus(html: str, control: re.Match[str] | None) -> Markup:
    if control is not None:
        html = f"{html[: control.end()]} autofocus{html[control.end() :]}"
    return Markup(html)  # noqa: S704 - HTML of a template


def _find(html: str, field: str) -> re.Match[str] | None:
    return re.search(rf'(?:{_CONTROL}|{_GROUP}) id="{re.escape(field)}"', html)
