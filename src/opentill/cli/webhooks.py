"""``opentill webhooks add|list|show|set|remove|rotate|deliveries|resend|test``."""

from typing import TYPE_CHECKING, Annotated, Any

import typer

from opentill.cli import inputs, output, session
from opentill.cli.output import Json
from opentill.cli.progress import progress
from opentill.cli.registration import acting, add_group

if TYPE_CHECKING:
    from collections.abc import Callable

    from opentill.db.database import Tx
    from opentill.merchants import Actor
    from opentill.webhooks import Endpoint, UrlCheck

_COLUMNS = ("id", "merchantId", "status", "url", "events", "description", "disabledReason")
_DELIVERIES = (
    "eventId",
    "type",
    "status",
    "attempts",
    "lastOutcome",
    "lastHttpStatus",
    "nextAttemptAt",
)
Events = Annotated[
    list[str] | None,
    typer.Option("--event", help="A type of event; repeat it for more. None: all."),
]
Description = Annotated[str | None, typer.Option(help="Its purpose.")]


def register(app: typer.Typer) -> None:
    """Add the group."""
    add_group(
        app,
        "webhooks",
        "Webhook endpoints of merchants, and their deliveries.",
        add=add,
        list=list_,
        show=show,
        set=set_,
        remove=remove,
        rotate=rotate,
        deliveries=deliveries,
        resend=resend,
        test=test,
    )


def _to_record(endpoint: "Endpoint", secret: str | None = None) -> dict[str, Any]:
    from opentill.webhooks.wire import EndpointOut

    added_fields = {"merchantId": endpoint.merchant_id} | ({"secret": secret} if secret else {})
    return {**output.plain(EndpointOut.from_endpoint(endpoint)), **added_fields}


def _url_check() -> "UrlCheck":
    from opentill.outgoing.client import merchant_client
    from opentill.webhooks import UrlCheck

    return UrlCheck(merchant_client(session.settings()).check)


@acting(without_reason=inputs.NO_REASON)
def add(
    merchant_id: str,
    url: str,
    *,
    event: Events = None,
    description: Description = None,
    actor: "Actor",
) -> dict[str, Any]:
    """Add an endpoint that a merchant's events are sent to. Its secret is shown only this time."""
    from opentill import webhooks

    check, key = _url_check(), session.settings().secret_key
    fields = webhooks.EndpointFields(url=url, types=event or [], description=description or "")

    async def work(tx: "Tx", now: int) -> dict[str, Any]:
        return _to_record(
            *await webhooks.create(tx, merchant_id, fields, check, key, now, actor=actor)
        )

    return session.transact(work)


def list_(merchant_id: inputs.OnlyMerchant = None) -> output.Result:
    """List endpoints, newest first."""
    from opentill import merchants, webhooks

    async def work(tx: "Tx") -> "list[Endpoint]":
        if merchant_id is not None:
            await merchants.find(tx, merchant_id)
        return await webhooks.search(tx, merchant_id)

    return output.Result([_to_record(one) for one in session.query(work)], _COLUMNS)


def show(endpoint_id: str) -> dict[str, Any]:
    """Show an endpoint."""
    from opentill import webhooks

    return _to_record(session.query(lambda tx: webhooks.find_anywhere(tx, endpoint_id)))


@acting(without_reason=inputs.NO_REASON)
def set_(
    endpoint_id: str,
    *,
    url: Annotated[str | None, typer.Option(help="The new URL that receives the events.")] = None,
    event: Events = None,
    all_events: Annotated[bool, typer.Option("--all-events", help="Every type.")] = False,
    description: Description = None,
    enabled: Annotated[
        bool | None, typer.Option("--enable/--disable", help="Start or stop its deliveries.")
    ] = None,
    actor: "Actor",
) -> dict[str, Any]:
    """Change the given fields of an endpoint. Enabling it gives it five more days to succeed."""
    from msgspec import UNSET

    from opentill import webhooks

    check = _url_check()
    statuses: Any = {None: UNSET, True: "ENABLED", False: "DISABLED"}
    fields = webhooks.EndpointFields(
        url=UNSET if url is None else url,
        types=[] if all_events else event or UNSET,
        description=UNSET if description is None else description,
        status=statuses[enabled],
    )

    async def work(tx: "Tx", now: int) -> dict[str, Any]:
        endpoint = await webhooks.find_anywhere(tx, endpoint_id)
        ids = endpoint.merchant_id, endpoint.id
        return _to_record(await webhooks.update(tx, *ids, fields, check, now, actor=actor))

    return session.transact(work)


@acting(without_reason=inputs.NO_REASON)
def remove(endpoint_id: str, *, actor: "Actor") -> dict[str, Any]:
    """Delete an endpoint, with its deliveries."""
    from opentill import webhooks

    async def work(tx: "Tx", now: int) -> dict[str, Any]:
        endpoint = await webhooks.find_anywhere(tx, endpoint_id)
        await webhooks.delete(tx, endpoint.merchant_id, endpoint.id, now, actor=actor)
        return {"id": endpoint.id, "deleted": True}

    return session.transact(work)


