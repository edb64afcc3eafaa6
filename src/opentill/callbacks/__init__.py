"""Where gateways report to: ``POST /gateways/{name}/callback``."""

import re
from typing import TYPE_CHECKING, Any, Final, cast

from opentill import disputes, orders, refunds
from opentill.callbacks.confirmations import Confirmations
from opentill.core.clock import now_ms
from opentill.core.db import Tx
from opentill.core.errors import Invalid, MethodNotAllowed, NotFound
from opentill.core.http import App, failure, read_body, send_json, send_problem
from opentill.gateways.model import BadCallback, DisputeNews, News, PaymentNews, RefundNews

if TYPE_CHECKING:
    from litestar.types import Receive, Scope, Send

_PATH: Final = re.compile(r"/gateways/([^/]+)/callback")
_TAKEN: Final = b'{"code":0,"message":"success"}'


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
        if extra["method"] != "POST":
            status, body, _ = failure(MethodNotAllowed())
            await send_json(send, status, body, [(b"allow", b"POST")])
            return
        state = extra["litestar_app"].state
        news = await _read(state.app, found[1], dict(extra["headers"]), receive)
        for piece in news:
            if isinstance(piece, PaymentNews) and piece.outcome.status == "SUCCEEDED":
                await state.confirmations.take_in(piece)
            else:
                await take_in(state.app, piece, state.app.clock())
        await send_json(send, 200, _TAKEN)
    except Exception as error:  # noqa: BLE001 - every failure gets the one error body
        await send_problem(send, error)


async def _read(
    app: App, name: str, headers: dict[bytes, bytes], receive: "Receive"
) -> tuple[News, ...]:
    gateway = app.gateways.get(name)
    if gateway is None:
        raise NotFound
    body = await read_body(headers, receive)
    texts = {key.decode("latin-1"): value.decode("latin-1") for key, value in headers.items()}
    try:  # the age of a signature is a matter between machines: real time
        news: tuple[News, ...] = gateway.read_callback(texts, body, now_ms())
    except BadCallback as error:
        raise Invalid("signature", f"signature must be genuine and fresh: {error}") from None
    return news


def confirmations(app: App) -> Confirmations:
    """Make what a server gathers its confirmed payments with."""
    return Confirmations(app.db, app.clock, lambda news: take_in(app, news, app.clock()))


async def take_in(app: App, news: News, now: int) -> None:
    """Apply one piece of news to the order, refund or dispute that it is about."""

    async def step(tx: Tx) -> None:
        merchant_id = await orders.merchant_of(tx, news.attempt_id)
        match news:
            case PaymentNews():
                await orders.hear(tx, merchant_id, news.attempt_id, news.outcome, now)
            case RefundNews(refund_id=refund_id) if refund_id == news.attempt_id:
                attempt = await orders.find_attempt(tx, merchant_id, news.attempt_id)
                await orders.given_back(tx, attempt, news.outcome, now)
            case RefundNews():
                await refunds.hear(tx, merchant_id, news.refund_id, news.outcome, now)
            case DisputeNews():
                await disputes.hear(tx, merchant_id, news, now)

    await app.db.run(step)
