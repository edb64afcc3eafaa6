"""``opentill epay import``: move in from an old Epay server."""

import gzip
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import IO, TYPE_CHECKING, Annotated, Any, Final, cast

import typer

from opentill.cli import inputs, output, session
from opentill.cli.output import Json
from opentill.cli.progress import progress
from opentill.cli.registration import acting

if TYPE_CHECKING:
    from opentill.core.settings import Settings
    from opentill.db.database import Db
    from opentill.epay_import import Done, Report
    from opentill.epay_import.model import Row
    from opentill.epay_import.tables import Tables
    from opentill.merchants import Actor

_GZIP: Final = b"\x1f\x8b"
_MERCHANTS: Final = ("pid", "name", "versions", "balance", "paid", "paidAmount", "refundedAmount",
              "unpaid", "leftOut", "switchedOn")  # fmt: skip


@acting(without_reason="moved in from an old Epay server")
def import_(
    *,
    dump: Annotated[
        Path, typer.Option(help="An SQL dump of the old server's database, also gzipped.")
    ],
    dry_run: Annotated[
        bool,
        typer.Option(
            "--dry-run/--apply", help="--dry-run, the default, only reports; --apply imports."
        ),
    ] = True,
    channel: Annotated[
        list[str] | None,
        typer.Option(
            help="The gateway here of an old channel, such as 3=alipay: it makes the refunds of the"
            " channel's orders. Without it the operator makes and reports them."
        ),
    ] = None,
    prefix: Annotated[
        str | None,
        typer.Option(help="The prefix of the tables to import, if the dump has several servers."),
    ] = None,
    accept_left_out: Annotated[
        bool,
        typer.Option(
            "--accept-left-out", help="Switch on merchants even if some of their rows are left out."
        ),
    ] = False,
    actor: "Actor",
    as_json: Json = False,
) -> None:
    """Move in from an old Epay server (彩虹易支付): merchants, keys, orders, refunds and balances.

    Without --apply nothing is written: the command reports what comes over and what does not, by
    table and merchant. An import that was interrupted is continued by running it again. The exit
    code is 1 if rows are left out, if a pid is taken here or, with --apply, if a merchant is off.
    """
    from opentill import epay_import
    from opentill.core.errors import Invalid

    async def work() -> "tuple[Report, Done | None]":
        settings = session.settings()
        async with session.database(settings) as db:
            gateways = await _read_channels(db, settings, channel or [])
            requested = epay_import.Import(
                rows=_rows_of(dump),
                prefix=prefix,
                gateways=gateways,
                accept_left_out=accept_left_out,
                actor=actor,
            )
            with progress("reading"):
                old_server = epay_import.survey(requested, settings.epay_time_zone)
            async with db.connection() as tx:
                conflicts = await epay_import.find_conflicts(tx, old_server)
            report = epay_import.summarize(old_server, conflicts, gateways)
            if dry_run:
                return report, None
            total = sum(sums.orders for sums in old_server.sums.values())
            now = await session.now(db)
            with progress("importing", total) as advance:
                return report, await epay_import.run(
                    db, settings, requested, old_server, now, advance
                )

    try:
        report, done = session.run(work())
    except epay_import.BadSource as problem:
        raise Invalid("dump", f"dump must be a complete dump in UTF-8: {problem}") from None
    _show(report, done, as_json=as_json)
    if report.conflicts or report.left_out or (done is not None and done.unfinished):
        raise typer.Exit(1)


def _rows_of(path: Path) -> "Callable[[Tables], Iterator[Row]]":
    def rows(tables: "Tables") -> "Iterator[Row]":
        from opentill.epay_import import DumpReader

        with inputs.source(path) as file:
            is_compressed = file.read(len(_GZIP)) == _GZIP
            file.seek(0)
            opened = cast("IO[bytes]", gzip.GzipFile(fileobj=file)) if is_compressed else file
            yield from DumpReader(opened, tables.choose)

    return rows


async def _read_channels(db: "Db", settings: "Settings", pairs: list[str]) -> dict[int, str]:
    """Return gateways by old channels. Raises Invalid for an unknown gateway."""
    from opentill.core.errors import Invalid
    from opentill.gateways.accounts import lookup

    chosen: dict[int, str] = {}
    if not pairs:
        return chosen
    async with db.connection() as tx:
        accounts = await lookup.list_accounts(tx)
    names = {name: name for name in settings.gateways}
    names |= {account.label: account.id for account in accounts}
    names |= {account.id: account.id for account in accounts}
    for pair in pairs:
        number, separator, name = pair.partition("=")
        if not separator or not number.strip().isdigit() or name.strip() not in names:
            choices = ", ".join(sorted(names))
            raise Invalid("channel", f"channel must be NUMBER=GATEWAY, of the gateways {choices}")
        chosen[int(number)] = names[name.strip()]
    return chosen


def _show(report: "Report", done: "Done | None", *, as_json: bool) -> None:
    if as_json:
        shown: dict[str, Any] = output.plain(report)
        shown["dryRun"] = done is None
        if done is not None:
            shown["done"] = _plain_done(done)
        output.show(shown, as_json=True)
        return
    _show_report(report)
    if done is None:
        output.say("nothing was written: this was a dry run; --apply imports")
    else:
        _show_done(done)


def _plain_done(done: "Done") -> dict[str, Any]:
    from opentill.core import money
    from opentill.epay_import.model import CURRENCY

    plain = output.plain(done)
    plain["opened"] = money.show(plain.pop("openedMinor"), CURRENCY)
    return plain


def _show_report(report: "Report") -> None:
    from opentill.epay_import.report import as_rows

    output.show(output.Result(report.tables), as_json=False)
    output.show(output.Result(report.merchants, _MERCHANTS), as_json=False)
    if report.channels:
        output.show(output.Result(report.channels), as_json=False)
    if report.left_out:
        output.show(output.Result(as_rows(report.left_out)), as_json=False)
    for merchant in report.merchants:
        for note in merchant.notes:
            output.say(f"pid {merchant.pid}: {note}")
    for conflict in report.conflicts:
        output.say(f"the pid is taken here: {conflict}")
    for note in report.notes:
        output.say(note)


def _show_done(done: "Done") -> None:
    output.say(
        f"imported: {done.merchants} merchants, {done.orders} orders, {done.refunds} refunds;"
        f" {done.orders_before} orders were here; {done.finished} merchants were switched on"
    )
    for reason, rows in done.left_out.items():
        output.say(f"{rows} rows are left out: {reason}")
    if done.unfinished:
        pids = ", ".join(map(str, done.unfinished))
        output.say(f"these merchants stay switched off: {pids}")
    if done.changed:
        pids = ", ".join(map(str, sorted(done.changed)))
        output.say(
            f"orders of these merchants have changed since an earlier dump: {pids}; import the"
            " newest dump into a new deployment"
        )
