"""``opentill reconcile``: gateways' settlement reports against the ledger, and the inbox."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Final

import typer
from typer.core import TyperGroup

from opentill.cli import identity, inputs, output, session
from opentill.cli.output import Json
from opentill.cli.progress import progress
from opentill.cli.registration import acting, add

if TYPE_CHECKING:
    from opentill.adjustments import Adjustment
    from opentill.core.settings import Settings
    from opentill.db.database import Db, Tx
    from opentill.gateways.model import Reports
    from opentill.merchants import Actor
    from opentill.reconciliation import OpenDifference, Result, StoredFile

_COMPARE: Final = "compare"
_COLUMNS: Final = (
    "id", "source", "what", "kind", "reference", "merchantId", "ours", "theirs", "createdAt",
)  # fmt: skip


class _Group(TyperGroup):
    """A group in which ``reconcile GATEWAY …`` is ``reconcile compare GATEWAY …``."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """Insert ``compare`` if the first argument is not a command."""
        if args and args[0] not in self.commands and args[0] not in ctx.help_option_names:
            args = [_COMPARE, *args]
        return super().parse_args(ctx, args)


def register(app: typer.Typer) -> None:
    """Add the group."""
    summary = "Compare a gateway's settlement report with the ledger; the inbox."
    group = typer.Typer(help=summary, no_args_is_help=True, cls=_Group)
    add(group, _COMPARE, compare, group="reconcile")
    add(group, "inbox", inbox, group="reconcile")
    add(group, "resolve", resolve, group="reconcile")
    add(group, "files", files, group="reconcile")
    app.add_typer(group, name="reconcile")


@acting(without_reason="a settlement report")
def compare(
    gateway: str,
    file: Annotated[
        Path | None,
        typer.Argument(
            help="A settlement report; without it, that of Stripe, PayPal, Alipay, WeChat Pay or"
            " the sandbox bank is fetched."
        ),
    ] = None,
    *,
    since: inputs.From = None,
    until: inputs.To = None,
    actor: "Actor",
    as_json: Json = False,
) -> None:
    """Compare a gateway's settlement report with the ledger. Exit code 1 if they differ.

    The report is CSV with the columns kind (payment, refund, refund_failure, chargeback, recovery,
    payment_failure), reference (our attempt or refund id or the gateway's own), amount, currency
    and settled_at; or as Stripe (balance transactions, itemised reports), Alipay (trades) or WeChat
    Pay (trade bill) exports it. Without a file, Stripe's is fetched from --from until an hour ago,
    PayPal's until three hours ago, and the bills of Alipay and WeChat Pay until the last day of
    China whose bill is complete, which is so at ten o'clock of the next day. Without --from and
    --to, a file is compared for the days of which it consists, or between its first and last time.
    No money moves: differences go to the inbox, each once.
    """
    start, end = inputs.period(since, until)

    async def work() -> "Result":
        from opentill import reconciliation

        settings = session.settings()
        async with session.database(settings) as db:
            await _check_gateway(db, settings, gateway)
            if file is not None:
                number = await _find_account_number(db, settings, gateway)
                with inputs.source(file) as lines:
                    report = reconciliation.Report(
                        gateway=gateway, file=lines, name=file.name, since=start, until=end,
                        account=number,
                    )  # fmt: skip
                    now = await session.now(db)
                    return await reconciliation.reconcile_file(db, report, actor, now)
            return await _compare_fetched_report(db, settings, gateway, actor, start, end)

    with progress("comparing"):
        result = session.run(work())
    if as_json:
        output.show(result, as_json=True)
    else:
        if result.differences:
            output.show(result.differences, as_json=False)
        output.say(
            f"{result.rows} rows, {result.items} items of ours, {result.matched} match,"
            f" {result.difference_count} differences"
        )
    if result.difference_count:
        raise typer.Exit(1)


async def _check_gateway(db: "Db", settings: "Settings", gateway: str) -> None:
    from opentill import reconciliation
    from opentill.core.errors import Invalid

    async with db.connection() as tx:
        if gateway not in settings.gateways and not await reconciliation.has_payments(tx, gateway):
            names = ", ".join(settings.gateways)
            raise Invalid("gateway", f"gateway must be one that took payments, such as {names}")


async def _compare_fetched_report(
    db: "Db", settings: "Settings", gateway: str, actor: "Actor", start: int | None, end: int | None
) -> "Result":
    """Fetch a provider's report of a range of time and compare it with the ledger.

    ``start`` and ``end`` are inclusive Unix ms; None is an open end.
    """
    from opentill import reconciliation

    now = await session.now(db)
    adapter = await _find_reporting_adapter(db, settings, gateway)
    try:
        return await reconciliation.reconcile_fetched(db, adapter, gateway, start, end, actor, now)
    finally:
        await adapter.close()


async def _find_reporting_adapter(db: "Db", settings: "Settings", gateway: str) -> "Reports":
    """Return the adapter of a gateway or account whose report can be fetched.

    Raises Invalid for others, and ConfigurationError.
    """
    from opentill.config import with_sandbox_key
    from opentill.core.errors import ConfigurationError, Invalid
    from opentill.gateways import accounts, load
    from opentill.gateways.model import Reports
    from opentill.gateways.sandbox import SandboxGateway

    if gateway == "sandbox":
        if settings.sandbox_refused:
            raise ConfigurationError(settings.sandbox_refused)
        return SandboxGateway(settings.sandbox_url, with_sandbox_key(settings).sandbox_secret)
    if gateway in settings.gateways:
        adapter = load((gateway,), settings)[gateway]
    else:
        stored = await db.read(lambda tx: accounts.find_stored(tx, gateway))
        adapter = accounts.build_stored(stored, settings)
    if isinstance(adapter, Reports):
        return adapter
    await adapter.close()
    reason = (
        "file must be given: only reports of Stripe, PayPal, Alipay, WeChat Pay and the sandbox"
        " bank can be fetched"
    )
    raise Invalid("file", reason)


async def _find_account_number(db: "Db", settings: "Settings", gateway: str) -> str:
    """Return an account's number at its provider; "" if it is unknown, or no longer configured."""
    from opentill import reconciliation
    from opentill.core.errors import ConfigurationError, Problem

    try:
        adapter = await _find_reporting_adapter(db, settings, gateway)
    except (Problem, ConfigurationError):
        return ""
    await adapter.close()
    return reconciliation.account_number(adapter)


def inbox(
    *,
    source: Annotated[
        str | None, typer.Option(help="Only differences of this gateway; bank: of the bank.")
    ] = None,
    resolved: Annotated[
        bool, typer.Option("--resolved", help="List resolved differences.")
    ] = False,
    bookings: Annotated[
        bool, typer.Option("--bookings", help="The bank's bookings that concern no payout.")
    ] = False,
    limit: Annotated[int, typer.Option(min=1, help="How many.")] = 100,
) -> output.Result:
    """List the open differences, oldest first."""
    from opentill import reconciliation

    async def work(tx: "Tx") -> "tuple[list[OpenDifference], int]":
        if bookings:
            listed = await reconciliation.list_bookings(tx, limit)
        else:
            listed = await reconciliation.list_differences(tx, source, limit, resolved=resolved)
        return listed, await reconciliation.count_open(tx)

    listed, number = session.query(work)
    differences = [
        {**output.plain(one), "earlier": [output.plain(old) for old in one.resolutions]}
        for one in listed
    ]
    columns = (*_COLUMNS, "resolvedBy", "resolution") if resolved else _COLUMNS
    return output.Result(differences, columns, f"{number} open")


@acting()
def resolve(
    difference_id: str,
    *,
    adjust: Annotated[
        str | None,
        typer.Option(help="Move money too: freeze, unfreeze, recharge, correct or fee."),
    ] = None,
    amount: Annotated[str | None, typer.Option(help="How much: 25.00.")] = None,
    merchant: Annotated[
        str, typer.Option(help="Whose balance, if the difference has no merchant.")
    ] = "",
    order: Annotated[str | None, typer.Option(help="The order of a correction.")] = None,
    actor: "Actor",
) -> dict[str, Any]:
    """Resolve a difference once, with a reason and, if wanted, an adjustment of a balance."""
    from opentill import merchants, reconciliation
    from opentill.adjustments import KINDS, AdjustmentRequest
    from opentill.core.errors import Invalid

    kind = inputs.choice("adjust", adjust, tuple(KINDS))
    if (kind is None) != (amount is None):
        raise Invalid("amount", "amount must be given together with adjust")
    above = session.settings().approval_above

    async def work(tx: "Tx", now: int) -> "Adjustment | None":
        adjustment_request: AdjustmentRequest | None = None
        difference = await reconciliation.find_difference(tx, difference_id)
        owner = merchant or difference.merchant_id
        if kind is not None and owner:
            currency = (await merchants.find(tx, owner)).settlement_currency
            sign = -1 if (amount or "").startswith("-") else 1
            minor = inputs.amount("amount", (amount or "").removeprefix("-"), currency) or 0
            adjustment_request = AdjustmentRequest(
                kind=kind, amount_minor=sign * minor, reason=actor.reason, by=actor.who,
                reference=difference_id, order_id=order,
            )  # fmt: skip
        elif kind is not None:
            raise Invalid("merchant", "merchant must be the one whose balance is adjusted")
        adjustment = await reconciliation.resolve(
            tx, difference_id, actor, now, adjustment_request, owner, above
        )
        waits = adjustment is not None and adjustment.status == "WAITING"
        identity.check_requester(needs_approval=waits)
        return adjustment

    adjustment = session.transact(work)
    return {
        "id": difference_id,
        "resolvedBy": actor.who,
        "resolution": actor.reason,
        "adjustmentId": adjustment.id if adjustment else None,
    }


def files(
    *, limit: Annotated[int, typer.Option(min=1, help="How many, newest first.")] = 100
) -> "list[StoredFile]":
    """List the reports that were read."""
    from opentill import reconciliation

    return session.query(lambda tx: reconciliation.list_files(tx, limit))
