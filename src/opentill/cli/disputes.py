"""``opentill disputes open|win|lose|recover|note|list|show|unmatched|dismiss``."""

from typing import TYPE_CHECKING, Annotated, Any

import typer

from opentill.cli import inputs, output, session
from opentill.cli.output import Json

if TYPE_CHECKING:
    from opentill.db.database import Tx
    from opentill.disputes import Dispute
    from opentill.disputes.model import Event

_Reason = Annotated[str, typer.Option("--reason", help="Why; compulsory, for the audit log.")]
_UNMATCHED = ("merchantId", "gateway", "gatewayRef", "orderId", "status", "amount", "refusal")
_COLUMNS = ("id", "orderId", "status", "amount", "currency", "debit", "debitCurrency", "reason")


def register(app: typer.Typer) -> None:
    """Add the group."""
    group = typer.Typer(help="Disputes and chargebacks.", no_args_is_help=True)
    group.command("open")(open_)
    group.command("win")(win)
    group.command("lose")(lose)
    group.command("recover")(recover)
    group.command("note")(note)
    group.command("list")(list_)
    group.command("show")(show)
    group.command("unmatched")(unmatched)
    group.command("dismiss")(dismiss)
    app.add_typer(group, name="disputes")


def _shown(dispute: "Dispute") -> dict[str, Any]:
    from opentill.disputes import DisputeOut

    return {"merchantId": dispute.merchant_id, **output.plain(DisputeOut.of(dispute))}


def open_(
    order_id: str,
    *,
    amount: Annotated[
        str | None, typer.Option(help="How much of it; without it, all that is left.")
    ] = None,
    reason: _Reason = "",
    by: inputs.By = "",
    as_json: Json = False,
) -> None:
    """Open a dispute of a paid order."""
    from opentill import disputes, merchants, orders

    who = inputs.who(by)

    async def step(tx: "Tx") -> "Dispute":
        now = await session.now(tx)
        order = await orders.find_anywhere(tx, order_id)
        await merchants.record_audit(
            tx, who=who, action="disputes open", merchant_id=order.merchant_id, subject=order_id,
            reason=reason, now=now,
        )  # fmt: skip
        minor = inputs.amount("amount", amount, order.currency)
        return await disputes.open_manually(
            tx, order.merchant_id, order_id,
            who=who, reason=reason.strip(), now=now, amount_minor=minor,
        )  # fmt: skip

    async def work() -> None:
        async with session.database() as db:
            output.show(_shown(await db.run(step)), as_json=as_json)

    session.run(work())


def win(
    dispute_id: str, *, reason: _Reason = "", by: inputs.By = "", as_json: Json = False
) -> None:
    """Say that a dispute was won: its money is the merchant's again."""
    _decide("won", "disputes win", dispute_id, reason, by, as_json=as_json)


def lose(
    dispute_id: str, *, reason: _Reason = "", by: inputs.By = "", as_json: Json = False
) -> None:
    """Say that a dispute was lost: a chargeback and its fee."""
    _decide("lost", "disputes lose", dispute_id, reason, by, as_json=as_json)


def recover(
    dispute_id: str, *, reason: _Reason = "", by: inputs.By = "", as_json: Json = False
) -> None:
    """Say that the bank gave the money of a lost dispute back."""
    _decide("recovered", "disputes recover", dispute_id, reason, by, as_json=as_json)


def _decide(
    event: "Event", action: str, dispute_id: str, reason: str, by: str, *, as_json: bool
) -> None:
    from opentill import disputes, merchants

    who = inputs.who(by)

    async def step(tx: "Tx") -> "Dispute":
        now = await session.now(tx)
        found = await disputes.find_anywhere(tx, dispute_id)
        await merchants.record_audit(
            tx, who=who, action=action, merchant_id=found.merchant_id, subject=dispute_id,
            reason=reason, now=now,
        )  # fmt: skip
        return await disputes.decide(
            tx, found.merchant_id, dispute_id, event, who=who, reason=reason.strip(), now=now
        )

    async def work() -> None:
        async with session.database() as db:
            output.show(_shown(await db.run(step)), as_json=as_json)

    session.run(work())


