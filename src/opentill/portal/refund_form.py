"""The dialog that refunds a payment: an amount, and what its refund would move.

It is shown above the page of the payment. The form carries its own id, so that it refunds once, and
the amount and the figures that it showed: if one of them has changed in the meantime, the dialog is
shown again with the new figures, and refunds nothing.
"""

from collections.abc import Mapping
from typing import Any, Final
from urllib.parse import urlencode

import msgspec
from starlette.responses import Response

from opentill import merchants, refunds
from opentill.core import amounts, money
from opentill.core.errors import Invalid, KeyReused
from opentill.db.database import Tx
from opentill.merchants import Merchant
from opentill.orders import Order
from opentill.portal import form_ids, render
from opentill.portal.labels import AMOUNT_ERROR, REFUND_REASON
from opentill.portal.payment_details import amount_formatter, refundable_minor
from opentill.portal.request import PageRequest
from opentill.refunds import Quote, Refund, RefundBody
from opentill.web.translations import N_

_LONGEST_REASON: Final = 255  # characters (contract.md#refund-create)
FIELDS: Final = ("amount", "quoted", "seen", "reason")
_TYPED: Final = ("why", "reason", "force")


class Stale(Exception):
    """The refund would no longer move the amounts that the form showed."""


class Refusal(msgspec.Struct, frozen=True):
    """Why a form is refused: error texts by field, and the amount for {wait} in these texts.

    ``note`` says what to do if the entries are no errors.
    """

    status: int
    errors: Mapping[str, str]
    amount: str = ""
    note: str = ""


# Without the script, the figures are those of the amount that was shown first.
_CHANGED: Final = Refusal(
    409, {}, note=N_("Check the figures of the new amount, then confirm the refund.")
)


class Preview(msgspec.Struct, frozen=True):
    """What a refund of ``amount`` would move. The amount is text as people enter it."""

    order: Order
    merchant: Merchant
    amount: str
    quote: Quote | None = None
    problem: Invalid | None = None  # the error that explains why there is no quote


class Frame(msgspec.Struct, frozen=True, kw_only=True):
    """How a portal shows the dialog: what its person may do, and the page of the payment.

    ``values`` are those of the page's template. ``back`` is the page's path without the base.
    """

    back: str
    values: Mapping[str, Any]
    may_refund: bool
    by_staff: bool = False
    waits: bool = False  # whether a second person must approve the refund


class Dialog(msgspec.Struct, frozen=True, kw_only=True):
    """The values of the dialog's template, ``refund_dialog.html``."""

    order: Order
    merchant: Merchant
    quote: Quote | None
    left: int  # what can be refunded, in minor units
    amount: str  # the entry of the field
    seen: str
    exact: str  # the amount of the quote, as people enter it
    typed: Mapping[str, str]
    form_id: str
    action: str
    back: str
    by_staff: bool
    may_refund: bool
    waits: bool
    errors: Mapping[str, str]
    wait: str  # the value of {wait} in an error text
    note: str


_STALE: Final = Refusal(
    409,
    {
        "amount": N_(
            "Something has changed since this was shown, and nothing was "
            "refunded by this form. Check the amounts, then confirm again"
        )
    },
)


async def preview(tx: Tx, order: Order, amount: str | None, now: int) -> Preview:
    """Read what a refund would move; ``amount`` is None before one is entered, which means all."""
    merchant = await merchants.find(tx, order.merchant_id)
    if amount is None:
        amount = _amount_text(order.amount_minor - order.refund_held_minor, order.currency)
        if refundable_minor(order) <= 0:
            return Preview(order, merchant, amount)
    try:
        return Preview(order, merchant, amount, await _quote(tx, order, amount, now))
    except Invalid as problem:
        return Preview(order, merchant, amount, problem=problem)


async def _quote(tx: Tx, order: Order, amount: str, now: int) -> Quote:
    """Return what a refund would move. Raises Invalid, also if the balance is too low."""
    body = RefundBody(amount=amounts.parse_entry("amount", amount, order.currency))
    quote = await refunds.quote(tx, order.merchant_id, order.id, body, now, source=order.source)
    if quote.balance_minor - quote.debit_minor < quote.least_minor and quote.debit_minor:
        raise refunds.BalanceTooLow("amount", quote.least_minor)
    return quote


def read_entry(amount: str, order: Order) -> str:
    """Return an entered amount in the contract's format, or as it is if it cannot be read.

    The quote reports the error of an amount that cannot be read.
    """
    try:
        return amounts.parse_entry("amount", amount, order.currency)
    except amounts.UnreadableAmount:
        return amount.strip()


def _figures(quote: Quote) -> str:
    """Return what the form shows of a quote, to be compared when it is sent."""
    figures = (quote.amount_minor, quote.left_minor, quote.debit_minor, quote.held_from)
    return ".".join(map(str, figures))


async def check_figures(tx: Tx, order: Order, form: Mapping[str, str], now: int) -> None:
    """Raise Stale if the refund of a locked order would not move what the form showed.

    Raises Invalid if it cannot be refunded.
    """
    if _figures(await _quote(tx, order, form.get("amount", ""), now)) != form.get("seen"):
        raise Stale


