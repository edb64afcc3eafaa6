"""Registration of commands, and options that many of them share.

``add`` and ``add_group`` give every command ``--json`` and print its result; a command with a
parameter ``as_json`` prints by itself. ``acting`` adds ``--reason`` and ``--as-root``. Arguments
that name a merchant take its id or its name.
"""

import functools
import inspect
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Annotated, Any

import typer

from opentill.cli import errors, hints, identity, inputs, merchant_names, output

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
    whole_name = f"{group} {name}".strip()
    command = _printing(_with_help(function, whole_name), whole_name)
    app.command(name, context_settings=settings or None)(command)


def add_writing(app: typer.Typer, name: str, function: Command) -> None:
    """Add a command that writes a file or standard output by itself, without ``--json``."""

    @functools.wraps(function)
    def command(**arguments: Any) -> None:
        function(**_begin(function, name, arguments))

    app.command(name)(_with_help(command, name))


def _printing(function: Command, name: str) -> Command:
    """Give a command ``--json`` and print its result, unless it takes ``as_json`` itself."""
    if "as_json" in inspect.signature(function).parameters:

        @functools.wraps(function)
        def printing(**arguments: Any) -> None:
            function(**_begin(function, name, arguments))

        return printing

    @functools.wraps(function)
    def command(*, as_json: bool, **arguments: Any) -> None:
        output.show(function(**_begin(function, name, arguments)), as_json=as_json)

    return with_options(command, {"as_json": (output.Json, False)})


def _begin(function: Command, name: str, arguments: dict[str, Any]) -> dict[str, Any]:
    """Begin a command; return its arguments, with ids of merchants in place of names."""
    identity.begin(name)
    errors.begin(_option_names(function))
    _check_not_empty(function, arguments)
    return merchant_names.with_ids(arguments)


def _with_help(function: Command, name: str) -> Command:
    """Give the help of ``hints.py`` to arguments of a command that declare none."""
    parameters = [
        parameter.replace(annotation=Annotated[parameter.annotation, typer.Argument(help=text)])
        if _is_undeclared_argument(parameter) and (text := hints.for_argument(name, parameter.name))
        else parameter
        for parameter in inspect.signature(function).parameters.values()
    ]
    return _with_parameters(function, parameters)


def _is_undeclared_argument(parameter: inspect.Parameter) -> bool:
    """Whether a parameter is an argument of a command without a declaration for typer."""
    is_argument = parameter.kind is inspect.Parameter.POSITIONAL_OR_KEYWORD
    return is_argument and parameter.annotation in (str, Path)


def _option_names(function: Command) -> frozenset[str]:
    """Return the names of a command's options without dashes."""
    return frozenset(
        _name_on_command_line(parameter)
        for parameter in inspect.signature(function).parameters.values()
        if parameter.kind is inspect.Parameter.KEYWORD_ONLY
    )


def _check_not_empty(function: Command, arguments: Mapping[str, Any]) -> None:
    """Refuse an empty option of a read-only command, as the API refuses an empty parameter.

    A script with an empty variable would read more than intended. Commands that write are exempt:
    they have ``--reason``, and for some of their options an empty text has a meaning. An option
    whose default is empty may be empty. Raises Invalid, which names the option.
    """
    from opentill.core.errors import Invalid

    if "reason" in arguments:
        return
    parameters = inspect.signature(function).parameters
    for name, value in arguments.items():
        is_left_out = value == parameters[name].default
        if not is_left_out and (value == "" or (isinstance(value, list) and "" in value)):
            option = _name_on_command_line(parameters[name])
            raise Invalid(option, f"{option} must not be empty: leave it out instead")


def _name_on_command_line(parameter: inspect.Parameter) -> str:
    """Return the name of an option or argument on the command line."""
    for part in getattr(parameter.annotation, "__metadata__", ()):
        # The first declared name is in ``default``, because the declaration is in an annotation.
        for declared in (
            getattr(part, "default", None),
            *(getattr(part, "param_decls", None) or ()),
        ):
            if isinstance(declared, str) and declared.startswith("-"):
                return declared.partition("/")[0].lstrip("-")
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
    return _with_parameters(function, parameters)


def _with_parameters(function: Command, parameters: list[inspect.Parameter]) -> Command:
    """Declare the parameters of a command for typer, in place of those of its own signature."""
    vars(function)["__signature__"] = inspect.Signature(parameters)
    function.__annotations__ = {parameter.name: parameter.annotation for parameter in parameters}
    return function
