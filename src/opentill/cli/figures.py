"""``opentill figures show|count``: sums of what happened in a range of time."""

from typing import TYPE_CHECKING, Annotated, Final

import typer

from opentill.cli import inputs, output, session
from opentill.cli.registration import add_group

if TYPE_CHECKING:
    from collections.abc import Callable
    from decimal import Decimal

    from opentill.figures import CurrencySums, DisputeRate
    from opentill.figures.dispute_rates import Volume

_RATE_COLUMNS: Final = (
    "month",
    "method",
    "brand",
    "payments",
    "opened",
    "won",
    "lost",
    "rate",
    "volumeRate",
    "exceeds",
)


def register(app: typer.Typer) -> None:
    """Add the group."""
    add_group(
        app, "figures", "The figures of merchants, by ranges of time.", show=show, count=count
    )


def show(
    merchant_id: inputs.OnlyMerchant = None,
    *,
    since: inputs.From = None,
    until: inputs.To = None,
    disputes: Annotated[
        bool,
        typer.Option(
            "--disputes",
            help="Show the dispute rate by month, payment method and card brand instead.",
        ),
    ] = False,
) -> output.Result:
    """Show payments, refunds, lost disputes and fees of a range of time, by settlement currency.

    The figures are those of all merchants together, or of one. Times must be full quarter hours;
    the default is all time. Fees are those of payments and disputes, less the returned fees.
    Payments to merchants' own accounts, and their refunds, are in columns of their own.

    With --disputes, the months (UTC) of the range are shown, by default this one and the five
    before. The rate is the number of disputes opened in a month divided by that of payments made in
    it, and by volume the same of their amounts. `exceeds` names the monitoring program of the card
    scheme whose limit is reached.
    """
    if disputes:
        return _show_disputes(merchant_id, *inputs.period(since, until))
    from opentill import figures, merchants
    from opentill.core.errors import Invalid
    from opentill.figures import jobs, sums_table
    from opentill.figures.model import QUARTER_MS
    from opentill.list_counts import FOREVER

    first, last = inputs.period(since, until)
    start, end = first or 0, FOREVER if last is None else last + 1
    for name, boundary in (("from", start), ("to", end)):
        if boundary % QUARTER_MS and boundary != FOREVER:
            raise Invalid(name, f"{name} must be a day, or a time at a full quarter of an hour")

    async def work() -> "list[CurrencySums]":
        async with session.database() as db:
            async with db.connection() as tx:
                if merchant_id is not None:
                    await merchants.find(tx, merchant_id)
            await jobs.count_all(db)
            async with db.connection() as tx:
                return await figures.sum_range(tx, merchant_id, start, end)

    rows = [sums_table.row(one) for one in session.run(work())]
    return output.Result(rows, sums_table.COLUMNS)


def _show_disputes(merchant_id: str | None, first: int | None, last: int | None) -> output.Result:
    """Return the dispute rates of the months from one time to another; Unix ms, None for open."""
    from opentill import figures, merchants
    from opentill.core import money
    from opentill.figures import jobs
    from opentill.figures.dispute_rates import add_months, month_of

    async def work() -> "list[DisputeRate]":
        async with session.database() as db:
            async with db.connection() as tx:
                if merchant_id is not None:
                    await merchants.find(tx, merchant_id)
            await jobs.count_all(db)
            last_month = month_of(await session.now(db) if last is None else last)
            first_month = add_months(last_month, -5) if first is None else month_of(first)
            return await figures.read_rates(db, merchant_id, first_month, last_month)

    def percent(share: "Decimal | None") -> str:
        return "" if share is None else f"{share:.2%}"

    def amounts(rate: "DisputeRate", text: "Callable[[Volume], str]") -> dict[str, str]:
        return {volume.currency: text(volume) for volume in rate.volumes}

    return output.Result(
        [
            {
                "month": f"{rate.month:%Y-%m}",
                "method": rate.method if rate.method is not None else "all",
                "brand": rate.brand or "",
                "payments": rate.payments,
                "opened": rate.opened,
                "won": rate.won,
                "lost": rate.lost,
                "rate": percent(rate.rate),
                "volume": amounts(rate, lambda one: money.show(one.paid_minor, one.currency)),
                "disputed": amounts(rate, lambda one: money.show(one.disputed_minor, one.currency)),
                "volumeRate": amounts(rate, lambda one: percent(one.rate)),
                "exceeds": rate.exceeded.program if rate.exceeded else "",
            }
            for rate in session.run(work())
        ],
        _RATE_COLUMNS,
    )


def count() -> dict[str, int]:
    """Count entries that are not counted yet, such as those of an old database after an update.

    The worker does the same continuously. Both may run at once, and the command can be interrupted.
    """
    from opentill.figures import jobs

    async def work() -> dict[str, int]:
        async with session.database() as db:
            with output.progress("entries", await jobs.count_uncounted_entries(db)) as advance:
                return {"counted": await jobs.count_all(db, advance=advance)}

    return session.run(work())
