"""Creates merchants, orders in every status and gateways' reports, all through the services.

The functions take ``tx`` and do not commit, so that tests can roll back.
"""

import itertools
from decimal import Decimal
from typing import Any, Final

from opentill import checkouts, disputes, ledger, merchants, orders, refunds
from opentill.checkouts import Session
from opentill.checkouts.model import SessionBody
from opentill.core.money import Money
from opentill.db.database import Tx
from opentill.disputes import Dispute
from opentill.gateways.model import (
    GatewayDisputeEvent,
    GatewayRefundEvent,
    PaymentOutcome,
    RefundOutcome,
)
from opentill.merchants import Merchant
from opentill.orders import HistoryRow, Order, Payer, PaymentAttempt, queries
from opentill.orders.payments import outcomes
from opentill.products import service as products
from opentill.products.model import Product, ProductBody
from opentill.refunds.model import Refund, RefundBody

NOW: Final = 1_750_000_000_000
_numbers: Final = itertools.count(1)
HOUR: Final = 3_600_000
DAY: Final = 24 * HOUR
LATE: Final = outcomes.FIRST_CHECK_MS  # in ms; no call to a gateway runs longer
_tables: Final[list[str]] = []  # the names of all tables, which are the same in all databases


def new_reference() -> str:
    """Return a new reference."""
    return f"REF-{next(_numbers)}"


async def create_merchant(tx: Tx, **terms: Any) -> Merchant:
    """Create a merchant; ``platform_fee_rate`` and ``reserve_rate`` may be text."""
    names = ("platform_fee_rate", "reserve_rate")
    rates = {key: Decimal(terms[key]) for key in names if key in terms}
    name = f"Shop {next(_numbers)}"
    return await merchants.create(tx, **{"name": name, "now": NOW, **terms, **rates})


async def create_product(
    tx: Tx, merchant_id: str, price: str = "9.99", currency: str = "USD"
) -> Product:
    """Create a product."""
    body = ProductBody(name="A mug", price=price, currency=currency)
    return await products.create(tx, merchant_id, body, NOW)


async def create_session(tx: Tx, merchant_id: str, product_id: str, now: int = NOW) -> Session:
    """Open a checkout session."""
    return await checkouts.open_session(tx, merchant_id, SessionBody(product_id=product_id), now)


async def create_order(tx: Tx, price: str = "9.99", currency: str = "USD", **terms: Any) -> Order:
    """Create a PENDING order of a new merchant."""
    shop = await create_merchant(tx, **terms)
    mug = await create_product(tx, shop.id, price, currency)
    checkout = await create_session(tx, shop.id, mug.id)
    return await orders.find(tx, shop.id, checkout.order_id)


async def submit_attempt(
    tx: Tx, order: Order, now: int = NOW, gateway: str = "sandbox"
) -> PaymentAttempt:
    """Record a payment attempt, as before the call to its gateway."""
    locked = await orders.lock(tx, order.merchant_id, order.id)
    payer = Payer(email="ann@example.com", name="Ann", ip="192.0.2.7", locale="en")
    return await orders.start_attempt(tx, locked, gateway, "CREDIT_CARD", payer, now)


async def report_payment(
    tx: Tx, attempt: PaymentAttempt, status: str, now: int = NOW, **fields: Any
) -> PaymentAttempt:
    """Apply an outcome of a payment attempt as its gateway would report it."""
    outcome = PaymentOutcome(status=status, **fields)
    ids = (attempt.merchant_id, attempt.id)
    return await orders.apply_outcome(tx, *ids, outcome, now, gateway=attempt.gateway)


async def pay_order(tx: Tx, order: Order, now: int = NOW) -> Order:
    """Pay an order."""
    attempt = await submit_attempt(tx, order, now)
    await report_payment(
        tx, attempt, "SUCCEEDED", now, amount=Money(order.amount_minor, order.currency)
    )
    return await orders.find(tx, order.merchant_id, order.id)


async def pay_order_twice(tx: Tx, order: Order, now: int = NOW) -> PaymentAttempt:
    """Pay an order twice, and return the second attempt, which is a DUPLICATE."""
    attempts = [await submit_attempt(tx, order, now)]
    await report_payment(tx, attempts[0], "ACTION_REQUIRED", now, action_url="https://bank.example")
    current = await orders.find(tx, order.merchant_id, order.id)
    attempts.append(await submit_attempt(tx, current, now))
    for attempt in attempts:
        await report_payment(
            tx, attempt, "SUCCEEDED", now, amount=Money(order.amount_minor, order.currency)
        )
    return await orders.find_attempt(tx, order.merchant_id, attempts[1].id)


async def create_order_in(tx: Tx, status: str, **terms: Any) -> Order:
    """Create an order and bring it to a status by the usual transitions."""
    order = await create_order(tx, **terms)
    key = (order.merchant_id, order.id)
    match status:
        case "CREATING":
            await submit_attempt(tx, order)
        case "PAID":
            await pay_order(tx, order)
        case "SETTLED":
            await settle_order(tx, await pay_order(tx, order))
        case "DISPUTED":
            await report_dispute(tx, await pay_order(tx, order), "OPENED")
        case "CHARGEBACK":
            await report_dispute(tx, await pay_order(tx, order), "LOST")
        case "FAILED":
            await report_payment(tx, await submit_attempt(tx, order), "REFUSED")
        case "REVOKED":
            await report_payment(tx, await submit_attempt(tx, order), "VOIDED")
        case "CLOSED":
            await checkouts.expire(tx, key[0], order.checkout_id, "time is over", NOW)
        case "REFUNDED":
            paid_order = await pay_order(tx, order)
            await report_refund(tx, await create_refund(tx, paid_order), "SUCCEEDED")
        case _:
            assert status == "PENDING"
    result = await orders.find(tx, *key)
    assert result.status == status
    return result


