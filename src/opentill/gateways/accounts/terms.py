"""What may be changed of an account: label, methods, order of preference, limits and costs."""

from collections.abc import Iterable, Sequence
from typing import Final

import msgspec

from opentill.core.errors import Invalid
from opentill.core.money import EXPONENTS, MOST_MINOR, show
from opentill.gateways.account import Breaker, GatewayAccount
from opentill.gateways.accounts.model import (
    MAX_LABEL,
    MAX_METHODS,
    MAX_RANK,
    AccountChanges,
    AmountLimit,
    Cost,
    DayLimit,
    LimitRow,
    NewAccount,
)

_MOST_NUMBER: Final = 1_000_000_000  # of payments of a day
_SHORTEST_MS: Final = 100
_MOST_TEXTS: Final = 20
_ALL_BP: Final = 10_000  # 100 % in basis points


def check_terms(terms: NewAccount | AccountChanges) -> None:
    """Check what may be changed later: label, methods, order of preference, limits and costs."""
    label = None if terms.label is None else terms.label.strip()
    if label is not None and (not 0 < len(label) <= MAX_LABEL or not label.isprintable()):
        raise Invalid("label", f"label must be 1 to {MAX_LABEL} printable characters")
    if len(terms.methods or "") > MAX_METHODS:
        raise Invalid("methods", f"methods must be at most {MAX_METHODS} characters")
    for field, rank in (("priority", terms.priority), ("weight", terms.weight)):
        if rank is not None and not 1 <= rank <= MAX_RANK:
            raise Invalid(field, f"{field} must be a whole number from 1 to {MAX_RANK}")
    _check_currencies("limit", [limit.currency for limit in terms.limits])
    for limit in terms.limits:
        check_limit(limit)
    _check_currencies("dayLimit", [limit.currency for limit in terms.day_limits])
    for day_limit in terms.day_limits:
        _check_day_limit(day_limit)
    if isinstance(terms, AccountChanges):
        _check_breaker(terms)
    _check_currencies("cost", [cost.currency for cost in terms.costs])
    if not all(map(_is_possible_cost, terms.costs)):
        raise Invalid("cost", "cost must be 0 % to 100 % and an amount of 0 or more")


def check_limit(limit: AmountLimit) -> None:
    """Check the smallest and the largest payment. Raises Invalid."""
    smallest, largest = limit.smallest_minor, limit.largest_minor
    if any(amount is not None and amount <= 0 for amount in (smallest, largest)):
        raise Invalid("limit", "limit must be an amount above 0")
    if smallest is not None and largest is not None and smallest > largest:
        raise Invalid("limit", "limit must have a smallest amount that is not above the largest")


def _check_day_limit(limit: DayLimit) -> None:
    for value in (limit.day_minor, limit.day_number):
        if value is not None and not 0 < value <= MOST_MINOR:
            raise Invalid("dayLimit", "dayLimit must be above 0")
    if (limit.day_number or 0) > _MOST_NUMBER:
        raise Invalid("dayLimit", f"dayLimit must be at most {_MOST_NUMBER} payments")


def _check_breaker(changes: AccountChanges) -> None:
    for field, value, smallest, largest in (
        ("breakBelow", changes.break_below_percent, 0, 99),
        ("breakSlower", changes.break_slower_ms, 0, 60_000),
        ("breakMinutes", changes.break_minutes, 1, 1440),
    ):
        if value is not None and not smallest <= value <= largest:
            raise Invalid(field, f"{field} must be a whole number from {smallest} to {largest}")
    if changes.break_slower_ms and changes.break_slower_ms < _SHORTEST_MS:
        raise Invalid("breakSlower", f"breakSlower must be 0 or at least {_SHORTEST_MS} ms")
    texts = changes.break_texts or ()
    if len(texts) > _MOST_TEXTS or not all(0 < len(text.strip()) <= MAX_LABEL for text in texts):
        reason = f"breakText must be 1 to {MAX_LABEL} characters, at most {_MOST_TEXTS} times"
        raise Invalid("breakText", reason)


def _is_possible_cost(cost: Cost) -> bool:
    return 0 <= cost.rate_bp <= _ALL_BP and 0 <= cost.fixed_minor <= MOST_MINOR


def _check_currencies(field: str, currencies: Sequence[str]) -> None:
    if len(set(currencies)) != len(currencies):
        raise Invalid(field, f"{field} must be given at most once for each currency")
    for currency in currencies:
        if currency not in EXPONENTS:
            raise Invalid(field, f"{field} must name an ISO 4217 currency, not {currency!r}")


