"""``opentill reconcile``: a gateway's settlement report against the ledger."""

import contextlib
import io
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, TextIO

import typer

from opentill.cli import inputs, output, session
from opentill.cli.output import Json
from opentill.cli.progress import progress

if TYPE_CHECKING:
    from opentill.core.settings import Settings
    from opentill.db.database import Db
    from opentill.reconciliation import Result


def register(app: typer.Typer) -> None:
    """Add the command."""
    app.command("reconcile")(reconcile)


def reconcile(
    gateway: str,
    file: Annotated[
        Path | None,
        typer.Argument(help="A settlement report; without it, the sandbox bank's is fetched."),
    ] = None,
    *,
    since: inputs.From = None,
    until: inputs.To = None,
    as_json: Json = False,
) -> None:
    """Compare a gateway's settlement report with the ledger. Exit code 1 if they differ.

    The report is CSV with the columns kind (payment, refund, chargeback, recovery), reference (our
    attempt or refund id or the gateway's own), amount, currency and settled_at. Without --from and
    --to, its first and last settled_at are the range. Nothing is changed.
    """
    start, end = inputs.period(since, until)

    async def work() -> "Result":
        settings = session.settings()
        async with session.database(settings) as db:
            await _check_gateway(db, settings, gateway)
            if file is not None:
                with _opened(file) as lines:
                    return await _compare(db, gateway, lines, start, end)
            return await _fetched(db, settings, gateway, start, end)

    with progress("comparing"):
        result = session.run(work())
    if as_json:
        output.show(result, as_json=True)
    else:
        if result.differences:
            output.show(result.differences, as_json=False)
        output.say(
            f"{result.rows} rows, {result.items} items of ours, {result.matched} match,"
            f" {result.found} differences"
        )
    if result.found:
        raise typer.Exit(1)


async def _check_gateway(db: "Db", settings: "Settings", gateway: str) -> None:
    from opentill import reconciliation
    from opentill.core.errors import Invalid

    async with db.connection() as tx:
        if gateway not in settings.gateways and not await reconciliation.is_known(tx, gateway):
            names = ", ".join(settings.gateways)
            raise Invalid("gateway", f"gateway must be one that took payments, such as {names}")


async def _compare(
    db: "Db", gateway: str, lines: TextIO, start: int | None, end: int | None
) -> "Result":
    from opentill import reconciliation

    return await reconciliation.reconcile(db, gateway, lines, since=start, until=end)


async def _fetched(
    db: "Db", settings: "Settings", gateway: str, start: int | None, end: int | None
) -> "Result":
    """Fetch the sandbox bank's report and compare it: all of it, if no times are given."""
    from opentill import reconciliation
    from opentill.config import with_sandbox_key
    from opentill.core.errors import ConfigurationError, Invalid
    from opentill.db.clock import now_ms
    from opentill.gateways.sandbox import SandboxGateway

    if gateway != "sandbox":
        raise Invalid("file", "file must be given: only the sandbox bank's report can be fetched")
    if settings.sandbox_refused:
        raise ConfigurationError(settings.sandbox_refused)
    now = await session.now(db)
    if (start, end) != (None, None) and now - now_ms() > 1000:  # noqa: PLR2004 - a second
        reason = "from and to must be left out while business time is ahead of the bank's"
        raise Invalid("from", reason)
    bank = SandboxGateway(settings.sandbox_url, with_sandbox_key(settings).sandbox_secret)
    try:
        with tempfile.TemporaryFile() as kept:
            await bank.settlement_report(kept, start, end)
            kept.seek(0)
            lines = io.TextIOWrapper(kept, encoding="utf-8", newline="")
            return await reconciliation.reconcile(
                db, gateway, lines, since=start, until=now if end is None else end, whole=True
            )
    finally:
        await bank.close()


@contextlib.contextmanager
def _opened(file: Path) -> Iterator[TextIO]:
    from opentill.core.errors import Invalid

    try:
        lines = file.open(encoding="utf-8-sig", newline="")
    except OSError as error:
        raise Invalid("file", f"file must be one that can be read: {error.strerror}") from None
    with lines:
        yield lines