@acting(without_reason=inputs.NO_REASON)
def rotate(endpoint_id: str, *, actor: "Actor") -> dict[str, Any]:
    """Give an endpoint a new secret; for 24 hours deliveries are signed with the old one too."""
    from opentill import webhooks

    key = session.settings().secret_key

    async def work(tx: "Tx", now: int) -> dict[str, Any]:
        endpoint = await webhooks.find_anywhere(tx, endpoint_id)
        ids = endpoint.merchant_id, endpoint.id
        return _to_record(*await webhooks.rotate_secret(tx, *ids, key, now, actor=actor))

    return session.transact(work)


def deliveries(
    endpoint_id: str,
    *,
    status: Annotated[str | None, typer.Option(help="PENDING, SUCCEEDED or FAILED.")] = None,
    limit: Annotated[int, typer.Option(min=1, max=1000, help="How many, newest first.")] = 50,
    as_json: Json = False,
) -> None:
    """List an endpoint's deliveries; as JSON with the last attempts, request and response."""
    from opentill import webhooks
    from opentill.webhooks.model import DELIVERY_STATUSES
    from opentill.webhooks.wire import DeliveryOut

    chosen_status = inputs.choice("status", status, DELIVERY_STATUSES)

    async def work(tx: "Tx") -> list[dict[str, Any]]:
        endpoint = await webhooks.find_anywhere(tx, endpoint_id)
        deliveries_shown = await webhooks.list_latest_deliveries(tx, endpoint, chosen_status, limit)
        return [output.plain(DeliveryOut.from_delivery(*delivery)) for delivery in deliveries_shown]

    rows = session.query(work)
    for delivery in [] if as_json else rows:
        last: dict[str, Any] = delivery["attempts"][-1] if delivery["attempts"] else {}
        delivery["attempts"] = last.get("number", 0)
        delivery["lastOutcome"], delivery["lastHttpStatus"] = (
            last.get("outcome"),
            last.get("httpStatus"),
        )
    output.show(output.Result(rows, _DELIVERIES), as_json=as_json)


@acting(without_reason=inputs.NO_REASON)
def resend(  # noqa: PLR0913 - the bounds of a range
    endpoint_id: str,
    event_id: Annotated[
        str | None, typer.Argument(help="One event; or a range by --since.")
    ] = None,
    *,
    since: Annotated[
        str | None,
        typer.Option(
            help="Events since 2026-01-31 (from its start, UTC), a time, yesterday or 7d (ago)."
        ),
    ] = None,
    until: Annotated[
        str | None, typer.Option(help="Events until 2026-01-31 (to its end), likewise.")
    ] = None,
    type_: Annotated[str | None, typer.Option("--type", help="Only of this type.")] = None,
    failed_only: Annotated[
        bool, typer.Option("--failed-only", help="Only failed deliveries.")
    ] = False,
    after: Annotated[
        str, typer.Option(help="Continue after this event, the last of an interrupted run.")
    ] = "",
    actor: "Actor",
) -> dict[str, int]:
    """Resend one event, or all events of a range of time, oldest first."""
    from opentill import merchants, webhooks
    from opentill.core.errors import Invalid
    from opentill.webhooks import TYPES, EventRange

    if (event_id is None) == (since is None):
        raise Invalid("event-id", "event-id must be given, or a range with --since")
    of_type = inputs.choice("type", type_, TYPES)
    first, last = inputs.moment("since", since), inputs.moment("until", until, end=True)

    async def work() -> int:
        async with session.database() as db:
            now = await session.now(db)
            async with db.connection() as tx:
                ids = (
                    (endpoint := await webhooks.find_anywhere(tx, endpoint_id)).merchant_id,
                    endpoint.id,
                )
            if event_id is not None:
                event: str = event_id

                async def send(tx: "Tx") -> int:
                    await webhooks.resend(tx, *ids, event, now)
                    await merchants.record_audit(
                        tx, actor, "webhooks resend", ids[0], f"{event} to {ids[1]}", now
                    )
                    return 1

                return await db.run(send)
            start: Any = {"since": first or 0, "until": now if last is None else last}
            event_range = EventRange(**start, type=of_type, failed_only=failed_only, after=after)
            with progress("resending") as advance:
                return await webhooks.resend_all(
                    db, *ids, event_range, now, _reporting(advance), actor=actor
                )

    return {"resent": session.run(work())}


@acting(without_reason=inputs.NO_REASON)
def test(endpoint_id: str, *, actor: "Actor") -> output.Result:
    """Send a webhook.test event to this endpoint only; `webhooks deliveries` shows the result."""
    from opentill import merchants, webhooks
    from opentill.webhooks.wire import DeliveryOut

    async def work(tx: "Tx", now: int) -> dict[str, Any]:
        endpoint = await webhooks.find_anywhere(tx, endpoint_id)
        delivery = await webhooks.send_test(tx, endpoint.merchant_id, endpoint.id, now)
        subject = f"{delivery.event_id} to {endpoint.id}"
        await merchants.record_audit(tx, actor, "webhooks test", endpoint.merchant_id, subject, now)
        return output.plain(DeliveryOut.from_delivery(delivery, []))

    return output.Result(session.transact(work), ("eventId", "type", "status"))


def _reporting(advance: "Callable[[int], None]") -> "Callable[[int, str | None], None]":
    def report(count: int, after: str | None) -> None:
        advance(count)
        if after is not None:
            output.say(f"resent up to {after}: continue with --after")

    return report
