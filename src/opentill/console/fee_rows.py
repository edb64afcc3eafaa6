"""The fee schedule as rows of fields in a form, and what a payment of 100 costs by it."""

from collections.abc import Mapping, Sequence
from decimal import Decimal
from typing import Final

import msgspec

from opentill.core import amounts, money
from opentill.core.amounts import UnreadableAmount
from opentill.core.money import Money
from opentill.core.payment_methods import BY_NAME
from opentill.merchants import fee_schedule
from opentill.merchants.fee_schedule import MAX_ROWS, Fee
from opentill.orders import pricing
from opentill.portal.labels import AMOUNT_ERROR
from opentill.web import forms
from opentill.web.translations import N_

BLANK: Final = 2  # the form shows this many empty rows below the stored ones
COUNT: Final = "fee_rows"  # the field with the number of rows in the form
REMOVE: Final = "NONE"  # the choice in place of a method that removes the row
_NAMES: Final = ("method", "currency", "rate", "fixed", "conditions")
_COUNTS: Final = frozenset(map(str, range(MAX_ROWS + 1)))
_SAMPLE: Final = 100  # the preview shows the fee of a payment of this many units


class FeeRow(msgspec.Struct, frozen=True, kw_only=True):
    """A row as it is typed: "" for every currency, and for no fixed part.

    ``FeeRow()`` is an empty row.
    """

    method: str = ""
    currency: str = ""
    rate: str = ""
    fixed: str = ""
    # Further conditions of a stored row, as the schedule writes them, which no field changes.
    conditions: str = ""


class FeeRowError(ValueError):
    """An entry of a row that is not accepted: its field, and a message id."""

    def __init__(self, field: str, text: str) -> None:
        """Store the name of the field and the text."""
        super().__init__(text)
        self.field: Final = field
        self.text: Final = text


class Cost(msgspec.Struct, frozen=True):
    """What a payment costs: by a row of the schedule, or by the default rate (method "")."""

    method: str
    currency: str
    payment: Money
    fee: Money


def of_schedule(fees: Sequence[Fee]) -> list[FeeRow]:
    """Return the rows of a stored schedule as the form shows them."""
    return [
        FeeRow(
            method=fee.method,
            currency=fee.currency or "",
            rate=money.rate_text(fee.rate * 100),
            fixed="" if fee.fixed == "0.00" else fee.fixed,
            conditions=str(fee).partition("=")[0].removeprefix(_scope(fee.method, fee.currency)),
        )
        for fee in fees
    ]


def _scope(method: str, currency: str | None) -> str:
    return f"{method}:{currency}" if currency else method


def read(form: Mapping[str, str]) -> list[FeeRow]:
    """Read the rows of a form, in their order, with empty ones.

    Raises IncompleteForm if a field of a row is missing, so that no row is removed by mistake.
    """
    number = form.get(COUNT, "")
    if number not in _COUNTS:
        reason = f"the form must have the field {COUNT}, a number from 0 to {MAX_ROWS}"
        raise forms.IncompleteForm(COUNT, reason)
    return [_read_row(form, index) for index in range(int(number))]


def _read_row(form: Mapping[str, str], number: int) -> FeeRow:
    fields = {name: f"fee_{name}_{number}" for name in _NAMES}
    forms.require_fields(form, fields.values())
    row = FeeRow(**{name: form[field].strip() for name, field in fields.items()})
    row = msgspec.structs.replace(row, currency=row.currency.upper())
    return FeeRow() if row.method == REMOVE else row


def with_blank(rows: Sequence[FeeRow]) -> list[FeeRow]:
    """Return the rows that have an entry, and empty ones to fill in."""
    filled = [row for row in rows if row != FeeRow()]
    return (filled + [FeeRow()] * BLANK)[:MAX_ROWS]


def parse(
    rows: Sequence[FeeRow], settlement_currency: str
) -> tuple[dict[str, str], dict[str, str]]:
    """Return the rows by scope, as changes that the schedule takes, and error texts by field.

    Fields are numbered as ``with_blank`` shows the rows.
    """
    changes: dict[str, str] = {}
    errors: dict[str, str] = {}
    filled = [row for row in rows if row != FeeRow()]
    for number, row in enumerate(filled):
        try:
            scope, charge = _parse_row(row, settlement_currency)
        except FeeRowError as error:
            errors[f"fee_{error.field}_{number}"] = error.text
            continue
        if scope in changes:
            errors[f"fee_method_{number}"] = N_(
                "Another row has this method and currency. Change one of them"
            )
        changes[scope] = f"{scope}={charge}"
    return changes, errors


def _parse_row(row: FeeRow, settlement_currency: str) -> tuple[str, str]:
    """Return the scope and the charge of a row, as the schedule takes them. Raises FeeRowError."""
    if row.method not in BY_NAME:
        raise FeeRowError("method", N_("Choose a payment method, or remove the row"))
    if row.currency and row.currency not in money.EXPONENTS:
        raise FeeRowError(
            "currency", N_("Enter a currency code such as EUR, or nothing for every currency")
        )
    try:
        share = Decimal(row.rate.replace(",", ".")) / 100
    except ArithmeticError:  # not a number, or an exponent that Decimal cannot hold
        share = Decimal("NaN")
    if not fee_schedule.is_rate(share):
        raise FeeRowError(
            "rate",
            N_("Enter a number from 0 to below 100 with at most four decimals, such as 2.9"),
        )
    currency = row.currency or settlement_currency
    minor = 0
    if row.fixed:
        try:
            minor = amounts.parse_minor("fixed", row.fixed, currency, zero=True)
        except UnreadableAmount as problem:
            raise FeeRowError(
                "fixed", AMOUNT_ERROR.get(problem.problem, N_("Enter an amount such as 0.25"))
            ) from None
    scope = _scope(row.method, row.currency) + row.conditions
    fixed = f"+{money.show(minor, currency)}" if minor else ""
    return scope, f"{money.rate_text(share)}{fixed}"


def costs(
    changes: Mapping[str, str], default_rate: Decimal, settlement_currency: str
) -> list[Cost]:
    """Return what a payment of 100 costs by each row of a schedule, and by the default rate."""
    schedule = fee_schedule.apply_changes("[]", changes.values(), settlement_currency)
    fees = fee_schedule.parse_schedule(schedule)
    scopes = [(fee.method, fee.currency, fee.rate, fee) for fee in fees]
    return [
        _cost(method, currency, settlement_currency, rate, fee)
        for method, currency, rate, fee in (*scopes, ("", None, default_rate, None))
    ]


def _cost(
    method: str, currency: str | None, settlement_currency: str, rate: Decimal, fee: Fee | None
) -> Cost:
    paid_in = currency or settlement_currency
    minor = _SAMPLE * 10 ** money.exponent(paid_in)
    priced = pricing.price(
        minor,
        paid_in,
        settled_currency=paid_in,
        exchange_rate=Decimal(1),
        fee_rate=rate,
        fixed_minor=0 if fee is None else fee.fixed_minor(paid_in, settlement_currency),
    )
    return Cost(method, currency or "", Money(minor, paid_in), Money(priced.fee_minor, paid_in))
