"""How commands are added, and the options that many of them share.

``add`` and ``add_group`` give every command ``--json`` and print what it returns; a command that
takes ``as_json`` prints by itself. ``acting`` gives a command ``--reason`` and ``--as-root``.
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
        add(group, command, function, of=name)
    app.add_typer(group, name=name)
    return group


def add(app: typer.Typer, name: str, function: Command, *, of: str = "", **settings: bool) -> None:
    """Add a command, ``of`` a group; ``settings`` are click's context settings."""
    made = _printing(function, f"{of} {name}".strip())
    app.command(name, context_settings=settings or None)(made)


def _printing(function: Command, name: str) -> Command:
    """Give a command ``--json``, and print what it returns, unless it takes ``as_json`` itself."""
    if "as_json" in inspect.signature(function).parameters:

        @functools.wraps(function)
        def printing(**given: Any) -> None:
            identity.begin(name)
            _check_not_empty(function, given)
            function(**given)

        return printing

    @functools.wraps(function)
    def command(*, as_json: bool, **given: Any) -> None:
        identity.begin(name)
        _check_not_empty(function, given)
        output.show(function(**given), as_json=as_json)

    return with_options(command, {"as_json": (output.Json, False)})


def _check_not_empty(function: Command, given: Mapping[str, Any]) -> None:
    """Refuse an empty text of a command that only reads, as the API does.

    A script whose variable is empty would read what the option was to exclude. A command that
    writes has ``--reason``, and for some of its options an empty text has a meaning of its own;
    an option whose default is the empty text may be left out.
    Raises Invalid that names the option.
    """
    from opentill.core.errors import Invalid

    if "reason" in given:
        return
    parameters = inspect.signature(function).parameters
    for name, value in given.items():
        is_left_out = value == parameters[name].default
        if not is_left_out and (value == "" or (isinstance(value, list) and "" in value)):
            shown = _shown_name(parameters[name])
            raise Invalid(shown, f"{shown} must not be empty: leave it out instead")


def _shown_name(parameter: inspect.Parameter) -> str:
    """Return what a command calls an option or an argument."""
    for part in getattr(parameter.annotation, "__metadata__", ()):
        for declared in getattr(part, "param_decls", None) or ():
            return str(declared).lstrip("-")
    is_option = parameter.kind is inspect.Parameter.KEYWORD_ONLY
    return parameter.name.replace("_", "-") if is_option else parameter.name


def acting(*, without_reason: str | None = None) -> Callable[[Command], Command]:
    """Give a command ``--reason`` and ``--as-root``, which it gets as its parameter ``actor``.

    ``without_reason`` is the reason where none is given. Without it there must be one: what writes
    to the audit log refuses an empty reason. Who acts, and may, is for ``identity`` to say.
    """
    kind = inputs.Reason if without_reason is None else inputs.OptionalReason

    def decorate(function: Command) -> Command:
        @functools.wraps(function)
        def command(*, reason: str, as_root: bool, **given: Any) -> Any:
            return function(
                actor=inputs.actor(reason, without_reason or "", as_root=as_root), **given
            )

        options = {"reason": (kind, ""), "as_root": (inputs.AsRoot, False)}
        return with_options(command, options, "actor")

    return decorate


def with_options(
    function: Command, options: Mapping[str, tuple[Any, Any]], instead_of: str = ""
) -> Command:
    """Declare options of a command that its own signature does not have; typer reads them.

    ``options`` are annotations and defaults by name. They take the place of the keyword-only
    parameter ``instead_of``, or come last.
    """
    declared = [
        inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, default=default, annotation=kind)
        for name, (kind, default) in options.items()
    ]
    parameters: list[inspect.Parameter] = []
    for one in inspect.signature(function).parameters.values():
        parameters += declared if one.name == instead_of else [one]
    if not instead_of:
        parameters += declared
    vars(function)["__signature__"] = inspect.Signature(parameters)
    function.__annotations__ = {one.name: one.annotation for one in parameters}
    return function
