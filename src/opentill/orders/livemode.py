"""Whether an order's money is real: its ``livemode`` (decision 0033).

Payments through the sandbox bank or a test account are not real money. Confirming a payment stores
``livemode`` in the order's row: as the gateway determines it or, if an operator confirms, as the
deployment's gateways do. An unpaid order has the ``livemode`` of the deployment. For an order that
was paid before the column existed, the gateway that was paid through determines it.
"""

from collections.abc import Awaitable, Callable, Sequence

import msgspec

from opentill.core.settings import SANDBOX
from opentill.db.database import Tx
from opentill.gateways.account import is_test_account
from opentill.orders import queries
from opentill.orders.model import OPERATOR, Order, PaidThrough

Read = Callable[[Callable[[Tx], Awaitable[list[PaidThrough]]]], Awaitable[list[PaidThrough]]]


def of_gateway(gateway: str) -> bool | None:
    """Return whether a gateway's payments are real money; None if an operator confirms them."""
    if gateway == OPERATOR:
        return None
    return gateway != SANDBOX and not is_test_account(gateway)


async def all_with_paid_livemode(read: Read, orders: Sequence[Order]) -> list[Order]:
    """Return the orders of one merchant with ``livemode`` filled in from the gateways that paid.

    ``read`` runs a statement like ``Db.read``; it is called only if a paid order's value is missing
    in its row.
    """
    paid = [order for order in orders if order.livemode is None and order.paid_attempt_id]
    if not paid:
        return list(orders)
    ids = [order.paid_attempt_id for order in paid]
    rows = await read(
        lambda tx: queries.PAID_THROUGH.all(tx, merchant_id=paid[0].merchant_id, ids=ids)
    )
    gateways = {row.id: row.gateway for row in rows}

    def fill(order: Order) -> Order:
        if order.livemode is not None:
            return order
        live = of_gateway(gateways.get(order.paid_attempt_id or "", OPERATOR))
        return msgspec.structs.replace(order, livemode=live)

    return [fill(order) for order in orders]


async def with_paid_livemode(tx: Tx, order: Order) -> Order:
    """Return an order as ``all_with_paid_livemode`` does."""
    (filled,) = await all_with_paid_livemode(lambda work: work(tx), [order])
    return filled


async def all_with_livemode(
    read: Read, orders: Sequence[Order], *, deployment: bool
) -> list[Order]:
    """Return the orders of one merchant with ``livemode`` filled in.

    ``deployment``: whether real money can be paid in this deployment (``Settings.livemode``).
    ``read`` is as in ``all_with_paid_livemode``.
    """
    return [
        msgspec.structs.replace(order, livemode=deployment) if order.livemode is None else order
        for order in await all_with_paid_livemode(read, orders)
    ]


async def with_livemode(tx: Tx, order: Order, *, deployment: bool) -> Order:
    """Return an order with ``livemode`` filled in, as ``all_with_livemode`` does."""
    order = await with_paid_livemode(tx, order)
    return msgspec.structs.replace(order, livemode=deployment) if order.livemode is None else order
