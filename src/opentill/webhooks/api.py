"""``/v1/webhook-endpoints`` and ``/v1/events``. Extensions of the contract."""

from typing import Annotated, Any, Final

import msgspec
from msgspec import Meta

from opentill.core.errors import Invalid, NotFound
from opentill.db.database import Tx
from opentill.http.fields import meaning
from opentill.http.operations import ApiRequest, Nothing, Operation
from opentill.http.paging import Listing, Page, Size, listing
from opentill.merchants import Actor
from opentill.webhooks import catchup, queries, resending, samples, service
from opentill.webhooks.delivery_log import attempts_of
from opentill.webhooks.event_types import SentType, Type
from opentill.webhooks.model import DeliveryStatus, EventBody
from opentill.webhooks.resending import EventRange
from opentill.webhooks.service import UrlCheck
from opentill.webhooks.wire import (
    DeliveryOut,
    EndpointBody,
    EndpointOut,
    EndpointUpdate,
    EndpointWithSecret,
    EventsOut,
    ResendBody,
    ResendOut,
    raw,
)


class ListQuery(msgspec.Struct, frozen=True):
    """Which page of endpoints."""

    page: Page = 1
    size: Size = 20


class DeliveryQuery(msgspec.Struct, frozen=True, rename="camel"):
    """Which deliveries to list."""

    page: Page = 1
    size: Size = 20
    status: Annotated[DeliveryStatus, Meta(description="PENDING, SUCCEEDED or FAILED")] | None = (
        None
    )
    type: Annotated[SentType, Meta(description="a type of event, such as order.paid")] | None = None
    event_id: Annotated[str, Meta(description="the id of one of your events")] | None = None


class EventQuery(msgspec.Struct, frozen=True):
    """Which events to read."""

    cursor: Annotated[
        str,
        Meta(
            max_length=32,
            description="`cursor` of the previous response; absent: from the oldest event kept; "
            "`latest`: after the newest event",
            extra_json_schema={"pattern": r"^(0|[1-9][0-9]{0,17}|latest)$"},
        ),
    ] = "0"
    size: Size = 20
    type: Annotated[Type, Meta(description="a type of event, such as order.paid")] | None = None
    resent: Annotated[
        Annotated[bool, Meta(description="true or false")],
        meaning("`true`: an event that you resend is listed again, at the time of its resend."),
    ] = False


def _actor(request: ApiRequest[Any, Any]) -> Actor:
    """Return the caller for the audit log: a person, or a key, which belongs to a merchant."""
    return Actor(request.who or f"API key {request.key_id}", "by the merchant's API")


async def create(request: ApiRequest[Nothing, EndpointBody], tx: Tx) -> EndpointWithSecret:
    """Create an endpoint."""
    app = request.app
    endpoint, secret = await service.create(
        tx,
        request.merchant_id,
        request.body.endpoint_fields(),
        UrlCheck(app.outgoing.check),
        app.settings.secret_key,
        request.now,
        actor=_actor(request),
    )
    return EndpointWithSecret.from_endpoint(endpoint, secret)


async def list_endpoints(request: ApiRequest[ListQuery, Nothing]) -> Listing[EndpointOut]:
    """List endpoints, newest first."""
    query = request.query
    async with request.app.db.connection() as tx:
        endpoints = await queries.ENDPOINTS.all(
            tx,
            merchant_id=request.merchant_id,
            limit=query.size,
            offset=(query.page - 1) * query.size,
        )
        total = await queries.COUNT_ENDPOINTS.get(tx, merchant_id=request.merchant_id)
    return listing(
        [EndpointOut.from_endpoint(one) for one in endpoints], query.page, query.size, total or 0
    )


async def get(request: ApiRequest[Nothing, Nothing]) -> EndpointOut:
    """Return an endpoint."""
    async with request.app.db.connection() as tx:
        return EndpointOut.from_endpoint(
            await service.find(tx, request.merchant_id, request.path["id"])
        )


async def update(request: ApiRequest[Nothing, EndpointUpdate], tx: Tx) -> EndpointOut:
    """Change an endpoint."""
    check_url, changes = UrlCheck(request.app.outgoing.check), request.body.endpoint_fields()
    ids = (request.merchant_id, request.path["id"])
    endpoint = await service.update(
        tx, *ids, changes, check_url, request.now, actor=_actor(request)
    )
    return EndpointOut.from_endpoint(endpoint)


async def delete(request: ApiRequest[Nothing, Nothing], tx: Tx) -> None:
    """Delete an endpoint."""
    ids = (request.merchant_id, request.path["id"])
    await service.delete(tx, *ids, request.now, actor=_actor(request))


async def rotate(request: ApiRequest[Nothing, Nothing], tx: Tx) -> EndpointWithSecret:
    """Rotate the signing secret of an endpoint."""
    key = request.app.settings.secret_key
    ids = (request.merchant_id, request.path["id"])
    endpoint, secret = await service.rotate_secret(
        tx, *ids, key, request.now, actor=_actor(request)
    )
    return EndpointWithSecret.from_endpoint(endpoint, secret)


