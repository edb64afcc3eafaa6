"""Adjusting a merchant's balance: first a quote of the effect, then the adjustment.

It does the same as ``opentill balance freeze|unfreeze|recharge|…``, by the same service.
The quote is a GET, so that its address keeps the input.
"""

from collections.abc import Mapping
from typing import Final, get_args

from starlette.responses import Response

from opentill import adjustments, ledger, merchants, people
from opentill.adjustments import (
    KINDS,
    AdjustmentRequest,
    ClosedMerchant,
    Kind,
    Quote,
    TooLittle,
)
from opentill.console import proof_facts
from opentill.console.labels import ADJUSTMENT_ERROR
from opentill.console.merchants import PLACE
from opentill.console.zone import ZONE
from opentill.core import amounts
from opentill.core.amounts import UnreadableAmount
from opentill.core.errors import Invalid, KeyReused
from opentill.core.ids import is_id
from opentill.core.money import Money
from opentill.db.database import Tx
from opentill.ledger import Held
from opentill.portal import form_ids, render
from opentill.portal.labels import AMOUNT_ERROR
from opentill.portal.model import Page
from opentill.portal.request import PageRequest

_FIELDS: Final = ("kind", "amount", "account", "order", "reference", "reason")
_ACCOUNTS: Final[tuple[Held, ...]] = get_args(Held)
_NEWEST: Final = 20  # the list shows this many adjustments


async def show_adjustments(request: PageRequest) -> Response:
    """Show the form with the quote of its input, and the newest adjustments. Raises NotFound."""
    values = {name: request.query.get(name, "").strip() for name in _FIELDS}
    if "kind" not in request.query:
        return await _page(request, values)
    try:
        async with request.app.db.snapshot() as tx:
            quote = await _quote(tx, request, values)
    except Invalid as problem:
        return await _page(request, values, _error(problem), 400)
    return await _page(request, values, quote=quote)


async def _quote(tx: Tx, request: PageRequest, values: Mapping[str, str]) -> Quote:
    adjustment = await _parse(tx, request, values)
    above = request.app.settings.approval_above
    return await adjustments.quote(tx, request.merchant_id, adjustment, above, request.now)


async def _parse(tx: Tx, request: PageRequest, values: Mapping[str, str]) -> AdjustmentRequest:
    """Parse the input of the form. Raises NotFound and Invalid."""
    currency = (await merchants.find(tx, request.merchant_id)).settlement_currency
    kind: Kind | None = next((name for name in KINDS if name == values["kind"]), None)
    account: Held | None = next((name for name in _ACCOUNTS if name == values["account"]), None)
    if kind is None:
        raise Invalid("kind", f"kind must be one of {', '.join(KINDS)}")
    if account is None:
        raise Invalid("account", f"account must be one of {', '.join(_ACCOUNTS)}")
    order_id = values["order"]
    minor = amounts.parse_minor("amount", values["amount"], currency, signed=kind == "correct")
    if order_id and not is_id(order_id):
        raise Invalid("order", "order must be the id of an order")
    actor = people.actor_of(request.login, values["reason"])
    return AdjustmentRequest(
        kind=kind,
        amount_minor=minor,
        reason=actor.reason,
        by=actor.who,
        reference=values["reference"],
        account=account,
        order_id=order_id or None,
    )


def _error(problem: Invalid) -> dict[str, str]:
    """Return the text of a refusal by the name of the refused field."""
    if isinstance(problem, UnreadableAmount) and problem.problem in AMOUNT_ERROR:
        return {"amount": AMOUNT_ERROR[problem.problem]}
    if isinstance(problem, TooLittle):
        return {"amount": ADJUSTMENT_ERROR["balance"]}
    if isinstance(problem, ClosedMerchant):
        return {str(problem.field): ADJUSTMENT_ERROR["closed"]}
    return {str(problem.field): ADJUSTMENT_ERROR[str(problem.field)]}


async def _page(
    request: PageRequest,
    values: Mapping[str, str],
    errors: Mapping[str, str] | None = None,
    status: int = 200,
    quote: Quote | None = None,
) -> Response:
    async with request.app.db.snapshot() as tx:
        merchant = await merchants.find(tx, request.merchant_id)
        currency = merchant.settlement_currency
        balance = await ledger.find_balance(tx, merchant.id, currency)
        frozen = await adjustments.sum_frozen_manually(tx, merchant.id, currency)
        newest = await adjustments.list_newest(tx, merchant.id, _NEWEST)

    def write_amount(minor: int) -> str:
        return request.localizer.amount(Money(minor, currency))

    return render.page(
        request,
        "adjustments.html",
        status,
        merchant=merchant,
        balances=[
            (account, write_amount(getattr(balance, account) if balance else 0))
            for account in ledger.MERCHANT_ACCOUNTS
        ],
        frozen=write_amount(frozen),
        overdraft=write_amount(merchant.overdraft_minor),
        newest=[
            (row, request.localizer.amount(Money(row.amount_minor, row.currency))) for row in newest
        ],
        done=request.query.get("done"),
        kinds=KINDS,
        accounts=_ACCOUNTS,
        values=values,
        quote=quote,
        moves=[
            (account, write_amount(before), write_amount(after))
            for account, before, after in (quote.moved if quote else ())
        ],
        manages=request.may("balance.adjust"),
        most=_NEWEST,
        form_id=form_ids.new_form_id(),
        errors=dict(errors or {}),
        zone=ZONE,
    )


async def adjust_balance(request: PageRequest) -> Response:
    """Adjust the balance or, above the limit, request approval. Raises NotFound.

    Sending the same form again has no effect.
    """
    form = await request.form()
    values = {name: form.get(name, "").strip() for name in _FIELDS}
    above = request.app.settings.approval_above
    try:
        async with request.app.db.snapshot() as tx:
            await _quote(tx, request, values)
    except Invalid as problem:
        status = 409 if isinstance(problem, TooLittle) else 400
        return await _page(request, values, _error(problem), status)

    async def work(tx: Tx) -> str:
        adjustment = await _parse(tx, request, values)
        stored = await adjustments.request(tx, request.merchant_id, adjustment, above, request.now)
        return stored.id

    try:
        adjustment_id = await form_ids.run_once(request, work)
    except KeyReused:
        return await _page(request, values, {"kind": form_ids.FORM_REUSED}, 422)
    except Invalid as problem:
        errors = _error(problem)
        if problem.field == "amount" and not isinstance(problem, ClosedMerchant):
            # The quote accepted the amount, so the balance is too low now.
            errors = {"amount": ADJUSTMENT_ERROR["balance"]}
        return await _page(request, values, errors, 409)
    return render.see_other(
        request, f"{PLACE}/{request.merchant_id}/adjustments?done={adjustment_id}"
    )


_PLACE: Final = f"{PLACE}/{{merchant:id}}/adjustments"
pages: Final = (
    Page("GET", _PLACE, "balance.read", show_adjustments),
    Page(
        "POST",
        _PLACE,
        "balance.adjust",
        adjust_balance,
        fields=_FIELDS,
        rehearsed=True,
        about=proof_facts.of_adjustment,
    ),
)
