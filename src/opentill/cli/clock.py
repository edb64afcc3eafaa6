"""``opentill clock show|advance|reset``: business time, with the sandbox bank only."""

import re
from typing import TYPE_CHECKING, Annotated, Any, Final

import typer

from opentill.cli import output, session
from opentill.cli.commands import add_group

if TYPE_CHECKING:
    from opentill.db.database import Tx

_MOST_NAMED: Final = 10
_UNITS_MS: Final = {"d": 86_400_000, "h": 3_600_000, "m": 60_000, "s": 1_000}


def register(app: typer.Typer) -> None:
    """Add the group."""
    add_group(
        app,
        "clock",
        "Business time, to try out what takes days. With the sandbox bank only.",
        show=show,
        advance=advance,
        reset=reset,
    )


def duration(text: str) -> int:
    """Turn ``8d``, ``2h``, ``30m`` or several together (``1d12h``) into ms. Raises Invalid."""
    from opentill.core.errors import Invalid

    parts = re.findall(r"([0-9]{1,6})([dhms])", text, re.ASCII)
    total = sum(int(number) * _UNITS_MS[unit] for number, unit in parts)
    if "".join(map("".join, parts)) != text or total <= 0:
        raise Invalid("by", "by must be how far ahead, such as 8d, 2h, 30m or 1d12h")
    return total


def _movable() -> None:
    """Raise ConfigurationError where real money could be concerned."""
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


async def _state(tx: "Tx") -> dict[str, Any]:
    from opentill.db import clock
    from opentill.http.csvfile import utc

    ahead, real = await clock.ahead_ms(tx), clock.now_ms()
    return {
        "aheadMs": ahead,
        "now": real + ahead,
        "nowUtc": utc(real + ahead),
        "realUtc": utc(real),
    }


def show() -> dict[str, Any]:
    """Show business time and how far it is ahead of the real one."""
    _movable()
    return session.query(_state)


def advance(
    by: Annotated[str, typer.Argument(help="How far, such as 8d, 2h, 30m or 1d12h.")],
) -> dict[str, Any]:
    """Move business time ahead; servers and workers follow within a second.

    Open checkout sessions that expire by then are named first.
    """
    from opentill.core.errors import Invalid
    from opentill.db import clock

    _movable()
    by_ms = duration(by)

    async def move(tx: "Tx") -> dict[str, Any]:
        if not await clock.advance(tx, by_ms):
            raise Invalid("by", "by must not lead further than twenty years ahead in all")
        return await _state(tx)

    async def work() -> dict[str, Any]:
        async with session.database() as db:
            async with db.connection() as tx:
                ahead_ms = await clock.ahead_ms(tx)
                if ahead_ms + by_ms <= clock.FURTHEST_MS:
                    await _announce(tx, clock.now_ms() + ahead_ms + by_ms)
            return await db.run(move)

    return session.run(work())


async def _announce(tx: "Tx", time: int) -> None:
    """Say which open sessions end when business time comes to be ``time``, in Unix ms."""
    from opentill.checkouts import jobs

    count, first = await jobs.due_by(tx, time, _MOST_NAMED)
    if count:
        rest = f" and {count - len(first)} more" if count > len(first) else ""
        output.say(f"open sessions that expire: {', '.join(first)}{rest}")


def reset() -> dict[str, Any]:
    """Return to real time. What is to settle or to be released is due when real time gets there.

    Unknown outcomes, unmatched disputes and deliveries are due at once, and rate limits start
    from zero.
    """
    from opentill.db import clock, rate_limits
    from opentill.disputes import jobs as dispute_jobs
    from opentill.epay import jobs as epay_jobs
    from opentill.orders import jobs as order_jobs
    from opentill.refunds import jobs as refund_jobs
    from opentill.webhooks import jobs as webhook_jobs

    _movable()

    async def work(tx: "Tx", _: int) -> dict[str, Any]:
        await clock.reset(tx)
        now = clock.now_ms()
        await order_jobs.make_due(tx, now)
        await refund_jobs.make_due(tx, now)
        await dispute_jobs.make_due(tx, now)
        await epay_jobs.make_due(tx, now)
        await webhook_jobs.make_due(tx, now)
        await rate_limits.forget(tx)
        return await _state(tx)

    return session.transact(work)
