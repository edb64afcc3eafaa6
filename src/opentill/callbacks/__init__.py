"""Where gateways report to: ``/gateways/{name}/callback``."""

import re
from typing import TYPE_CHECKING, Any, Final, cast

import structlog

from opentill import disputes, orders, refunds
from opentill.callbacks import reading
from opentill.callbacks.confirmations import Confirmations
from opentill.context import App
from opentill.core import metrics
from opentill.core.errors import MethodNotAllowed, NotFound
from opentill.db.database import Tx
from opentill.db.query import LOCK_TIMEOUT
from opentill.gateways.model import (
    Gateway,
    GatewayDisputeEvent,
    GatewayEvent,
    GatewayPaymentEvent,
    GatewayRefundEvent,
    Notified,
    OfAnotherGateway,
)
from opentill.http.operations import failure, send_json, send_problem
from opentill.orders import Report

if TYPE_CHECKING:
    from litestar.types import Receive, Scope, Send

_PATH: Final = re.compile(r"/gateways/([^/]+)/callback")
_TAKEN: Final = b'{"code":0,"message":"success"}'
_PATIENCE: Final = "2s"  # with a locked row, where many wait; the gateway reports again
_log: Final = structlog.get_logger()


async def callback(scope: "Scope", receive: "Receive", send: "Send") -> None:
    """Take in a gateway's report: verified by its signature, each piece in its own transaction.

    Answered 200 only after the commit; a gateway repeats what was not, and repeating is harmless.
    """
    extra = cast("dict[str, Any]", scope)  # with what the edge added
    try:
        found = _PATH.fullmatch(extra["path"])
        if found is None:
            raise NotFound  # noqa: TRY301 - answered like everything else
        extra["opentill_route"] = "/gateways/{name}/callback"
        state = extra["litestar_app"].state
        gateway: Gateway | None = state.app.gateways.get(found[1])
        notified: Notified | None = state.notified.get(found[1])
        if extra["method"] not in (("GET", "POST") if notified else ("POST",)):
            status, body, _ = failure(MethodNotAllowed())
            await send_json(send, status, body, [(b"allow", b"GET, POST" if notified else b"POST")])
            return
        if gateway is None:
            raise NotFound  # noqa: TRY301 - likewise
        if notified:
            gateway_event = await reading.notice(notified, extra, receive)
        else:
            gateway_event = await reading.signed(gateway, dict(extra["headers"]), receive)
        for piece in gateway_event:
            if ours := await reading.named(gateway, piece):
                await _take_in_ours(state, found[1], ours)
        if notified:
            await _send_text(send, notified.acknowledgement)
        else:
            await send_json(send, 200, _TAKEN)
    except Exception as error:  # noqa: BLE001 - every failure gets the one error body
        await send_problem(send, error)


async def _send_text(send: "Send", text: bytes) -> None:
    headers = [(b"content-type", b"text/plain"), (b"content-length", b"%d" % len(text))]
    await send({"type": "http.response.start", "status": 200, "headers": headers})
    await send({"type": "http.response.body", "body": text, "more_body": False})


async def _take_in_ours(state: Any, gateway: str, gateway_event: GatewayEvent) -> None:
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
            await state.confirmations.take_in(gateway, gateway_event)
        else:
            await take_in(state.app, gateway, gateway_event, state.app.clock())
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


def notified(app: App) -> dict[str, Notified]:
    """Return the gateways that report by a query or a form: asked once, not at every report."""
    return {name: one for name, one in app.gateways.items() if isinstance(one, Notified)}


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
