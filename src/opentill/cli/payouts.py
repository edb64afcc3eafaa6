"""``opentill payouts create|paid|failed|list|show``."""

from typing import TYPE_CHECKING, Annotated, Any

import typer

from opentill.cli import inputs, output, session
from opentill.cli.output import Json

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from opentill.db.database import Tx
    from opentill.payouts import Payout

_COLUMNS = ("id", "merchantId", "status", "amount", "fee", "currency", "bankReference", "createdAt")


def register(app: typer.Typer) -> None:
    """Add the group."""
    group = typer.Typer(
        help="Payouts: available money, sent to a merchant's bank.", no_args_is_help=True
    )
    group.command("create")(create)
    group.command("paid")(paid)
    group.command("failed")(failed)
    group.command("list")(list_)
    group.command("show")(show)
    app.add_typer(group, name="payouts")


def _shown(payout: "Payout") -> dict[str, Any]:
    from opentill.payouts import PayoutOut

    own = {
        "merchantId": payout.merchant_id,
        "reference": payout.reference,
        "reason": payout.reason,
        "createdBy": payout.created_by,
        "approvedBy": payout.approved_by,
    }
    return {**output.plain(PayoutOut.of(payout)), **own}


def _do(step: "Callable[[Tx, int], Awaitable[Payout]]", *, as_json: bool) -> None:
    """Take one step with the business time of now, and show the payout after it."""

    async def work() -> None:
        async with session.database() as db:
            now = await session.now(db)
            output.show(_shown(await db.run(lambda tx: step(tx, now))), as_json=as_json)

    session.run(work())


def create(  # noqa: PLR0913 - what to pay out, and who says so
    merchant_id: str,
    *,
    amount: Annotated[str | None, typer.Option(help="What the bank sends: 250.00.")] = None,
    everything: Annotated[
        bool, typer.Option("--all", help="Everything available, less the fee.")
    ] = False,
    fee: Annotated[
        str | None, typer.Option(help="What the merchant pays for it, on top of the amount.")
    ] = None,
    reference: inputs.Reference = "",
    approved_by: Annotated[
        str | None,
        typer.Option(help="The second operator, above the limit OPENTILL_APPROVAL_ABOVE."),
    ] = None,
    reason: inputs.Reason = "",
    by: inputs.By = "",
    as_json: Json = False,
) -> None:
    """Take money out of a merchant's available balance, to be sent to its bank."""
    from opentill import merchants, payouts
    from opentill.core.errors import Invalid
    from opentill.payouts.service import Wanted

    if (amount is None) != everything:
        raise Invalid("amount", "amount must be given with --amount, or everything with --all")
    above = session.settings().approval_above

    async def step(tx: "Tx", now: int) -> "Payout":
        currency = (await merchants.find(tx, merchant_id)).settlement_currency
        wanted = Wanted(
            amount_minor=inputs.amount("amount", amount, currency),
            fee_minor=inputs.amount("fee", fee, currency) or 0,
            reference=reference,
            reason=reason,
            by=inputs.who(by),
            approved_by=approved_by,
        )
        return await payouts.create(tx, merchant_id, wanted, above, now)

    _do(step, as_json=as_json)


def paid(
    payout_id: str,
    *,
    bank_reference: Annotated[str, typer.Option(help="The bank's name of the transfer.")] = "",
    reason: inputs.Reason = "the bank has sent it",
    by: inputs.By = "",
    as_json: Json = False,
) -> None:
    """Say that the bank has sent a payout."""
    from opentill import payouts

    who = inputs.who(by)
    _do(
        lambda tx, now: payouts.pay(tx, payout_id, bank_reference, reason, who, now),
        as_json=as_json,
    )


def failed(
    payout_id: str, *, reason: inputs.Reason = "", by: inputs.By = "", as_json: Json = False
) -> None:
    """Say that the bank cannot send a payout: it returns to available, with its fee."""
    from opentill import payouts

    who = inputs.who(by)
    _do(lambda tx, now: payouts.fail(tx, payout_id, reason, who, now), as_json=as_json)


def list_(
    merchant_id: Annotated[str | None, typer.Argument(help="Only this merchant's.")] = None,
    *,
    status: Annotated[str | None, typer.Option(help="PENDING, PAID or FAILED.")] = None,
    limit: Annotated[int, typer.Option(min=1, help="How many, newest first.")] = 100,
    as_json: Json = False,
) -> None:
    """List payouts, newest first."""
    from opentill import payouts
    from opentill.core.errors import Invalid
    from opentill.payouts.model import STATUSES

    if status not in (None, *STATUSES):
        raise Invalid("status", f"status must be one of {' '.join(STATUSES)}")

    async def work() -> None:
        async with session.database() as db, db.connection() as tx:
            found = await payouts.search(tx, merchant_id, status, limit)
            output.show([_shown(one) for one in found], as_json=as_json, columns=_COLUMNS)

    session.run(work())


def show(payout_id: str, *, as_json: Json = False) -> None:
    """Show a payout."""
    from opentill import payouts

    async def work() -> None:
        async with session.database() as db, db.connection() as tx:
            output.show(_shown(await payouts.find_anywhere(tx, payout_id)), as_json=as_json)

    session.run(work())
