"""Changing a merchant's terms: a form with the current terms and a reason for the change.

The form carries the version of the terms that it shows. If they have changed since, nothing is
stored, and the page shows the input beside the current terms.
"""

from collections.abc import Mapping, Sequence
from decimal import Decimal
from typing import Any, Final, Literal, get_args

import msgspec
from starlette.responses import Response

from opentill import merchants, people
from opentill.console import fee_rows, proof_facts
from opentill.console.fee_rows import Cost, FeeRow
from opentill.console.merchant_labels import TERM_ERROR
from opentill.console.merchants import PLACE
from opentill.core import amounts, money
from opentill.core.amounts import UnreadableAmount
from opentill.core.errors import Invalid, KeyReused
from opentill.db.database import Tx
from opentill.merchants import FeePolicy, Merchant
from opentill.merchants.fee_schedule import Fee, is_rate
from opentill.merchants.model import Calendar
from opentill.portal import form_ids, render
from opentill.portal.labels import AMOUNT_ERROR
from opentill.portal.model import Page
from opentill.portal.request import PageRequest
from opentill.web.translations import N_

Kind = Literal["percent", "amount", "days", "choice", "rows", "addresses"]


class Field(msgspec.Struct, frozen=True):
    """A field of the form: the name of the term, its notation and the values of a choice."""

    name: str
    kind: Kind
    choices: tuple[str, ...] = ()


FIELDS: Final = (
    Field("platform_fee_rate", "percent"),
    Field("fees", "rows"),
    Field("refund_fee_policy", "choice", get_args(FeePolicy)),
    Field("overdraft_minor", "amount"),
    Field("settlement_delay_days", "days"),
    Field("settlement_calendar", "choice", get_args(Calendar)),
    Field("reserve_rate", "percent"),
    Field("reserve_days", "days"),
    Field("dispute_fee_minor", "amount"),
    Field("payout_minimum_minor", "amount"),
    Field("ip_allowlist", "addresses"),
)
# The sections of the form: their headings and fields.
_SECTIONS: Final = (
    (N_("Fees"), ("platform_fee_rate", "dispute_fee_minor", "refund_fee_policy", "fees")),
    (
        N_("Settlement and payouts"),
        (
            "settlement_delay_days", "settlement_calendar", "reserve_rate", "reserve_days",
            "payout_minimum_minor",
        ),
    ),
    (N_("Limits"), ("overdraft_minor", "ip_allowlist")),
)  # fmt: skip
# The fields with one entry. The fee schedule has rows of fields (``fee_rows.py``).
TEXT_FIELDS: Final = tuple(field for field in FIELDS if field.kind != "rows")
PREVIEW: Final = "preview"  # the button that shows what payments cost, without storing anything
_LONGEST_DAYS: Final = 6  # a number of days has at most this many digits


class EntryError(ValueError):
    """An entry that cannot be read; its text is a message id."""


class _Stale(Exception):
    """The terms have changed since the form was shown."""


def list_costs(
    rows: Sequence[FeeRow], values: Mapping[str, str], settlement_currency: str
) -> list[Cost]:
    """Return what a payment of 100 costs by entered terms, nothing if an entry has an error."""
    changes, errors = fee_rows.parse(rows, settlement_currency)
    try:
        rate = parse_field(FIELDS[0], values[FIELDS[0].name], settlement_currency)
        if errors or not is_rate(rate):
            return []
        return fee_rows.costs(changes, rate, settlement_currency)
    except (ValueError, Invalid):
        return []


def field_text(field: Field, merchant: Merchant) -> str:
    """Write a merchant's term in the notation of its field."""
    value: Any = getattr(merchant, field.name)
    match field.kind:
        case "percent":
            return money.rate_text(value * 100)
        case "amount":
            return money.show(value, merchant.settlement_currency)
        case "rows":
            return "\n".join(map(fee_text, merchants.read_fees(value)))
        case "addresses":
            return "\n".join(value)
        case _:
            return str(value)


def fee_text(fee: Fee) -> str:
    """Write a row of the fee schedule with its rate in percent, such as ``CREDIT_CARD=1.4%``."""
    scope, _, charge = str(fee).partition("=")
    _, plus, fixed = charge.partition("+")
    return f"{scope}={money.rate_text(fee.rate * 100)}%{plus}{fixed}"


def field_error(field: Field, error: ValueError) -> str:
    """Return the message id of the error that ``parse_field`` has raised for a field."""
    return str(error) if isinstance(error, EntryError) else TERM_ERROR[field.kind]


def parse_field(field: Field, text: str, currency: str) -> Any:
    """Parse the text of a field. Raises ValueError."""
    match field.kind:
        case "percent":
            try:
                return Decimal(text.replace(",", ".")) / 100
            except ArithmeticError:  # not a number, or an exponent that Decimal cannot hold
                raise ValueError from None
        case "amount":
            try:
                return amounts.parse_minor(field.name, text, currency, zero=True)
            except UnreadableAmount as problem:
                raise EntryError(AMOUNT_ERROR.get(problem.problem, TERM_ERROR["amount"])) from None
        case "days":
            if not (text.isascii() and text.isdecimal() and len(text) <= _LONGEST_DAYS):
                raise ValueError
            return int(text)
        case "choice":
            if text not in field.choices:
                raise ValueError
            return text
        case _:
            return text.split()


