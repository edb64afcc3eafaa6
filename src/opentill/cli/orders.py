"""``opentill orders list|search|show|history|note|refund|confirm|…``."""

from typing import TYPE_CHECKING, Annotated, Any

import typer

from opentill.cli import inputs, manual_actions, order_attempts, output, session
from opentill.cli.output import Json
from opentill.cli.registration import acting, add_group

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Sequence

    from opentill.db.database import Tx
    from opentill.merchants import Actor
    from opentill.orders import Order, OrderDetail, OrderNote


def register(app: typer.Typer) -> None:
    """Add the groups."""
    from opentill.cli import order_refund, order_search

    add_group(
        app,
        "orders",
        "Orders: list, search, refund and confirm.",
        list=order_search.list_,
        search=order_search.search,
        show=show,
        history=history,
        note=note,
        refund=order_refund.refund,
        confirm=confirm,
        revoke=revoke,
        **{"given-back": given_back},
    )


_Any = Annotated[
    str,
    typer.Argument(help="Its id, its Epay number, or the id of its session, attempt, refund …"),
]


def show(order: _Any, *, as_json: Json = False) -> None:
    """Show an order with its payment attempts and notes."""
    from opentill import orders

    settings = session.settings()

    async def work(tx: "Tx") -> "tuple[str, OrderDetail, list[OrderNote], list[dict[str, Any]]]":
        order_row = await orders.find_by_anything(tx, order)
        with_mode = await orders.with_livemode(tx, order_row, deployment=settings.livemode)
        detail = orders.OrderDetail.from_order(with_mode, await orders.card_of(tx, order_row))
        attempts = await order_attempts.list_records(tx, order_row)
        return order_row.merchant_id, detail, await orders.notes_of(tx, order_row), attempts

    merchant_id, detail, notes, attempts = session.query(work, settings)
    record = {"merchantId": merchant_id, **output.plain(detail)}
    if as_json:
        listed = [{"at": note.at, "who": note.who, "note": note.note} for note in notes]
        output.show({**record, "attempts": attempts, "notes": listed}, as_json=True)
        return
    output.show(record, as_json=False)
    if attempts:
        output.show(output.Result(attempts, order_attempts.COLUMNS), as_json=False)
    if notes:
        output.show(output.Result(notes, ("at", "who", "note")), as_json=False)


def history(order: _Any) -> "Sequence[object]":
    """Show the history of an order."""
    from opentill import orders

    async def work(tx: "Tx") -> "Sequence[object]":
        order_row = await orders.find_by_anything(tx, order)
        rows = await orders.history(tx, order_row.merchant_id, order_row.id)
        return await order_attempts.with_account_names(tx, rows)

    return session.query(work)


def note(
    order: _Any,
    text: Annotated[str, typer.Argument(help="Such as what the customer said.")],
    *,
    reason: Annotated[
        str, typer.Option("--reason", help="For the audit log; without it, the note itself.")
    ] = "",
    as_root: inputs.AsRoot = False,
) -> "OrderNote":
    """Append a note to an order; the merchant's team can read it."""
    from opentill import merchants, orders

    actor = inputs.actor(reason, text, as_root=as_root)

    async def work(tx: "Tx", now: int) -> "OrderNote":
        order_row = await orders.find_by_anything(tx, order)
        await merchants.record_audit(
            tx, actor, "orders note", order_row.merchant_id, order_row.id, now
        )
        return await orders.add_note(tx, order_row.merchant_id, order_row.id, text, actor.who, now)

    return session.transact(work)


@acting()
def confirm(order_id: str, *, actor: "Actor") -> output.Result:
    """Confirm an order whose money arrived, for example by bank transfer.

    Above the limit OPENTILL_APPROVAL_ABOVE it waits until somebody else approves it, unless a
    customer waits for the confirmation of the whole amount.
    """
    from opentill import orders

    async def find(tx: "Tx") -> str:
        return (await orders.find_anywhere(tx, order_id)).merchant_id

    async def to_output(tx: "Tx", order: "Order") -> "OrderDetail":
        livemode = session.settings().livemode
        return orders.OrderDetail.from_order(
            await orders.with_livemode(tx, order, deployment=livemode)
        )

    return manual_actions.perform("confirm", order_id, actor, find, to_output)


@acting()
def revoke(order_id: str, *, actor: "Actor") -> "OrderDetail":
    """Revoke an unpaid order: it cannot be paid any more."""
    from opentill import orders

    return _change(orders.revoke_manually, "orders revoke", order_id, actor)


@acting()
def given_back(
    attempt: Annotated[str, typer.Argument(help="The id of the duplicate payment: att_…")],
    *,
    actor: "Actor",
) -> "OrderDetail":
    """Record that a duplicate payment was refunded elsewhere, because its gateway refused to.

    Also for a payment whose gateway does not report the result: check at the gateway first.
    """
    from opentill import gateways, merchants, orders
    from opentill.gateways import accounts

    settings = session.settings()

    async def work(tx: "Tx", now: int) -> "Order":
        order = await orders.find_by_anything(tx, attempt)
        ids = order.merchant_id, order.id
        attempt_id = attempt.strip()
        await merchants.record_audit(tx, actor, "orders given-back", ids[0], attempt_id, now)
        reporting = await accounts.with_self_reporting(
            tx, gateways.self_reporting(settings.gateways)
        )
        await orders.record_duplicate_return(tx, *ids, attempt_id, actor, now, reporting=reporting)
        order_row = await orders.find(tx, *ids)
        return await orders.with_livemode(tx, order_row, deployment=settings.livemode)

    return orders.OrderDetail.from_order(session.transact(work, settings))


def _change(
    change: "Callable[..., Awaitable[Order]]", action: str, order_id: str, actor: "Actor"
) -> "OrderDetail":
    from opentill import merchants, orders

    settings = session.settings()

    async def work(tx: "Tx", now: int) -> "Order":
        order = await orders.find_anywhere(tx, order_id)
        await merchants.record_audit(tx, actor, action, order.merchant_id, order_id, now)
        changed = await change(tx, order.merchant_id, order_id, actor.who, actor.reason, now)
        return await orders.with_livemode(tx, changed, deployment=settings.livemode)

    return orders.OrderDetail.from_order(session.transact(work, settings))
