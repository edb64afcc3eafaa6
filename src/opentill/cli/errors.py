"""Errors of commands: a line for people; for ``--json`` the error body of the API, as one line.

Both go to standard error, so that standard output has results only (decision 0062).
"""

from typing import TYPE_CHECKING, Any

from opentill.cli import output
from opentill.core.errors import ConfigurationError, Invalid, Problem

if TYPE_CHECKING:
    import typer


_options: frozenset[str] = frozenset()  # names of the running command's options, without dashes


def begin(options: frozenset[str]) -> None:
    """Set the options of this process's command, which errors name with their dashes."""
    global _options  # noqa: PLW0603 - there is one command in a process
    _options = options


def report(error: "Problem | ConfigurationError | typer.TyperException", *, as_json: bool) -> None:
    """Write an error to standard error."""
    if not as_json:
        output.say(f"opentill: {_line(error)}")
        return
    import msgspec

    output.say(msgspec.json.encode(_body(error)).decode(), wrap=False)


def _line(error: "Problem | ConfigurationError | typer.TyperException") -> str:
    """Return an error for people, which names an option as it is written: ``--from``."""
    if not isinstance(error, Problem) or not error.field or not error.reason:
        return str(error)
    option = error.field.replace("_", "-")
    shown = f"--{option}" if option in _options else error.field
    if error.reason.startswith(f"{error.field} "):
        return f"{shown}{error.reason.removeprefix(error.field)}"
    return f"{shown}: {error.reason}"


def _body(error: "Problem | ConfigurationError | typer.TyperException") -> dict[str, Any]:
    """Return the error body (contract.md#error-body); the parser's errors become ``Invalid``."""
    if isinstance(error, ConfigurationError):
        details: dict[str, Any] = {"reason": str(error)}
        return {"code": error.code, "message": error.message, "error": details}
    if not isinstance(error, Problem):
        error = Invalid(_parameter(error), error.format_message())
    details = {"field": error.field, "reason": error.reason}
    details_given = {name: text for name, text in details.items() if text is not None}
    return {"code": error.code, "message": error.message} | (
        {"error": details_given} if details_given else {}
    )


def _parameter(error: "typer.TyperException") -> str:
    """Return the option or argument that the parser refused, "command" if it names none."""
    parameter = getattr(error, "param", None)
    name: str | None = getattr(parameter, "name", None) or getattr(error, "option_name", None)
    return (name or "command").lstrip("-").replace("_", "-")
