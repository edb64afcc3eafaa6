"""Errors of commands: a line for people; for ``--json`` the error body of the API, as one line.

Both go to standard error, so that standard output has results only (decision 0062).
"""

import re
from collections.abc import Collection
from typing import TYPE_CHECKING, Any, Final

from opentill.cli import output, usage_errors
from opentill.core.errors import ConfigurationError, Problem

if TYPE_CHECKING:
    import typer

# Field of a request or struct, in words with hyphens → the option that sets it, if the option has
# another name.
_OPTION_OF_FIELD: Final = {
    "platform-fee-rate": "fee-rate",
    "ip-allowlist": "allow",
    "settlement-currency": "currency",
    "customer-email": "email",
    "product-id": "product",
    "start-date": "from",
    "end-date": "to",
    "min-amount": "min",
    "max-amount": "max",
    "expires-at": "expires",
    "client-reference": "reference",
    "refund-no": "number",
    "events": "event",
    "scopes": "scope",
}
_HUMP: Final = re.compile(r"(?<=[a-z])[A-Z]")
# A word of a sentence that can only be the name of a field: maxAmount, item.price, reserve_rate.
_FIELD_NAME: Final = re.compile(r"\b[a-z]+(?:[A-Z_.][A-Za-z]+)+\b")
_options: frozenset[str] = frozenset()  # names of the running command's options, without dashes


def begin(options: frozenset[str]) -> None:
    """Set the options of this process's command, which errors name with their dashes."""
    global _options  # noqa: PLW0603 - there is one command in a process
    _options = options


def option_of(field: str, options: Collection[str]) -> str | None:
    """Return the option of a command that sets a field, None if there is none."""
    last = field.rpartition(".")[2].replace("_", "-")
    name = _HUMP.sub(lambda match: f"-{match[0].lower()}", last).removesuffix("-minor")
    candidates = (name, _OPTION_OF_FIELD.get(name))
    return next((option for option in candidates if option in options), None)


def report(error: "Problem | ConfigurationError | typer.TyperException", *, as_json: bool) -> None:
    """Write an error to standard error."""
    if not isinstance(error, Problem | ConfigurationError):
        usage_error = usage_errors.explain(error)
        if usage_error.is_help and not as_json:
            output.say(usage_error.refusal.reason or "", wrap=False)
            return
        if usage_error.is_option:
            begin(_options | {usage_error.refusal.field or ""})
        error = usage_error.refusal
    if not as_json:
        output.say(f"opentill: {_line(error)}")
        return
    import msgspec

    output.say(msgspec.json.encode(_body(error)).decode(), wrap=False)


def _line(error: "Problem | ConfigurationError") -> str:
    """Return an error for people, which names options as they are written: ``--from``."""
    if not isinstance(error, Problem) or not error.field or not error.reason:
        return str(error)
    field, reason = _with_options(error.field, error.reason, "--")
    return reason if reason.startswith(f"{field} ") else f"{field}: {reason}"


def _body(error: "Problem | ConfigurationError") -> dict[str, Any]:
    """Return the error body (contract.md#error-body), with the names of options as fields."""
    if isinstance(error, ConfigurationError):
        details: dict[str, Any] = {"reason": str(error)}
        return {"code": error.code, "message": error.message, "error": details}
    field, reason = error.field, error.reason
    if field and reason:
        field, reason = _with_options(field, reason, "")
    details_given = {
        name: text for name, text in {"field": field, "reason": reason}.items() if text is not None
    }
    return {"code": error.code, "message": error.message} | (
        {"error": details_given} if details_given else {}
    )


def _with_options(field: str, reason: str, dashes: str) -> tuple[str, str]:
    """Replace names of fields by the options that set them, each after ``dashes``."""

    def name(word: str) -> str:
        option = option_of(word, _options)
        return word if option is None else f"{dashes}{option}"

    rest = reason.removeprefix(f"{field} ")
    own_name = name(field)
    begins_with_field = rest != reason
    rest = _FIELD_NAME.sub(lambda match: name(match[0]), rest)
    return own_name, f"{own_name} {rest}" if begins_with_field else rest
