"""Errors of the command line's parser, in the form of this program's refusals.

The parser writes "Missing option '--holder'." or "Input should be greater than or equal to 1". Its
errors become "--holder is required: the account's holder" and "--limit must be a whole number from
1 to 1000", with a reference to the command's help.
"""

import enum
import re
from collections.abc import Iterable
from difflib import get_close_matches
from typing import TYPE_CHECKING, Any, Final, NamedTuple, cast

from opentill.core.errors import Invalid

if TYPE_CHECKING:
    import typer

# In the help of an option that has a default for the parser, but that its command requires.
REQUIRED_BY_COMMAND: Final = "; required."
_NO_COMMAND: Final = re.compile(r"No such command '(.*)'\.", re.DOTALL)
_EXTRA_ARGUMENTS: Final = re.compile(r"Got unexpected extra argument\(s\) \((.*)\)", re.DOTALL)


class UsageError(NamedTuple):
    """An error of the parser as a refusal, whose field has no dashes.

    ``is_option`` is whether the field is an option. ``is_help``: the reason is the help of a group
    that was run without a command.
    """

    refusal: Invalid
    is_option: bool = False
    is_help: bool = False


def explain(error: "typer.TyperException") -> UsageError:
    """Return the refusal for an error of the parser."""
    context: Any = getattr(error, "ctx", None)
    if type(error).__name__ == "NoArgsIsHelpError":
        return UsageError(Invalid("command", error.format_message()), is_help=True)
    path = "opentill" if context is None else context.command_path
    name, problem, is_option = _explain(error, path, context)
    end = "" if problem.endswith("?") else "."
    return UsageError(Invalid(name, f"{name} {problem}{end} See `{path} --help`."), is_option)


def _explain(error: "typer.TyperException", path: str, context: Any) -> tuple[str, str, bool]:
    """Return what the parser refused, why, and whether it is an option.

    ``context`` is the parser's context, None if the parser has read only a part of the command
    line.
    """
    parameter: Any = getattr(error, "param", None)
    if parameter is not None:
        problem = (
            _describe_missing(parameter, context)
            if type(error).__name__ == "MissingParameter"
            else _describe_accepted(parameter, error)
        )
        return _name(parameter), problem, parameter.param_type_name == "option"
    text = error.format_message()
    option: str | None = getattr(error, "option_name", None)
    if option is not None:
        name = option.lstrip("-")
        if type(error).__name__ == "BadOptionUsage":
            return name, "must have a value", True
        possibilities: list[str] = getattr(error, "possibilities", None) or []
        return name, f"is not an option of `{path}`" + _hint(sorted(possibilities)), True
    if unknown := _NO_COMMAND.match(text):
        similar = get_close_matches(unknown[1], context.command.list_commands(context))
        return unknown[1], f"is not a command of `{path}`" + _hint(similar), False
    if extra := _EXTRA_ARGUMENTS.match(text):
        arguments = [
            each.name for each in context.command.params if each.param_type_name == "argument"
        ]
        takes = f"takes only {' and '.join(arguments)}" if arguments else "takes no arguments"
        return extra[1], f"must be left out: `{path}` {takes}", False
    return "command", text.rstrip("."), False


def _name(parameter: Any) -> str:
    """Return the name of a parameter on the command line, without dashes."""
    if parameter.param_type_name == "argument":
        return str(parameter.name)
    return str(max(parameter.opts, key=len)).lstrip("-")


def _describe_missing(parameter: Any, context: Any) -> str:
    """Return that a parameter is required, with the others that are missing too.

    The parser reads what was given first, and stops at the first parameter that is missing: the
    required ones that it has not read by then were not given either.
    """
    others: list[str] = []
    if context is not None:
        others = [
            f"--{_name(each)}" if each.param_type_name == "option" else _name(each)
            for each in context.command.params
            if each is not parameter and _is_required(each) and not context.params.get(each.name)
        ]
    also = f". Also required: {', '.join(others)}" if others else ""
    return f"is required{_help(parameter)}{also}"


def _is_required(parameter: Any) -> bool:
    """Whether the parser or, such as for ``--reason``, the command itself requires a parameter."""
    return bool(parameter.required) or REQUIRED_BY_COMMAND in (parameter.help or "")


def _help(parameter: Any) -> str:
    """Return the help of a parameter as the end of a sentence, "" if it has none."""
    text = (parameter.help or "").rstrip(".")
    is_word = text[:2].istitle() or text[1:2] == " "
    return f": {text[:1].lower() if is_word else text[:1]}{text[1:]}" if text else ""


def _describe_accepted(parameter: Any, error: "typer.TyperException") -> str:
    """Return which values a parameter accepts."""
    descriptor = parameter.type_descriptor
    least, most = descriptor.parameter_info.min, descriptor.parameter_info.max
    if descriptor.annotation is int:
        bounds = (f" from {least}" if least is not None else "") + (
            f" to {most}" if most is not None else ""
        )
        return f"must be a whole number{bounds}"
    if isinstance(descriptor.annotation, enum.EnumType):
        choices = cast("Iterable[enum.Enum]", descriptor.annotation)
        return f"must be one of {' '.join(str(choice.value) for choice in choices)}"
    return f"is not accepted: {error.message.rstrip('.')}"


def _hint(similar: list[str]) -> str:
    return f": did you mean {' or '.join(similar)}?" if similar else ""
