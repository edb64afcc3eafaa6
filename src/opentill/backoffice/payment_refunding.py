"""What every page that refunds a payment checks and says."""

from collections.abc import Mapping
from typing import Final

import msgspec

from opentill import refunds
from opentill.backoffice import once
from opentill.backoffice.payment_reading import amounts
from opentill.backoffice.request import PageRequest
from opentill.core import money
from opentill.core.errors import Invalid
from opentill.db.database import Tx
from opentill.orders import Order
from opentill.refunds import Quote, RefundBody

_LONGEST_REASON: Final = 255  # contract.md#refund-create


class Refused(msgspec.Struct, frozen=True):
    """Why a form is refused: the key of a sentence by field, and an amount that they name."""

    status: int
    errors: Mapping[str, str]
    amount: str = ""


def text(minor: int, currency: str) -> str:
    """Write an amount as it is typed: without decimals where the currency has none."""
    shown = money.show(minor, currency)
    return shown if money.exponent(currency) else shown.partition(".")[0]


async def quote(tx: Tx, order: Order, amount: str, now: int) -> Quote:
    """Return what a refund would move. Raises Invalid, BalanceTooLow too."""
    body = RefundBody(amount=amount.strip())
    found = await refunds.quote(tx, order.merchant_id, order.id, body, now, source=order.source)
    if found.balance_minor - found.debit_minor < found.least_minor and found.debit_minor:
        raise refunds.BalanceTooLow("amount", found.least_minor)
    return found


def seen(quote: Quote) -> str:
    """Return what a form showed: as long as that is so, it may be done."""
    moved = (quote.amount_minor, quote.left_minor, quote.debit_minor, quote.held_from)
    return ".".join(map(str, moved))


def refused(request: PageRequest, order: Order, problem: Invalid) -> Refused:
    """Return what is said where a quote or a refund is refused."""
    amount = amounts(request.localizer)
    match problem:
        case refunds.NotRefundable():
            return Refused(409, {"amount": "error_refund_status"})
        case refunds.TooMuch(most_minor=0):
            return Refused(409, {"amount": "error_refund_nothing"})
        case refunds.TooMuch(most_minor=most):
            return Refused(400, {"amount": "error_refund_most"}, amount(most, order.currency))
        case refunds.BalanceTooLow(least_minor=least):
            shown = amount(least, order.settled_currency)
            return Refused(400, {"amount": "error_refund_balance"}, shown)
        case Invalid(field="amount"):
            example = text(min(order.amount_minor, 10 ** money.exponent(order.currency)),
                            order.currency)  # fmt: skip
            return Refused(400, {"amount": "error_refund_amount"}, example)
        case _:
            return Refused(409, {"amount": "error_refund_rate"})


def unconfirmed(form: Mapping[str, str], order: Order) -> Refused | None:
    """Return why a form is not to be taken as it is, None if it is."""
    if len(form.get("reason", "").strip()) > _LONGEST_REASON:
        return Refused(400, {"reason": "error_refund_reason"})
    if len(form.get(once.FIELD, "")) != len(once.new_form_id()):
        return Refused(409, {"amount": "error_refund_stale"})
    try:
        wanted = money.parse(form.get("amount", "").strip(), order.currency)
    except ValueError:
        return None  # what is wrong with it is said where it is refused
    try:
        confirmed = money.parse(form.get("confirm", "").strip(), order.currency)
    except ValueError:
        confirmed = None
    if confirmed != wanted:
        return Refused(400, {"confirm": "error_refund_confirm"}, text(wanted, order.currency))
    return None
