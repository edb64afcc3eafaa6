"""``opentill rates set|list|import``."""

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from opentill.cli import inputs, output, session, times
from opentill.cli.output import Json
from opentill.cli.progress import progress
from opentill.cli.registration import acting, add_group

if TYPE_CHECKING:
    from opentill.merchants import Actor

_Code = Annotated[str | None, typer.Option(help="Only of this currency.")]
_From = Annotated[
    str | None,
    typer.Option(
        "--from", help="Since when: 2026-01-31 (from its start, UTC) or a time; without it, now."
    ),
]
_Since = Annotated[str | None, typer.Option("--from", help="Leave out the days before this one.")]
_At = Annotated[
    str | None,
    typer.Option("--at", help="At this time: 2026-01-31 (at its end, UTC), yesterday, 7d (ago)."),
]


def register(app: typer.Typer) -> None:
    """Add the group."""
    add_group(app, "rates", "Exchange rates.", set=set_, list=list_, **{"import": import_})


@acting(without_reason="rate set")
def set_(
    base: str, quote: str, rate: str, *, since: _From = None, actor: "Actor"
) -> dict[str, object]:
    """Set what one BASE is worth in QUOTE: opentill rates set EUR USD 1.08."""
    from opentill import merchants, rates
    from opentill.core import money
    from opentill.db.database import Tx
    from opentill.http.csvfile import format_utc

    value = inputs.rate("rate", rate)
    valid_from = inputs.moment("from", since)
    if value is None:
        raise AssertionError

    async def work(tx: Tx, now: int) -> dict[str, object]:
        rate = await rates.put(tx, base, quote, value, now if valid_from is None else valid_from)
        text = money.rate_text(rate.rate)
        subject = f"{base} {quote} {text} from {format_utc(rate.valid_from)}"
        await merchants.record_audit(tx, actor, "rates set", "", subject, now)
        return {"base": base, "quote": quote, "rate": text, "validFrom": rate.valid_from}

    return session.transact(work)


def list_(*, base: _Code = None, quote: _Code = None, at: _At = None) -> output.Result:
    """List the current rate of each pair, and whether it is still used or too old."""
    from opentill import rates
    from opentill.core import money
    from opentill.db.database import Tx

    moment = inputs.moment("at", at, end=True)

    settings = session.settings()

    async def work(tx: Tx) -> tuple[int, list[rates.ListedRate]]:
        now = await session.now(tx) if moment is None else moment
        return now, await rates.list_current(tx, now, base, quote)

    now, listed = session.query(work, settings)
    oldest = rates.oldest_valid_from(now, settings.rates_max_age_days)
    rows = [
        {
            "base": rate.base,
            "quote": rate.quote,
            "rate": money.rate_text(rate.rate),
            "validFrom": rate.valid_from,
            "day": times.day(rate.valid_from),
            "typed": rate.is_typed,
            "counts": rate.counts(oldest),
        }
        for rate in listed
    ]
    return output.Result(rows, ("base", "quote", "rate", "day", "typed", "counts"))


def _read(file: Path) -> bytes:
    from opentill.core.errors import Invalid

    try:
        return sys.stdin.buffer.read() if str(file) == "-" else file.read_bytes()
    except OSError as error:
        reason = f"file must be one that can be read, or - for standard input: {error.strerror}"
        raise Invalid("file", reason) from None


@acting(without_reason="")
def import_(file: Path, *, since: _Since = None, actor: "Actor", as_json: Json = False) -> None:
    """Import the ECB's rates (CSV, XML or zip; - for standard input), and all cross rates."""
    from opentill import merchants, rates
    from opentill.db.database import Tx

    start = inputs.moment("from", since) or 0
    sheet = rates.read_file(_read(file))

    async def work(tx: Tx, now: int) -> rates.Imported:
        with progress("importing days", len(sheet.days)) as advance:
            sheet_import = await rates.import_sheet(tx, sheet, now, start, advance)
        span = f"{times.day(sheet_import.first)} to {times.day(sheet_import.last)}"
        subject = f"{sheet_import.rates} rates of {len(sheet_import.currencies)} currencies, {span}"
        import_actor = merchants.Actor(actor.who, actor.reason or f"import of {file.name}")
        await merchants.record_audit(tx, import_actor, "rates import", "", subject, now)
        return sheet_import

    imported = session.transact(work)
    days = {"first": times.day(imported.first), "last": times.day(imported.last)}
    record = output.plain(imported) | days
    if not as_json:
        record |= {name: " ".join(record[name]) for name in ("currencies", "skipped")}
    output.show(record, as_json=as_json)
