"""Where gateways report to: ``POST /gateways/{name}/callback``."""

import re
from typing import TYPE_CHECKING, Any, Final, cast

import msgspec
import structlog
from litestar import asgi

from opentill import disputes, orders, refunds
from opentill.core.clock import now_ms
from opentill.core.db import Tx
from opentill.core.errors import Invalid, MethodNotAllowed, NotFound, Unavailable
from opentill.core.http import App, failure, read_body, send_json, send_problem
from opentill.gateways.model import (
    BadCallback,
    DisputeNews,
    Gateway,
    News,
    PaymentNews,
    RefundNews,
    Traces,
)

if TYPE_CHECKING:
    from litestar.types import Receive, Scope, Send

_PATH: Final = re.compile(r"/gateways/([^/]+)/callback")
_log: Final = structlog.get_logger()
_TAKEN: Final = b'{"code":0,"message":"success"}'


@asgi("/gateways", is_mount=True, copy_scope=False)
async def callback(scope: "Scope", receive: "Receive", send: "Send") -> None:
    """Take in a gateway's report: verified by its signature, each piece in its own transaction.

    Answered 200 only after the commit; a gateway repeats what was not, and repeating is harmless.
    """
    extra = cast("dict[str, Any]", scope)  # with what the edge added
    try:
        found = _PATH.fullmatch(extra["opentill_path"])
        if found is None:
            raise NotFound  # noqa: TRY301 - answered like everything else
        extra["opentill_route"] = "/gateways/{name}/callback"
        if extra["method"] != "POST":
            status, body, _ = failure(MethodNotAllowed())
            await send_json(send, status, body, [(b"allow", b"POST")])
            return
        app: App = extra["litestar_app"].state.app
        await _read(app, found[1], dict(extra["headers"]), receive)
        await send_json(send, 200, _TAKEN)
    except Exception as error:  # noqa: BLE001 - every failure gets the one error body
        await send_problem(send, error)


async def _read(app: App, name: str, headers: dict[bytes, bytes], receive: "Receive") -> None:
    gateway = app.gateways.get(name)
    if gateway is None:
        raise NotFound
    body = await read_body(headers, receive)
    texts = {key.decode("latin-1"): value.decode("latin-1") for key, value in headers.items()}
    try:  # the age of a signature is a matter between machines: real time
        news = gateway.read_callback(texts, body, now_ms())
    except BadCallback as error:
        raise Invalid("signature", f"signature must be genuine and fresh: {error}") from None
    for piece in news:
        if named := await _named(gateway, piece):
            await _take_in_ours(app, gateway, named)


async def _named(gateway: Gateway, news: News) -> News | None:
    """Have news that name a payment by the provider's name only traced; None if it is not ours.

    Raises Unavailable while the provider does not answer: it is to report again.
    """
    if not isinstance(news, DisputeNews) or news.attempt_id or not isinstance(gateway, Traces):
        return news
    attempt_id = await gateway.trace(news.payment_ref)
    if attempt_id is None:
        raise Unavailable
    return msgspec.structs.replace(news, attempt_id=attempt_id) if attempt_id else None


async def _take_in_ours(app: App, gateway: Gateway, news: News) -> None:
    """Apply news, unless they are about nothing that is here.

    An attempt is committed before its gateway hears of it, so repeating them would not help: they
    are for another deployment on the same account, or ours was restored from before.
    """
    try:
        await take_in(app, news, app.clock())
    except NotFound:
        _log.error("news of nothing here", gateway=gateway.name, attempt=news.attempt_id)


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