def note(
    dispute_id: str,
    text: Annotated[str, typer.Argument(help="Such as the evidence sent to the bank.")],
    *,
    reason: Annotated[
        str, typer.Option("--reason", help="For the audit log; without it, the note itself.")
    ] = "",
    by: inputs.By = "",
    as_json: Json = False,
) -> None:
    """Append a note to a dispute; the merchant can read it."""
    from opentill import disputes, merchants

    who = inputs.who(by)

    async def step(tx: "Tx") -> disputes.Note:
        now = await session.now(tx)
        found = await disputes.find_anywhere(tx, dispute_id)
        await merchants.record_audit(
            tx, who=who, action="disputes note", merchant_id=found.merchant_id, subject=dispute_id,
            reason=reason.strip() or text, now=now,
        )  # fmt: skip
        return await disputes.add_note(tx, found.merchant_id, dispute_id, text, who, now)

    async def work() -> None:
        async with session.database() as db:
            output.show(await db.run(step), as_json=as_json)

    session.run(work())


def list_(
    *,
    merchant: Annotated[str | None, typer.Option(help="Only this merchant's.")] = None,
    status: Annotated[
        str | None, typer.Option(help="Only OPEN, WON, LOST or RECOVERED ones.")
    ] = None,
    as_json: Json = False,
) -> None:
    """List disputes, newest first."""
    from opentill import disputes, merchants
    from opentill.core.errors import Invalid
    from opentill.disputes.model import STATUSES

    if status is not None and status not in STATUSES:
        raise Invalid("status", f"status must be one of {', '.join(STATUSES)}")

    async def work() -> None:
        async with session.database() as db, db.connection() as tx:
            if merchant is not None:
                await merchants.find(tx, merchant)
            found = await disputes.search(tx, merchant, status)
        output.show([_shown(dispute) for dispute in found], as_json=as_json, columns=_COLUMNS)

    session.run(work())


def show(dispute_id: str, *, as_json: Json = False) -> None:
    """Show a dispute with its notes."""
    from opentill import disputes

    async def work() -> None:
        async with session.database() as db, db.connection() as tx:
            dispute = await disputes.find_anywhere(tx, dispute_id)
            notes = await disputes.notes(tx, dispute)
        detail = output.plain(disputes.DisputeDetail.of(dispute, notes))
        if not as_json:
            detail["notes"] = "\n".join(f"{note.who}: {note.note}" for note in notes)
        shown = {
            "merchantId": dispute.merchant_id,
            "gateway": dispute.gateway,
            "gatewayRef": dispute.gateway_ref,
            **detail,
        }
        output.show(shown, as_json=as_json)

    session.run(work())


def unmatched(
    *,
    merchant: Annotated[str | None, typer.Option(help="Only this merchant's.")] = None,
    as_json: Json = False,
) -> None:
    """List what gateways said of disputes that their orders could not take.

    It is tried again by itself. Where the status is LOST or RECOVERED, money moved at the gateway
    that the books know nothing of: correct the balance, then dismiss it.
    """
    from opentill import disputes, merchants

    async def work() -> None:
        async with session.database() as db, db.connection() as tx:
            if merchant is not None:
                await merchants.find(tx, merchant)
            found = await disputes.unmatched(tx, merchant)
        shown = [disputes.UnmatchedOut.of(one) for one in found]
        output.show(shown, as_json=as_json, columns=_UNMATCHED)

    session.run(work())


def dismiss(
    merchant_id: str,
    gateway: str,
    gateway_ref: Annotated[str, typer.Argument(help="The gateway's name of the dispute.")],
    *,
    reason: _Reason = "",
    by: inputs.By = "",
    as_json: Json = False,
) -> None:
    """Say that an unmatched dispute has been seen to."""
    from opentill import disputes, merchants

    who = inputs.who(by)

    async def step(tx: "Tx") -> disputes.Unmatched:
        now = await session.now(tx)
        await merchants.find(tx, merchant_id)
        await merchants.record_audit(
            tx, who=who, action="disputes dismiss", merchant_id=merchant_id,
            subject=f"{gateway} {gateway_ref}", reason=reason, now=now,
        )  # fmt: skip
        return await disputes.dismiss(tx, merchant_id, gateway, gateway_ref, who, now)

    async def work() -> None:
        async with session.database() as db:
            closed = await db.run(step)
        output.show(disputes.UnmatchedOut.of(closed), as_json=as_json)

    session.run(work())
