"""``opentill ledger check|accounts``."""

from typing import TYPE_CHECKING

import typer

from opentill.cli import inputs, output, session
from opentill.cli.commands import add_group
from opentill.cli.output import Json
from opentill.cli.progress import progress

if TYPE_CHECKING:
    from opentill.db.database import Tx
    from opentill.ledger import TrialBalance, Violation


def register(app: typer.Typer) -> None:
    """Add the group."""
    add_group(app, "ledger", "The ledger and its integrity rules.", check=check, accounts=accounts)


def check(*, as_json: Json = False) -> None:
    """Check every integrity rule of the ledger. Exit code 1 if one does not hold.

    Disputes that moved money at a gateway and match no order break no rule; they are counted.
    """
    from opentill import disputes
    from opentill.integrity.rules import check_all

    async def work() -> "tuple[int, list[Violation], int]":
        async with session.database() as db:
            with progress("checking the ledger"):
                entries, violations = await check_all(db)
            async with db.connection() as tx:
                return entries, violations, await disputes.count_unmatched(tx)

    entries, violations, unmatched = session.run(work())
    if as_json:
        found = {"entries": entries, "violations": violations, "unmatchedDisputes": unmatched}
        output.show(found, as_json=True)
    else:
        if violations:
            output.show(violations, as_json=False)
        output.say(f"{entries} entries, {len(violations)} violations")
        if unmatched:
            output.say(f"disputes that match no order: {unmatched}; opentill disputes unmatched")
    if violations:
        raise typer.Exit(1)


def accounts(merchant_id: inputs.OnlyMerchant = None) -> output.Result:
    """Show the trial balance: what each account holds in each currency, adding up to zero.

    The merchants' own accounts, and their other sides: at the gateways, in your bank, your fees.
    """
    from opentill import ledger, merchants
    from opentill.core import money
    from opentill.ledger.postings import ACCOUNTS

    async def work(tx: "Tx") -> "list[TrialBalance]":
        if merchant_id is not None:
            await merchants.find(tx, merchant_id)
        return await ledger.trial_balance(tx, merchant_id)

    found = [
        {
            "currency": one.currency,
            "merchants": one.merchants,
            **{name: money.show(getattr(one, name), one.currency) for name in ACCOUNTS},
        }
        for one in session.query(work)
    ]
    return output.Result(found, ("currency", "merchants", *ACCOUNTS))
