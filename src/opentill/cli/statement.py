"""``opentill statement``: opening balances, every entry, closing balances."""

import sys
from collections.abc import AsyncIterator
from enum import StrEnum
from typing import TYPE_CHECKING, Annotated, Final

import typer

from opentill.cli import inputs, output, registration, session

if TYPE_CHECKING:
    from opentill.db.database import Db
    from opentill.ledger.statement import LineOut


class Format(StrEnum):
    """The output format of a statement."""

    csv = "csv"
    json = "json"
    table = "table"


# Columns of the table. Numbers, with a negative width, are flush right.
_TABLE: Final = (
    #    field              heading        width
    ("time_utc", "time (UTC)", 24),
    ("number", "number", 7),
    ("type", "type", 30),
    ("pending", "pending", -12),
    ("available", "available", -12),
    ("frozen", "frozen", -12),
    ("reserve", "reserve", -12),
    ("prepaid", "prepaid", -12),
    ("pending_after", "pending after", -14),
    ("available_after", "avail. after", -14),
    ("frozen_after", "frozen after", -14),
    ("reserve_after", "reserve after", -14),
    ("prepaid_after", "prepaid after", -14),
    ("source_id", "source", 33),
)
_WIDTH: Final = sum(abs(width) + 1 for _, _, width in _TABLE)
_ACCOUNTS: Final = ("pending", "available", "frozen", "reserve", "prepaid")


def register(app: typer.Typer) -> None:
    """Add the command."""
    registration.add(app, "statement", statement)


def statement(
    merchant_id: str,
    *,
    since: inputs.From = None,
    until: inputs.To = None,
    to_file: inputs.Output = None,
    form: Annotated[
        Format | None,
        typer.Option("--format", help="Without it, csv to a file or pipe, table to a terminal."),
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="The same as --format json.")] = False,
    bom: inputs.Bom = False,
) -> None:
    """Write a merchant's statement: opening balances, every entry, closing balances."""
    from opentill import merchants
    from opentill.core.errors import ConfigurationError
    from opentill.http import csvfile
    from opentill.ledger.statement import StatementError

    start, end = inputs.period(since, until)
    to_screen = to_file is None and sys.stdout.isatty()
    chosen_format = Format.json if as_json else form or (Format.table if to_screen else Format.csv)
    with_bom = bom and chosen_format is Format.csv

    async def work() -> None:
        async with session.database() as db:
            async with db.connection() as tx:
                merchant = await merchants.find(tx, merchant_id)
            pieces = _pieces(chosen_format, db, merchant.id, start, end)
            with inputs.target(to_file) as target:
                await _write(target, csvfile.with_bom(pieces) if with_bom else pieces)

    try:
        session.run(work())
    except StatementError as error:
        message = f"the statement does not add up: {error}; run `opentill ledger check`"
        raise ConfigurationError(message) from None


async def _write(target: inputs.Target, pieces: AsyncIterator[bytes]) -> None:
    async for piece in pieces:
        target.write(piece)
    target.flush()


def _pieces(
    form: Format, db: "Db", merchant_id: str, start: int | None, end: int | None
) -> AsyncIterator[bytes]:
    from opentill.ledger import statement as ledger_statement

    if form is Format.csv:
        return ledger_statement.chunks(db, merchant_id, start, end)
    lines = ledger_statement.shown(db, merchant_id, start, end)
    if form is Format.json:
        return _json(merchant_id, lines)
    return _table(lines) if (output.width() or _WIDTH) >= _WIDTH else _format_narrow(lines)


async def _json(merchant_id: str, lines: "AsyncIterator[LineOut]") -> AsyncIterator[bytes]:
    """Yield one JSON object. The fields of its lines have the names of the CSV's columns."""
    import msgspec

    from opentill.core.terminal import escape

    yield b'{"merchantId":' + msgspec.json.encode(merchant_id) + b',"lines":['
    between = b"\n"
    async for line in lines:
        yield between + escape(msgspec.json.encode(line).decode()).encode()
        between = b",\n"
    yield b"\n]}\n"


async def _format_narrow(lines: "AsyncIterator[LineOut]") -> AsyncIterator[bytes]:
    """Yield the statement for a terminal of 40 columns: the accounts are beneath each line."""
    yield "UTC; movements → balances after them\n".encode()
    async for line in lines:
        time = line.time_utc.replace("T", " ")[: len("2026-11-22 14:30:05")]
        heading = f"{line.currency} {_name(line)}" if line.row == "OPENING" else _name(line)
        yield f"{heading}\n".encode() if not time else f"{time} {heading}\n".encode()
        if line.source_id:
            yield f"  {line.source_id}\n".encode()
        for account in _ACCOUNTS:
            movement, balance = getattr(line, account), getattr(line, f"{account}_after")
            if line.row in ("OPENING", "CLOSING") or movement != "0.00":
                arrow = f" → {balance:>11}" if balance else ""
                yield f"  {account:9} {movement:>11}{arrow}\n".encode()


async def _table(lines: "AsyncIterator[LineOut]") -> AsyncIterator[bytes]:
    yield _row([heading for _, heading, _ in _TABLE])
    async for line in lines:
        if line.row == "OPENING":
            yield f"{line.currency}\n".encode()
        name = _name(line)
        values = [name if field == "type" else getattr(line, field) for field, _, _ in _TABLE]
        yield _row(["" if value is None else str(value) for value in values])


def _name(line: "LineOut") -> str:
    return f"total {line.type}" if line.row == "TOTAL" else line.type or line.row.lower()


def _row(cells: list[str]) -> bytes:
    """Format a row; a cell that exceeds its column takes space from the next ones."""
    line, end = "", 0
    for cell, (_, _, width) in zip(cells, _TABLE, strict=True):
        begin, end = end, end + abs(width) + 1
        if cell:
            start = end - 1 - len(cell) if width < 0 else begin
            line = line.ljust(max(start, len(line) + 1 if line else 0)) + cell
    return (line + "\n").encode()
