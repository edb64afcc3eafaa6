"""``opentill balance show|freeze|unfreeze|recharge|correct|fee|waiting|approve|reject``."""

from typing import TYPE_CHECKING, Annotated, Any, Final, NamedTuple, get_args

import typer

from opentill.cli import inputs, output, session
from opentill.cli.groups import add_group
from opentill.cli.output import Json

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from opentill.adjustments import Adjustment, AdjustmentOut, Kind
    from opentill.db.database import Tx

_Amount = Annotated[str, typer.Argument(help="Decimal, in the merchant's currency: 25.00.")]
_COLUMNS = ("id", "merchantId", "kind", "amount", "currency", "account", "askedBy", "reason")
_SIMPLE: Final["tuple[tuple[Kind, str], ...]"] = (
    ("freeze", "Freeze available money."),
    ("unfreeze", "Make money available again that an operator froze."),
    ("recharge", "Add money that the merchant sent to your bank."),
    ("fee", "Take a fee from available money."),
)
# So that a negative amount is an amount and not an unknown option.
_AMOUNTS: Final = {"ignore_unknown_options": True}


def register(app: typer.Typer) -> None:
    """Add the group."""
    summary = "A merchant's balance, and its adjustments by operators."
    group = add_group(app, "balance", summary, show=show)
    for kind, help_text in _SIMPLE:
        group.command(kind, context_settings=_AMOUNTS)(_command(kind, help_text))
    group.command(context_settings=_AMOUNTS)(correct)
    for command in (waiting, approve, reject):
        group.command()(command)


def show(merchant_id: str, *, as_json: Json = False) -> None:
    """Show a merchant's balances."""
    from opentill import adjustments, ledger, merchants
    from opentill.core import money

    async def work(tx: "Tx") -> dict[str, Any]:
        merchant = await merchants.find(tx, merchant_id)
        currency = merchant.settlement_currency
        found = await ledger.balance(tx, merchant.id, currency)
        names = ("available", "pending", "frozen", "reserve")
        held = {name: money.show(getattr(found, name) if found else 0, currency) for name in names}
        frozen_manually = await adjustments.frozen_manually(tx, merchant.id, currency)
        return {
            "merchantId": merchant.id,
            **held,
            "frozenByHand": money.show(frozen_manually, currency),
            "currency": currency,
            "updatedAt": found.last_at if found else None,
        }

    output.show(session.query(work, snapshot=True), as_json=as_json)


def _command(kind: "Kind", summary: str) -> "Callable[..., None]":
    """Make the command of an adjustment that needs an amount only."""

    def command(
        merchant_id: str,
        amount: _Amount,
        *,
        reference: inputs.Reference = "",
        reason: inputs.Reason = "",
        by: inputs.By = "",
        as_json: Json = False,
    ) -> None:
        _adjust(_Request(kind, merchant_id, amount, reference, reason, by), as_json=as_json)

    command.__doc__ = summary
    return command


def correct(  # noqa: PLR0913 - what, how much, who and why
    merchant_id: str,
    amount: Annotated[str, typer.Argument(help="25.00 to add, or -25.00 to take.")],
    *,
    order: Annotated[str | None, typer.Option(help="The order it is about; required.")] = None,
    account: Annotated[str, typer.Option(help="available or pending.")] = "available",
    reference: inputs.Reference = "",
    reason: inputs.Reason = "",
    by: inputs.By = "",
    as_json: Json = False,
) -> None:
    """Correct the balance because of an order, for example one that was paid twice."""
    request = _Request("correct", merchant_id, amount, reference, reason, by, order, account)
    _adjust(request, as_json=as_json)


class _Request(NamedTuple):
    """An adjustment as it is entered."""

    kind: "Kind"
    merchant_id: str
    amount: str
    reference: str
    reason: str
    by: str
    order: str | None = None
    account: str = "available"


def _adjust(request: _Request, *, as_json: bool) -> None:
    """Request an adjustment, and show it."""
    from opentill import adjustments, merchants
    from opentill.ledger import Held

    held: Held | None = inputs.choice("account", request.account, get_args(Held))
    above = session.settings().approval_above

    async def work(tx: "Tx", now: int) -> "Adjustment":
        currency = (await merchants.find(tx, request.merchant_id)).settlement_currency
        takes = request.kind == "correct" and request.amount.startswith("-")
        text = request.amount.removeprefix("-") if takes else request.amount
        minor = inputs.amount("amount", text, currency)
        if minor is None:
            raise AssertionError
        asked = adjustments.AdjustmentRequest(
            kind=request.kind,
            amount_minor=-minor if takes else minor,
            reason=request.reason,
            by=inputs.who(request.by),
            reference=request.reference,
            account=held or "available",
            order_id=request.order,
        )
        return await adjustments.request(tx, request.merchant_id, asked, above, now)

    _show_after(work, as_json=as_json)


def approve(adjustment_id: str, *, by: inputs.By = "", as_json: Json = False) -> None:
    """Make a waiting adjustment, as another operator than the one who requested it."""
    from opentill import adjustments

    who = inputs.who(by)
    _show_after(lambda tx, now: adjustments.approve(tx, adjustment_id, who, now), as_json=as_json)


def reject(
    adjustment_id: str, *, reason: inputs.Reason = "", by: inputs.By = "", as_json: Json = False
) -> None:
    """Reject a waiting adjustment."""
    from opentill import adjustments

    who = inputs.who(by)
    _show_after(
        lambda tx, now: adjustments.reject(tx, adjustment_id, who, reason, now), as_json=as_json
    )


def _show_after(work: "Callable[[Tx, int], Awaitable[Adjustment]]", *, as_json: bool) -> None:
    """Do ``work`` in a transaction, and show the adjustment after it."""
    from opentill import adjustments

    made = session.transact(work)
    output.show(adjustments.AdjustmentOut.of(made), as_json=as_json)
    if made.status == "WAITING":
        output.say(f"waits for a second operator: opentill balance approve {made.id} --by …")


def waiting(merchant_id: inputs.OnlyMerchant = None, *, as_json: Json = False) -> None:
    """List the adjustments that wait for a second operator, oldest first."""
    from opentill import adjustments

    async def work(tx: "Tx") -> "list[AdjustmentOut]":
        found = await adjustments.waiting(tx, merchant_id)
        return [adjustments.AdjustmentOut.of(one) for one in found]

    output.show(session.query(work), as_json=as_json, columns=_COLUMNS)
