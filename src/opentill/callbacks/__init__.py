"""Callbacks: gateways report payments, refunds and disputes.

An account in the database has the address ``/gateways/{gateway}/{account}/callback``, an account of
the environment ``/gateways/{gateway}/callback``.
"""

from http import HTTPStatus
from typing import Final

import structlog
from starlette.responses import Response
from starlette.routing import Route
from starlette.types import Receive, Scope, Send

from opentill import context
from opentill.callbacks import reading
from opentill.callbacks.applying import apply_event
from opentill.callbacks.confirmations import Confirmations
from opentill.context import App
from opentill.core import metrics
from opentill.core.errors import MethodNotAllowed, NotFound
from opentill.gateways.model import (
    Acknowledges,
    Gateway,
    GatewayEvent,
    GatewayPaymentEvent,
    OfAnotherGateway,
    is_notified,
)
from opentill.gateways.routing import Gateways, gateway_of
from opentill.http.responses import send_json

__all__ = ["Confirmations", "apply_event", "routes"]
_ACKNOWLEDGEMENT: Final = b'{"code":0,"message":"success"}'
_log: Final = structlog.get_logger()


class _Endpoint:
    """The ASGI application of the route: verifies a report and applies each of its events.

    Each event is applied in a separate transaction. The response is 200 only after the last commit:
    a gateway repeats a report after any other response, and applying events is idempotent.
    """

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve a request.

        Raises MethodNotAllowed, NotFound for an unknown gateway, Invalid for a forged report, and
        Unavailable if the gateway should repeat it.
        """
        app, name = context.app_of(scope), _account(scope)
        verifiers = _verifiers(app, name, scope["path_params"]["gateway"])
        gateway = verifiers[0] if verifiers else None
        methods = ("GET", "POST") if is_notified(gateway) else ("POST",)
        if scope["method"] not in methods:
            raise MethodNotAllowed(methods)
        if gateway is None:
            raise NotFound
        for event in await reading.read_events_by_any(verifiers, scope, receive):
            for own_event in await reading.resolve_events(gateway, event):
                await _apply_or_log(app, scope["app"].state.confirmations, name, own_event)
        await _acknowledge(gateway, scope, receive, send)


def _account(scope: Scope) -> str:
    """Return the account of a callback's address; its name is the gateway's if it has no other."""
    params = scope["path_params"]
    name: str = params.get("account", params["gateway"])
    return name


def _verifiers(app: App, name: str, gateway: str) -> tuple[Gateway, ...]:
    """Return the adapters that may verify a callback; () unless the address is the account's."""
    if name not in app.gateways or gateway_of(app.gateways, name) != gateway:
        return ()
    if isinstance(app.gateways, Gateways):
        return app.gateways.verifiers(name, app.clock())
    return (app.gateways[name],)


async def _acknowledge(gateway: Gateway, scope: Scope, receive: Receive, send: Send) -> None:
    """Send the response that makes a provider stop repeating the report."""
    if isinstance(gateway, Acknowledges):  # those that are ``Notified`` do as well
        response = Response(gateway.acknowledgement, headers={"content-type": "text/plain"})
        await response(scope, receive, send)
    else:
        await send_json(send, HTTPStatus.OK, _ACKNOWLEDGEMENT)


async def _apply_or_log(
    app: App, confirmations: Confirmations, gateway: str, gateway_event: GatewayEvent
) -> None:
    """Apply a gateway event; only log it if its payment is unknown or belongs to another gateway.

    Successful payments are applied in one transaction with the payments of other callbacks.

    A payment attempt is committed before its gateway is called. An event about an unknown attempt
    therefore belongs to another deployment on the same account, or the database was restored to a
    time before the attempt; repeating the event would not help.
    """
    try:
        if (
            isinstance(gateway_event, GatewayPaymentEvent)
            and gateway_event.outcome.status == "SUCCEEDED"
        ):
            await confirmations.confirm(gateway, gateway_event)
        else:
            await apply_event(app, gateway, gateway_event, app.clock())
    except OfAnotherGateway as error:
        metrics.count_foreign_gateway_event(gateway, error.owner)
        _log.warning(
            "gateway event about another gateway's payment",
            gateway=gateway,
            owner=error.owner,
            attempt=gateway_event.attempt_id,
            kind=type(gateway_event).__name__,
        )
    except NotFound:
        _log.error(
            "gateway event about nothing here", gateway=gateway, attempt=gateway_event.attempt_id
        )


routes: Final = (
    Route("/gateways/{gateway}/callback", _Endpoint()),
    Route("/gateways/{gateway}/{account}/callback", _Endpoint()),
)
