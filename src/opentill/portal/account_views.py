"""Gateway accounts as the console's pages show them: state, limits, costs and figures."""

from collections.abc import Mapping, Sequence
from typing import Final, Literal

import msgspec

from opentill import figures
from opentill.core.money import Money
from opentill.core.payment_methods import parse_methods
from opentill.db.database import Tx
from opentill.figures import GatewaySums
from opentill.gateways import Gateways
from opentill.gateways.account import GatewayAccount
from opentill.gateways.accounts.terms import costs_of, limits_of
from opentill.orders import jobs as order_jobs
from opentill.orders.payments.model import DayTotal
from opentill.portal.labels import PAYMENT_METHOD
from opentill.web.language import Localizer

_NEWEST: Final = 50  # attempts of each merchant among which the last payment is searched
DAY_MS: Final = 86_400_000
QUARTER_MS: Final = 900_000
State = Literal["ACTIVE", "PAUSED", "RETIRED", "BROKEN", "UNREADABLE", "UNREACHABLE"]


class LimitView(msgspec.Struct, frozen=True):
    """The limits and the cost of an account in a currency, as text; "" for none."""

    currency: str
    smallest: str
    largest: str
    day_sum: str
    day_payments: str
    used_sum: str  # what counts today, if there is a limit of the day
    used_payments: str
    cost: str


class Performance(msgspec.Struct, frozen=True):
    """Attempts of a time through an account, and the share that succeeded."""

    payments: int
    attempts: int

    @property
    def rate(self) -> float | None:
        """The success rate, None without attempts."""
        return self.payments / self.attempts if self.attempts else None


def state_of(account: GatewayAccount, gateways: Mapping[str, object]) -> State:
    """Return the state of an account as this process sees it."""
    if account.status != "ACTIVE":
        return account.status
    if isinstance(gateways, Gateways):
        if account.id in gateways.unreadable:
            return "UNREADABLE"
        if account.broken_at is None and gateways.is_unreachable(account.id):
            return "UNREACHABLE"
    return "ACTIVE" if account.broken_at is None else "BROKEN"


def performance(sums: Sequence[GatewaySums], name: str) -> Performance:
    """Return the attempts through an account."""
    rows = [row for row in sums if row.gateway == name]
    payments = sum(row.payments for row in rows)
    return Performance(payments, payments + sum(row.failed for row in rows))


async def list_last_payments(tx: Tx, since: int) -> dict[str, int]:
    """Return the time of each gateway's newest payment since a time, if any.

    It is exact if the payment is among the newest of its merchant, and otherwise the beginning of
    its quarter hour, which is how long figures keep times.
    """
    quarters = await figures.list_last_payments(tx, since)
    exact = await order_jobs.list_last_paid(tx, _NEWEST)
    times = {name: at for name, at in exact.items() if at >= since}
    return times | {name: start for name, start in quarters.items() if start > times.get(name, 0)}


def volumes(localizer: Localizer, sums: Sequence[GatewaySums], name: str) -> list[str]:
    """Return the volume of an account by currency, the currencies in order."""
    minor: dict[str, int] = {}
    for row in sums:
        if row.gateway == name and row.volume_minor:
            minor[row.currency] = minor.get(row.currency, 0) + row.volume_minor
    return [localizer.amount(Money(total, code)) for code, total in sorted(minor.items())]


def limit_views(
    localizer: Localizer, account: GatewayAccount, totals: Sequence[DayTotal]
) -> list[LimitView]:
    """Return the limits and costs of an account by currency, with what counts today."""
    used = {row.currency: row for row in totals if row.account_id == account.id}
    limits = {row.currency: row for row in limits_of(account)}
    costs = {row.currency: row for row in costs_of(account)}
    views: list[LimitView] = []
    for currency in sorted({*limits, *costs}):
        limit, cost, total = limits.get(currency), costs.get(currency), used.get(currency)

        def amount(minor: int | None, code: str = currency) -> str:
            return "" if minor is None else localizer.amount(Money(minor, code))

        day_sum, day_number = (None, None) if limit is None else (limit.day_minor, limit.day_number)
        fixed = amount(cost.fixed_minor) if cost is not None and cost.fixed_minor else ""
        rate = "" if cost is None else f"{cost.rate_bp / 100:g}%"
        views.append(
            LimitView(
                currency=currency,
                smallest=amount(None if limit is None else limit.smallest_minor),
                largest=amount(None if limit is None else limit.largest_minor),
                day_sum=amount(day_sum),
                day_payments="" if day_number is None else localizer.number(day_number),
                used_sum="" if day_sum is None else amount(total.sum_minor if total else 0),
                used_payments=""
                if day_number is None
                else localizer.number(total.payments if total else 0),
                cost=" + ".join(part for part in (rate, fixed) if part),
            )
        )
    return views


def methods_text(localizer: Localizer, text: str) -> str:
    """Return what an account is used for as pages write it, "" for all that its gateway takes."""
    if not text:
        return ""
    try:
        methods = parse_methods(text)
    except ValueError:  # Epay's syntax with the server's own types
        return text
    return ", ".join(
        localizer.gettext(PAYMENT_METHOD[method]) + (f" ({', '.join(codes)})" if codes else "")
        for method, codes in methods.items()
    )
