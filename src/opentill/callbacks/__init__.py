"""Callbacks: gateways report payments, refunds and disputes to ``/gateways/{name}/callback``."""

from http import HTTPStatus
from typing import Final

import structlog
from starlette.responses import Response
from starlette.routing import Route
from starlette.types import Receive, Scope, Send

from opentill import context, disputes, orders, refunds
from opentill.callbacks import reading
from opentill.callbacks.confirmations import Confirmations
from opentill.context import App
from opentill.core import metrics
from opentill.core.errors import MethodNotAllowed, NotFound
from opentill.db.database import Tx, limit_lock_waits
from opentill.gateways.model import (
    Gateway,
    GatewayDisputeEvent,
    GatewayEvent,
    GatewayPaymentEvent,
    GatewayRefundEvent,
    GatewayRefundsEvent,
    OfAnotherGateway,
    is_notified,
)
from opentill.http.responses import send_json
from opentill.orders import Report

_TAKEN: Final = b'{"code":0,"message":"success"}'
# How long an event waits for a locked row while others are queued; then the gateway repeats it.
_PATIENCE: Final = "2s"
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
        await send_json(send, HTTPStatus.OK, _TAKEN)


async def _apply_or_log(
    app: App, confirmations: Confirmations, gateway: str, gateway_event: GatewayEvent
) -> None:
    """Apply a gateway event; one about another gateway's or an unknown payment is only logged.

    Successful payments are applied in one transaction with those of other callbacks. A payment
    attempt is committed before its gateway is called. An event about an unknown attempt therefore
    belongs to another deployment on the same account, or the database was restored to a time before
    the attempt; repeating the event would not help.
    """
    try:
        if (
            isinstance(gateway_event, GatewayPaymentEvent)
            and gateway_event.outcome.status == "SUCCEEDED"
        ):
            await confirmations.take_in(gateway, gateway_event)
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


def create_confirmations(app: App) -> Confirmations:
    """Create the batcher of confirmed payments, one for each server process."""

    async def apply_one(report: Report) -> None:
        await apply_event(
            app, report.gateway, report.gateway_event, app.clock(), patience=_PATIENCE
        )

    return Confirmations(app.db, app.clock, apply_one)


async def apply_event(
    app: App, gateway: str, gateway_event: GatewayEvent, now: int, *, patience: str | None = None
) -> None:
    """Apply a gateway event to its order, refund or dispute.

    ``gateway`` signed the event. ``patience`` is the longest wait for a locked row in PostgreSQL's
    form (``2s``), None for no limit. Raises Contended after that time, NotFound if the event's
    subject does not exist, and OfAnotherGateway.
    """

    async def work(tx: Tx) -> None:
        if patience is not None:
            await limit_lock_waits(tx, patience)
        attempt_id = gateway_event.attempt_id
        merchant_id = await orders.merchant_of(tx, attempt_id)
        match gateway_event:
            case GatewayPaymentEvent():
                await orders.apply_outcome(
                    tx, merchant_id, attempt_id, gateway_event.outcome, now, gateway=gateway
                )
            case GatewayRefundEvent(refund_id=refund_id) if refund_id == attempt_id:
                attempt = await orders.attempt_of(tx, gateway, merchant_id, attempt_id)
                await orders.given_back(tx, attempt, gateway_event.outcome, now)
            case GatewayRefundEvent():
                await refunds.apply_report(tx, merchant_id, gateway_event, now, gateway=gateway)
            case GatewayRefundsEvent():
                raise AssertionError  # reading.resolve_events has expanded it
            case GatewayDisputeEvent():
                await disputes.apply_outcome(tx, merchant_id, gateway_event, now, gateway=gateway)

    await app.db.run(work)


routes: Final = (Route("/gateways/{name}/callback", _Endpoint()),)
