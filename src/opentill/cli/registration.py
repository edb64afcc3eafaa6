"""Registration of commands, and options that many of them share.

``add`` and ``add_group`` give every command ``--json`` and print its result; a command with a
parameter ``as_json`` prints by itself. ``acting`` adds ``--reason`` and ``--as-root``.
"""

import functools
import inspect
from collections.abc import Callable, Mapping
from typing import Any

import typer

from opentill.cli import identity, inputs, output

Command = Callable[..., Any]


def add_group(app: typer.Typer, name: str, summary: str, /, **commands: Command) -> typer.Typer:
    """Add ``opentill NAME COMMAND`` for each command, in the order of its ``--help``."""
    group = typer.Typer(help=summary, no_args_is_help=True)
    for command, function in commands.items():
        add(group, command, function, group=name)
    app.add_typer(group, name=name)
    return group


def add(
    app: typer.Typer, name: str, function: Command, *, group: str = "", **settings: bool
) -> None:
    """Add a command, of the named group if given; ``settings`` are click's context settings."""
    command = _printing(function, f"{group} {name}".strip())
    app.command(name, context_settings=settings or None)(command)


def _printing(function: Command, name: str) -> Command:
    """Give a command ``--json`` and print its result, unless it takes ``as_json`` itself."""
    if "as_json" in inspect.signature(function).parameters:

        @functools.wraps(function)
        def printing(**arguments: Any) -> None:
            identity.begin(name)
            _check_not_empty(function, arguments)
            function(**arguments)

        return printing

    @functools.wraps(function)
    def command(*, as_json: bool, **arguments: Any) -> None:
        identity.begin(name)
        _check_not_empty(function, arguments)
        output.show(function(**arguments), as_json=as_json)

    return with_options(command, {"as_json": (output.Json, False)})


def _check_not_empty(function: Command, arguments: Mapping[str, Any]) -> None:
    """Refuse an empty option of a read-only command, like the API.

    A script with an empty variable would read more than intended. Commands that write have
    ``--reason``, and for some of their options an empty text has a meaning; an option whose
    default is empty may be empty. Raises Invalid, which names the option.
    """
    from opentill.core.errors import Invalid

    if "reason" in arguments:
        return
    parameters = inspect.signature(function).parameters
    for name, value in arguments.items():
        is_left_out = value == parameters[name].default
        if not is_left_out and (value == "" or (isinstance(value, list) and "" in value)):
            option = _shown_name(parameters[name])
            raise Invalid(option, f"{option} must not be empty: leave it out instead")


def _shown_name(parameter: inspect.Parameter) -> str:
    """Return the name of an option or argument on the command line."""
    for part in getattr(parameter.annotation, "__metadata__", ()):
        for declared in getattr(part, "param_decls", None) or ():
            return str(declared).lstrip("-")
    is_option = parameter.kind is inspect.Parameter.KEYWORD_ONLY
    return parameter.name.replace("_", "-") if is_option else parameter.name


def acting(*, without_reason: str | None = None) -> Callable[[Command], Command]:
    """Give a command ``--reason`` and ``--as-root``, which it receives as parameter ``actor``.

    ``without_reason`` is the default reason; without it the option is required, because the audit
    log refuses an empty reason. ``identity`` determines the actor and checks permissions.
    """
    kind = inputs.Reason if without_reason is None else inputs.OptionalReason

    def decorate(function: Command) -> Command:
        @functools.wraps(function)
        def command(*, reason: str, as_root: bool, **arguments: Any) -> Any:
            return function(
                actor=inputs.actor(reason, without_reason or "", as_root=as_root), **arguments
            )

        options = {"reason": (kind, ""), "as_root": (inputs.AsRoot, False)}
        return with_options(command, options, "actor")

    return decorate


def with_options(
    function: Command, options: Mapping[str, tuple[Any, Any]], instead_of: str = ""
) -> Command:
    """Declare options for typer that are not in a command's own signature.

    ``options`` are annotations and defaults by name. They replace the keyword-only parameter
    ``instead_of``, or are appended.
    """
    declared = [
        inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, default=default, annotation=kind)
        for name, (kind, default) in options.items()
    ]
    parameters: list[inspect.Parameter] = []
    for parameter in inspect.signature(function).parameters.values():
        parameters += declared if parameter.name == instead_of else [parameter]
    if not instead_of:
        parameters += declared
    vars(function)["__signature__"] = inspect.Signature(parameters)
    function.__annotations__ = {parameter.name: parameter.annotation for parameter in parameters}
    return function
