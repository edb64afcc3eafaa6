"""The commands that list and dismiss providers' reports that fit no order, by kind of report."""

import importlib
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Annotated, Any, Final, NamedTuple

import typer

from opentill.cli import output, session
from opentill.cli.registration import acting

if TYPE_CHECKING:
    from opentill.db.database import Tx
    from opentill.merchants import Actor


class ReportKind(NamedTuple):
    """A kind of report: its package, the names in the package, and the texts of its commands."""

    package: str
    list_open: str
    shown: str  # name of the struct that has the fields of a report to show
    columns: Sequence[str]
    list_help: str
    dismiss_help: str
    reference_help: str


DISPUTES: Final = ReportKind(
    "disputes",
    "list_unmatched",
    "UnmatchedOut",
    ("merchantId", "gateway", "gatewayRef", "orderId", "status", "amount", "refusal"),
    """List the disputes that a gateway reported and that could not be applied to an order.

    The worker tries each again. Where the status is LOST or RECOVERED, money moved at the gateway
    that the ledger does not have: correct the balance, then dismiss the dispute.
    """,
    "Close an unmatched dispute that has been resolved.",
    "The gateway's id of the dispute.",
)
REFUNDS: Final = ReportKind(
    "refunds",
    "list_open",
    "RefundCaseOut",
    ("merchantId", "gateway", "gatewayRef", "kind", "orderId", "amount", "currency", "refusal"),
    """List the refunds that need attention.

    REVERSED: a refund had succeeded, and its money came back; the merchant has it again. UNMATCHED:
    a refund was made at the provider and cannot be applied to its order. The worker tries again;
    the ledger does not have the money that left: correct the balance, then dismiss the case.
    """,
    "Close a refund case that has been resolved.",
    "As `opentill refunds cases` lists it.",
)


def list_command(kind: ReportKind) -> Callable[..., output.Result]:
    """Return the command that lists the open reports of a kind."""

    def command(
        *, merchant: Annotated[str | None, typer.Option(help="Only this merchant's.")] = None
    ) -> output.Result:
        from opentill import merchants

        package = importlib.import_module(f"opentill.{kind.package}")

        async def work(tx: "Tx") -> list[Any]:
            if merchant is not None:
                await merchants.find(tx, merchant)
            reports: list[Any] = await getattr(package, kind.list_open)(tx, merchant)
            return reports

        rows = [getattr(package, kind.shown).from_report(report) for report in session.query(work)]
        return output.Result(rows, kind.columns)

    command.__doc__ = kind.list_help
    return command


def dismiss_command(kind: ReportKind) -> Callable[..., Any]:
    """Return the command that closes a report of a kind."""

    @acting()
    def command(
        merchant_id: str,
        gateway: str,
        gateway_ref: Annotated[str, typer.Argument(help=kind.reference_help)],
        *,
        actor: "Actor",
    ) -> Any:
        from opentill import merchants

        package = importlib.import_module(f"opentill.{kind.package}")

        async def work(tx: "Tx", now: int) -> Any:
            await merchants.find(tx, merchant_id)
            await merchants.record_audit(
                tx, actor, f"{kind.package} dismiss", merchant_id, f"{gateway} {gateway_ref}", now
            )
            return await package.dismiss(tx, merchant_id, gateway, gateway_ref, actor.who, now)

        return getattr(package, kind.shown).from_report(session.transact(work))

    command.__doc__ = kind.dismiss_help
    return command
