"""``opentill trigger``: make an event of a type happen, with test money.

The command does what a shop and its customer would do: it opens a session over the API, pays it on
the pages of the sandbox bank, and refunds it. So the objects and the event are real.
"""

import json
from typing import TYPE_CHECKING, Annotated, Any, cast

import typer

from opentill.cli import api_access, session
from opentill.cli.registration import add
from opentill.cli.trigger_scenarios import OF_OPERATORS, SCENARIOS
from opentill.core.errors import ConfigurationError, Invalid

if TYPE_CHECKING:
    from collections.abc import Mapping


def register(app: typer.Typer) -> None:
    """Add the command."""
    add(app, "trigger", trigger)


def trigger(
    event_type: Annotated[
        str, typer.Argument(metavar="TYPE", help=f"One of {', '.join(SCENARIOS)}.")
    ],
    *,
    key: api_access.Key,
    server: api_access.Server = api_access.DEFAULT_SERVER,
    data: Annotated[
        str,
        typer.Option(
            help="Fields of the checkout session as JSON, such as"
            ' \'{"item": {"name": "Tea", "price": "9.99", "currency": "USD"}}\';'
            " its object refund has fields of the refund."
        ),
    ] = "{}",
    timeout: Annotated[float, typer.Option(min=1, help="Seconds to wait for the event.")] = 60.0,
) -> "Mapping[str, object]":
    """Make an event happen with the sandbox bank, such as order.paid. Refuses real money."""
    if event_type not in SCENARIOS:
        raise _not_triggered(event_type)
    from opentill.cli.trigger_flow import Flow

    checkout, refund = _fields(data)
    scenario = SCENARIOS[event_type]
    if refund and not scenario.is_refunded:
        raise Invalid("data", f"data must have no refund: {event_type} makes none")

    async def work() -> dict[str, object]:
        async with Flow(server, key, timeout) as flow:
            return await flow.run(event_type, scenario, checkout, refund)

    return session.run(work())


def _not_triggered(event_type: str) -> Exception:
    if event_type in OF_OPERATORS:
        commands = OF_OPERATORS[event_type]
        message = f"a merchant cannot trigger {event_type}; the operator can: {commands}"
        return ConfigurationError(message)
    return Invalid("type", f"type must be one of {', '.join(SCENARIOS)}")


def _fields(data: str) -> "tuple[dict[str, Any], dict[str, Any]]":
    """Return the fields of the session and of the refund. Raises Invalid."""
    try:
        fields: object = json.loads(data)
    except ValueError:
        fields = None
    if not isinstance(fields, dict):
        raise Invalid("data", "data must be a JSON object")
    checkout = cast("dict[str, Any]", fields)
    refund: object = checkout.pop("refund", {})
    if not isinstance(refund, dict):
        raise Invalid("data", "data must have a JSON object as refund")
    return checkout, cast("dict[str, Any]", refund)
