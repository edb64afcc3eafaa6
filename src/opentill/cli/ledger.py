"""``opentill ledger check``."""

from typing import TYPE_CHECKING

import typer

from opentill.cli import output, session
from opentill.cli.commands import add_group
from opentill.cli.output import Json
from opentill.cli.progress import progress

if TYPE_CHECKING:
    from opentill.ledger import Violation


def register(app: typer.Typer) -> None:
    """Add the group."""
    add_group(app, "ledger", "The ledger and its integrity rules.", check=check)


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
