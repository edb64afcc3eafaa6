"""Day limits of gateway accounts: what an account may take in a currency on one day (UTC).

The statement that records an attempt adds it to the total of its account and day, unless the total
would exceed the limit. An attempt that failed, or whose session ended without a payment, is removed
from the total once; an attempt with an unknown outcome stays. If it is paid after all, it is added
again, even above the limit, because the account has taken the money (decision 0155).

Attempts without a ``limit_day`` need no statement of this module.
"""

from collections.abc import Iterable, Mapping, Sequence

from opentill.core.money import Money
from opentill.db.database import Tx
from opentill.gateways import Gateways
from opentill.gateways.model import Gateway
from opentill.orders.model import DAY_MS, Order, PaymentAttempt
from opentill.orders.payments import queries
from opentill.orders.payments.model import DayTotal


def day_of(now: int) -> int:
    """Return the beginning of the day (UTC) of a time, both Unix ms."""
    return now - now % DAY_MS


def find_day(gateways: Mapping[str, Gateway], name: str, order: Order, now: int) -> int | None:
    """Return the day whose total a payment through an account counts for; None: no limit."""
    account = gateways.accounts.get(name) if isinstance(gateways, Gateways) else None
    if account is None or not account.has_day_limit(order.currency):
        return None
    return day_of(now)


async def is_exhausted(
    tx: Tx, *, gateways: Mapping[str, Gateway], name: str, order: Order, day: int
) -> bool:
    """Whether an account has reached its limit of a day; if so, it is tried last for a time."""
    exhausted = await exceeds(tx, name, order.currency, order.amount_minor, day)
    if exhausted and isinstance(gateways, Gateways):
        gateways.record_exhausted(name, Money(order.amount_minor, order.currency))
    return exhausted


async def exceeds(tx: Tx, account_id: str, currency: str, amount_minor: int, day: int) -> bool:
    """Whether a payment would exceed the limit of an account and day."""
    exhausted = await queries.LIMIT_IS_EXHAUSTED.get(
        tx,
        account_id=account_id,
        currency=currency,
        amount_minor=amount_minor,
        limit_day=day,
    )
    return bool(exhausted)


async def list_totals(tx: Tx, account_ids: Sequence[str], now: int) -> list[DayTotal]:
    """Return the totals of accounts on the day of ``now`` (Unix ms), by account and currency."""
    return await queries.DAY_TOTALS.all(tx, account_ids=list(account_ids), day=day_of(now))


async def release(tx: Tx, attempt: PaymentAttempt) -> None:
    """Remove an attempt without a payment from the total of its day. Idempotent."""
    if attempt.limit_day is not None:
        await queries.RELEASE_LIMIT.run(tx, merchant_id=attempt.merchant_id, id=attempt.id)


async def count_again(tx: Tx, attempts: Iterable[PaymentAttempt]) -> None:
    """Add attempts that were paid after ``release`` to the total of their day again."""
    limited = [attempt for attempt in attempts if attempt.limit_day is not None]
    if limited:
        await queries.COUNT_AGAIN.run(
            tx,
            merchant_id=[attempt.merchant_id for attempt in limited],
            id=[attempt.id for attempt in limited],
        )
