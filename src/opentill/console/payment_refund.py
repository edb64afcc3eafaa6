"""Refunding a payment as the operator: ``portal/refund_form.py``.

As on the merchant's page, but with a reason, for the audit log; and where the merchant's refunds
are switched off, only if that is overridden in so many words.
"""

from functools import partial
from typing import Final

from starlette.responses import Response

from opentill import orders, people
from opentill.console.payments import PLACE
from opentill.db.database import Tx
from opentill.merchants import Actor
from opentill.orders import Order
from opentill.portal import refund_form
from opentill.portal.refund_form import Way
from opentill.portal.request import PageRequest


async def _find(tx: Tx, request: PageRequest) -> Order:
    return await orders.find_anywhere(tx, request.ids["order"])


def _actor(request: PageRequest, reason: str) -> Actor:
    return people.actor_of(request.login, reason)


def _page(_request: PageRequest, order: Order) -> str:
    return f"{PLACE}/{order.id}"


def _done(_refund_id: str) -> str:
    return "?done=refund"


_WAY: Final = Way(
    permission="orders.refund", find=_find, actor=_actor, page=_page, done=_done, of_staff=True
)


async def show(request: PageRequest) -> Response:
    """Show what a refund would move, and note the visit at its merchant. Raises NotFound."""
    async with request.app.db.connection() as tx:
        merchant_id = (await _find(tx, request)).merchant_id
    await people.visit(request.app.db, request.login, merchant_id, request.now)
    return await refund_form.show(request, _WAY)


create: Final = partial(refund_form.create, way=_WAY)
