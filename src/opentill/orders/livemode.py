"""Whether an order's money is real (decision 0033): the sandbox bank's is not.

It is stored on the order when its payment is confirmed: by the gateway, or, where an operator
confirms, by what the deployment's gateways allow. Until then it is what these gateways allow. An
order that was paid before the column existed has it from the gateway of the attempt that paid.
"""

from collections.abc import Awaitable, Callable, Sequence

import msgspec

from opentill.core.settings import SANDBOX
from opentill.db.database import Tx
from opentill.orders import queries
from opentill.orders.model import OPERATOR, Order, PaidThrough


def of_gateway(gateway: str) -> bool | None:
    """Return whether a gateway's payments are real money; None if an operator confirms them."""
    return None if gateway == OPERATOR else gateway != SANDBOX


Read = Callable[[Callable[[Tx], Awaitable[list[PaidThrough]]]], Awaitable[list[PaidThrough]]]


async def noted(read: Read, found: Sequence[Order]) -> list[Order]:
    """Return the orders of one merchant with ``livemode`` as far as it follows from a gateway.

    ``read`` runs a statement, as ``Db.read`` does: only if a paid order has no value of its own.
    """
    asked = [order for order in found if order.livemode is None and order.paid_attempt_id]
    if not asked:
        return list(found)
    ids = [order.paid_attempt_id for order in asked]
    rows = await read(
        lambda tx: queries.PAID_THROUGH.all(tx, merchant_id=asked[0].merchant_id, ids=ids)
    )
    gateways = {row.id: row.gateway for row in rows}

    def filled(order: Order) -> Order:
        if order.livemode is not None:
            return order
        live = of_gateway(gateways.get(order.paid_attempt_id or "", OPERATOR))
        return msgspec.structs.replace(order, livemode=live)

    return [filled(order) for order in found]


async def noted_one(tx: Tx, order: Order) -> Order:
    """Return the order as ``noted`` does, by the caller's connection."""
    (one,) = await noted(lambda work: work(tx), [order])
    return one


async def known(read: Read, found: Sequence[Order], *, deployment: bool) -> list[Order]:
    """Return the orders of one merchant with ``livemode`` filled in.

    ``deployment``: whether real money can be paid here (``Settings.livemode``). ``read`` as above.
    """
    return [
        msgspec.structs.replace(order, livemode=deployment) if order.livemode is None else order
        for order in await noted(read, found)
    ]


async def known_one(tx: Tx, order: Order, *, deployment: bool) -> Order:
    """Return the order with ``livemode`` filled in, by the caller's connection."""
    if order.livemode is not None:  # since its payment was confirmed: nothing to ask
        return order
    (one,) = await known(lambda work: work(tx), [order], deployment=deployment)
    return one
