"""``opentill audit list|verify``."""

import re
from typing import TYPE_CHECKING, Annotated

import typer

from opentill.cli import output, session
from opentill.cli.output import Json

if TYPE_CHECKING:
    from opentill.merchants import AuditHead

_COLUMNS = ("number", "at", "who", "action", "merchantId", "subject", "reason")


def register(app: typer.Typer) -> None:
    """Add the group."""
    group = typer.Typer(help="What operators did: a chain of hashes.", no_args_is_help=True)
    group.command("list")(list_)
    group.command("verify")(verify)
    app.add_typer(group, name="audit")


def list_(
    merchant_id: Annotated[str | None, typer.Argument(help="Only about this merchant.")] = None,
    *,
    limit: Annotated[int, typer.Option(min=1, help="How many, newest first.")] = 100,
    as_json: Json = False,
) -> None:
    """List what operators did, newest first."""
    from opentill import merchants

    async def work() -> None:
        async with session.database() as db, db.connection() as tx:
            if merchant_id is not None:
                await merchants.find(tx, merchant_id)
            rows = await merchants.audit_log(tx, merchant_id, limit)
            output.show(rows, as_json=as_json, columns=_COLUMNS)

    session.run(work())


def _place(text: str | None) -> "AuditHead | None":
    from opentill.core.errors import Invalid
    from opentill.merchants import AuditHead

    if text is None:
        return None
    found = re.fullmatch(r"([0-9]{1,18}):([0-9a-f]{64})", text)
    if found is None:
        raise Invalid("expect", "expect must be NUMBER:HASH as an earlier verify printed it")
    return AuditHead(int(found[1]), found[2])


def verify(
    *,
    expect: Annotated[
        str | None,
        typer.Option(help="NUMBER:HASH that an earlier verify printed and you kept elsewhere."),
    ] = None,
    as_json: Json = False,
) -> None:
    """Name every row that was altered, removed or slipped in. Exit code 1 if there is one."""
    from opentill import merchants

    place = _place(expect)

    async def work() -> bool:
        async with session.database() as db, db.snapshot() as tx:
            found = await merchants.verify_audit(tx, place)
        if as_json:
            output.show(found, as_json=True)
        else:
            if found.breaks:
                output.show(found.breaks, as_json=False)
            head = f"{found.head.number}:{found.head.hash}" if found.head else "missing"
            output.say(f"{found.rows} rows, {len(found.breaks)} breaks, head {head}")
        return not found.breaks

    if not session.run(work()):
        raise typer.Exit(1)
