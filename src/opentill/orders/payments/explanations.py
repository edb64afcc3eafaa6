"""Which accounts would take a payment, in which order, and why the others would not."""

from typing import Final, Literal

import msgspec

from opentill import ledger
from opentill.core.money import Money
from opentill.db.database import Tx
from opentill.gateways import Gateways, PassedOver, PaymentFacts, account_name, find_routes
from opentill.gateways.choice import Misfit, RouteReason, find_misfit
from opentill.orders.payments import day_limits, prepaid

DAY_LIMIT: Final = "DAY_LIMIT"


class Explanation(msgspec.Struct, frozen=True):
    """An account and what routing makes of it for a payment."""

    account: str
    name: str
    place: int | None  # 1 is the chosen account; None: it does not fit
    reason: RouteReason | None = None  # of its place
    misfit: Misfit | Literal["DAY_LIMIT"] | None = None


async def explain(tx: Tx, gateways: Gateways, payment: PaymentFacts, now: int) -> list[Explanation]:
    """Return all accounts, those that fit first, in the order in which they would be tried."""
    exhausted = await _find_exhausted(tx, gateways, payment, now)
    payment = await prepaid.with_fee(tx, payment, now)
    await _read_prepaid(tx, gateways, payment)
    names = {name: account_name(gateways, name) for name in (*gateways, *gateways.accounts)}
    routes = find_routes(gateways, payment)
    free = [route for route in routes if route.account not in exhausted]
    passed = tuple(
        PassedOver(route.account, DAY_LIMIT) for route in routes if route.account in exhausted
    )
    first_free = routes.index(free[0]) if free else 0
    explanations = [
        Explanation(
            route.account,
            names[route.account],
            place,
            route.reason.after(passed[:first_free] if place == 1 else ()),
        )
        for place, route in enumerate(free, 1)
    ]
    for name, shown_name in names.items():
        misfit = find_misfit(gateways, name, payment) if name in gateways else "UNREADABLE"
        if misfit is not None:
            explanations.append(Explanation(name, shown_name, None, misfit=misfit))
        elif name in exhausted:
            explanations.append(Explanation(name, shown_name, None, misfit=DAY_LIMIT))
    return explanations


async def _read_prepaid(tx: Tx, gateways: Gateways, payment: PaymentFacts) -> None:
    """Read the prepaid balance, which pays the fee of a payment to the merchant directly."""
    if payment.merchant_id is None or payment.fee is None:
        return
    currency = payment.fee.currency
    free = await ledger.find_free_prepaid(tx, payment.merchant_id, currency)
    gateways.record_prepaid(payment.merchant_id, Money(free, currency))


async def _find_exhausted(tx: Tx, gateways: Gateways, payment: PaymentFacts, now: int) -> set[str]:
    """Return the accounts whose limit of the day is too small for a payment."""
    exhausted: set[str] = set()
    for account in gateways.accounts.values():
        if account.has_day_limit(payment.currency) and await day_limits.exceeds(
            tx, account.id, payment.currency, payment.amount_minor or 0, day_limits.day_of(now)
        ):
            exhausted.add(account.id)
    return exhausted
