"""The form that changes the terms of a gateway account: label, methods, order, limits, breaker."""

from collections.abc import Mapping, Sequence
from decimal import Decimal
from typing import Final

import msgspec
from starlette.responses import Response

from opentill import people
from opentill.console import breaker_form
from opentill.console.gateway_account import REASON, about_account, find_account
from opentill.console.gateway_accounts import PLACE
from opentill.core import amounts, money
from opentill.core.amounts import UnreadableAmount
from opentill.core.errors import Contended, Invalid
from opentill.db.database import Tx
from opentill.gateways import accounts
from opentill.gateways.account import GatewayAccount
from opentill.gateways.accounts import AccountChanges, AmountLimit, Cost, DayLimit
from opentill.gateways.accounts.terms import costs_of, limits_of
from opentill.portal import render
from opentill.portal.labels import AMOUNT_ERROR
from opentill.portal.model import Page
from opentill.portal.request import PageRequest
from opentill.web import forms
from opentill.web.translations import N_

_BLANK: Final = 2  # the form shows this many empty rows below the stored ones
_MOST_ROWS: Final = 40
_ROWS: Final = "limit_rows"  # the field with the number of rows in the form
_MOST_PAYMENTS: Final = 1_000_000_000  # of a day
_COUNTS: Final = frozenset(map(str, range(_MOST_ROWS + 1)))
_CELLS: Final = ("currency", "smallest", "largest", "day_sum", "day_payments", "rate", "fixed")
_FIELDS: Final = (
    "label",
    "methods",
    "priority",
    "weight",
    *breaker_form.FIELDS,
)
# Fields with a whole number, and their error texts.
_NUMBERS: Final[Mapping[str, str]] = {
    "priority": N_("Enter a whole number from 1 to 1000"),
    "weight": N_("Enter a whole number from 1 to 1000"),
}
# Field of the service → field of the form, and its error text.
_ERRORS: Final[Mapping[str, tuple[str, str]]] = {
    "label": ("label", N_("Enter 1 to 60 characters that no other account in use has")),
    "methods": ("methods", N_("The gateway does not take this: {wait}")),
    "limit": ("limits", N_("A limit is not possible: {wait}")),
    "dayLimit": ("limits", N_("A limit of the day is not possible: {wait}")),
    "cost": ("limits", N_("A cost is not possible: {wait}")),
    **breaker_form.ERRORS,
    "priority": ("priority", _NUMBERS["priority"]),
    "weight": ("weight", _NUMBERS["weight"]),
}
_STALE: Final = N_(
    "The account was changed meanwhile. Compare your entries with the current terms, then send "
    "the form again"
)


class TermsRow(msgspec.Struct, frozen=True, kw_only=True):
    """The limits and the cost of a currency as they are typed; "" for none."""

    currency: str = ""
    smallest: str = ""
    largest: str = ""
    day_sum: str = ""
    day_payments: str = ""
    rate: str = ""
    fixed: str = ""


_EMPTY: Final = TermsRow()


class _Stale(Exception):
    """The account was changed after the form was shown."""


def _stored_rows(account: GatewayAccount) -> list[TermsRow]:
    limits = {row.currency: row for row in limits_of(account)}
    costs = {row.currency: row for row in costs_of(account)}
    rows: list[TermsRow] = []
    for currency in sorted({*limits, *costs}):
        limit, cost = limits.get(currency), costs.get(currency)

        def amount(minor: int | None, code: str = currency) -> str:
            return "" if minor is None else money.show(minor, code)

        number = None if limit is None else limit.day_number
        rows.append(
            TermsRow(
                currency=currency,
                smallest=amount(None if limit is None else limit.smallest_minor),
                largest=amount(None if limit is None else limit.largest_minor),
                day_sum=amount(None if limit is None else limit.day_minor),
                day_payments="" if number is None else str(number),
                rate="" if cost is None else money.rate_text(Decimal(cost.rate_bp) / 100),
                fixed=amount(None if cost is None else cost.fixed_minor),
            )
        )
    return rows


def _stored_values(account: GatewayAccount) -> dict[str, str]:
    return {
        "label": account.label,
        "methods": account.methods,
        "priority": str(account.priority),
        "weight": str(account.weight),
        **breaker_form.values_of(account),
    }


def _read_rows(form: Mapping[str, str]) -> list[TermsRow]:
    """Read the rows of a form, without empty ones.

    Raises IncompleteForm if a field of a row is missing, so that no limit is removed by mistake.
    """
    number = form.get(_ROWS, "")
    if number not in _COUNTS:
        reason = f"the form must have the field {_ROWS}, a number from 0 to {_MOST_ROWS}"
        raise forms.IncompleteForm(_ROWS, reason)
    rows: list[TermsRow] = []
    for index in range(int(number)):
        names = {cell: f"limit_{cell}_{index}" for cell in _CELLS}
        forms.require_fields(form, names.values())
        row = TermsRow(**{cell: form[name].strip() for cell, name in names.items()})
        row = msgspec.structs.replace(row, currency=row.currency.upper())
        if row != _EMPTY:
            rows.append(row)
    return rows


