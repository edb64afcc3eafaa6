"""Whether an order's money is real (decision 0033): the sandbox bank's is not.

A payment that a gateway confirms notes it on the order. Until then it is what the deployment's
gateways allow; that is noted of what an operator confirms. What was confirmed before the
column was there has the gateway of the attempt that paid it.
"""

from collections.abc import Awaitable, Callable, Sequence

import msgspec

from opentill.core.settings import SANDBOX
from opentill.db.database import Tx
from opentill.orders import queries
from opentill.orders.model import OPERATOR, Order, PaidThrough


def of_gateway(gateway: str) -> bool | None:
    """Return whether a payment through a gateway is real money; None if an operator says so."""
    return None if gateway == OPERATOR else gateway != SANDBOX


Read = Callable[[Callable[[Tx], Awaitable[list[PaidThrough]]]], Awaitable[list[PaidThrough]]]


async def noted(read: Read, found: Sequence[Order]) -> list[Order]:
    """Return the orders of one merchant with ``livemode`` as far as a gateway has said it.

    ``read`` asks the database, as ``Db.read`` does, and only for orders that were paid and do not
    say it themselves.
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
    """Return the order with what a gateway has said, by the caller's connection."""
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
    (one,) = await known(lambda work: work(tx), [order], deployment=deployment)
    return one
