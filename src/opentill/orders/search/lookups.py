"""Which orders an id or a number concerns (contract.md#order-search): a table of the forms.

What each form is recognised by, and the statement that looks it up by one index.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import Final, NamedTuple

from opentill import merchants
from opentill.core.errors import Invalid, NotFound, or_not_found
from opentill.core.ids import is_id
from opentill.db.database import Tx
from opentill.db.query import Query
from opentill.orders.model import Order, order_id_of
from opentill.orders.queries import BY_ID
from opentill.orders.search import queries
from opentill.orders.search.model import Concerned

_Reads = Callable[[str], Mapping[str, object] | None]
_TIME_DIGITS: Final = 12  # of an entry's id, hexadecimal


class Form(NamedTuple):
    """A kind of id or number: what it is called, and how an order is found by it.

    ``reads`` returns the values that the statement takes for a text, None for one of another form.
    """

    name: str
    reads: _Reads
    found_by: Query[Concerned]


def _prefix(prefix: str) -> _Reads:
    return lambda text: {"id": text} if text.startswith(f"{prefix}_") and is_id(text) else None


def _entry(text: str) -> Mapping[str, object] | None:
    """Read the id of an entry, which also says when it was posted."""
    if not (text.startswith("txn_") and is_id(text)):
        return None
    try:
        return {"id": text, "created_at": int(text.partition("_")[2][:_TIME_DIGITS], 16)}
    except ValueError:  # none of ours
        return None


def _trade_no(text: str) -> Mapping[str, object] | None:
    found = order_id_of(text)
    return {"id": found} if is_id(found) else None


def _number(longest: int) -> _Reads:
    return lambda text: {"id": text} if len(text) <= longest else None


FORMS: Final = (
    #    name            recognised by        found by
    Form("order", _prefix("order"), queries.ORDER),
    Form("session", _prefix("cs"), queries.SESSION),
    Form("attempt", _prefix("att"), queries.ATTEMPT),
    Form("refund", _prefix("re"), queries.REFUND),
    Form("dispute", _prefix("dp"), queries.DISPUTE),
    Form("event", _prefix("evt"), queries.EVENT),
    Form("balance transaction", _entry, queries.ENTRY),
    Form("trade_no", _trade_no, queries.ORDER),
    Form("out_trade_no", _number(64), queries.OUT_TRADE_NO),
    Form("refundNo", _number(64), queries.REFUND_NO),
)


async def orders_of(tx: Tx, merchant_ids: Sequence[str], text: str) -> list[Concerned]:
    """Return the orders of some merchants that an id or a number leads to, each once."""
    found: dict[Concerned, None] = {}
    for form in FORMS:
        values = form.reads(text)
        if values is not None:
            orders = await form.found_by.all(tx, merchant_id=list(merchant_ids), **values)
            found |= dict.fromkeys(orders)
    return list(found)


async def find_by_anything(tx: Tx, text: str) -> Order:
    """Return the order of whichever merchant that an id or a number leads to, for the operator.

    Raises NotFound, and Invalid on ``order`` where it leads to several.
    """
    text = text.strip()
    everybody = [merchant.id for merchant in await merchants.all_merchants(tx)]
    found = await orders_of(tx, everybody, text)
    if not found:
        raise NotFound(reason=f"there is no order {text}")
    if len(found) > 1:
        several = ", ".join(f"{one.order_id} of {one.merchant_id}" for one in found)
        raise Invalid("order", f"order must be an id of one order: {text} leads to {several}")
    (one,) = found
    order = await BY_ID.first(tx, merchant_id=one.merchant_id, id=one.order_id)
    return or_not_found(order, f"there is no order {text}")
