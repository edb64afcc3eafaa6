"""``opentill webhooks listen``: a merchant's events as they happen, without an endpoint."""

import asyncio
from collections.abc import AsyncIterator
from typing import TYPE_CHECKING, Annotated, Final

import typer

from opentill.cli import session

if TYPE_CHECKING:
    from opentill.db.database import Db
    from opentill.webhooks import NumberedEvent

_POLL_S: Final = 0.3
_BATCH: Final = 100
_TIMEOUT_S: Final = 30.0


def listen(
    merchant_id: str,
    *,
    forward_to: Annotated[
        str | None,
        typer.Option(help="Also send each event to this URL, such as one on your machine."),
    ] = None,
    from_start: Annotated[
        bool, typer.Option("--from-start", help="Begin with the oldest stored event.")
    ] = False,
    count: Annotated[
        int | None, typer.Option(min=1, help="End after this many events; by default at Ctrl-C.")
    ] = None,
    as_json: Annotated[
        bool, typer.Option("--json", help="Print each event as JSON on one line.")
    ] = False,
) -> None:
    """Print a merchant's events as they happen; forward them with --forward-to."""
    from opentill import merchants

    async def work() -> None:
        async with session.database() as db:
            async with db.connection() as tx:
                await merchants.find(tx, merchant_id)
            prefix = session.settings().webhook_header_prefix
            forward = _Forward(forward_to, prefix) if forward_to else None
            try:
                event_count = 0
                async for event in _events(db, merchant_id, from_start=from_start):
                    _print(event, as_json=as_json)
                    if forward is not None:
                        await forward.send(event)
                    event_count += 1
                    if event_count == count:
                        return
            finally:
                if forward is not None:
                    await forward.close()

    session.run(work())


async def _events(
    db: "Db", merchant_id: str, *, from_start: bool
) -> "AsyncIterator[NumberedEvent]":
    """Yield events forever, waiting while the database does not respond."""
    from opentill import webhooks
    from opentill.cli import output
    from opentill.core.errors import Unavailable

    cursor = 0 if from_start else await webhooks.newest_cursor(db, merchant_id)
    output.say("waiting for events; end with Ctrl-C")
    while True:
        try:
            events = await webhooks.read(db, merchant_id, cursor, None, _BATCH)
        except Unavailable as error:
            output.say(f"the database is away: {error.reason}")
            await asyncio.sleep(2)
            continue
        for event in events.events:
            yield event
        cursor = events.cursor
        if not events.more:
            await asyncio.sleep(_POLL_S)


def _print(event: "NumberedEvent", *, as_json: bool) -> None:
    import json
    import sys

    from opentill.cli import output, table, times
    from opentill.core.terminal import escape

    if as_json:
        typer.echo(escape(event.body) if sys.stdout.isatty() else event.body)
        return
    body = json.loads(event.body)
    head = f"{times.format_time(body['created_at'])} {body['type']} {body['id']}"
    # ``dumps`` writes ASCII, so that customers' names cannot control a terminal.
    data = json.dumps(body["data"], indent=2)
    lines = table.wrap(head, output.width() or len(head))
    typer.echo("\n".join([*lines, data]))


class _Forward:
    """Forwards events to the developer's URL, signed like deliveries."""

    def __init__(self, url: str, header_prefix: str) -> None:
        from opentill.cli import output
        from opentill.core import hostnames
        from opentill.http import inputs
        from opentill.outgoing.client import Outgoing, Policy
        from opentill.webhooks import signing

        inputs.check_url("forward-to", url)
        self._url = hostnames.with_ascii_host(url)
        self._outgoing = Outgoing(Policy.only(self._url))
        self._secret = signing.new_secret()
        self._prefix = header_prefix
        output.say(f"forwarding to {url}, signed with {self._secret}")

    async def send(self, event: "NumberedEvent") -> None:
        """Send one event; print its signatures and the response."""
        from opentill.cli import output
        from opentill.db.clock import now_ms
        from opentill.outgoing.client import Forbidden, NoResponse, Unreachable
        from opentill.webhooks import signing

        body = event.body.encode()
        signed = signing.headers([self._secret], event.id, now_ms(), body, self._prefix)
        headers = {"content-type": "application/json", **dict(signed)}
        for name, value in signed:
            output.say(f"  {name}: {value}")
        try:
            response = await self._outgoing.send(
                "POST", self._url, headers=headers, body=body, timeout_s=_TIMEOUT_S
            )
        except (Forbidden, NoResponse, Unreachable) as error:
            output.say(f"  not taken: {error}")
        else:
            output.say(f"  responded with {response.status}")

    async def close(self) -> None:
        await self._outgoing.close()
