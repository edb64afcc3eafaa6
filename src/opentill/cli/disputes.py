"""``opentill disputes``: open and decide disputes, forward responses, list and show them."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Final

import typer

from opentill.cli import (
    inputs,
    manual_actions,
    output,
    provider_reports,
    resolve,
    session,
    times,
)
from opentill.cli.output import Json
from opentill.cli.registration import acting, add_group

if TYPE_CHECKING:
    from collections.abc import Callable

    from opentill.db.database import Tx
    from opentill.disputes import Dispute, Evidence, Note
    from opentill.disputes.model import Event
    from opentill.merchants import Actor

_Merchant = Annotated[str | None, typer.Option(help="Only this merchant's.")]
_FILES = ("number", "name", "kind", "size", "sha256", "at", "who")
_COLUMNS = (
    "id", "merchantId", "orderId", "status", "amount", "currency", "debit", "debitCurrency",
    "createdAt", "respondBy", "response", "reason",
)  # fmt: skip

_DECISIONS: Final["tuple[tuple[str, Event, str], ...]"] = (
    ("win", "won", "Mark a dispute as won: the money returns to the merchant's balance."),
    ("lose", "lost", "Mark a dispute as lost: the merchant pays the chargeback and its fee."),
    ("recover", "recovered", "Record that the bank returned the money of a lost dispute."),
)


def register(app: typer.Typer) -> None:
    """Add the group."""
    decisions = {name: _decision(name, event, summary) for name, event, summary in _DECISIONS}
    add_group(
        app,
        "disputes",
        "Disputes and chargebacks.",
        open=open_,
        **decisions,
        deadline=deadline,
        note=note,
        forward=forward,
        evidence=evidence,
        list=list_,
        show=show,
        unmatched=provider_reports.list_command(provider_reports.DISPUTES),
        dismiss=provider_reports.dismiss_command(provider_reports.DISPUTES),
    )


def _to_record(dispute: "Dispute") -> dict[str, Any]:
    from opentill.disputes import DisputeOut

    record = output.plain(DisputeOut.from_dispute(dispute))
    return {"merchantId": dispute.merchant_id, **record, **_response(dispute)}


def _response(dispute: "Dispute") -> dict[str, Any]:
    """Return the merchant's decision about a dispute, which the API does not show."""
    return {
        "response": dispute.response,
        "respondedAt": dispute.responded_at,
        "respondedBy": dispute.responded_by,
    }


def _file_record(file: "Evidence") -> dict[str, Any]:
    return {
        "id": file.id,
        "number": file.number,
        "name": file.name,
        "kind": file.kind,
        "size": file.size,
        "sha256": file.sha256.hex(),
        "at": file.at,
        "who": file.who,
    }


@acting()
def open_(
    order_id: str,
    *,
    amount: Annotated[
        str | None, typer.Option(help="How much of the order; by default all that is left.")
    ] = None,
    actor: "Actor",
) -> dict[str, Any]:
    """Open a dispute of a paid order."""
    from opentill import disputes, merchants, orders

    async def work(tx: "Tx", now: int) -> "Dispute":
        order = await orders.find_anywhere(tx, order_id)
        await merchants.record_audit(tx, actor, "disputes open", order.merchant_id, order_id, now)
        minor = inputs.amount("amount", amount, order.currency)
        return await disputes.open_manually(
            tx, order.merchant_id, order_id,
            who=actor.who, reason=actor.reason, now=now, amount_minor=minor,
        )  # fmt: skip

    return _to_record(session.transact(work))


def _decision(name: str, event: "Event", summary: str) -> "Callable[..., None]":
    """Create the command by which an operator records how a dispute ended."""

    @acting()
    def command(dispute_id: str, *, actor: "Actor") -> output.Result:
        from opentill import disputes, merchants

        async def find(tx: "Tx") -> str:
            return (await disputes.find_anywhere(tx, dispute_id)).merchant_id

        async def to_output(_tx: "Tx", dispute: "Dispute") -> dict[str, Any]:
            return _to_record(dispute)

        if event == "won":
            return manual_actions.perform("dispute-won", dispute_id, actor, find, to_output)
        if event == "recovered":
            return manual_actions.perform("dispute-recovered", dispute_id, actor, find, to_output)

        async def work(tx: "Tx", now: int) -> "Dispute":
            merchant_id = await find(tx)
            await merchants.record_audit(
                tx, actor, f"disputes {name}", merchant_id, dispute_id, now
            )
            who, reason = actor.who, actor.reason
            return await disputes.decide(
                tx, merchant_id, dispute_id, event, who=who, reason=reason, now=now
            )

        return output.Result(_to_record(session.transact(work)))

    command.__doc__ = summary
    return command


