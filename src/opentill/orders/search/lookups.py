"""Looking up orders by an id or a number (contract.md#order-search).

For each form of id or number, a table has a function that recognizes it, and a statement that looks
up orders by it, in one index.
"""

import re
from collections.abc import Callable, Mapping, Sequence
from typing import Final, NamedTuple

import msgspec

from opentill import merchants
from opentill.core.errors import Invalid, NotFound, or_not_found
from opentill.core.ids import is_id
from opentill.db.database import Tx
from opentill.db.query import Query
from opentill.orders.model import Order, order_id_of
from opentill.orders.queries import BY_ID, OF_IDS
from opentill.orders.receipt_numbers import parse_receipt_number
from opentill.orders.search import lookup_queries
from opentill.orders.search.model import OrderRef

_Reads = Callable[[str], Mapping[str, object] | None]
_TIME_DIGITS: Final = 12  # an entry's id begins with its time (Unix ms) in this many hex digits

# The digits of an id, with the hyphens of a receipt's number, after what pages show before them.
_DIGIT: Final = "[0-9a-hjkmnp-tv-z]"
_PART: Final = re.compile(
    rf"(?:[a-z]{{2,5}}_…|…|[0-9]{{6}}-)?({_DIGIT}+(?:-{_DIGIT}{{1,4}}){{0,2}})", re.ASCII
)
_LEAST_OF_PART: Final = 4  # digits


class Form(NamedTuple):
    """A form of id or number, and the statement that finds orders by it.

    ``reads`` parses a text and returns the statement's values, None if the text has another form.
    """

    name: str
    reads: _Reads
    found_by: Query[OrderRef]


def _prefix(prefix: str) -> _Reads:
    return lambda text: {"id": text} if text.startswith(f"{prefix}_") and is_id(text) else None


def _entry(text: str) -> Mapping[str, object] | None:
    """Parse the id of an entry, which contains the time of its posting."""
    if not (text.startswith("txn_") and is_id(text)):
        return None
    try:
        return {"id": text, "created_at": int(text.partition("_")[2][:_TIME_DIGITS], 16)}
    except ValueError:  # the text is not hexadecimal, so it is no entry's id
        return None


def _trade_no(text: str) -> Mapping[str, object] | None:
    order_id = order_id_of(text)
    return {"id": order_id} if is_id(order_id) else None


def _receipt_number(text: str) -> Mapping[str, object] | None:
    ids = parse_receipt_number(text)
    return None if ids is None else msgspec.structs.asdict(ids)


def _number(longest: int) -> _Reads:
    return lambda text: {"id": text} if len(text) <= longest else None


FORMS: Final = (
    #    name             reads                found_by
    Form("order", _prefix("order"), lookup_queries.ORDER),
    Form("session", _prefix("cs"), lookup_queries.SESSION),
    Form("attempt", _prefix("att"), lookup_queries.ATTEMPT),
    Form("refund", _prefix("re"), lookup_queries.REFUND),
    Form("dispute", _prefix("dp"), lookup_queries.DISPUTE),
    Form("event", _prefix("evt"), lookup_queries.EVENT),
    Form("balance transaction", _entry, lookup_queries.ENTRY),
    Form("trade_no", _trade_no, lookup_queries.ORDER),
    Form("receipt number", _receipt_number, lookup_queries.RECEIPT),
    Form("out_trade_no", _number(64), lookup_queries.OUT_TRADE_NO),
    Form("refundNo", _number(64), lookup_queries.REFUND_NO),
)


async def look_up(tx: Tx, merchant_ids: Sequence[str], text: str) -> list[OrderRef]:
    """Return the orders of some merchants to which an id or a number belongs, each once."""
    refs: dict[OrderRef, None] = {}
    for form in FORMS:
        values = form.reads(text)
        if values is not None:
            rows = await form.found_by.all(tx, merchant_id=list(merchant_ids), **values)
            refs |= dict.fromkeys(rows)
    return list(refs)


def digits_of_part(text: str) -> str | None:
    """Return the digits of a part of an id as pages show it: its end, or groups of a receipt.

    None for a text that is no such part. A part has at least four digits, such as ``jqhrfc``,
    ``order_…jqhrfc``, ``9E85`` and ``261128-9E85-0VJQ``.
    """
    match = _PART.fullmatch(text.strip().lower())
    digits = "" if match is None else match[1].replace("-", "")
    return digits if len(digits) >= _LEAST_OF_PART else None


async def find_by_part(tx: Tx, merchant_id: str, text: str, limit: int) -> list[Order]:
    """Return orders to whose id or receipt's number a part belongs, newest first."""
    digits = digits_of_part(text)
    if digits is None:
        return []
    refs = await lookup_queries.PART_OF_ID.all(
        tx, merchant_id=merchant_id, digits=digits, limit=limit
    )
    ids = [ref.order_id for ref in refs]
    orders_by_id = {
        order.id: order for order in await OF_IDS.all(tx, merchant_id=merchant_id, ids=ids)
    }
    return [orders_by_id[order_id] for order_id in ids]


async def find_by_anything(tx: Tx, text: str) -> Order:
    """Return the order of any merchant to which an id or a number belongs, for the operator.

    Raises NotFound, and Invalid on ``order`` if it belongs to several orders.
    """
    text = text.strip()
    merchant_ids = [merchant.id for merchant in await merchants.all_merchants(tx)]
    refs = await look_up(tx, merchant_ids, text)
    if not refs:
        raise NotFound(reason=f"there is no order {text}")
    if len(refs) > 1:
        several = ", ".join(f"{ref.order_id} of {ref.merchant_id}" for ref in refs)
        raise Invalid("order", f"order must be an id of one order: {text} leads to {several}")
    (ref,) = refs
    order = await BY_ID.first(tx, merchant_id=ref.merchant_id, id=ref.order_id)
    return or_not_found(order, f"there is no order {text}")
