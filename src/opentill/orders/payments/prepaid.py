"""Fees of payments through accounts of the merchant, which the prepaid balance pays.

The provider pays the merchant directly. The statement that records an attempt reserves its fee in
the merchant's prepaid balance, unless the balance is too small. An attempt that failed, or whose
session ended without a payment, gives the fee back once; one with an unknown outcome keeps it. If
it is paid after all, the fee is taken, even from a balance that becomes negative (decision 0165).

Attempts without a ``prepaid_minor`` need no statement of this module.
"""

from collections import defaultdict
from collections.abc import Iterable, Mapping
from decimal import Decimal

import msgspec

from opentill import ledger, merchants, rates
from opentill.core.money import Money
from opentill.db.database import Tx
from opentill.gateways import Gateways, PaymentFacts
from opentill.gateways.model import Gateway, Method
from opentill.merchants import fee_schedule
from opentill.merchants.fee_schedule import Scope
from opentill.orders.model import Order, PaymentAttempt
from opentill.orders.payments import queries
from opentill.orders.pricing import price, with_fee_of


def fee_of(order: Order, method: Method) -> Money:
    """Return the platform's fee for a payment of an order, in its settled currency."""
    priced = with_fee_of(order, Scope(method=method, currency=order.currency))
    fee_minor = priced.gross_settled_minor - priced.net_settled_minor
    return Money(fee_minor, order.settled_currency)


def find_fee(gateways: Mapping[str, Gateway], order: Order, method: Method) -> Money | None:
    """Return the fee of a payment; None if no account belongs to the order's merchant."""
    if isinstance(gateways, Gateways) and gateways.has_own_accounts(order.merchant_id):
        return fee_of(order, method)
    return None


def fee_to_reserve(
    gateways: Mapping[str, Gateway], name: str, order: Order, method: Method
) -> int | None:
    """Return the fee that a payment through an account takes from the prepaid balance.

    None: the account is not the merchant's own, so that the fee is taken from the payment.
    """
    account = gateways.accounts.get(name) if isinstance(gateways, Gateways) else None
    if account is None or account.merchant_id is None:
        return None
    return fee_of(order, method).minor


async def with_fee(tx: Tx, payment: PaymentFacts, now: int) -> PaymentFacts:
    """Return a payment that has no order with the fee that its merchant's terms name.

    Without an amount, a merchant or an exchange rate, it is returned unchanged. Raises NotFound.
    """
    if payment.merchant_id is None or payment.amount_minor is None:
        return payment
    merchant = await merchants.find(tx, payment.merchant_id)
    currency, settled = payment.currency, merchant.settlement_currency
    rate = Decimal(1) if currency == settled else await rates.find(tx, currency, settled, now)
    if rate is None:
        return payment
    schedule = fee_schedule.parse_schedule(merchant.fees)
    row = fee_schedule.pick(schedule, Scope(method=payment.method, currency=currency))
    priced = price(
        payment.amount_minor,
        currency,
        settled_currency=settled,
        exchange_rate=rate,
        fee_rate=merchant.platform_fee_rate if row is None else row.rate,
        fixed_minor=0 if row is None else row.fixed_minor(currency, settled),
    )
    fee = Money(priced.gross_settled_minor - priced.net_settled_minor, settled)
    return msgspec.structs.replace(payment, fee=fee)


async def is_too_low(
    tx: Tx, gateways: Mapping[str, Gateway], order: Order, fee_minor: int | None
) -> bool:
    """Whether the prepaid balance is too low for a fee; if so, the process remembers it."""
    if not fee_minor:
        return False
    free = await ledger.find_free_prepaid(tx, order.merchant_id, order.settled_currency)
    if isinstance(gateways, Gateways):
        gateways.record_prepaid(order.merchant_id, Money(free, order.settled_currency))
    return free < fee_minor


async def release(tx: Tx, order: Order, attempt: PaymentAttempt) -> None:
    """Give the reserved fee of an attempt back. Idempotent.

    ``order`` is the attempt's. Locks the balance; call it before ``day_limits``.
    """
    await end_reservations(tx, [(order, attempt)])


async def end_reservations(tx: Tx, paying: Iterable[tuple[Order, PaymentAttempt]]) -> None:
    """End the reservations of attempts of locked orders, as ``release`` does for one."""
    currencies = {
        (attempt.merchant_id, attempt.id): order.settled_currency
        for order, attempt in paying
        if attempt.prepaid_minor
    }
    if not currencies:
        return
    ended = await queries.END_RESERVATIONS.all(
        tx,
        merchant_id=[merchant_id for merchant_id, _ in currencies],
        id=[attempt_id for _, attempt_id in currencies],
    )
    reserved: dict[tuple[str, str], int] = defaultdict(int)
    for reservation in ended:
        key = (reservation.merchant_id, reservation.id)
        reserved[reservation.merchant_id, currencies[key]] += reservation.fee_minor
    await ledger.release_prepaid(tx, reserved)
