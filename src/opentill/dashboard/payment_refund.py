"""Refunding a payment as the merchant: ``portal/refund_form.py``."""

from functools import partial
from typing import Final

from opentill import orders, people
from opentill.core.errors import NotPermitted
from opentill.db.database import Tx
from opentill.merchants import Actor
from opentill.orders import Order
from opentill.portal import refund_form
from opentill.portal.refund_form import Way
from opentill.portal.request import PageRequest

_REASON: Final = "on the page of a refund"


async def _find(tx: Tx, request: PageRequest) -> Order:
    order = await orders.find(tx, request.merchant_id, request.ids["order"])
    if not request.may("payments.refund"):
        raise NotPermitted
    return order


def _actor(request: PageRequest, _reason: str) -> Actor:
    return people.actor_of(request.login, _REASON)


def _page(request: PageRequest, order: Order) -> str:
    return f"/dashboard/{request.merchant_id}/payments/{order.id}"


_WAY: Final = Way(
    permission="payments.refund",
    find=_find,
    actor=_actor,
    page=_page,
    done="?refund={}".format,
    of_staff=False,
)
show: Final = partial(refund_form.show, way=_WAY)
create: Final = partial(refund_form.create, way=_WAY)
