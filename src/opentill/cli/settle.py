"""``opentill settle``: settle orders at once, as the worker does when they are due."""

from functools import partial
from typing import TYPE_CHECKING, Annotated, Any, Final

import typer

from opentill.cli import output, session
from opentill.cli.progress import progress
from opentill.cli.registration import acting, add

if TYPE_CHECKING:
    from opentill.db.database import Db, Tx
    from opentill.merchants import Actor
    from opentill.orders import Settled

_COLUMNS = ("merchantId", "orderId", "status", "settled", "reserve", "currency")
_NOTHING_DUE: Final = (
    "No order is due. The worker settles orders by itself as soon as they are; "
    "`opentill orders list` shows them."
)
# At most this many orders are shown, since a merchant may have a million unsettled ones.
MOST_SHOWN: Final = 1000


def register(app: typer.Typer) -> None:
    """Add the command."""
    add(app, "settle", settle)


@acting()
def settle(
    *,
    merchant: Annotated[str | None, typer.Option(help="Only this merchant's orders.")] = None,
    order: Annotated[str | None, typer.Option(help="Only this order.")] = None,
    early: Annotated[
        bool,
        typer.Option("--now", help="Settle the merchant's orders, or the order, even if not due."),
    ] = False,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Show what would move, and move nothing.")
    ] = False,
    actor: "Actor",
) -> output.Result:
    """Settle orders: money that is due becomes available, less the reserve.

    Shows the first thousand, and how many more there are.
    """
    from opentill import merchants, orders
    from opentill.core.errors import Invalid

    if early and merchant is None and order is None:
        raise Invalid("now", "now needs --merchant or --order: whose orders settle early")
    if not dry_run and not actor.reason:
        raise Invalid("reason", "reason must say why, in a few words")

    async def work() -> _Settlements:
        settlements = _Settlements()
        async with session.database() as db:
            now = await session.now(db)
            async with db.snapshot() as tx:
                if merchant is not None:
                    await merchants.find(tx, merchant)
                if order is not None and merchant not in (
                    None,
                    (await orders.find_anywhere(tx, order)).merchant_id,
                ):
                    raise Invalid("order", "order must be one of the merchant's")
                if dry_run or order is not None:
                    async for settled in orders.preview_settlements(
                        tx, now, merchant, order, early=early
                    ):
                        settlements.add(settled)
                    due = {settled.merchant_id: settlements.orders for settled in settlements.first}
                else:
                    due_merchants = await orders.list_due_merchants(tx, now, merchant, early=early)
                    due = {row.merchant_id: row.orders for row in due_merchants}
            if order is not None and not due:
                raise Invalid("order", "order must be paid, not settled and due: see --now")
            return settlements if dry_run else await _settle(db, due, order, early, actor, now)

    settlements = session.run(work())
    rows = [_to_record(one) for one in settlements.first]
    return output.Result(rows, _COLUMNS, settlements.note(), _NOTHING_DUE)


class _Settlements:
    """Settlements, real or of a dry run: the first orders, and the sums of all."""

    def __init__(self) -> None:
        self.first: list[Settled] = []
        self.orders = 0
        # By currency: the settled and the reserved minor units.
        self._sums: dict[str, tuple[int, int]] = {}

    def add(self, order: "Settled") -> None:
        """Count an order."""
        if self.orders < MOST_SHOWN:
            self.first.append(order)
        self.orders += 1
        settled, reserve = self._sums.get(order.currency, (0, 0))
        self._sums[order.currency] = (
            settled + order.settled_minor,
            reserve + order.reserve_minor,
        )

    def note(self) -> str:
        """Return the number of omitted orders and the sums of all, "" if no order is omitted."""
        from opentill.core import money

        if self.orders <= MOST_SHOWN:
            return ""
        sums = [
            f"settled {money.show(settled, currency)} {currency},"
            f" reserve {money.show(reserve, currency)} {currency}"
            for currency, (settled, reserve) in sorted(self._sums.items())
        ]
        omitted = f"and {self.orders - MOST_SHOWN:,} more; in all {self.orders:,} orders"
        return f"{omitted}: {'; '.join(sums)}"


async def _settle(
    db: "Db",
    due: dict[str, int],
    order: str | None,
    early: bool,  # noqa: FBT001 - as the option says
    actor: "Actor",
    now: int,
) -> _Settlements:
    """Settle merchants' orders in batches, each with an entry in the audit log.

    ``due`` is the approximate number of orders by merchant. ``order`` is the id of the only order
    to settle, None for all.
    """
    from opentill import merchants, orders
    from opentill.orders.settlement.service import BATCH

    cause = f"settled by {actor.who}: {actor.reason}"

    async def batch(tx: "Tx", merchant_id: str) -> "list[Settled]":
        await merchants.record_audit(tx, actor, "settle", merchant_id, order or merchant_id, now)
        if order is not None:
            return await orders.settle_one(tx, merchant_id, order, now, cause)
        return await orders.settle_batch(tx, merchant_id, now, cause, early=early)

    settlements = _Settlements()
    with progress("settling", sum(due.values())) as advance:
        for merchant_id in sorted(due):
            has_more = True
            while has_more:
                orders_settled = await db.run(partial(batch, merchant_id=merchant_id))
                for settled in orders_settled:
                    settlements.add(settled)
                advance(len(orders_settled))
                has_more = len(orders_settled) == BATCH
    return settlements


def _to_record(settled: "Settled") -> dict[str, Any]:
    from opentill.core import money

    return {
        "merchantId": settled.merchant_id,
        "orderId": settled.order_id,
        "status": settled.status,
        "settled": money.show(settled.settled_minor, settled.currency),
        "reserve": money.show(settled.reserve_minor, settled.currency),
        "currency": settled.currency,
    }
