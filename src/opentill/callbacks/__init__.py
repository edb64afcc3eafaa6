"""Where gateways report to: ``POST /gateways/{name}/callback``."""

from typing import Any, Final

import structlog
from litestar import Request, post
from litestar.params import FromPath
from litestar.response import Response

from opentill import disputes, orders, refunds
from opentill.core.clock import now_ms
from opentill.core.db import Tx
from opentill.core.errors import Invalid, NotFound, PayloadTooLarge
from opentill.core.http import MAX_BODY, App
from opentill.gateways.model import BadCallback, DisputeNews, News, PaymentNews, RefundNews

_log: Final = structlog.get_logger()


@post("/gateways/{name:str}/callback", status_code=200, include_in_schema=False)
async def callback(request: Request[Any, Any, Any], name: FromPath[str]) -> Response[bytes]:
    """Take in a gateway's report: verified by its signature, each piece in its own transaction.

    Answered 200 only after the commit; a gateway repeats what was not, and repeating is harmless.
    """
    app: App = request.app.state.app
    gateway = app.gateways.get(name)
    if gateway is None:
        raise NotFound
    body = await read_body(request)
    try:  # the age of a signature is a matter between machines: real time
        news = gateway.read_callback(dict(request.headers.items()), body, now_ms())
    except BadCallback as error:
        raise Invalid("signature", f"signature must be genuine and fresh: {error}") from None
    for piece in news:
        await take_in(app, piece, app.clock())
    return Response(b'{"code":0,"message":"success"}', media_type="application/json")


async def read_body(request: Request[Any, Any, Any]) -> bytes:
    """Return the raw body. Raises PayloadTooLarge over 64 KiB."""
    parts: list[bytes] = []
    size = 0
    async for part in request.stream():
        size += len(part)
        if size > MAX_BODY:
            raise PayloadTooLarge
        parts.append(part)
    return b"".join(parts)


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
