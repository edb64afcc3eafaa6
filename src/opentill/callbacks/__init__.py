"""Callbacks: gateways report payments, refunds and disputes to ``/gateways/{name}/callback``."""

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
    Gateway,
    GatewayEvent,
    GatewayPaymentEvent,
    OfAnotherGateway,
    is_notified,
)
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
        app, name = context.app_of(scope), scope["path_params"]["name"]
        gateway = app.gateways.get(name)
        methods = ("GET", "POST") if is_notified(gateway) else ("POST",)
        if scope["method"] not in methods:
            raise MethodNotAllowed(methods)
        if gateway is None:
            raise NotFound
        for event in await reading.read_events(gateway, scope, receive):
            for own_event in await reading.resolve_events(gateway, event):
                await _apply_or_log(app, scope["app"].state.confirmations, name, own_event)
        await _acknowledge(gateway, scope, receive, send)


async def _acknowledge(gateway: Gateway, scope: Scope, receive: Receive, send: Send) -> None:
    """Send the response that makes a provider stop repeating the report."""
    if is_notified(gateway):
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


routes: Final = (Route("/gateways/{name}/callback", _Endpoint()),)