@acting()
def deadline(
    dispute_id: str,
    until: Annotated[
        str,
        typer.Argument(help="In UTC: 2026-01-31 (its end), '2026-01-31 14:30', or 7d (from now)."),
    ],
    *,
    actor: "Actor",
) -> dict[str, Any]:
    """Set the time until which the bank accepts evidence; the merchant sees how long is left."""
    from opentill import disputes, merchants

    respond_by = inputs.moment("until", until, end=True, ahead=True)
    if respond_by is None:
        raise AssertionError  # ``moment`` returns None only for an omitted time

    async def work(tx: "Tx", now: int) -> "Dispute":
        merchant_id = (await disputes.find_anywhere(tx, dispute_id)).merchant_id
        subject = f"{dispute_id} until {times.format_time(respond_by)} UTC"
        await merchants.record_audit(tx, actor, "disputes deadline", merchant_id, subject, now)
        return await disputes.set_deadline(tx, merchant_id, dispute_id, respond_by, now)

    return _to_record(session.transact(work))


def note(
    dispute_id: str,
    text: Annotated[str, typer.Argument(help="Such as the evidence sent to the bank.")],
    *,
    reason: Annotated[
        str, typer.Option("--reason", help="For the audit log; without it, the note itself.")
    ] = "",
    as_root: inputs.AsRoot = False,
) -> "Note":
    """Append a note to a dispute; the merchant can read it."""
    from opentill import disputes, merchants

    actor = inputs.actor(reason, text, as_root=as_root)

    async def work(tx: "Tx", now: int) -> "Note":
        merchant_id = (await disputes.find_anywhere(tx, dispute_id)).merchant_id
        await merchants.record_audit(tx, actor, "disputes note", merchant_id, dispute_id, now)
        return await disputes.add_note(tx, merchant_id, dispute_id, text, actor.who, now)

    return session.transact(work)


@acting()
def forward(
    dispute: Annotated[str, typer.Argument(help="Its id, or any id that leads to its order.")],
    *,
    actor: "Actor",
) -> dict[str, Any]:
    """Record that the merchant's response was forwarded to the bank; the reason says how."""
    from opentill import disputes, merchants

    async def work(tx: "Tx", now: int) -> "Dispute":
        dispute_row = await resolve.dispute(tx, dispute)
        ids = (dispute_row.merchant_id, dispute_row.id)
        await merchants.lock(tx, dispute_row.merchant_id)
        await merchants.record_audit(tx, actor, "disputes forward", *ids, now)
        return await disputes.record_forwarding(tx, *ids, actor.reason, now)

    return _to_record(session.transact(work))


def list_(
    *,
    merchant: _Merchant = None,
    status: Annotated[
        str | None, typer.Option(help="Only OPEN, WON, LOST or RECOVERED ones.")
    ] = None,
) -> output.Result:
    """List disputes, newest first."""
    from opentill import disputes, merchants
    from opentill.disputes.model import STATUSES

    chosen_status = inputs.choice("status", status, STATUSES)

    async def work(tx: "Tx") -> "list[Dispute]":
        if merchant is not None:
            await merchants.find(tx, merchant)
        return await disputes.search(tx, merchant, chosen_status)

    rows = [_to_record(dispute) for dispute in session.query(work)]
    return output.Result(rows, _COLUMNS)


def show(
    dispute: Annotated[str, typer.Argument(help="Its id, or any id that leads to its order.")],
    *,
    as_json: Json = False,
) -> None:
    """Show a dispute with its notes and the files of evidence."""
    from opentill import disputes

    async def work(tx: "Tx") -> "tuple[Dispute, list[Note], list[Evidence]]":
        dispute_row = await resolve.dispute(tx, dispute)
        return (
            dispute_row,
            await disputes.list_notes(tx, dispute_row),
            await disputes.list_evidence(tx, dispute_row),
        )

    dispute_row, notes, evidence = session.query(work)
    files = [_file_record(file) for file in evidence]
    record = {
        "merchantId": dispute_row.merchant_id,
        "gateway": dispute_row.gateway,
        "gatewayRef": dispute_row.gateway_ref,
        **output.plain(disputes.DisputeDetail.from_dispute(dispute_row, notes)),
        **_response(dispute_row),
    }
    if as_json:
        output.show({**record, "evidence": files}, as_json=True)
        return
    del record["notes"]
    output.show(record, as_json=False)
    if notes:
        output.show(output.Result(notes, ("at", "who", "note")), as_json=False)
    if files:
        output.show(output.Result(files, _FILES), as_json=False)


def evidence(
    dispute: Annotated[str, typer.Argument(help="Its id, or any id that leads to its order.")],
    *,
    out: Annotated[Path, typer.Option("--out", help="The directory; created if missing.")],
) -> output.Result:
    """Write the files of evidence to a directory, each under its number and name."""
    from opentill import disputes
    from opentill.core.errors import Invalid

    async def work(tx: "Tx") -> "list[tuple[Evidence, bytes]]":
        dispute_row = await resolve.dispute(tx, dispute)
        return [
            (file, await disputes.read_evidence(tx, file.merchant_id, file.id))
            for file in await disputes.list_evidence(tx, dispute_row)
        ]

    rows: list[dict[str, Any]] = []
    try:
        out.mkdir(parents=True, exist_ok=True)
        for file, content in session.query(work):
            path = out / f"{file.number:02}-{file.name}"
            path.write_bytes(content)
            rows.append({**_file_record(file), "path": str(path)})
    except OSError as error:
        reason = f"out must be a directory that can be written: {error.strerror}"
        raise Invalid("out", reason) from None
    return output.Result(rows, ("path", "kind", "size", "sha256"))