def page(
    request: PageRequest,
    preview: Preview,
    frame: Frame,
    form: Mapping[str, str] | None = None,
    refusal: Refusal | None = None,
) -> Response:
    """Render the dialog above the payment's page; ``form`` has the entries of a refused form."""
    order, quote = preview.order, preview.quote
    typed = request.query if form is None else form
    is_first = form is None and "amount" not in request.query
    if preview.problem is not None:
        refusal = refusal_of(request, order, preview.problem)
    dialog = Dialog(
        order=order,
        merchant=preview.merchant,
        quote=quote,
        left=refundable_minor(order),
        amount=preview.amount,
        seen="" if quote is None else _figures(quote),
        exact="" if quote is None else _amount_text(quote.amount_minor, order.currency),
        typed={name: typed.get(name, "") for name in _TYPED},
        form_id=form_ids.new_form_id(),
        action=request.base + request.path,
        back=request.base + frame.back,
        by_staff=frame.by_staff,
        may_refund=frame.may_refund,
        waits=frame.waits,
        errors=refusal.errors if refusal else {},
        wait=refusal.amount if refusal else "",
        note=refusal.note if refusal else "",
    )
    status = refusal.status if refusal and not is_first else 200
    values: dict[str, Any] = {**frame.values, "dialog": dialog}
    return render.page(request, "payment.html", status, live=True, **values)


def unknown_page(
    request: PageRequest, form: Mapping[str, str], back: str, *, by_staff: bool = False
) -> Response:
    """Render the page for a refund whose commit was not confirmed; it sends the same form again."""
    return render.page(
        request,
        "payment_refund_unknown.html",
        503,
        form=form,
        back=request.base + back,
        by_staff=by_staff,
    )


def reason_of(form: Mapping[str, str]) -> str:
    """Return the reason of a refund: what was chosen from the list, and the details."""
    chosen = REFUND_REASON.get(form.get("why", ""), "")
    details = form.get("reason", "").strip()
    return f"{chosen}: {details}" if chosen and details else chosen or details


def query_to_repeat(failed: Refund, order: Order, *, by_staff: bool = False) -> str:
    """Return the query of the dialog that suggests the amount and reason of a failed refund.

    If less than this amount is left to refund, the dialog suggests all that is left. The dialog
    of staff has the whole reason in one field.
    """
    amount_minor = min(failed.amount_minor, refundable_minor(order))
    why, reason = "", failed.reason
    for value, name in () if by_staff else REFUND_REASON.items():
        if failed.reason == name or failed.reason.startswith(f"{name}: "):
            why, reason = value, failed.reason[len(name) :].removeprefix(": ")
    entries = {"amount": _amount_text(amount_minor, order.currency), "why": why, "reason": reason}
    return urlencode({name: text for name, text in entries.items() if text})


def check(
    form: Mapping[str, str], order: Order, *, reason_required: bool = False
) -> Refusal | None:
    """Return the refusal of a form with invalid entries, None if they are valid."""
    if not reason_required <= len(reason_of(form)) <= _LONGEST_REASON:
        return Refusal(
            400,
            {
                "reason": N_("Say why, in 1 to 255 characters")
                if reason_required
                else N_("Enter a reason of at most 255 characters, or leave it empty")
            },
        )
    if len(form.get(form_ids.FIELD, "")) != len(form_ids.new_form_id()):
        return _STALE
    try:
        amount_minor = money.parse(read_entry(form.get("amount", ""), order), order.currency)
    except ValueError:
        return None  # the amount is invalid: the quote reports the error
    try:
        quoted_minor = money.parse(form.get("quoted", ""), order.currency)
    except ValueError:
        quoted_minor = None
    if quoted_minor != amount_minor:
        return _CHANGED
    return None


def refusal_of(request: PageRequest, order: Order, problem: Stale | KeyReused | Invalid) -> Refusal:
    """Return the refusal that shows why an order was not refunded, or has no quote."""
    format_amount, amount = amount_formatter(request.localizer), ""
    match problem:
        case Stale() | KeyReused():
            return _STALE
        case refunds.NotRefundable():
            status, error = 409, N_("This payment cannot be refunded as it stands now")
        case refunds.TooMuch(most_minor=0):
            status, error = 409, N_("Nothing is left to refund")
        case refunds.TooMuch(most_minor=most):
            status, error = 400, N_("You can refund at most {wait}")
            amount = format_amount(most, order.currency)
        case refunds.BalanceTooLow(least_minor=least):
            status, error = (
                400,
                N_(
                    "The balance is too low for this refund: it may fall to "
                    "{wait}. Enter a smaller amount"
                ),
            )
            amount = format_amount(least, order.settled_currency)
        case amounts.UnreadableAmount(problem=reason) if reason in AMOUNT_ERROR:
            status, error = 400, AMOUNT_ERROR[reason]
        case Invalid(field="amount"):
            one_unit = 10 ** money.exponent(order.currency)
            status, error = 400, N_("Enter an amount such as {wait}")
            amount = _amount_text(min(order.amount_minor, one_unit), order.currency)
        case _:
            status, error = (
                409,
                N_("There is no exchange rate for this refund yet: the operator has to set one"),
            )
    return Refusal(status, {"amount": error}, amount)


def _amount_text(minor: int, currency: str) -> str:
    """Write an amount as people type it: without decimals if the currency has none."""
    text = money.show(minor, currency)
    return text if money.exponent(currency) else text.partition(".")[0]
