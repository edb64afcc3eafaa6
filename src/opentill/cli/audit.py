"""``opentill audit list|verify``."""

import re
from typing import TYPE_CHECKING, Annotated

import typer

from opentill.cli import inputs, output, session
from opentill.cli.output import Json
from opentill.cli.progress import progress
from opentill.cli.registration import add_group

if TYPE_CHECKING:
    from opentill.db.database import Tx
    from opentill.merchants import AuditHead, AuditRow

_COLUMNS = ("number", "at", "who", "action", "merchantId", "subject", "reason")


def register(app: typer.Typer) -> None:
    """Add the group."""
    summary = "The audit log: what operators did, chained by hashes."
    add_group(app, "audit", summary, list=list_, verify=verify)


def list_(
    merchant_id: inputs.OnlyMerchant = None,
    *,
    limit: Annotated[int, typer.Option(min=1, help="How many, newest first.")] = 100,
) -> output.Result:
    """List what operators did, newest first."""
    from opentill import merchants

    async def work(tx: "Tx") -> "list[AuditRow]":
        if merchant_id is not None:
            await merchants.find(tx, merchant_id)
        return await merchants.audit_log(tx, merchant_id, limit)

    return output.Result(session.query(work), _COLUMNS)


def _head(text: str | None) -> "AuditHead | None":
    from opentill.core.errors import Invalid
    from opentill.merchants import AuditHead

    if text is None:
        return None
    match = re.fullmatch(r"([0-9]{1,18}):([0-9a-f]{64})", text)
    if match is None:
        raise Invalid("expect", "expect must be NUMBER:HASH as an earlier verify printed it")
    return AuditHead(int(match[1]), match[2])


def verify(
    *,
    expect: Annotated[
        str | None,
        typer.Option(help="NUMBER:HASH that an earlier verify printed and you stored elsewhere."),
    ] = None,
    as_json: Json = False,
) -> None:
    """List every row that was changed, removed or inserted. Exit code 1 if there is any."""
    from opentill import merchants

    expected = _head(expect)
    with progress("verifying the audit log"):
        verdict = session.query(lambda tx: merchants.verify_audit(tx, expected), snapshot=True)
    if as_json:
        output.show(verdict, as_json=True)
    else:
        if verdict.breaks:
            output.show(verdict.breaks, as_json=False)
        head = f"{verdict.head.number}:{verdict.head.hash}" if verdict.head else "missing"
        output.say(f"{verdict.rows} rows, {len(verdict.breaks)} breaks, head {head}")
    if verdict.breaks:
        raise typer.Exit(1)
