"""``opentill payouts create|paid|failed|due|list|show``; the runs are in ``payout_runs.py``."""

from typing import TYPE_CHECKING, Annotated, Any

import typer

from opentill.cli import identity, inputs, manual_actions, output, payout_runs, session
from opentill.cli.approvals import approver
from opentill.cli.registration import acting, add_group

if TYPE_CHECKING:
    from opentill.approvals.model import Action
    from opentill.db.database import Tx
    from opentill.merchants import Actor
    from opentill.payouts import DuePayout, Payout, WaitingPayout

_COLUMNS = ("id", "merchantId", "status", "amount", "fee", "currency", "bankReference", "createdAt")


def register(app: typer.Typer) -> None:
    """Add the group."""
    add_group(
        app,
        "payouts",
        "Payouts: available money, sent to a merchant's bank.",
        create=create,
        paid=paid,
        failed=failed,
        waiting=waiting,
        approve=approve,
        reject=reject,
        due=due,
        list=list_,
        show=show,
        **payout_runs.COMMANDS,
    )


def _to_record(payout: "Payout") -> dict[str, Any]:
    from opentill.payouts import PayoutOut

    added_fields = {
        "merchantId": payout.merchant_id,
        "reference": payout.reference,
        "reason": payout.reason,
        "createdBy": payout.created_by,
        "approvedBy": payout.approved_by,
    }
    return {**output.plain(PayoutOut.from_payout(payout)), **added_fields}


@acting()
def create(
    merchant_id: str,
    *,
    amount: Annotated[str | None, typer.Option(help="What the bank sends: 250.00.")] = None,
    everything: Annotated[
        bool, typer.Option("--all", help="Everything available, less the fee.")
    ] = False,
    fee: Annotated[
        str | None, typer.Option(help="The fee that the merchant pays on top of the amount.")
    ] = None,
    reference: inputs.Reference = "",
    actor: "Actor",
) -> output.Result:
    """Create a payout: available money, to be sent to the merchant's bank.

    Above the limit OPENTILL_APPROVAL_ABOVE it waits until somebody else approves it.
    """
    from opentill import merchants, payouts
    from opentill.core.errors import Invalid
    from opentill.payouts import PayoutRequest

    if (amount is None) != everything:
        raise Invalid("amount", "amount must be given with --amount, or everything with --all")
    above = session.settings().approval_above

    async def work(tx: "Tx", now: int) -> "Payout | WaitingPayout":
        currency = (await merchants.find(tx, merchant_id)).settlement_currency
        request = PayoutRequest(
            amount_minor=inputs.amount("amount", amount, currency),
            fee_minor=inputs.amount("fee", fee, currency) or 0,
            reference=reference,
            reason=actor.reason,
            by=actor.who,
        )
        payout = await payouts.request(tx, merchant_id, request, above, now)
        waits = isinstance(payout, payouts.WaitingPayout) and payout.status == "WAITING"
        identity.check_requester(needs_approval=waits)
        return payout

    payout = session.transact(work)
    if isinstance(payout, payouts.WaitingPayout):
        note = f"waits for a second person: opentill payouts approve {payout.id}"
        return output.Result(_waiting(payout), note=note if payout.status == "WAITING" else "")
    return output.Result(_to_record(payout))


def waiting() -> output.Result:
    """List the payouts that wait for a second person, oldest first."""
    from opentill import payouts

    columns = ("id", "merchantId", "amount", "fee", "currency", "askedBy", "createdAt")
    return output.Result([_waiting(one) for one in session.query(payouts.list_requests)], columns)


def approve(request_id: str) -> dict[str, Any]:
    """Approve another person's request of a payout, and create the payout."""
    from opentill import approvals, payouts

    person, rules = approver(), approvals.Rules.from_settings(session.settings())

    async def work(tx: "Tx", now: int) -> "Payout":
        await payouts.find_request(tx, request_id)
        payout = await approvals.approve(tx, request_id, person, rules, now)
        if not isinstance(payout, payouts.Payout):
            raise TypeError  # ``find_request`` has found a payout's request with this id
        return payout

    return _to_record(session.transact(work))


@acting()
def reject(request_id: str, *, actor: "Actor") -> dict[str, Any]:
    """Reject the request of a payout."""
    from opentill import payouts

    return _waiting(session.transact(lambda tx, now: payouts.reject(tx, request_id, actor, now)))


