"""The brand and last digits of the card that paid an order, if the gateway reports them.

The statement that confirms the payment stores them; if only a later report contains them,
``store_card`` does (decision 0081).
"""

from typing import Final

from opentill.db.database import Tx
from opentill.gateways.model import Card
from opentill.orders import queries
from opentill.orders.model import Order, PaymentAttempt

# A provider's name of a brand → the name that is displayed. Other names are shown in title case.
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


def format_card(card: Card) -> str:
    """Return a card for display, such as ``Visa •••• 4242``, never broken before the digits."""
    return f"{brand_name(card.brand)} ••••\N{NO-BREAK SPACE}{card.last4}".strip()


def brand_name(brand: str) -> str:
    """Return the name of a card brand for display, "" if it is unknown."""
    return _BRANDS.get(brand, brand.replace("_", " ").title())


def of_attempt(attempt: PaymentAttempt) -> Card | None:
    """Return the card of an attempt, None if it is unknown."""
    if attempt.card_last4 is None:
        return None
    return Card(brand=attempt.card_brand or "", last4=attempt.card_last4)


async def of_order(tx: Tx, order: Order) -> Card | None:
    """Return the card that paid an order, None if it is unknown."""
    if order.payment_method != "CREDIT_CARD" or order.paid_attempt_id is None:
        return None
    ids = {"merchant_id": order.merchant_id, "id": order.paid_attempt_id}
    attempt = await queries.ATTEMPT.first(tx, **ids)
    return None if attempt is None else of_attempt(attempt)


async def store_declined(tx: Tx, attempt: PaymentAttempt, card: Card) -> None:
    """Store the card of an attempt that failed, for the merchant's pages. Searches ignore it."""
    ids = {"merchant_id": attempt.merchant_id, "id": attempt.id}
    await queries.STORE_CARD.run(tx, **ids, brand=card.brand, last4=card.last4)


async def store_card(tx: Tx, order: Order, attempt: PaymentAttempt, card: Card) -> None:
    """Store the card of a locked order's payment if none is stored yet, and reindex the order."""
    ids = {"merchant_id": attempt.merchant_id, "id": attempt.id}
    if await queries.STORE_CARD.run(tx, **ids, brand=card.brand, last4=card.last4):
        await queries.REINDEX.run(
            tx, merchant_id=order.merchant_id, order_id=order.id, was=order.customer_email
        )