async def deliveries(request: ApiRequest[DeliveryQuery, Nothing]) -> Listing[DeliveryOut]:
    """List deliveries, those of the newest events first."""
    query, ids = request.query, (request.merchant_id, request.path["id"])
    own = {"merchant_id": ids[0], "endpoint_id": ids[1]}
    which = {"status": query.status, "type": query.type, "event_id": query.event_id}
    async with request.app.db.connection() as tx:
        await service.find(tx, *ids)
        offset = (query.page - 1) * query.size
        page = await queries.DELIVERIES.all(tx, **own, **which, limit=query.size, offset=offset)
        attempts = await attempts_of(tx, *ids, [one.event_id for one in page])
        total = await queries.COUNT_DELIVERIES.get(tx, **own, **which)
    shown = [DeliveryOut.from_delivery(one, attempts.get(one.event_id, [])) for one in page]
    return listing(shown, query.page, query.size, total or 0)


async def resend(request: ApiRequest[Nothing, ResendBody], tx: Tx) -> ResendOut:
    """Resend one event or a range of events."""
    body, ids = request.body, (request.merchant_id, request.path["id"])
    if body.event_id is not None:
        await resending.resend(tx, *ids, body.event_id, request.now)
        return ResendOut(1, None)
    if body.since is None:
        raise Invalid("since", "since must say from when on, if no eventId is given")
    event_range = EventRange(
        since=body.since,
        until=request.now if body.until is None else body.until,
        type=body.type,
        failed_only=body.failed_only,
        after=body.after,
    )
    result = await resending.resend_range(tx, *ids, event_range, request.now)
    return ResendOut(result.count, result.last)


async def send_test(request: ApiRequest[Nothing, Nothing], tx: Tx) -> DeliveryOut:
    """Send a test event."""
    delivery = await resending.send_test(tx, request.merchant_id, request.path["id"], request.now)
    return DeliveryOut.from_delivery(delivery, [])


async def list_events(request: ApiRequest[EventQuery, Nothing]) -> EventsOut:
    """Read events, oldest first."""
    query, db, merchant_id = request.query, request.app.db, request.merchant_id
    if query.cursor == catchup.LATEST:
        newest = await catchup.newest_cursor(db, merchant_id)
        return EventsOut(items=[], cursor=str(newest), has_more=False)
    after = catchup.parse_cursor(query.cursor)
    batch = await catchup.read(
        db, merchant_id, after, query.type, query.size, with_resends=query.resent
    )
    return EventsOut(
        items=[raw(event) for event in batch.events],
        cursor=str(batch.cursor),
        has_more=batch.more,
    )


async def get_event(request: ApiRequest[Nothing, Nothing]) -> msgspec.Raw:
    """Return an event."""
    async with request.app.db.connection() as tx:
        body = await queries.EVENT.get(tx, merchant_id=request.merchant_id, id=request.path["id"])
    if body is None:
        raise NotFound
    return msgspec.Raw(body.encode())


TAG: Final = "Webhooks"
_ENDPOINT: Final[dict[str, Any]] = {
    "id": "whe_01m7y0m0jzefzv5n8efcf1hqw7",
    "url": "https://shop.example.com/opentill",
    "description": "Fulfilment",
    "events": ["order.paid", "order.refunded"],
    "status": "ENABLED",
    "disabledReason": None,
    "oldSecretUntil": None,
    "createdAt": 1736932500000,
    "updatedAt": 1736932500000,
}
_SECRET: Final = {"secret": "whsec_…"}
_ONE_PAGE: Final = {"page": 1, "size": 20, "total": 1, "totalPages": 1}
_EVENT: Final = samples.sample("order.paid")
_DELIVERY: Final[dict[str, Any]] = {
    "eventId": _EVENT["id"],
    "type": "order.paid",
    "status": "PENDING",
    "nextAttemptAt": 1736932561200,
    "attempts": [
        {
            "number": 1,
            "at": 1736932500120,
            "durationMs": 48,
            "outcome": "refused",
            "httpStatus": 500,
            "request": "POST https://shop.example.com/opentill\nwebhook-id: evt_…\n",
            "answer": "HTTP 500\ncontent-type: text/plain\n\nout of stock",
            "error": "",
            "fault": "server_error",
        },
    ],
    "createdAt": 1736932500000,
    "updatedAt": 1736932500168,
}

