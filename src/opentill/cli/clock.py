"""``opentill clock show|advance|reset``: business time, with the sandbox bank only."""

import sys
from typing import TYPE_CHECKING, Annotated, Final

import typer

from opentill.cli import output, session, times
from opentill.cli.registration import add_group

if TYPE_CHECKING:
    from opentill.db.database import Tx

_MOST_NAMED: Final = 10
_COLUMNS: Final = ("ahead", "now", "real")


def register(app: typer.Typer) -> None:
    """Add the group."""
    add_group(
        app,
        "clock",
        "Business time: move it ahead to test settlements. With the sandbox bank only.",
        show=show,
        advance=advance,
        reset=reset,
    )


def duration(text: str) -> int:
    """Parse ``8d``, ``2h``, ``30m`` or a combination (``1d12h``) into ms. Raises Invalid."""
    from opentill.core.errors import Invalid

    duration_ms = times.duration_ms(text)
    if duration_ms is None:
        raise Invalid("by", "by must be how far ahead, such as 8d, 2h, 30m or 1d12h")
    return duration_ms


def _check_movable() -> None:
    """Raise ConfigurationError if business time cannot be moved, as real money may be involved."""
    from opentill.core.errors import ConfigurationError
    from opentill.db import clock

    settings = session.settings()
    gateways = settings.gateways
    if settings.sandbox_refused:
        raise ConfigurationError(settings.sandbox_refused)
    if not clock.movable(gateways):
        message = (
            "business time can be moved with the sandbox bank only;"
            f" OPENTILL_GATEWAYS has {','.join(gateways)}"
        )
        raise ConfigurationError(message)


async def _state(tx: "Tx") -> output.Result:
    from opentill.db import clock
    from opentill.http.csvfile import format_utc

    ahead, real = await clock.ahead_ms(tx), clock.now_ms()
    state = {
        "aheadMs": ahead,
        "ahead": times.duration(ahead),
        "now": real + ahead,
        "nowUtc": format_utc(real + ahead),
        "real": real,
        "realUtc": format_utc(real),
    }
    return output.Result(state, _COLUMNS)


def show() -> output.Result:
    """Show business time and how far it is ahead of real time."""
    _check_movable()
    return session.query(_state)


def advance(
    by: Annotated[str, typer.Argument(help="How far, such as 8d, 2h, 30m or 1d12h.")],
    *,
    yes: Annotated[
        bool, typer.Option("--yes", help="Do not ask for confirmation if sessions will expire.")
    ] = False,
) -> output.Result:
    """Move business time ahead; servers and workers follow within a second.

    Lists the open checkout sessions that will have expired by then and, on a terminal, asks for
    confirmation. Invitations and links to a new password stay valid as long as before.
    """
    from opentill import people
    from opentill.core.errors import Invalid
    from opentill.db import clock

    _check_movable()
    by_ms = duration(by)

    async def move(tx: "Tx") -> output.Result:
        await people.postpone_links(tx, await session.now(tx), by_ms)
        if not await clock.advance(tx, by_ms):
            raise Invalid("by", "by must not lead further than twenty years ahead in all")
        return await _state(tx)

    async def work() -> output.Result:
        async with session.database() as db:
            async with db.connection() as tx:
                ahead_ms = await clock.ahead_ms(tx)
                allowed = ahead_ms + by_ms <= clock.FURTHEST_MS
                ending = allowed and await _warn_of_expiries(tx, clock.now_ms() + ahead_ms + by_ms)
            if ending and not yes and sys.stdin.isatty():
                typer.confirm("Move the time and end them?", abort=True, err=True)
            return await db.run(move)

    return session.run(work())


async def _warn_of_expiries(tx: "Tx", time: int) -> bool:
    """List the open sessions that expire by ``time`` (Unix ms); return whether there are any."""
    from opentill.checkouts import jobs

    count, first = await jobs.list_due(tx, time, _MOST_NAMED)
    if count:
        omitted = [f"and {count - len(first)} more"] if count > len(first) else []
        output.say("\n  ".join(["open sessions that expire:", *first, *omitted]))
    return count > 0


def reset() -> output.Result:
    """Return to real time. Settlements and releases of reserves wait until real time reaches them.

    Queries of unknown outcomes, retries of unmatched disputes and refunds, deliveries and mails are
    due at once, and rate limits start from zero.
    """
    from opentill import mail, people
    from opentill.db import clock, rate_limits
    from opentill.disputes import jobs as dispute_jobs
    from opentill.epay import jobs as epay_jobs
    from opentill.orders import jobs as order_jobs
    from opentill.refunds import jobs as refund_jobs
    from opentill.webhooks import jobs as webhook_jobs

    _check_movable()

    async def work(tx: "Tx", _: int) -> output.Result:
        await clock.reset(tx)
        now = clock.now_ms()
        await order_jobs.make_due(tx, now)
        await refund_jobs.make_due(tx, now)
        await dispute_jobs.make_due(tx, now)
        await epay_jobs.make_due(tx, now)
        await webhook_jobs.make_due(tx, now)
        await mail.make_due(tx, now)
        await people.shorten_links(tx, now)
        await rate_limits.forget(tx)
        return await _state(tx)

    return session.transact(work)