class _RowReader:
    """Turns rows into limits and costs, and collects the errors by field."""

    def __init__(self) -> None:
        self.limits: list[AmountLimit] = []
        self.day_limits: list[DayLimit] = []
        self.costs: list[Cost] = []
        self.without_cost: list[str] = []
        self.errors: dict[str, str] = {}

    def read(self, rows: Sequence[TermsRow], stored: Sequence[str]) -> None:
        """Read the rows; currencies of ``stored`` without a row lose their limits and cost."""
        currencies = [row.currency for row in rows]
        for number, row in enumerate(rows):
            if row.currency not in money.EXPONENTS:
                self.errors[f"limit_currency_{number}"] = N_("Enter an ISO 4217 code such as EUR")
            elif row.currency in currencies[:number]:
                self.errors[f"limit_currency_{number}"] = N_("Another row has this currency")
            else:
                self._read_row(number, row)
        for currency in stored:
            if currency not in currencies:
                self.limits.append(AmountLimit(currency, None, None))
                self.day_limits.append(DayLimit(currency, None, None))
                self.without_cost.append(currency)

    def _read_row(self, number: int, row: TermsRow) -> None:
        currency = row.currency
        self.limits.append(
            AmountLimit(
                currency,
                self._amount(number, "smallest", row.smallest, currency),
                self._amount(number, "largest", row.largest, currency),
            )
        )
        day_sum = self._amount(number, "day_sum", row.day_sum, currency)
        payments = int(row.day_payments) if row.day_payments.isdecimal() else None
        if row.day_payments and (payments is None or not 0 < payments <= _MOST_PAYMENTS):
            self.errors[f"limit_day_payments_{number}"] = N_(
                "Enter a number of payments, such as 200"
            )
        self.day_limits.append(DayLimit(currency, day_sum, payments))
        if not row.rate and not row.fixed:
            self.without_cost.append(currency)
            return
        fixed = self._amount(number, "fixed", row.fixed, currency, zero=True) or 0
        try:
            rate_bp = Decimal((row.rate or "0").replace(",", ".")) * 100
        except ArithmeticError:
            rate_bp = Decimal(-1)
        if not (0 <= rate_bp <= 10_000 and rate_bp == int(rate_bp)):  # noqa: PLR2004 - 100 %
            error = N_("Enter a percentage with at most two decimals, such as 2.9")
            self.errors[f"limit_rate_{number}"] = error
            return
        self.costs.append(Cost(currency, int(rate_bp), fixed))

    def _amount(
        self, number: int, cell: str, text: str, currency: str, *, zero: bool = False
    ) -> int | None:
        if not text:
            return None
        try:
            return amounts.parse_minor(cell, text, currency, zero=zero)
        except UnreadableAmount as problem:
            default = N_("Enter an amount, such as 25.00 or 1,200.50")
            self.errors[f"limit_{cell}_{number}"] = AMOUNT_ERROR.get(problem.problem, default)
            return None


async def show_terms(request: PageRequest) -> Response:
    """Show the form. Raises NotFound."""
    return await _page(request)


async def _page(
    request: PageRequest,
    status: int = 200,
    errors: dict[str, str] | None = None,
    form: Mapping[str, str] | None = None,
    wait: str = "",
) -> Response:
    async with request.app.db.connection() as tx:
        account = await find_account(request, tx)
    rows = _stored_rows(account) if form is None else _read_rows(form)
    values = (
        _stored_values(account) if form is None else {name: form.get(name, "") for name in _FIELDS}
    )
    return render.page(
        request,
        "gateway_terms.html",
        status,
        account=account,
        rows=[*rows, *[_EMPTY] * _BLANK][:_MOST_ROWS],
        values=values,
        manages=request.may("deployment.manage"),
        errors=errors or {},
        wait=wait,
    )


def _read_numbers(form: Mapping[str, str], errors: dict[str, str]) -> dict[str, int]:
    numbers: dict[str, int] = {}
    for name, error in _NUMBERS.items():
        number = breaker_form.read_number(form[name])
        if number is None:
            errors[name] = error
        else:
            numbers[name] = number
    return numbers


async def change_terms(request: PageRequest) -> Response:
    """Change the terms of an account; servers use them within five seconds."""
    form, account_id = await request.form(), request.ids["account"]
    rows, errors = _read_rows(form), dict[str, str]()
    numbers, breaker = _read_numbers(form, errors), breaker_form.read(form, errors)
    async with request.app.db.connection() as tx:
        account = await find_account(request, tx)
    reader = _RowReader()
    reader.read(rows, [row.currency for row in _stored_rows(account)])
    errors |= reader.errors
    if errors:
        return await _page(request, 400, errors, form)
    changes = AccountChanges(
        label=form["label"],
        methods=form["methods"].strip(),
        priority=numbers["priority"],
        weight=numbers["weight"],
        limits=tuple(reader.limits),
        day_limits=tuple(reader.day_limits),
        costs=tuple(reader.costs),
        without_cost=tuple(reader.without_cost),
        **breaker,
    )
    actor = people.actor_of(request.login, REASON)

    async def work(tx: Tx) -> None:
        current = await accounts.find(tx, account_id)
        if str(current.revision) != form["revision"]:
            raise _Stale
        settings = request.app.settings
        await accounts.change(tx, settings, account_id, changes, request.now, actor=actor)

    try:
        await request.transact(work)
    except (_Stale, Contended):
        return await _page(request, 409, {"terms": _STALE}, form)
    except Invalid as problem:
        field, error = _ERRORS.get(problem.field or "", ("terms", N_("Not possible: {wait}")))
        return await _page(request, 400, {field: error}, form, str(problem.reason))
    await accounts.load_changes(request.app.gateways)
    return render.see_other(request, f"{PLACE}/{account_id}?done=terms")


_PLACE: Final = f"{PLACE}/{{account:id}}/terms"
pages: Final = (
    Page("GET", _PLACE, "deployment.read", show_terms),
    Page(
        "POST",
        _PLACE,
        "deployment.manage",
        change_terms,
        fields=(*_FIELDS, _ROWS, "revision"),
        proves=N_("Change the terms of a gateway account"),
        rehearsed=True,
        about=about_account,
    ),
)
