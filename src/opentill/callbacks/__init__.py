"""Where gateways report to: ``/gateways/{name}/callback``."""

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
from opentill.db.database import Tx
from opentill.db.query import LOCK_TIMEOUT
from opentill.gateways.model import (
    GatewayDisputeEvent,
    GatewayEvent,
    GatewayPaymentEvent,
    GatewayRefundEvent,
    Notified,
    OfAnotherGateway,
)
from opentill.orders import Report

_TAKEN: Final = b'{"code":0,"message":"success"}'
_PATIENCE: Final = "2s"  # with a locked row, where many wait; the gateway reports again
_log: Final = structlog.get_logger()


class _Endpoint:
    """Takes in a gateway's report: verified by its signature, each event in its own transaction.

    The response is 200 only after the commit: a gateway repeats a report that got another one, and
    repeating is harmless.
    """

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve a request. Raises MethodNotAllowed, NotFound, and what refuses the report."""
        app, name = context.of(scope), scope["path_params"]["name"]
        gateway = app.gateways.get(name)
        notified = gateway if isinstance(gateway, Notified) else None
        methods = ("GET", "POST") if notified else ("POST",)
        if scope["method"] not in methods:
            raise MethodNotAllowed(methods)
        if gateway is None:
            raise NotFound
        if notified:
            events = await reading.notice(notified, scope, receive)
        else:
            events = await reading.signed(gateway, dict(scope["headers"]), receive)
        for event in events:
            if ours := await reading.named(gateway, event):
                await _take_in_ours(app, scope["app"].state.confirmations, name, ours)
        if notified:
            response = Response(notified.acknowledgement, headers={"content-type": "text/plain"})
        else:
            response = Response(_TAKEN, 200, {"cache-control": "no-store"}, "application/json")
        await response(scope, receive, send)


async def _take_in_ours(
    app: App, confirmations: Confirmations, gateway: str, gateway_event: GatewayEvent
) -> None:
    """Apply a gateway event, unless it is about nothing that is here or nothing of that gateway's.

    Payments that succeeded are taken in together with those of other callers. An attempt is
    committed before its gateway is called, so repeating an event about an unknown one would not
    help: it is for another deployment on the same account, or ours was restored from before.
    """
    try:
        if (
            isinstance(gateway_event, GatewayPaymentEvent)
            and gateway_event.outcome.status == "SUCCEEDED"
        ):
            await confirmations.take_in(gateway, gateway_event)
        else:
            await take_in(app, gateway, gateway_event, app.clock())
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


def confirmations(app: App) -> Confirmations:
    """Make what a server gathers its confirmed payments with."""

    async def apply_one(report: Report) -> None:
        await take_in(app, report.gateway, report.gateway_event, app.clock(), patience=_PATIENCE)

    return Confirmations(app.db, app.clock, apply_one)


async def take_in(
    app: App, gateway: str, gateway_event: GatewayEvent, now: int, *, patience: str | None = None
) -> None:
    """Apply one gateway event to the order, refund or dispute that it is about.

    ``gateway`` is the one that signed the event. ``patience`` is how long it waits for a row that
    somebody keeps locked (``2s``), if not for as long as it takes; then it raises Contended. Raises
    NotFound where there is nothing to apply it to, and OfAnotherGateway.
    """

    async def work(tx: Tx) -> None:
        if patience is not None:
            await LOCK_TIMEOUT.get(tx, patience=patience)
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
                await refunds.apply_outcome(
                    tx, merchant_id, gateway_event.refund_id, gateway_event.outcome, now,
                    gateway=gateway, attempt_id=attempt_id,
                )  # fmt: skip
            case GatewayDisputeEvent():
                await disputes.apply_outcome(tx, merchant_id, gateway_event, now, gateway=gateway)

    await app.db.run(work)


routes: Final = (Route("/gateways/{name}/callback", _Endpoint()),)