def _changed_terms(
    merchant: Merchant, form: Mapping[str, str]
) -> tuple[dict[str, Any], dict[str, str]]:
    """Return the terms that differ from the merchant's, and error texts by field."""
    terms: dict[str, Any] = {}
    errors: dict[str, str] = {}
    for field in TEXT_FIELDS:
        text = form.get(field.name, "").replace("\r\n", "\n").strip()
        if text == field_text(field, merchant):
            continue
        try:
            terms[field.name] = parse_field(field, text, merchant.settlement_currency)
        except ValueError as error:
            errors[field.name] = field_error(field, error)
    rows, row_errors = fee_rows.parse(fee_rows.read(form), merchant.settlement_currency)
    stored = {str(fee).partition("=")[0]: str(fee) for fee in merchants.read_fees(merchant.fees)}
    if rows != stored:
        # In ``fee_changes``, ``SCOPE=`` without a rate deletes the row of that scope.
        removed = (f"{scope}=" for scope in stored if scope not in rows)
        terms["fee_changes"] = (*removed, *rows.values())
    return terms, errors | row_errors


async def show_terms(request: PageRequest) -> Response:
    """Show the form, or with ``preview`` the entries and what payments would cost by them.

    Raises NotFound.
    """
    if not request.query.get(PREVIEW):
        return await _page(request)
    async with request.app.db.connection() as tx:
        merchant = await merchants.find(tx, request.merchant_id)
    _, errors = _changed_terms(merchant, request.query)
    return await _page(request, errors=errors, form=request.query)


async def _page(
    request: PageRequest,
    status: int = 200,
    errors: dict[str, str] | None = None,
    form: Mapping[str, str] | None = None,
) -> Response:
    async with request.app.db.connection() as tx:
        merchant = await merchants.find(tx, request.merchant_id)
    current = {field.name: field_text(field, merchant) for field in FIELDS}
    values = current if form is None else {name: form.get(name, "") for name in current}
    stored_rows = fee_rows.of_schedule(merchants.read_fees(merchant.fees))
    rows = stored_rows if form is None else fee_rows.read(form)
    return render.page(
        request,
        "terms.html",
        status,
        merchant=merchant,
        fields=FIELDS,
        sections=_SECTIONS,
        current=current,
        values=values,
        fee_rows=fee_rows.with_blank(rows),
        costs=list_costs(rows, values, merchant.settlement_currency),
        reason="" if form is None else form.get("reason", ""),
        form_id=form_ids.new_form_id(),
        errors=errors or {},
    )


async def change_terms(request: PageRequest) -> Response:
    """Change the terms of sessions that are opened from now on."""
    form, merchant_id = await request.form(), request.merchant_id
    async with request.app.db.connection() as tx:
        merchant = await merchants.find(tx, merchant_id)
    terms, errors = _changed_terms(merchant, form)
    reason = form.get("reason", "").strip()
    if not reason:
        errors["reason"] = N_("Say why, in a few words")
    if errors:
        return await _page(request, 400, errors, form)
    actor = people.actor_of(request.login, reason)

    async def work(tx: Tx) -> str:
        await merchants.lock(tx, merchant_id)
        current = await merchants.find(tx, merchant_id)
        if str(current.terms_version) != form.get("version", ""):
            raise _Stale
        if terms:
            who, reason = actor.who, actor.reason
            await merchants.change(tx, merchant_id, request.now, who=who, reason=reason, **terms)
        return merchant_id

    try:
        await form_ids.run_once(request, work)
    except (_Stale, KeyReused):
        error = N_(
            "The terms were changed meanwhile. Compare your entries with the current "
            "terms, then send the form again"
        )
        return await _page(request, 409, {"terms": error}, form)
    except Invalid as problem:
        return await _page(request, 400, error_texts(problem), form)
    return render.see_other(request, f"{PLACE}/{merchant_id}?done=terms")


def error_texts(problem: Invalid) -> dict[str, str]:
    """Return the error text by the field of the form that the service has refused."""
    name = "fees" if problem.field == "fee" else problem.field
    for field in FIELDS:
        if name in {field.name, field.name.removesuffix("_minor")}:
            return {field.name: TERM_ERROR[field.kind]}
    return {"terms": N_("The terms could not be set like this")}


_PLACE: Final = f"{PLACE}/{{merchant:id}}/terms"
pages: Final = (
    Page("GET", _PLACE, "merchants.read", show_terms),
    Page(
        "POST",
        _PLACE,
        "terms.manage",
        change_terms,
        rehearsed=True,
        fields=(*(field.name for field in TEXT_FIELDS), fee_rows.COUNT, "reason", "version"),
        about=proof_facts.of_merchant,
    ),
)
