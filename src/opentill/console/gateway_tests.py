"""A test payment through one gateway: the form that opens it, and the address to pay it at.

It is an ordinary payment of a merchant, so that it shows what customers of that gateway get; staff
give it back with the refund of its page.
"""

from collections.abc import Mapping
from typing import Final

import msgspec
from starlette.responses import Response

from opentill import checkouts, merchants, orders, people
from opentill.checkouts import GatewayTest, OpenedTest
from opentill.console.zone import ZONE
from opentill.core.errors import Invalid, KeyReused, NotFound, NotPermitted, Problem
from opentill.core.ids import is_id
from opentill.core.money import EXPONENTS, Money
from opentill.core.payment_methods import METHODS
from opentill.db.database import Tx
from opentill.gateways import methods_of
from opentill.orders import Order
from opentill.portal import form_ids, lists, render
from opentill.portal.model import CONSOLE_PATH, Page
from opentill.portal.request import PageRequest
from opentill.web.translations import N_

_FIELDS: Final = ("gateway", "merchant", "amount", "currency", "method")
_REASON: Final = "on the page of gateways"
_SIZE: Final = 20  # test payments of a page


class Tested(msgspec.Struct, frozen=True):
    """A test payment in the list, with what became of it; ``through`` is "" before an attempt."""

    opened: OpenedTest
    order: Order
    amount: str
    through: str


async def _listed(tx: Tx, request: PageRequest) -> tuple[list[Tested], str | None]:
    """Return a page of test payments, newest first, and the order before which there are more."""
    rows = await checkouts.list_gateway_tests(tx, lists.before(request), _SIZE + 1)
    found: list[Tested] = []
    for one in rows[:_SIZE]:
        order = await orders.find(tx, one.merchant_id, one.order_id)
        last = await orders.last_attempt(tx, one.merchant_id, one.order_id)
        amount = request.localizer.amount(Money(order.amount_minor, order.currency))
        found.append(Tested(one, order, amount, last.gateway if last else ""))
    return found, found[-1].order.id if len(rows) > _SIZE else None


async def show(request: PageRequest) -> Response:
    """Show the form, a page of test payments, and where to pay one that was just opened."""
    return await _page(request, {name: request.query.get(name, "") for name in _FIELDS})


async def _page(
    request: PageRequest,
    typed: Mapping[str, str],
    errors: Mapping[str, str] | None = None,
    status: int = 200,
    *,
    wait: str = "",
) -> Response:
    gateways = request.app.gateways
    name = typed["gateway"] if typed["gateway"] in gateways else next(iter(gateways))
    offered = {one for code in EXPONENTS for one in methods_of(gateways, name, code)}
    opened = await checkouts.find_page_view(request.app.db, request.query.get("opened", ""))
    async with request.app.db.connection() as tx:
        found, older = await _listed(tx, request)
        names = await merchants.names(tx, (one.opened.merchant_id for one in found))
        if opened and not await checkouts.is_gateway_test(
            tx, opened.session.merchant_id, opened.order.id
        ):
            opened = None  # some other session
    return render.page(
        request,
        "gateway_test.html",
        status,
        gateway=name,
        found=found,
        older=older,
        names=names,
        manages=request.may("orders.decide"),
        methods=[one for one in METHODS if one in offered],
        typed=typed,
        opened=opened,
        link=f"{request.app.settings.public_url}/checkout/{opened.session.id}" if opened else "",
        form_id=form_ids.new_form_id(),
        errors=dict(errors or {}),
        wait=wait,
        zone=ZONE,
    )


async def open_one(request: PageRequest) -> Response:
    """Open a test payment, once for each form."""
    form = await request.form()
    typed = {name: form.get(name, "").strip() for name in _FIELDS}
    settings, actor = request.app.settings, people.actor_of(request.login, _REASON)
    typed["currency"] = typed["currency"].upper()

    async def work(tx: Tx) -> str:
        if not is_id(typed["merchant"]):
            raise NotFound
        made = await checkouts.open_gateway_test(
            tx,
            request.app.gateways,
            typed["merchant"],
            GatewayTest(**{name: typed[name] for name in GatewayTest.__struct_fields__}),
            actor,
            request.now,
            settings,
        )
        return made.id

    try:
        made = await form_ids.run_once(request, work)
    except (Invalid, KeyReused, NotFound, NotPermitted) as problem:
        status, errors, wait = _refused(problem)
        return await _page(request, typed, errors, status, wait=wait)
    return render.see_other(request, f"{PLACE}?gateway={typed['gateway']}&opened={made}")


def _refused(problem: Problem) -> tuple[int, dict[str, str], str]:
    """Return the status, the field with its text, and a value that this names."""
    match problem:
        case KeyReused():
            return (
                422,
                {
                    "gateway": N_(
                        "This form was sent before, with other entries, and has done "
                        "its work. Send it again if you want another one"
                    )
                },
                "",
            )
        case NotFound():
            return 400, {"merchant": N_("Enter the id of a merchant, such as mer_…")}, ""
        case checkouts.NotPreferred(first=first):
            return (
                409,
                {
                    "gateway": N_(
                        "Payments of this method and currency go to {wait} first, and "
                        "this one would too. Choose another method or currency, or put "
                        "this gateway first for it with OPENTILL_ROUTES or "
                        "OPENTILL_GATEWAYS; one that was not reached within 30 seconds "
                        "comes last"
                    )
                },
                first,
            )
        case merchants.CapabilityOff(why=why):
            return 403, {"merchant": N_("This merchant may not take payments: {wait}")}, why
        case Invalid(field=name):
            field, key = _ERRORS.get(
                name or "",
                (
                    "currency",
                    N_(
                        "There is no exchange rate from this currency to the "
                        "merchant's, or the amount is worth too little or too much in "
                        "it"
                    ),
                ),
            )
            return 400, {field: key}, ""
        case _:
            return 403, {"merchant": N_("This merchant has not accepted the agreement yet")}, ""


# field of the service → field of the form, and the text that says what it accepts
_ERRORS: Final = {
    "gateway": ("gateway", N_("Choose one of the gateways of this deployment")),
    "price": ("amount", N_("Enter an amount above 0, such as 1.00")),
    "currency": ("currency", N_("Enter an ISO 4217 code such as EUR")),
    "method": ("method", N_("Choose a method that this gateway offers in this currency")),
}
PLACE: Final = f"{CONSOLE_PATH}/gateways/test"
pages: Final = (
    Page("GET", PLACE, "deployment.read", show),
    Page("POST", PLACE, "orders.decide", open_one),
)
