"""``opentill settle``: settle orders at once, as the worker does when they are due."""

from functools import partial
from typing import TYPE_CHECKING, Annotated, Any

import typer

from opentill.cli import output, session
from opentill.cli.commands import acting, add
from opentill.cli.progress import progress

if TYPE_CHECKING:
    from opentill.db.database import Db, Tx
    from opentill.merchants import Actor
    from opentill.orders import Settled

_COLUMNS = ("merchantId", "orderId", "status", "settled", "reserve", "currency")


def register(app: typer.Typer) -> None:
    """Add the command."""
    add(app, "settle", settle)


@acting()
def settle(
    *,
    merchant: Annotated[str | None, typer.Option(help="Only this merchant's orders.")] = None,
    order: Annotated[str | None, typer.Option(help="Only this order.")] = None,
    early: Annotated[
        bool, typer.Option("--now", help="Whether due or not: the merchant's orders, or the order.")
    ] = False,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Show what would move, and move nothing.")
    ] = False,
    actor: "Actor",
) -> output.Result:
    """Settle orders: what is due becomes available, less the reserve."""
    from opentill import merchants, orders
    from opentill.core.errors import Invalid

    if early and merchant is None and order is None:
        raise Invalid("now", "now needs --merchant or --order: whose orders settle early")
    if not dry_run and not actor.reason:
        raise Invalid("reason", "reason must say why, in a few words")

    async def work() -> "list[Settled]":
        async with session.database() as db:
            now = await session.now(db)
            async with db.connection() as tx:
                if merchant is not None:
                    await merchants.find(tx, merchant)
                if order is not None and merchant not in (
                    None,
                    (await orders.find_anywhere(tx, order)).merchant_id,
                ):
                    raise Invalid("order", "order must be one of the merchant's")
                planned = await orders.settleable(tx, now, merchant, order, early=early)
            if order is not None and not planned:
                raise Invalid("order", "order must be paid, not settled and due: see --now")
            if not dry_run:
                planned = await _settle(db, planned, order, early, actor, now)
            return planned

    return output.Result([_shown(one) for one in session.run(work())], _COLUMNS)


async def _settle(
    db: "Db",
    planned: "list[Settled]",
    order: str | None,
    early: bool,  # noqa: FBT001 - as the option says
    actor: "Actor",
    now: int,
) -> "list[Settled]":
    """Settle a batch of a merchant's orders at a time, each with its row in the audit log."""
    from opentill import merchants, orders
    from opentill.orders.settlement import BATCH

    cause = f"settled by {actor.who}: {actor.reason}"

    async def batch(tx: "Tx", merchant_id: str) -> "list[Settled]":
        await merchants.record_audit(tx, actor, "settle", merchant_id, order or merchant_id, now)
        if order is not None:
            return await orders.settle_one(tx, merchant_id, order, now, cause)
        return await orders.settle_batch(tx, merchant_id, now, cause, early=early)

    done: list[Settled] = []
    with progress("settling", len(planned)) as advance:
        for merchant_id in sorted({one.merchant_id for one in planned}):
            more = True
            while more:
                some = await db.run(partial(batch, merchant_id=merchant_id))
                done += some
                advance(len(some))
                more = len(some) == BATCH
    return done


def _shown(one: "Settled") -> dict[str, Any]:
    from opentill.core import money

    return {
        "merchantId": one.merchant_id,
        "orderId": one.order_id,
        "status": one.status,
        "settled": money.show(one.settled_minor, one.currency),
        "reserve": money.show(one.reserve_minor, one.currency),
        "currency": one.currency,
    }
