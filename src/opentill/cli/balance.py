"""``opentill balance show|freeze|unfreeze|recharge|correct|fee|topup|prepay|unprepay|…``."""

from typing import TYPE_CHECKING, Annotated, Any, Final, get_args

import typer

from opentill.cli import identity, inputs, output, resolve, session
from opentill.cli.approvals import approver
from opentill.cli.registration import acting, add, add_group

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from opentill.adjustments import Adjustment, AdjustmentOut, Kind
    from opentill.db.database import Tx
    from opentill.merchants import Actor

_Amount = Annotated[str, typer.Argument(help="Decimal, in the merchant's currency: 25.00.")]
_COLUMNS = ("id", "merchantId", "kind", "amount", "currency", "account", "askedBy", "reason")
_SIMPLE: Final["tuple[tuple[Kind, str], ...]"] = (
    ("freeze", "Hold available money."),
    ("unfreeze", "Release money that operators hold."),
    ("recharge", "Add money that the merchant sent to your bank."),
    ("fee", "Charge a fee to the available balance."),
    ("topup", "Add money that the merchant sent to your bank to the prepaid balance."),
    ("prepay", "Move available money to the prepaid balance."),
    ("unprepay", "Move prepaid money back to the available balance."),
)


def register(app: typer.Typer) -> None:
    """Add the group."""
    summary = "A merchant's balance, and its adjustments by operators."
    group = add_group(app, "balance", summary, show=show)
    for kind, help_text in _SIMPLE:
        add(group, kind, _command(kind, help_text), group="balance", ignore_unknown_options=True)
    # Without this setting, a negative amount would be parsed as an unknown option.
    add(group, "correct", correct, group="balance", ignore_unknown_options=True)
    for command in (waiting, approve, reject):
        add(group, command.__name__, command, group="balance")


def show(merchant: resolve.AnyId) -> dict[str, Any]:
    """Show a merchant's balances."""
    from opentill import adjustments, ledger
    from opentill.core import money

    async def work(tx: "Tx") -> dict[str, Any]:
        whose = await resolve.merchant(tx, merchant)
        currency = whose.settlement_currency
        held_now = await ledger.find_balance(tx, whose.id, currency)
        names = ("available", "pending", "frozen", "reserve", "prepaid")
        held = {
            name: money.show(getattr(held_now, name) if held_now else 0, currency) for name in names
        }
        sum_frozen_manually = await adjustments.sum_frozen_manually(tx, whose.id, currency)
        return {
            "merchantId": whose.id,
            **held,
            "prepaidReserved": money.show(held_now.prepaid_reserved if held_now else 0, currency),
            "frozenByHand": money.show(sum_frozen_manually, currency),
            "currency": currency,
            "updatedAt": held_now.last_at if held_now else None,
        }

    return session.query(work, snapshot=True)


def _command(kind: "Kind", summary: str) -> "Callable[..., None]":
    """Create the command of an adjustment that needs only an amount."""

    @acting()
    def command(
        merchant_id: str, amount: _Amount, *, reference: inputs.Reference = "", actor: "Actor"
    ) -> output.Result:
        return _adjust(kind, merchant_id, amount, reference, actor)

    command.__doc__ = summary
    return command


@acting()
def correct(
    merchant_id: str,
    amount: Annotated[str, typer.Argument(help="25.00 to add, or -25.00 to deduct.")],
    *,
    order: Annotated[
        str | None, typer.Option(help="The order that is the cause; required.")
    ] = None,
    account: Annotated[str, typer.Option(help="available or pending.")] = "available",
    reference: inputs.Reference = "",
    actor: "Actor",
) -> output.Result:
    """Correct the balance because of an order, for example one that was paid twice."""
    return _adjust("correct", merchant_id, amount, reference, actor, order=order, account=account)


def _adjust(
    kind: "Kind",
    merchant_id: str,
    amount: str,
    reference: str,
    actor: "Actor",
    *,
    order: str | None = None,
    account: str = "available",
) -> output.Result:
    from opentill import adjustments, merchants
    from opentill.ledger import Held

    held: Held | None = inputs.choice("account", account, get_args(Held))
    above = session.settings().approval_above

    async def work(tx: "Tx", now: int) -> "Adjustment":
        currency = (await merchants.find(tx, merchant_id)).settlement_currency
        takes = kind == "correct" and amount.startswith("-")
        minor = inputs.amount("amount", amount.removeprefix("-") if takes else amount, currency)
        if minor is None:
            raise AssertionError
        request = adjustments.AdjustmentRequest(
            kind=kind,
            amount_minor=-minor if takes else minor,
            reason=actor.reason,
            by=actor.who,
            reference=reference,
            account=held or "available",
            order_id=order,
        )
        adjustment = await adjustments.request(tx, merchant_id, request, above, now)
        identity.check_requester(needs_approval=adjustment.status == "WAITING")
        return adjustment

    return _perform(work)


def approve(adjustment_id: str) -> output.Result:
    """Approve an adjustment that another operator has requested, and make it."""
    from opentill import adjustments, approvals

    person, rules = approver(), approvals.Rules.from_settings(session.settings())

    async def work(tx: "Tx", now: int) -> "Adjustment":
        await adjustments.find_anywhere(tx, adjustment_id)
        adjustment = await approvals.approve(tx, adjustment_id, person, rules, now)
        if not isinstance(adjustment, adjustments.Adjustment):
            raise TypeError  # ``find_anywhere`` has found an adjustment with this id
        return adjustment

    return _perform(work)


@acting()
def reject(adjustment_id: str, *, actor: "Actor") -> output.Result:
    """Reject a waiting adjustment."""
    from opentill.reconciliation import reject_adjustment

    return _perform(
        lambda tx, now: reject_adjustment(tx, adjustment_id, actor.who, actor.reason, now)
    )


def _perform(work: "Callable[[Tx, int], Awaitable[Adjustment]]") -> output.Result:
    """Run ``work`` in a transaction and return its adjustment as a result."""
    from opentill import adjustments

    adjustment = session.transact(work)
    waits = f"waits for a second person: opentill balance approve {adjustment.id}"
    note = waits if adjustment.status == "WAITING" else ""
    return output.Result(adjustments.AdjustmentOut.from_adjustment(adjustment), note=note)


def waiting(merchant_id: inputs.OnlyMerchant = None) -> output.Result:
    """List the adjustments that wait for a second operator, oldest first."""
    from opentill import adjustments

    async def work(tx: "Tx") -> "list[AdjustmentOut]":
        pending = await adjustments.list_waiting(tx, merchant_id)
        return [adjustments.AdjustmentOut.from_adjustment(adjustment) for adjustment in pending]

    return output.Result(session.query(work), _COLUMNS)
