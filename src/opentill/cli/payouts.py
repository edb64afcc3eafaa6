"""``opentill payouts create|paid|failed|due|list|show``; the runs are in ``payout_runs.py``."""

from typing import TYPE_CHECKING, Annotated, Any

import typer

from opentill.cli import inputs, output, payout_runs, session
from opentill.cli.commands import acting, add_group

if TYPE_CHECKING:
    from opentill.db.database import Tx
    from opentill.merchants import Actor
    from opentill.payouts import DuePayout, Payout

_COLUMNS = ("id", "merchantId", "status", "amount", "fee", "currency", "bankReference", "createdAt")


def register(app: typer.Typer) -> None:
    """Add the group."""
    add_group(
        app,
        "payouts",
        "Payouts: available money, sent to a merchant's bank.",
        create=create,
        paid=paid,
        failed=failed,
        due=due,
        list=list_,
        show=show,
        **payout_runs.COMMANDS,
    )


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


@acting()
def create(
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
    actor: "Actor",
) -> dict[str, Any]:
    """Create a payout: available money, to be sent to the merchant's bank."""
    from opentill import merchants, payouts
    from opentill.core.errors import Invalid
    from opentill.payouts import PayoutRequest

    if (amount is None) != everything:
        raise Invalid("amount", "amount must be given with --amount, or everything with --all")
    above = session.settings().approval_above

    async def work(tx: "Tx", now: int) -> "Payout":
        currency = (await merchants.find(tx, merchant_id)).settlement_currency
        wanted = PayoutRequest(
            amount_minor=inputs.amount("amount", amount, currency),
            fee_minor=inputs.amount("fee", fee, currency) or 0,
            reference=reference,
            reason=actor.reason,
            by=actor.who,
            approved_by=approved_by,
        )
        return await payouts.create(tx, merchant_id, wanted, above, now)

    return _shown(session.transact(work))


def paid(
    payout_id: str,
    *,
    bank_reference: Annotated[str, typer.Option(help="The bank's name of the transfer.")] = "",
    reason: inputs.Reason = "the bank has sent it",
    by: inputs.By = "",
) -> dict[str, Any]:
    """Mark a payout as sent by the bank."""
    from opentill import payouts

    who = inputs.who(by)
    made = session.transact(
        lambda tx, now: payouts.pay(tx, payout_id, bank_reference, reason, who, now)
    )
    return _shown(made)


@acting()
def failed(payout_id: str, *, actor: "Actor") -> dict[str, Any]:
    """Mark a payout as failed: it returns to the available balance, with its fee."""
    from opentill import payouts

    return _shown(
        session.transact(lambda tx, now: payouts.fail(tx, payout_id, actor.reason, actor.who, now))
    )


def due(
    *, limit: Annotated[int, typer.Option(min=1, help="How many, the most money first.")] = 1000
) -> output.Result:
    """List the merchants with money that can be paid out, by currency.

    A run leaves out who has no bank account, has changed it lately, or has less than the minimum.
    """
    from opentill import payouts
    from opentill.core import money

    async def work(tx: "Tx") -> "tuple[list[DuePayout], int]":
        return await payouts.due(tx, limit), await session.now(tx)

    found, now = session.query(work)
    shown = [
        {
            "merchantId": one.merchant_id,
            "merchant": one.merchant_name,
            "available": money.show(one.available, one.currency),
            "currency": one.currency,
            "account": one.account,
            "waitsFor": one.waits_for(now),
            "usableFrom": one.usable_from,
            "lastPayoutAt": one.last_at,
        }
        for one in found
    ]
    columns = ("merchantId", "merchant", "available", "currency", "waitsFor", "lastPayoutAt")
    return output.Result(shown, columns)


def list_(
    merchant_id: inputs.OnlyMerchant = None,
    *,
    status: Annotated[str | None, typer.Option(help="PENDING, PAID or FAILED.")] = None,
    limit: Annotated[int, typer.Option(min=1, help="How many, newest first.")] = 100,
) -> output.Result:
    """List payouts, newest first."""
    from opentill import payouts
    from opentill.payouts.model import STATUSES

    wanted = inputs.choice("status", status, STATUSES)
    found = session.query(lambda tx: payouts.search(tx, merchant_id, wanted, limit))
    return output.Result([_shown(one) for one in found], _COLUMNS)


def show(payout_id: str) -> dict[str, Any]:
    """Show a payout."""
    from opentill import payouts

    return _shown(session.query(lambda tx: payouts.find_anywhere(tx, payout_id)))