operations: Final = (
    Operation(
        method="POST",
        path="/v1/webhook-endpoints",
        scope="webhooks:write",
        tag=TAG,
        summary="Create a webhook endpoint",
        description="Events are sent to the `url`, signed with the "
        "`secret`, which is shown only here. Respond with 2xx within 30 seconds; otherwise "
        "an event is sent again after 1 min, 5 min, 30 min, 2 h, 5 h, 10 h, 14 h, 20 h and 24 h.",
        body=EndpointBody,
        response=EndpointWithSecret,
        status=201,
        write=create,
        secret=True,
        refusals=(
            "an address that is not public https",
            f"more than {service.MAX_ENDPOINTS} endpoints",
            "an unknown type of event",
        ),
        example={"url": _ENDPOINT["url"], "events": _ENDPOINT["events"]},
        response_example=_ENDPOINT | _SECRET,
    ),
    Operation(
        method="GET",
        path="/v1/webhook-endpoints",
        scope="webhooks:read",
        tag=TAG,
        summary="List webhook endpoints",
        description="Endpoints are listed newest first, without their secrets.",
        query=ListQuery,
        response=Listing[EndpointOut],
        read=list_endpoints,
        response_example={"items": [_ENDPOINT], "pagination": _ONE_PAGE},
    ),
    Operation(
        method="GET",
        path="/v1/webhook-endpoints/{id}",
        scope="webhooks:read",
        tag=TAG,
        summary="Get a webhook endpoint",
        description="`disabledReason` says why the service has disabled the endpoint.",
        response=EndpointOut,
        read=get,
        response_example=_ENDPOINT,
    ),
    Operation(
        method="PATCH",
        path="/v1/webhook-endpoints/{id}",
        scope="webhooks:write",
        tag=TAG,
        summary="Update a webhook endpoint",
        description="Nothing is sent to an endpoint while it is DISABLED, and events of that "
        "time are not sent later: read them from `/v1/events`, or resend them.",
        body=EndpointUpdate,
        response=EndpointOut,
        write=update,
        refusals=("an address that is not public https", "an unknown type of event"),
        example={"status": "ENABLED"},
        response_example=_ENDPOINT,
    ),
    Operation(
        method="DELETE",
        path="/v1/webhook-endpoints/{id}",
        scope="webhooks:write",
        tag=TAG,
        summary="Delete a webhook endpoint",
        description="Deliveries that wait for the endpoint are not sent.",
        response=None,
        write=delete,
    ),
    Operation(
        method="POST",
        path="/v1/webhook-endpoints/{id}/rotate-secret",
        scope="webhooks:write",
        tag=TAG,
        summary="Rotate a webhook secret",
        description="For 24 hours both secrets sign: "
        "`webhook-signature` has both, `X-Svc-Signature` is by the new one and "
        "`X-Svc-Signature-Old` by the one before (a deployment may have another prefix than "
        "`X-Svc-`: see the headers of the webhooks).",
        response=EndpointWithSecret,
        status=201,
        write=rotate,
        secret=True,
        response_example=_ENDPOINT | {"oldSecretUntil": 1737018900000} | _SECRET,
    ),
    Operation(
        method="GET",
        path="/v1/webhook-endpoints/{id}/deliveries",
        scope="events:read",
        tag=TAG,
        summary="List webhook deliveries",
        description="Lists every event that was or will be sent to the endpoint, newest first, "
        "with its last 20 attempts. Deliveries are kept for 30 days.",
        query=DeliveryQuery,
        response=Listing[DeliveryOut],
        read=deliveries,
        response_example={"items": [_DELIVERY], "pagination": _ONE_PAGE},
    ),
    Operation(
        method="POST",
        path="/v1/webhook-endpoints/{id}/resend",
        scope="events:write",
        tag=TAG,
        summary="Resend events",
        description="Resends one event by `eventId`, or all events since a time, 1,000 in a "
        "call: continue with `after` set to `next` until that is null. The calls of "
        "a minute are limited.",
        body=ResendBody,
        response=ResendOut,
        write=resend,
        per_merchant_limit="resends",
        refusals=("an unknown event", "a range without `since`", "an endpoint that is DISABLED"),
        example={"since": 1736932500000, "failedOnly": True},
        response_example={"resent": 3, "next": None},
    ),
    Operation(
        method="POST",
        path="/v1/webhook-endpoints/{id}/test",
        scope="events:write",
        tag=TAG,
        summary="Send a test event",
        description="Sends a `webhook.test` to this endpoint alone, whatever types it "
        "subscribes to, signed like any event and attempted once. No list of events has "
        "it, because nothing has happened. The deliveries show its result, by "
        "`eventId`. The calls of a minute are limited, together with those that "
        "resend events.",
        response=DeliveryOut,
        status=201,
        write=send_test,
        per_merchant_limit="resends",
        refusals=("an endpoint that is DISABLED",),
        response_example=_DELIVERY
        | {"type": "webhook.test", "nextAttemptAt": 1736932500000, "attempts": []}
        | {"updatedAt": 1736932500000},
    ),
    Operation(
        method="GET",
        path="/v1/events",
        scope="events:read",
        tag=TAG,
        summary="List events",
        description="Events are listed oldest first, as they are delivered, and kept for 90 "
        "days. Store the `cursor` and send it with the next request: no event is "
        "ever skipped. Begin with `latest` to read only what happens from now on.",
        query=EventQuery,
        response=EventsOut,
        read=list_events,
        response_example={"items": [_EVENT], "cursor": "17", "hasMore": False},
    ),
    Operation(
        method="GET",
        path="/v1/events/{id}",
        scope="events:read",
        tag=TAG,
        summary="Get an event",
        description="The response has the same bytes as the delivery of the event.",
        response=EventBody,
        read=get_event,
        response_example=_EVENT,
    ),
)
