"""``opentill balance show|freeze|unfreeze|recharge|correct|fee|approve|reject|waiting``."""

from typing import TYPE_CHECKING, Annotated, Any, Final, get_args

import typer

from opentill.cli import inputs, output, session
from opentill.cli.output import Json

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from opentill.adjustments import Adjustment, Kind
    from opentill.db.database import Tx

_Amount = Annotated[str, typer.Argument(help="Decimal, in the merchant's currency: 25.00.")]
_COLUMNS = ("id", "merchantId", "kind", "amount", "currency", "account", "askedBy", "reason")
# So that a negative amount is an amount and no unknown option.
_AMOUNTS: Final = {"ignore_unknown_options": True}


def register(app: typer.Typer) -> None:
    """Add the group."""
    group = typer.Typer(
        help="A merchant's balance, and what operators move on it by hand.", no_args_is_help=True
    )
    group.command("show")(show)
    group.command("freeze", context_settings=_AMOUNTS)(freeze)
    group.command("unfreeze", context_settings=_AMOUNTS)(unfreeze)
    group.command("recharge", context_settings=_AMOUNTS)(recharge)
    group.command("correct", context_settings=_AMOUNTS)(correct)
    group.command("fee", context_settings=_AMOUNTS)(fee)
    group.command("waiting")(waiting)
    group.command("approve")(approve)
    group.command("reject")(reject)
    app.add_typer(group, name="balance")


def show(merchant_id: str, *, as_json: Json = False) -> None:
    """Show a merchant's accounts."""
    from opentill import adjustments, ledger, merchants
    from opentill.core import money
    from opentill.db.database import Tx

    async def accounts(tx: Tx) -> dict[str, Any]:
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

    async def work() -> None:
        async with session.database() as db, db.snapshot() as tx:
            output.show(await accounts(tx), as_json=as_json)

    session.run(work())


def freeze(
    merchant_id: str,
    amount: _Amount,
    *,
    reference: inputs.Reference = "",
    reason: inputs.Reason = "",
    by: inputs.By = "",
    as_json: Json = False,
) -> None:
    """Freeze available money."""
    _move("freeze", merchant_id, amount, reference, reason, by, as_json=as_json)


def unfreeze(
    merchant_id: str,
    amount: _Amount,
    *,
    reference: inputs.Reference = "",
    reason: inputs.Reason = "",
    by: inputs.By = "",
    as_json: Json = False,
) -> None:
    """Make money available again that an operator froze."""
    _move("unfreeze", merchant_id, amount, reference, reason, by, as_json=as_json)


def recharge(
    merchant_id: str,
    amount: _Amount,
    *,
    reference: inputs.Reference = "",
    reason: inputs.Reason = "",
    by: inputs.By = "",
    as_json: Json = False,
) -> None:
    """Add money that the merchant sent to your bank."""
    _move("recharge", merchant_id, amount, reference, reason, by, as_json=as_json)


def correct(  # noqa: PLR0913 - as above
    merchant_id: str,
    amount: Annotated[str, typer.Argument(help="What it changes: 25.00, or -25.00 to take.")],
    *,
    order: Annotated[str | None, typer.Option(help="The order it is about; compulsory.")] = None,
    account: Annotated[str, typer.Option(help="available or pending.")] = "available",
    reference: inputs.Reference = "",
    reason: inputs.Reason = "",
    by: inputs.By = "",
    as_json: Json = False,
) -> None:
    """Correct the balance because of an order, for example one that was paid twice."""
    _move(
        "correct", merchant_id, amount, reference, reason, by,
        order=order, account=account, as_json=as_json,
    )  # fmt: skip


def fee(
    merchant_id: str,
    amount: _Amount,
    *,
    reference: inputs.Reference = "",
    reason: inputs.Reason = "",
    by: inputs.By = "",
    as_json: Json = False,
) -> None:
    """Take a fee from available money."""
    _move("fee", merchant_id, amount, reference, reason, by, as_json=as_json)


def _move(  # noqa: PLR0913 - who moves what and why
    kind: "Kind",
    merchant_id: str,
    amount: str,
    reference: str,
    reason: str,
    by: str,
    *,
    order: str | None = None,
    account: str = "available",
    as_json: bool,
) -> None:
    from opentill import adjustments, merchants
    from opentill.core.errors import Invalid
    from opentill.ledger import Held

    held = next((known for known in get_args(Held) if known == account), None)
    if held is None:
        raise Invalid("account", "account must be available or pending")
    above = session.settings().approval_above

    async def step(tx: "Tx", now: int) -> "Adjustment":
        currency = (await merchants.find(tx, merchant_id)).settlement_currency
        takes = kind == "correct" and amount.startswith("-")
        minor = inputs.amount("amount", amount.removeprefix("-") if takes else amount, currency)
        if minor is None:
            raise AssertionError
        asked = adjustments.Ask(
            kind=kind,
            amount_minor=-minor if takes else minor,
            reason=reason,
            by=inputs.who(by),
            reference=reference,
            account=held,
            order_id=order,
        )
        return await adjustments.ask(tx, merchant_id, asked, above, now)

    _do(step, as_json=as_json)


def approve(movement_id: str, *, by: inputs.By = "", as_json: Json = False) -> None:
    """Make a movement that waits, as another operator than the one who asked for it."""
    from opentill import adjustments

    who = inputs.who(by)
    _do(lambda tx, now: adjustments.approve(tx, movement_id, who, now), as_json=as_json)


def reject(
    movement_id: str, *, reason: inputs.Reason = "", by: inputs.By = "", as_json: Json = False
) -> None:
    """Turn down a movement that waits."""
    from opentill import adjustments

    who = inputs.who(by)
    _do(lambda tx, now: adjustments.reject(tx, movement_id, who, reason, now), as_json=as_json)


def _do(step: "Callable[[Tx, int], Awaitable[Adjustment]]", *, as_json: bool) -> None:
    """Take one step with the business time of now, and show the movement after it."""
    from opentill import adjustments

    async def work() -> None:
        async with session.database() as db:
            now = await session.now(db)
            made = await db.run(lambda tx: step(tx, now))
        output.show(adjustments.AdjustmentOut.of(made), as_json=as_json)
        if made.status == "WAITING":
            output.say(f"waits for a second operator: opentill balance approve {made.id} --by …")

    session.run(work())


def waiting(
    merchant_id: Annotated[str | None, typer.Argument(help="Only this merchant's.")] = None,
    *,
    as_json: Json = False,
) -> None:
    """List the movements that wait for a second operator, oldest first."""
    from opentill import adjustments

    async def work() -> None:
        async with session.database() as db, db.connection() as tx:
            found = [
                adjustments.AdjustmentOut.of(one)
                for one in await adjustments.waiting(tx, merchant_id)
            ]
            output.show(found, as_json=as_json, columns=_COLUMNS)

    session.run(work())
