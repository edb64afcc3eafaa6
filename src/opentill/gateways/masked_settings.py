"""The settings of a deployment as people see them, with masked secrets."""

from typing import cast

from opentill.core import secretfiles
from opentill.core.settings import GATEWAY_PREFIX, SETTINGS, Settings
from opentill.gateways.options import OPTIONS


def masked_rows(settings: Settings) -> list[tuple[str, str, str]]:
    """Return rows ``(variable, value, explanation)`` with masked secrets."""
    rows: list[tuple[str, str, str]] = []
    for row in SETTINGS:
        value: object = getattr(settings, row.field)
        text = ("(set)" if value else "") if row.secret else text_of(value)
        also = f" {row.name}{secretfiles.SUFFIX}: a file with it." if row.secret else ""
        rows.append((row.name, text, row.explain() + also))
    return rows + _gateway_options(settings)


def _gateway_options(settings: Settings) -> list[tuple[str, str, str]]:
    """Return rows for all options of enabled gateways, and for every other option that is set."""
    unread = dict(settings.gateway_options)
    rows: list[tuple[str, str, str]] = []
    for option in OPTIONS:
        value = unread.pop(option.name, "")
        if value or option.gateway in settings.gateways:
            text = f"{option.text} (default: {option.default})" if option.default else option.text
            shown_value = "(set)" if value and option.secret else value
            rows.append((GATEWAY_PREFIX + option.name.upper(), shown_value, text))
    others = "read by the gateway that it names"
    return rows + [(GATEWAY_PREFIX + name.upper(), "(set)", others) for name in sorted(unread)]


def text_of(value: object) -> str:
    """Write a value in the syntax of its setting."""
    match value:
        case None:
            return ""
        case bool():
            return "yes" if value else "no"
        case float():
            return f"{value:g}"
        case tuple():
            return ",".join(map(str, cast("tuple[object, ...]", value)))
        case _:
            return str(value)
