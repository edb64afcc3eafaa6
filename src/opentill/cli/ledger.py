"""``opentill ledger check``."""

import typer

from opentill.cli import output, session
from opentill.cli.output import Json


def register(app: typer.Typer) -> None:
    """Add the group."""
    group = typer.Typer(help="The ledger.", no_args_is_help=True)
    group.callback()(_group)
    group.command("check")(check)
    app.add_typer(group, name="ledger")


def _group() -> None:
    """The ledger."""


def check(*, as_json: Json = False) -> None:
    """Check every rule of the books. Exit code 1 if one does not hold.

    Disputes that moved money at a gateway and match no order are no fault of the books: counted.
    """
    from opentill import disputes
    from opentill.integrity.rules import check_all

    async def work() -> bool:
        async with session.database() as db:
            entries, violations = await check_all(db)
            async with db.connection() as tx:
                unmatched = await disputes.count_unmatched(tx)
        if as_json:
            found = {"entries": entries, "violations": violations, "unmatchedDisputes": unmatched}
            output.show(found, as_json=True)
        else:
            if violations:
                output.show(violations, as_json=False)
            output.say(f"{entries} entries, {len(violations)} violations")
            if unmatched:
                output.say(
                    f"disputes that match no order: {unmatched}; opentill disputes unmatched"
                )
        return not violations

    if not session.run(work()):
        raise typer.Exit(1)
