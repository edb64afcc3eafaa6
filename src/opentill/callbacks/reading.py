"""Verifies callbacks and converts them to gateway events."""

from collections.abc import Sequence
from typing import Final
from urllib.parse import parse_qsl

import msgspec
from starlette.types import Message, Receive, Scope

from opentill.core.errors import Invalid, Unavailable
from opentill.db.clock import now_ms
from opentill.gateways.model import (
    BadCallback,
    Gateway,
    GatewayDisputeEvent,
    GatewayEvent,
    GatewayRefundEvent,
    GatewayRefundsEvent,
    ListsRefunds,
    Notified,
    Traces,
    fetches_keys,
    is_notified,
)
from opentill.http.incoming import read_body

_MOST_FIELDS: Final = 100


async def read_events(gateway: Gateway, scope: Scope, receive: Receive) -> tuple[GatewayEvent, ...]:
    """Return the events of a callback. Raises Invalid if it is forged or too old."""
    if is_notified(gateway):
        return await _read_notice(gateway, scope, receive)
    headers = dict[bytes, bytes](scope["headers"])
    body = await read_body(headers, receive)
    texts = {key.decode("latin-1"): value.decode("latin-1") for key, value in headers.items()}
    if fetches_keys(gateway):
        await gateway.fetch_keys(texts)
    try:  # signatures expire by real time, not by business time
        return gateway.read_callback(texts, body, now_ms())
    except BadCallback as error:
        raise Invalid("signature", f"signature must be genuine and fresh: {error}") from None


async def _read_notice(
    gateway: Notified, scope: Scope, receive: Receive
) -> tuple[GatewayEvent, ...]:
    """Read the signed part: the query of a GET or the form of a POST."""
    content = scope["query_string"]
    if scope["method"] == "POST":
        content = await read_body(dict(scope["headers"]), receive)
    try:
        text = content.decode("ascii")
        pairs = parse_qsl(
            text, keep_blank_values=True, errors="strict", max_num_fields=_MOST_FIELDS
        )
    except ValueError:  # a UnicodeDecodeError is a ValueError too
        raise Invalid("body", "body must be a form in UTF-8") from None
    try:
        return await gateway.read_notice(dict(pairs))
    except BadCallback as error:
        raise Invalid("sign", f"sign must be that of a true notice: {error}") from None


async def resolve_events(gateway: Gateway, gateway_event: GatewayEvent) -> tuple[GatewayEvent, ...]:
    """Return the events that a report stands for, each with its payment attempt's id.

    If a dispute or refund names only the provider's payment, the provider is asked for the
    attempt's id; there is no event if the payment belongs to another deployment. A report that a
    payment has refunds becomes the refunds that the provider lists. Raises Unavailable if the
    provider does not respond, so that the provider repeats the report.
    """
    if isinstance(gateway_event, GatewayRefundsEvent):
        return await _list_refunds(gateway, gateway_event)
    if (
        not isinstance(gateway_event, GatewayDisputeEvent | GatewayRefundEvent)
        or gateway_event.attempt_id
        or not isinstance(gateway, Traces)
    ):
        return (gateway_event,)
    attempt_id = await gateway.trace(gateway_event.payment_ref)
    if attempt_id is None:
        raise Unavailable
    if not attempt_id:
        return ()
    return (msgspec.structs.replace(gateway_event, attempt_id=attempt_id),)


async def read_events_by_any(
    verifiers: Sequence[Gateway], scope: Scope, receive: Receive
) -> tuple[GatewayEvent, ...]:
    """Return the events of a callback that any of ``verifiers`` accepts.

    The first has an account's present credentials, the others have earlier ones. Raises Invalid
    with the reason of the first.
    """
    if len(verifiers) == 1:
        return await read_events(verifiers[0], scope, receive)
    body = _RepeatedBody(receive)
    refusals: list[Invalid] = []
    for gateway in verifiers:
        try:
            return await read_events(gateway, scope, body.read)
        except Invalid as refusal:
            refusals.append(refusal)
            body.rewind()
    raise refusals[0]


class _RepeatedBody:
    """The body of a request, which can be read several times."""

    def __init__(self, receive: Receive) -> None:
        self._receive = receive
        self._messages: list[Message] = []
        self._position = 0

    async def read(self) -> Message:
        if self._position == len(self._messages):
            self._messages.append(await self._receive())
        self._position += 1
        return self._messages[self._position - 1]

    def rewind(self) -> None:
        self._position = 0


async def _list_refunds(
    gateway: Gateway, gateway_event: GatewayRefundsEvent
) -> tuple[GatewayRefundEvent, ...]:
    if not isinstance(gateway, ListsRefunds):
        return ()
    refunds = await gateway.list_refunds(gateway_event.payment_ref, gateway_event.attempt_id)
    if refunds is None:
        raise Unavailable
    return refunds
