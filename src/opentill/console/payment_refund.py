"""Refunding a payment as staff, by the shared form (``portal/refund_form.py``).

Unlike members, staff give a reason for the audit log, and may override the merchant's capability
to refund if it is switched off.
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


async def show_refund_form(request: PageRequest) -> Response:
    """Show the form, and record the visit in the audit log. Raises NotFound."""
    async with request.app.db.connection() as tx:
        merchant_id = (await _find(tx, request)).merchant_id
    await people.visit(request.app.db, request.login, merchant_id, request.now)
    return await refund_form.show(request, _WAY)


create_refund: Final = partial(refund_form.create, way=_WAY)
