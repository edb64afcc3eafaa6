"""``opentill ledger check|accounts|export``."""

from typing import TYPE_CHECKING, Annotated

import typer

from opentill.cli import inputs, output, session
from opentill.cli.output import Json
from opentill.cli.progress import progress
from opentill.cli.registration import add_group, add_writing

if TYPE_CHECKING:
    from opentill.db.database import Tx
    from opentill.ledger import Balance, TrialBalance, Violation


def register(app: typer.Typer) -> None:
    """Add the group."""
    group = add_group(
        app, "ledger", "The ledger and its integrity rules.", check=check, accounts=accounts
    )
    add_writing(group, "export", export)


def check(*, as_json: Json = False) -> None:
    """Check every integrity rule of the ledger. Exit code 1 if one does not hold.

    Disputes and refunds at a gateway that match no order break no rule; their number is shown.
    """
    from opentill import disputes, refunds
    from opentill.integrity.rules import check_all

    async def work() -> "tuple[int, list[Violation], int, int]":
        async with session.database() as db:
            with progress("checking the ledger"):
                entries, violations = await check_all(db)
            async with db.connection() as tx:
                unmatched = await disputes.count_unmatched(tx)
                return entries, violations, unmatched, await refunds.count_unmatched(tx)

    entries, violations, unmatched, unmatched_refunds = session.run(work())
    if as_json:
        record = {
            "entries": entries,
            "violations": violations,
            "unmatchedDisputes": unmatched,
            "unmatchedRefunds": unmatched_refunds,
        }
        output.show(record, as_json=True)
    else:
        if violations:
            output.show(violations, as_json=False)
        output.say(f"{entries} entries, {len(violations)} violations")
        if unmatched:
            output.say(f"disputes that match no order: {unmatched}; opentill disputes unmatched")
        if unmatched_refunds:
            output.say(f"refunds that match no order: {unmatched_refunds}; opentill refunds cases")
    if violations:
        raise typer.Exit(1)


def accounts(
    merchant_id: inputs.OnlyMerchant = None,
    *,
    at: Annotated[
        str | None,
        typer.Option(
            "--at", help="Balances at this time, in UTC: 2026-01-31 (its end), or as --from."
        ),
    ] = None,
    by_merchant: Annotated[
        bool, typer.Option("--by-merchant", help="A row for each merchant and currency.")
    ] = False,
) -> output.Result:
    """Show the trial balance: the balances of all accounts in each currency, whose sum is zero.

    The accounts are those of the merchants, and their counterparts: the gateways, your bank, your
    fees. The balances are current, or those at a time.
    """
    from opentill import ledger, merchants
    from opentill.core import money
    from opentill.ledger.postings import ACCOUNTS

    until = inputs.moment("at", at, end=True)

    async def work(tx: "Tx") -> "list[TrialBalance] | list[Balance]":
        if merchant_id is not None:
            await merchants.find(tx, merchant_id)
        if by_merchant:
            return [one async for one in ledger.balances_at(tx, until, merchant_id) if one.entries]
        if until is None:
            return await ledger.trial_balance(tx, merchant_id)
        return await ledger.trial_balance_at(tx, until, merchant_id)

    first = "merchantId" if by_merchant else "merchants"
    balances = [
        {
            "currency": one.currency,
            first: getattr(one, "merchant_id" if by_merchant else "merchants"),
            **{name: money.show(getattr(one, name), one.currency) for name in ACCOUNTS},
        }
        for one in session.query(work, snapshot=True)
    ]
    return output.Result(balances, ("currency", first, *ACCOUNTS))


def export(
    merchant_id: inputs.OnlyMerchant = None,
    *,
    since: inputs.From = None,
    until: inputs.To = None,
    to_file: inputs.Output = None,
) -> None:
    """Write the general ledger as CSV, oldest first: a debit and a credit for each entry."""
    from opentill import ledger, merchants

    start, end = inputs.period(since, until)

    async def work() -> None:
        async with session.database() as db:
            if merchant_id is not None:
                async with db.connection() as tx:
                    await merchants.find(tx, merchant_id)
            with inputs.target(to_file) as target:
                async for chunk in ledger.general_ledger_file(db, start, end, merchant_id):
                    target.write(chunk)
                target.flush()

    session.run(work())