def merge_limits(
    rows: Iterable[LimitRow], limits: Iterable[AmountLimit], day_limits: Iterable[DayLimit]
) -> list[LimitRow]:
    """Return the rows with these limits instead of those of the same currency."""
    by_currency = {row.currency: row for row in rows}
    changed_limits: list[AmountLimit | DayLimit] = [*limits, *day_limits]
    for limit in changed_limits:
        row = by_currency.get(limit.currency, LimitRow(currency=limit.currency))
        by_currency[limit.currency] = msgspec.structs.replace(row, **msgspec.structs.asdict(limit))
    return [row for row in by_currency.values() if any(msgspec.structs.astuple(row)[1:])]


def limits_of(account: GatewayAccount) -> list[LimitRow]:
    """Return the limits of an account by currency."""
    columns = zip(
        account.limit_currencies,
        account.smallest_minor,
        account.largest_minor,
        account.day_minor,
        account.day_number,
        strict=True,
    )
    return [
        LimitRow(
            currency=currency,
            smallest_minor=smallest,
            largest_minor=largest,
            day_minor=day_minor,
            day_number=day_number,
        )
        for currency, smallest, largest, day_minor, day_number in columns
    ]


def costs_of(account: GatewayAccount) -> list[Cost]:
    """Return the costs of an account by currency."""
    columns = (account.cost_currencies, account.cost_rate_bp, account.cost_fixed_minor)
    return [Cost(*column) for column in zip(*columns, strict=True)]


def terms_of(account: GatewayAccount) -> dict[str, str]:
    """Return what ``change`` changes, as text for the audit log."""
    return {
        "label": account.label,
        "methods": account.methods or "all",
        "priority": str(account.priority),
        "weight": str(account.weight),
        "limits": ", ".join(limit_texts(account)) or "none",
        "day limits": ", ".join(day_limit_texts(account)) or "none",
        "pauses itself": breaker_text(account) or "never",
        "costs": ", ".join(cost_texts(account)) or "none",
    }


def limit_texts(account: GatewayAccount) -> list[str]:
    """Return the limits of a payment like ``EUR:1.00-500.00``, as commands accept them."""
    return [
        f"{row.currency}:{_amount(row.smallest_minor, row)}-{_amount(row.largest_minor, row)}"
        for row in limits_of(account)
        if row.smallest_minor is not None or row.largest_minor is not None
    ]


def day_limit_texts(account: GatewayAccount) -> list[str]:
    """Return the limits of a day like ``EUR:10000.00/200``, as commands accept them."""
    return [
        f"{row.currency}:{_amount(row.day_minor, row)}"
        + ("" if row.day_number is None else f"/{row.day_number}")
        for row in limits_of(account)
        if row.day_minor is not None or row.day_number is not None
    ]


def cost_texts(account: GatewayAccount) -> list[str]:
    """Return the costs of a payment like ``EUR:2.90%+0.30``, as commands accept them."""
    return [
        f"{cost.currency}:{cost.rate_bp // 100}.{cost.rate_bp % 100:02}%"
        f"+{_amount(cost.fixed_minor, cost)}"
        for cost in costs_of(account)
    ]


def only_breaker(changes: AccountChanges) -> AccountChanges:
    """Return the changes of the breaker, without the others."""
    return AccountChanges(
        break_below_percent=changes.break_below_percent,
        break_slower_ms=changes.break_slower_ms,
        break_texts=changes.break_texts,
        break_minutes=changes.break_minutes,
    )


def changed_breaker(stored: Breaker, changes: AccountChanges) -> Breaker:
    """Return a breaker, or an account, with the changes of its breaker."""
    return msgspec.structs.replace(
        stored,
        break_below_percent=_changed_limit(changes.break_below_percent, stored.break_below_percent),
        break_slower_ms=_changed_limit(changes.break_slower_ms, stored.break_slower_ms),
        break_texts=stored.break_texts
        if changes.break_texts is None
        else [text.strip() for text in changes.break_texts],
        break_minutes=changes.break_minutes or stored.break_minutes,
    )


def _changed_limit(change: int | None, stored: int | None) -> int | None:
    return stored if change is None else change or None


def breaker_text(account: Breaker) -> str:
    """Return when an account pauses itself; "" if it never does."""
    below, slower = account.break_below_percent, account.break_slower_ms
    parts = [
        "" if below is None else f"below {below} % success",
        "" if slower is None else f"slower than {slower} ms",
        *(f"after {text!r}" for text in account.break_texts),
    ]
    conditions = ", ".join(part for part in parts if part)
    return conditions and f"{conditions}: for {account.break_minutes} minutes"


def _amount(minor: int | None, row: LimitRow | Cost) -> str:
    return "" if minor is None else show(minor, row.currency)
