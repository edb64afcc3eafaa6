"""The card that a payment was made with, as far as its gateway says: its brand and last digits.

They are written by the statement that confirms the payment, and by one of their own where a later
report has them, or where the payment is applied by itself (decision 0081).
"""

from collections.abc import Sequence
from typing import Final

from opentill.db.database import Tx
from opentill.db.query import columns
from opentill.gateways.model import Card
from opentill.orders import queries
from opentill.orders.model import Order, PaymentAttempt, SearchChange

# How a brand is written, by the providers' names; any other is shown as the provider writes it.
_BRANDS: Final = {
    "amex": "American Express",
    "cartes_bancaires": "Cartes Bancaires",
    "diners": "Diners Club",
    "eftpos_au": "Eftpos",
    "jcb": "JCB",
    "mastercard": "Mastercard",
    "unionpay": "UnionPay",
    "visa": "Visa",
    "": "",
    "unknown": "",
}


def shown(card: Card) -> str:
    """Return a card as people know it, such as ``Visa •••• 4242``."""
    brand = _BRANDS.get(card.brand, card.brand.replace("_", " ").title())
    return f"{brand} •••• {card.last4}".strip()


def of_attempt(attempt: PaymentAttempt) -> Card | None:
    """Return the card of an attempt, None if none is known."""
    if attempt.card_last4 is None:
        return None
    return Card(brand=attempt.card_brand or "", last4=attempt.card_last4)


async def of_order(tx: Tx, order: Order) -> Card | None:
    """Return the card that an order was paid with, None if none is known."""
    if order.payment_method != "CREDIT_CARD" or order.paid_attempt_id is None:
        return None
    ids = {"merchant_id": order.merchant_id, "id": order.paid_attempt_id}
    attempt = await queries.ATTEMPT.first(tx, **ids)
    return None if attempt is None else of_attempt(attempt)


async def keep(tx: Tx, order: Order, attempt: PaymentAttempt, card: Card) -> None:
    """Write the card that paid a locked order, unless one is known, and have it indexed anew."""
    ids = {"merchant_id": attempt.merchant_id, "id": attempt.id}
    if await queries.KEEP_CARD.run(tx, **ids, brand=card.brand, last4=card.last4):
        await index_anew(tx, [order])


async def index_anew(tx: Tx, paid: Sequence[Order]) -> None:
    """Have orders found by the last digits of their cards."""
    changed = [SearchChange(order.merchant_id, order.id, order.customer_email) for order in paid]
    await queries.INDEX_ANEW.run(tx, **columns(SearchChange, changed))
