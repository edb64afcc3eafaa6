"""Finds a dispute or merchant by any related id, for read-only commands.

Operators often have another id, such as the id of a session or refund, an Epay number or a key.
"""

from typing import TYPE_CHECKING, Annotated, Final, Protocol

import typer

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Mapping

    from opentill.db.database import Tx
    from opentill.disputes import Dispute
    from opentill.merchants import Merchant

AnyId = Annotated[
    str, typer.Argument(help="The merchant's id or its name, or the id of any of its objects.")
]
_PID_DIGITS: Final = 9


class _OfMerchant(Protocol):
    """An object that belongs to a merchant."""

    @property
    def merchant_id(self) -> str:
        """The merchant's id."""
        ...


async def merchant(tx: "Tx", text: str) -> "Merchant":
    """Return a merchant by its own id or by the id of any of its objects.

    Raises NotFound, and Invalid if an order's number is ambiguous.
    """
    from opentill import merchants

    return await merchants.find(tx, await _merchant_id(tx, text.strip()))


async def _merchant_id(tx: "Tx", text: str) -> str:
    from opentill import adjustments, merchants, orders, payouts, products, webhooks

    if text.isascii() and text.isdigit() and len(text) == _PID_DIGITS:
        return await orders.merchant_of(tx, f"pid_{text}")
    find: Mapping[str, Callable[[Tx, str], Awaitable[_OfMerchant]]] = {
        "po": payouts.find_anywhere,
        "whe": webhooks.find_anywhere,
        "mov": adjustments.find_anywhere,
    }
    whose: Mapping[str, Callable[[Tx, str], Awaitable[str]]] = {
        "key": merchants.merchant_of_key,
        "prod": products.find_merchant_id,
    }
    prefix = text.partition("_")[0]
    if prefix == "mer":
        return text
    if prefix in find:
        return (await find[prefix](tx, text)).merchant_id
    return await whose.get(prefix, _merchant_of_order)(tx, text)


async def _merchant_of_order(tx: "Tx", text: str) -> str:
    from opentill import orders
    from opentill.core.errors import NotFound

    try:
        return (await orders.find_by_anything(tx, text)).merchant_id
    except NotFound:
        raise NotFound(reason=f"there is no merchant {text}, and nothing of one") from None


async def dispute(tx: "Tx", text: str) -> "Dispute":
    """Return a dispute by its id, or the only dispute of an order by any of the order's ids.

    Raises NotFound, and Invalid if there are several.
    """
    from opentill import disputes, orders
    from opentill.core.errors import Invalid, NotFound

    if text.startswith("dp_"):
        return await disputes.find_anywhere(tx, text)
    missing = NotFound(reason=f"there is no dispute {text}")
    try:
        order = await orders.find_by_anything(tx, text)
    except NotFound:
        raise missing from None
    order_disputes = await disputes.list_for_order(tx, order.merchant_id, order.id)
    if not order_disputes:
        raise missing
    if len(order_disputes) > 1:
        several = ", ".join(dispute.id for dispute in order_disputes)
        raise Invalid("dispute", f"dispute must be one of those of {order.id}: {several}")
    return order_disputes[0]