def _waiting(waiting: "WaitingPayout") -> dict[str, Any]:
    from opentill.core import money

    return {
        "id": waiting.id,
        "merchantId": waiting.merchant_id,
        "status": waiting.status,
        "amount": money.show(waiting.amount_minor, waiting.currency),
        "fee": money.show(waiting.fee_minor, waiting.currency),
        "currency": waiting.currency,
        "reference": waiting.reference,
        "reason": waiting.reason,
        "askedBy": waiting.asked_by,
        "decidedBy": waiting.decided_by,
        "rejection": waiting.rejection,
        "payoutId": waiting.payout_id,
        "createdAt": waiting.created_at,
        "decidedAt": waiting.decided_at,
    }


def paid(
    payout_id: Annotated[str, typer.Argument(help="A payout, or a run for all in its file.")],
    *,
    bank_reference: Annotated[str, typer.Option(help="The bank's reference of the transfer.")] = "",
    reason: inputs.Reason = "the bank has sent it",
    as_root: inputs.AsRoot = False,
) -> output.Result:
    """Mark a payout as sent by the bank, or all payouts in the file of a run."""
    from opentill import payouts

    actor = inputs.actor(reason, as_root=as_root)
    if payout_id.startswith("run_"):
        return payout_runs.pay_run(payout_id, bank_reference, actor)
    payout = session.transact(
        lambda tx, now: payouts.pay(tx, payout_id, bank_reference, actor.reason, actor.who, now)
    )
    return output.Result(_to_record(payout))


@acting()
def failed(
    payout_id: str,
    *,
    returned: Annotated[
        bool, typer.Option("--returned", help="The bank returned it after it was PAID.")
    ] = False,
    actor: "Actor",
) -> output.Result:
    """Mark a payout as failed: amount and fee return to the available balance.

    A PAID payout fails only with --returned, once the money is back on your own account. Above
    the limit OPENTILL_APPROVAL_ABOVE it waits until somebody else approves it.
    """
    from opentill import payouts
    from opentill.core.errors import Invalid

    async def find(tx: "Tx") -> str:
        payout = await payouts.find_anywhere(tx, payout_id)
        if payout.status == "PAID" and not returned:
            reason = "payout must be PENDING: this one is PAID. If the bank has returned it, add"
            raise Invalid("payout", f"{reason} --returned")
        return payout.merchant_id

    async def to_output(_tx: "Tx", payout: "Payout") -> dict[str, Any]:
        return _to_record(payout)

    action: Action = "payout-returned" if returned else "payout-failed"
    return manual_actions.perform(action, payout_id, actor, find, to_output)


def due(
    *, limit: Annotated[int, typer.Option(min=1, help="How many, the most money first.")] = 1000
) -> output.Result:
    """List the merchants with an available balance, by currency.

    A run leaves out merchants whose payouts are off, those without a bank account, with a recently
    changed one, or with less than the minimum; and those whose bank returned a payout, until their
    account is changed or confirmed (opentill payouts confirm-account).
    """
    from opentill import payouts
    from opentill.core import money

    async def work(tx: "Tx") -> "tuple[list[DuePayout], int]":
        return await payouts.list_due(tx, limit), await session.now(tx)

    due_payouts, now = session.query(work)
    rows = [
        {
            "merchantId": one.merchant_id,
            "merchant": one.merchant_name,
            "available": money.show(one.available, one.currency),
            "currency": one.currency,
            "account": one.account,
            "waitsFor": one.waits_for(now),
            "payoutsOff": one.payout_off,
            "usableFrom": one.usable_from,
            "heldSince": one.held_since,
            "lastPayoutAt": one.last_at,
        }
        for one in due_payouts
    ]
    columns = ("merchantId", "merchant", "available", "currency", "waitsFor", "lastPayoutAt")
    return output.Result(rows, columns)


def list_(
    merchant_id: inputs.OnlyMerchant = None,
    *,
    status: Annotated[str | None, typer.Option(help="PENDING, PAID or FAILED.")] = None,
    limit: Annotated[int, typer.Option(min=1, help="How many, newest first.")] = 100,
) -> output.Result:
    """List payouts, newest first."""
    from opentill import payouts
    from opentill.payouts.model import STATUSES

    chosen_status = inputs.choice("status", status, STATUSES)
    matching = session.query(lambda tx: payouts.search(tx, merchant_id, chosen_status, limit))
    return output.Result([_to_record(one) for one in matching], _COLUMNS)


def show(payout_id: str) -> dict[str, Any]:
    """Show a payout."""
    from opentill import payouts

    return _to_record(session.query(lambda tx: payouts.find_anywhere(tx, payout_id)))
