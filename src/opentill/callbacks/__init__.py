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
    DisputeNews,
    Gateway,
    News,
    Notified,
    OfAnotherGateway,
    PaymentNews,
    RefundNews,
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
            news = await reading.notice(notified, extra, receive)
        else:
            news = await reading.signed(gateway, dict(extra["headers"]), receive)
        for piece in news:
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


async def _take_in_ours(state: Any, gateway: str, news: News) -> None:
    """Apply news, unless they are about nothing that is here or nothing of that gateway's.

    Payments that succeeded are taken in together with those of other callers. An attempt is
    committed before its gateway hears of it, so repeating news of an unknown one would not help:
    they are for another deployment on the same account, or ours was restored from before.
    """
    try:
        if isinstance(news, PaymentNews) and news.outcome.status == "SUCCEEDED":
            await state.confirmations.take_in(gateway, news)
        else:
            await take_in(state.app, gateway, news, state.app.clock())
    except OfAnotherGateway as error:
        metrics.count_foreign_news(gateway, error.owner)
        _log.warning(
            "news of another gateway's payment",
            gateway=gateway, owner=error.owner, attempt=news.attempt_id, kind=type(news).__name__,
        )  # fmt: skip
    except NotFound:
        _log.error("news of nothing here", gateway=gateway, attempt=news.attempt_id)


def notified(app: App) -> dict[str, Notified]:
    """Return the gateways that report by a query or a form: asked once, not at every report."""
    return {name: one for name, one in app.gateways.items() if isinstance(one, Notified)}


def confirmations(app: App) -> Confirmations:
    """Make what a server gathers its confirmed payments with."""

    async def alone(report: Report) -> None:
        await take_in(app, report.gateway, report.news, app.clock(), patience=_PATIENCE)

    return Confirmations(app.db, app.clock, alone)


async def take_in(
    app: App, gateway: str, news: News, now: int, *, patience: str | None = None
) -> None:
    """Apply one piece of news to the order, refund or dispute that it is about.

    ``gateway`` is whose word it is. Raises NotFound where there is nothing to apply it to, and
    OfAnotherGateway.
    ``patience`` is how long it waits for a row that somebody keeps locked (``2s``), if not for as
    long as it takes. Then it raises Contended.
    """

    async def step(tx: Tx) -> None:
        if patience is not None:
            await LOCK_TIMEOUT.get(tx, patience=patience)
        attempt_id = news.attempt_id
        merchant_id = await orders.merchant_of(tx, attempt_id)
        match news:
            case PaymentNews():
                await orders.hear(tx, merchant_id, attempt_id, news.outcome, now, gateway=gateway)
            case RefundNews(refund_id=refund_id) if refund_id == attempt_id:
                attempt = await orders.attempt_of(tx, gateway, merchant_id, attempt_id)
                await orders.given_back(tx, attempt, news.outcome, now)
            case RefundNews():
                await refunds.hear(
                    tx, merchant_id, news.refund_id, news.outcome, now,
                    gateway=gateway, attempt_id=attempt_id,
                )  # fmt: skip
            case DisputeNews():
                await disputes.hear(tx, merchant_id, news, now, gateway=gateway)

    await app.db.run(step)
