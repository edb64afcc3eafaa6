"""Adjusting a merchant's balance: what that moves, then, once it is confirmed, the adjustment.

What ``opentill balance freeze|unfreeze|recharge|correct|fee`` does, through the same service. The
entries stand in the address of the page that shows it, so that nothing that was typed is lost.
"""

from collections.abc import Mapping
from typing import Final, get_args

from starlette.responses import Response

from opentill import adjustments, ledger, merchants, people
from opentill.adjustments import KINDS, Adjustment, AdjustmentRequest, Kind, Quote
from opentill.console.labels import ADJUSTMENT_ERROR
from opentill.console.merchants import PLACE
from opentill.console.zone import ZONE
from opentill.core import money
from opentill.core.errors import Invalid, KeyReused
from opentill.core.ids import is_id
from opentill.core.money import Money
from opentill.db.database import Tx
from opentill.ledger import Held
from opentill.portal import form_ids, render
from opentill.portal.model import Page
from opentill.portal.request import PageRequest
from opentill.web.translations import N_

_FIELDS: Final = ("kind", "amount", "account", "order", "reference", "reason")
_HELD: Final[tuple[Held, ...]] = get_args(Held)
_NEWEST: Final = 20  # that are listed


async def show(request: PageRequest) -> Response:
    """Show the form and, once it is filled in, what it would move. Raises NotFound."""
    typed = {name: request.query.get(name, "").strip() for name in _FIELDS}
    if "kind" not in request.query:
        return await _page(request, typed)
    try:
        async with request.app.db.snapshot() as tx:
            quote = await _quote(tx, request, typed)
    except Invalid as problem:
        return await _page(request, typed, _said(problem), 400)
    return await _page(request, typed, quote=quote)


async def _quote(tx: Tx, request: PageRequest, typed: Mapping[str, str]) -> Quote:
    asked = await _read(tx, request, typed)
    above = request.app.settings.approval_above
    return await adjustments.quote(tx, request.merchant_id, asked, above, request.now)


async def _read(tx: Tx, request: PageRequest, typed: Mapping[str, str]) -> AdjustmentRequest:
    """Read what is asked for out of the form. Raises NotFound and Invalid."""
    currency = (await merchants.find(tx, request.merchant_id)).settlement_currency
    kind: Kind | None = next((one for one in KINDS if one == typed["kind"]), None)
    account: Held | None = next((one for one in _HELD if one == typed["account"]), None)
    if kind is None:
        raise Invalid("kind", f"kind must be one of {', '.join(KINDS)}")
    if account is None:
        raise Invalid("account", f"account must be one of {', '.join(_HELD)}")
    text, order_id = typed["amount"], typed["order"]
    takes = kind == "correct" and text.startswith("-")
    try:
        minor = money.parse(text.removeprefix("-") if takes else text, currency)
    except ValueError as error:
        raise Invalid("amount", f"amount {error}") from None
    if order_id and not is_id(order_id):
        raise Invalid("order", "order must be the id of an order")
    actor = people.actor_of(request.login, typed["reason"])
    return AdjustmentRequest(
        kind=kind,
        amount_minor=-minor if takes else minor,
        reason=actor.reason,
        by=actor.who,
        reference=typed["reference"],
        account=account,
        order_id=order_id or None,
    )


def _said(problem: Invalid) -> dict[str, str]:
    """Return the field that is wrong, and the text that says what it accepts."""
    return {str(problem.field): ADJUSTMENT_ERROR[str(problem.field)]}


async def _page(
    request: PageRequest,
    typed: Mapping[str, str],
    errors: Mapping[str, str] | None = None,
    status: int = 200,
    quote: Quote | None = None,
) -> Response:
    async with request.app.db.snapshot() as tx:
        merchant = await merchants.find(tx, request.merchant_id)
        currency = merchant.settlement_currency
        held = await ledger.find_balance(tx, merchant.id, currency)
        frozen = await adjustments.sum_frozen_manually(tx, merchant.id, currency)
        newest = await adjustments.list_newest(tx, merchant.id, _NEWEST)

    def shown(minor: int) -> str:
        return request.localizer.amount(Money(minor, currency))

    return render.page(
        request,
        "adjustments.html",
        status,
        merchant=merchant,
        balances=[
            (one, shown(getattr(held, one) if held else 0)) for one in ledger.MERCHANT_ACCOUNTS
        ],
        frozen=shown(frozen),
        overdraft=shown(merchant.overdraft_minor),
        newest=[(one, _amount(request, one)) for one in newest],
        done=request.query.get("done"),
        kinds=KINDS,
        accounts=_HELD,
        typed=typed,
        quote=quote,
        moved=[(name, shown(old), shown(new)) for name, old, new in quote.moved] if quote else [],
        manages=request.may("balance.adjust"),
        most=_NEWEST,
        form_id=form_ids.new_form_id(),
        errors=dict(errors or {}),
        zone=ZONE,
    )


def _amount(request: PageRequest, one: Adjustment) -> str:
    return request.localizer.amount(Money(one.amount_minor, one.currency))


async def make(request: PageRequest) -> Response:
    """Make the adjustment, or have it wait for a second person; the same form again does nothing.

    Raises NotFound.
    """
    form = await request.form()
    typed = {name: form.get(name, "").strip() for name in _FIELDS}
    above = request.app.settings.approval_above
    try:
        async with request.app.db.snapshot() as tx:
            await _quote(tx, request, typed)
    except Invalid as problem:
        return await _page(request, typed, _said(problem), 400)

    async def work(tx: Tx) -> str:
        asked = await _read(tx, request, typed)
        made = await adjustments.request(tx, request.merchant_id, asked, above, request.now)
        return made.id

    try:
        made = await form_ids.run_once(request, work)
    except KeyReused:
        return await _page(
            request,
            typed,
            {
                "kind": N_(
                    "This form was sent before, with other entries, and has done "
                    "its work. Send it again if you want another one"
                )
            },
            422,
        )
    except Invalid as problem:
        # What was typed is fine, as was just seen: the balance does not allow it.
        balance = problem.field == "amount"
        errors = (
            {"amount": N_("The balance does not allow this amount: see what it has now")}
            if balance
            else _said(problem)
        )
        return await _page(request, typed, errors, 409)
    return render.see_other(request, f"{PLACE}/{request.merchant_id}/adjustments?done={made}")


_PLACE: Final = f"{PLACE}/{{merchant:id}}/adjustments"
pages: Final = (
    Page("GET", _PLACE, "balance.read", show),
    Page("POST", _PLACE, "balance.adjust", make),
)
