"""``opentill listen``: a merchant's events on a developer's machine, over the API."""

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Final

import typer

from opentill.cli import api_access, session
from opentill.cli.registration import add

if TYPE_CHECKING:
    from opentill.cli.listen_position import Position
    from opentill.client import AsyncClient, Event
    from opentill.client.event_reading import EventList

_PAGE: Final = 100
_MAX_BACKOFF_S: Final = 15.0
_FIRST_ERROR_OF_SERVER: Final = 500


def register(app: typer.Typer) -> None:
    """Add the command."""
    add(app, "listen", listen)


def listen(  # noqa: PLR0913 - the options of a command
    *,
    key: api_access.Key,
    server: api_access.Server = api_access.DEFAULT_SERVER,
    forward_to: Annotated[
        str | None,
        typer.Option(help="Also send each event to this URL, such as one on your machine."),
    ] = None,
    events: Annotated[
        str | None,
        typer.Option(help="Only these types, such as order.paid,order.refunded; by default all."),
    ] = None,
    from_start: Annotated[
        bool, typer.Option("--from-start", help="Begin with the oldest stored event.")
    ] = False,
    state: Annotated[
        Path | None,
        typer.Option(help="A file: continue where the last run with this file ended."),
    ] = None,
    count: Annotated[
        int | None, typer.Option(min=1, help="End after this many events; by default at Ctrl-C.")
    ] = None,
    wait: Annotated[
        float,
        typer.Option(min=0, help="Seconds to wait for a local server that is being restarted."),
    ] = 10.0,
    interval: Annotated[
        float, typer.Option(min=0.1, help="Seconds between two requests for new events.")
    ] = 2.0,
    header_prefix: Annotated[
        str, typer.Option(help="The deployment's prefix of webhook headers.")
    ] = "X-Svc-",
    as_json: Annotated[
        bool, typer.Option("--json", help="Print each event as JSON on one line.")
    ] = False,
) -> None:
    """Print a merchant's events as they happen; forward them with --forward-to."""
    from opentill.cli import output
    from opentill.cli.forwarding import Forward
    from opentill.cli.listen_position import Position

    types = None if events is None else _types(events)
    position = Position(server, state)
    forward = None
    if forward_to is not None:
        forward = Forward(forward_to, key, header_prefix, wait)

    async def work() -> None:
        event_count = 0
        async with api_access.connect(server, key, attempts=1) as client:
            follower = _Follower(client, server, position, interval)
            if position.cursor is None:
                position.turn("0" if from_start else await follower.latest())
            output.say("waiting for events; end with Ctrl-C")
            try:
                async for event, body in follower.events():
                    if types is None or event.type in types:
                        _print(event, body, as_json=as_json)
                        if forward is not None:
                            await forward.send(event.id, body)
                        event_count += 1
                    position.count()
                    if event_count == count:
                        return
            finally:
                if forward is not None:
                    await forward.close()

    session.run(work())


def _types(text: str) -> frozenset[str]:
    """Return the types of a list with commas. Raises Invalid."""
    from opentill.core.errors import Invalid
    from opentill.webhooks.event_types import TYPES

    types = frozenset(word.strip() for word in text.split(","))
    if not types <= set(TYPES):
        raise Invalid("events", f"events must be some of {', '.join(TYPES)}, with commas")
    return types


class _Follower:
    """Reads events in order, and waits while the server does not respond."""

    def __init__(
        self, client: "AsyncClient", server: str, position: "Position", interval_s: float
    ) -> None:
        self._client = client
        self._server = server
        self._position = position
        self._interval_s = interval_s

    async def latest(self) -> str:
        """Return the cursor after the newest event."""
        return (await self._read("latest")).cursor

    async def events(self) -> "AsyncIterator[tuple[Event, bytes]]":
        """Yield each event and its body, which is what webhooks deliver. Never ends.

        The caller counts each event at the position.
        """
        from opentill.client.event_reading import read

        while True:
            page = await self._read(self._position.cursor or "0")
            for raw in page.raw[self._position.handled :]:
                body = bytes(raw)
                yield read(body), body
            self._position.turn(page.cursor)
            if not page.has_more:
                await asyncio.sleep(self._interval_s)

    async def _read(self, cursor: str) -> "EventList":
        from opentill.cli import output
        from opentill.client import ConnectionFailed, OpenTillError, RateLimited

        pause_s, is_away = min(1.0, self._interval_s), False
        while True:
            try:
                page = await self._client.events.list(cursor=cursor, size=_PAGE, resent=True)
            except OpenTillError as error:
                is_passing = isinstance(error, ConnectionFailed | RateLimited)
                if not is_passing and (error.status or 0) < _FIRST_ERROR_OF_SERVER:
                    raise api_access.refusal(error, self._server) from None
                if not is_away:
                    output.say(f"{self._server} cannot be read: {error}; trying again")
                is_away = True
                wait_s = getattr(error, "retry_after", None) or pause_s
                await asyncio.sleep(wait_s)
                pause_s = min(2 * pause_s, _MAX_BACKOFF_S)
            else:
                if is_away:
                    output.say(f"{self._server} responds again")
                return page


def _print(event: "Event", body: bytes, *, as_json: bool) -> None:
    import json
    import sys

    from opentill.cli import output, table, times
    from opentill.core.terminal import escape

    if as_json:
        text = body.decode()
        typer.echo(escape(text) if sys.stdout.isatty() else text)
    else:
        head = f"{times.format_time(event.created_at)} {event.type} {event.id}"
        # ``dumps`` writes ASCII, so that customers' names cannot control a terminal.
        data = json.dumps(json.loads(body)["data"], indent=2)
        lines = table.wrap(escape(head), output.width() or len(head))
        typer.echo("\n".join([*lines, data]))
    sys.stdout.flush()
