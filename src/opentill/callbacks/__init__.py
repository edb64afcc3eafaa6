"""Where gateways report to: ``POST /gateways/{name}/callback``."""

import re
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any, Final, cast
from urllib.parse import parse_qsl

from opentill import disputes, orders, refunds
from opentill.callbacks.confirmations import Confirmations
from opentill.core.clock import now_ms
from opentill.core.db import Tx
from opentill.core.errors import Invalid, MethodNotAllowed, NotFound
from opentill.core.http import App, failure, read_body, send_json, send_problem
from opentill.gateways.model import (
    BadCallback,
    DisputeNews,
    Gateway,
    News,
    Notified,
    PaymentNews,
    RefundNews,
)

if TYPE_CHECKING:
    from litestar.types import Receive, Scope, Send

_PATH: Final = re.compile(r"/gateways/([^/]+)/callback")
_TAKEN: Final = b'{"code":0,"message":"success"}'
_MOST_FIELDS: Final = 100


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
        gateway = state.app.gateways.get(found[1])
        by_form = isinstance(gateway, Notified)
        if extra["method"] not in (("GET", "POST") if by_form else ("POST",)):
            status, body, _ = failure(MethodNotAllowed())
            await send_json(send, status, body, [(b"allow", b"GET, POST" if by_form else b"POST")])
            return
        if gateway is None:
            raise NotFound  # noqa: TRY301 - likewise
        if isinstance(gateway, Notified):
            news = await _read_notice(gateway, await _form(extra, receive))
            await _take_in_all(state, news)
            await _send_text(send, gateway.acknowledgement)
            return
        await _take_in_all(state, await _read(gateway, dict(extra["headers"]), receive))
        await send_json(send, 200, _TAKEN)
    except Exception as error:  # noqa: BLE001 - every failure gets the one error body
        await send_problem(send, error)


async def _form(scope: dict[str, Any], receive: "Receive") -> dict[str, str]:
    """Return the fields of a notice: the query of a GET, the form of a POST. Raises Invalid.

    Whatever else comes along is left out: what is signed is one of both.
    """
    sent = scope["query_string"]
    if scope["method"] == "POST":
        sent = await read_body(dict(scope["headers"]), receive)
    try:
        text = sent.decode("ascii")
        pairs = parse_qsl(
            text, keep_blank_values=True, errors="strict", max_num_fields=_MOST_FIELDS
        )
    except ValueError:  # also of UnicodeDecodeError
        raise Invalid("body", "body must be a form in UTF-8") from None
    return dict(pairs)


async def _read_notice(gateway: Notified, params: Mapping[str, str]) -> tuple[News, ...]:
    try:
        return await gateway.read_notice(params)
    except BadCallback as error:
        raise Invalid("sign", f"sign must be that of a true notice: {error}") from None


async def _send_text(send: "Send", text: bytes) -> None:
    headers = [(b"content-type", b"text/plain"), (b"content-length", b"%d" % len(text))]
    await send({"type": "http.response.start", "status": 200, "headers": headers})
    await send({"type": "http.response.body", "body": text, "more_body": False})


async def _read(
    gateway: Gateway, headers: dict[bytes, bytes], receive: "Receive"
) -> tuple[News, ...]:
    body = await read_body(headers, receive)
    texts = {key.decode("latin-1"): value.decode("latin-1") for key, value in headers.items()}
    try:  # the age of a signature is a matter between machines: real time
        return gateway.read_callback(texts, body, now_ms())
    except BadCallback as error:
        raise Invalid("signature", f"signature must be genuine and fresh: {error}") from None


async def _take_in_all(state: Any, news: Iterable[News]) -> None:
    """Apply news: payments that succeeded with those of other callers, the rest one by one."""
    for piece in news:
        if isinstance(piece, PaymentNews) and piece.outcome.status == "SUCCEEDED":
            await state.confirmations.take_in(piece)
        else:
            await take_in(state.app, piece, state.app.clock())


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