async def create_refund(tx: Tx, order: Order, amount: str | None = None, now: int = NOW) -> Refund:
    """Create a refund, which is PROCESSING."""
    body = RefundBody(amount=amount)
    return await refunds.create(tx, order.merchant_id, order.id, body, now)


async def report_refund(
    tx: Tx, refund: Refund, status: str, now: int = NOW, **fields: Any
) -> Refund:
    """Apply an outcome of a refund as its gateway would report it."""
    outcome = RefundOutcome(status=status, **fields)
    attempt = await orders.find_attempt(tx, refund.merchant_id, refund.attempt_id)
    ids = (refund.merchant_id, refund.id)
    return await refunds.apply_outcome(tx, *ids, outcome, now, gateway=attempt.gateway)


async def report_refund_event(
    tx: Tx,
    order: Order,
    status: str,
    now: int = NOW,
    *,
    minor: int | None = None,
    ref: str = "rf_1",
    refund: Refund | None = None,
) -> Refund | None:
    """Apply a gateway's event about a refund of ours, or about one made at the provider."""
    attempt = await orders.find_attempt(tx, order.merchant_id, order.paid_attempt_id or "")
    report = GatewayRefundEvent(
        attempt_id=attempt.id,
        refund_id=refund.id if refund else "",
        outcome=RefundOutcome(status=status, provider_ref=ref, reason="account closed"),
        amount=Money(minor or order.amount_minor, order.currency),
    )
    return await refunds.apply_report(tx, order.merchant_id, report, now, gateway=attempt.gateway)


async def settle_order(tx: Tx, order: Order, now: int = NOW) -> Order:
    """Settle an order, whether or not it is due."""
    await orders.settle_one(tx, order.merchant_id, order.id, now, "test")
    return await orders.find(tx, order.merchant_id, order.id)


async def report_dispute(
    tx: Tx,
    order: Order,
    status: str,
    now: int = NOW,
    *,
    ref: str = "dispute-1",
    minor: int | None = None,
    attempt_id: str | None = None,
    respond_by: int | None = None,
) -> Dispute | None:
    """Apply a gateway's event about a dispute, by default of the amount that is not refunded."""
    current = await orders.find(tx, order.merchant_id, order.id)
    disputed_minor = current.amount_minor - current.refund_held_minor
    for row in await tx.fetch(
        "select amount_minor from disputes where merchant_id = $1 and gateway_ref = $2",
        order.merchant_id,
        ref,
    ):
        disputed_minor = row["amount_minor"]
    gateway_event = GatewayDisputeEvent(
        attempt_id=attempt_id or current.paid_attempt_id or "",
        dispute_ref=ref,
        status=status,
        amount=Money(disputed_minor if minor is None else minor, order.currency),
        reason="fraudulent",
        respond_by=respond_by,
    )
    attempt = await orders.find_attempt(tx, order.merchant_id, gateway_event.attempt_id)
    return await disputes.apply_outcome(
        tx, order.merchant_id, gateway_event, now, gateway=attempt.gateway
    )


async def read_balances(tx: Tx, order: Order) -> tuple[int, int, int, int]:
    """Return pending, available, frozen and reserve of the order's merchant."""
    balance = await ledger.find_balance(tx, order.merchant_id, order.settled_currency)
    assert balance is not None
    return balance.pending, balance.available, balance.frozen, balance.reserve


async def read_history(tx: Tx, order: Order) -> list[HistoryRow]:
    """Return the order's history."""
    return await queries.HISTORY.all(tx, merchant_id=order.merchant_id, order_id=order.id)


async def read_entries(tx: Tx, merchant_id: str) -> list[tuple[str, str, str, int]]:
    """Return a merchant's entries in their order: type, from, to, amount."""
    rows = await tx.fetch(
        "select type, from_account, to_account, amount_minor from entries where merchant_id = $1"
        " order by currency, number",
        merchant_id,
    )
    return [tuple(row) for row in rows]


async def read_attempts(tx: Tx, order: Order) -> list[PaymentAttempt]:
    """Return the order's attempts, oldest first."""
    return await queries.ATTEMPTS.all(tx, merchant_id=order.merchant_id, order_id=order.id)


async def dump_rows(tx: Tx) -> dict[str, list[str]]:
    """Return every row of every table as text."""
    if not _tables:
        tables = await tx.fetch("select tablename from pg_tables where schemaname = 'public'")
        _tables.extend(sorted(table for (table,) in tables))
    rows: dict[str, list[str]] = {name: [] for name in _tables}
    parts = " union all ".join(f"select '{name}', t::text from {name} t" for name in _tables)
    for name, row in await tx.fetch(parts):
        rows[name].append(row)
    return {name: sorted(texts) for name, texts in rows.items()}
