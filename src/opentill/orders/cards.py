"""The card that a payment was made with, as far as its gateway says: its brand and last digits.

They are written when the payment is confirmed, by a statement of their own that runs only where
there is a card to write, so that a confirmation without one costs nothing more (decision 0081).
"""

from collections.abc import Sequence
from typing import Final

from opentill.db.database import Tx
from opentill.db.query import Statement, columns
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


async def keep(tx: Tx, found: Sequence[tuple[PaymentAttempt, Card]]) -> None:
    """Write the cards of attempts whose orders are locked, and have their orders indexed anew.

    Where tables are distributed, all are of one merchant.
    """
    if not found:
        return
    changed = await queries.KEEP_CARDS.all(
        tx,
        merchant_id=[attempt.merchant_id for attempt, _ in found],
        id=[attempt.id for attempt, _ in found],
        brand=[card.brand for _, card in found],
        last4=[card.last4 for _, card in found],
    )
    if Statement.distributes and changed:
        await queries.INDEX_ANEW.run(tx, **columns(SearchChange, changed))
