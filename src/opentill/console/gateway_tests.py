"""Test payments through a gateway: the form that opens one, the link to pay it, and the list.

A test payment is an ordinary payment of a merchant, and is processed like the payments of
customers. Staff refund it on its page.
"""

from collections.abc import Mapping
from typing import Final

import msgspec
from starlette.responses import Response

from opentill import checkouts, merchants, orders, people
from opentill.checkouts import GatewayTest, OpenedTest
from opentill.console.account_labels import MISFIT_OF_TEST
from opentill.console.zone import ZONE
from opentill.core import amounts
from opentill.core.amounts import UnreadableAmount
from opentill.core.errors import Invalid, KeyReused, NotFound, NotPermitted, Problem
from opentill.core.ids import is_id
from opentill.core.money import EXPONENTS, Money
from opentill.core.payment_methods import METHODS
from opentill.core.settings import SANDBOX
from opentill.db.database import Tx
from opentill.gateways import Gateways, methods_of
from opentill.orders import Order
from opentill.portal import form_ids, lists, render
from opentill.portal.labels import AMOUNT_ERROR
from opentill.portal.model import CONSOLE_PATH, Page
from opentill.portal.request import PageRequest
from opentill.web.translations import N_

FIELDS: Final = ("gateway", "merchant", "amount", "currency", "method")
_REASON: Final = "on the page of gateways"
_PAGE_SIZE: Final = 20
_MOST_NAMES: Final = 50  # the form suggests at most this many merchants


class Row(msgspec.Struct, frozen=True):
    """A test payment in the list."""

    test: OpenedTest
    order: Order
    amount: str
    gateway: str  # the gateway of the last attempt, "" if there is no attempt


class TestForm(msgspec.Struct, frozen=True):
    """What the form of a test payment offers, and its entries."""

    gateway: str
    form_id: str
    methods: list[str]
    currencies: list[str]
    merchant_names: list[str]
    values: Mapping[str, str]


async def read_test_form(
    request: PageRequest, tx: Tx, gateway: str, values: Mapping[str, str]
) -> TestForm:
    """Return the form of a test payment through an account of this process.

    Without an entry, the merchant is that of the last test payment, or the only one.
    """
    gateways = request.app.gateways
    offered = {code: methods_of(gateways, gateway, code) for code in EXPONENTS}
    offered_methods = {method for methods in offered.values() for method in methods}
    suggested, _ = await merchants.search(tx, "", 1, _MOST_NAMES)
    if not values["merchant"]:
        tests = await checkouts.list_gateway_tests(tx, "", 1)
        names = await merchants.names(tx, (test.merchant_id for test in tests))
        default = suggested[0].name if len(suggested) == 1 else ""
        values = {**values, "merchant": next(iter(names.values()), default)}
    return TestForm(
        gateway=gateway,
        form_id=form_ids.new_form_id(),
        methods=[method for method in METHODS if method in offered_methods],
        currencies=sorted(code for code, methods in offered.items() if methods),
        merchant_names=[merchant.name for merchant in suggested],
        values=values,
    )


async def _read_rows(tx: Tx, request: PageRequest) -> tuple[list[Row], str | None]:
    """Return a page of test payments, newest first, and the cursor of the next page if any."""
    tests = await checkouts.list_gateway_tests(tx, lists.before(request), _PAGE_SIZE + 1)
    rows: list[Row] = []
    for test in tests[:_PAGE_SIZE]:
        order = await orders.find(tx, test.merchant_id, test.order_id)
        attempt = await orders.last_attempt(tx, test.merchant_id, test.order_id)
        amount = request.localizer.amount(Money(order.amount_minor, order.currency))
        rows.append(Row(test, order, amount, attempt.gateway if attempt else ""))
    return rows, rows[-1].order.id if len(tests) > _PAGE_SIZE else None


async def show_gateway_tests(request: PageRequest) -> Response:
    """Show the form, a page of test payments, and the link to pay the one that was just opened."""
    return await _page(request, {name: request.query.get(name, "") for name in FIELDS})


async def _page(
    request: PageRequest,
    values: Mapping[str, str],
    errors: Mapping[str, str] | None = None,
    status: int = 200,
    *,
    wait: str = "",
) -> Response:
    gateways = request.app.gateways
    gateway = values["gateway"] if values["gateway"] in gateways else next(iter(gateways))
    view = await checkouts.find_page_view(request.app.db, request.query.get("opened", ""))
    async with request.app.db.connection() as tx:
        rows, older = await _read_rows(tx, request)
        test = await read_test_form(request, tx, gateway, values)
        names = await merchants.names(tx, (row.test.merchant_id for row in rows))
        if view and not await checkouts.is_gateway_test(
            tx, view.session.merchant_id, view.order.id
        ):
            view = None  # the session is not a test payment
    return render.page(
        request,
        "gateway_test.html",
        status,
        gateway=gateway,
        rows=rows,
        older=older,
        names=names,
        manages=request.may("orders.decide"),
        is_live=takes_real_money(request, gateway),
        test=test,
        opened=view,
        link=f"{request.app.settings.public_url}/checkout/{view.session.id}" if view else "",
        errors=dict(errors or {}),
        wait=wait,
        zone=ZONE,
    )


def takes_real_money(request: PageRequest, name: str) -> bool:
    """Whether a payment through an account is one of real money."""
    gateways = request.app.gateways
    account = gateways.accounts.get(name) if isinstance(gateways, Gateways) else None
    return name != SANDBOX if account is None else account.livemode


async def find_merchant_id(tx: Tx, text: str) -> str:
    """Return the id of the merchant with this id or name. Raises NotFound unless there is one."""
    if is_id(text):
        return text
    merchant_ids = await merchants.ids_by_name(tx, text) if text else []
    if len(merchant_ids) != 1:
        raise NotFound
    return merchant_ids[0]


async def open_test_payment(request: PageRequest) -> Response:
    """Open a test payment.

    Sending the same form again has no effect.
    """
    form = await request.form()
    values = {name: form.get(name, "").strip() for name in FIELDS}
    settings, actor = request.app.settings, people.actor_of(request.login, _REASON)
    values["currency"] = values["currency"].upper()

    async def work(tx: Tx) -> str:
        entry = amounts.parse_entry("price", values["amount"], values["currency"])
        merchant_id = await find_merchant_id(tx, values["merchant"])
        session = await checkouts.open_gateway_test(
            tx,
            request.app.gateways,
            merchant_id,
            GatewayTest(
                gateway=values["gateway"],
                method=values["method"],
                currency=values["currency"],
                amount=entry,
            ),
            actor,
            request.now,
            settings,
        )
        return session.id

    try:
        session_id = await form_ids.run_once(request, work)
    except (Invalid, KeyReused, NotFound, NotPermitted) as problem:
        status, errors, wait = _explain(problem)
        return await _page(request, values, errors, status, wait=wait)
    return render.see_other(request, f"{PLACE}?gateway={values['gateway']}&opened={session_id}")


def _explain(problem: Problem) -> tuple[int, dict[str, str], str]:
    """Return the status, the error text by field, and the value of {wait} in the text."""
    match problem:
        case KeyReused():
            return 422, {"gateway": form_ids.FORM_REUSED}, ""
        case NotFound():
            return 400, {"merchant": N_("Enter the whole name or the ID of a merchant")}, ""
        case checkouts.DoesNotFit(misfit=misfit):
            return 409, {"gateway": MISFIT_OF_TEST[misfit]}, ""
        case merchants.CapabilityOff(why=why):
            return 403, {"merchant": N_("This merchant may not take payments: {wait}")}, why
        case Invalid(field=name):
            field, error = _ERRORS.get(name or "", ("currency", _NO_RATE))
            if isinstance(problem, UnreadableAmount):
                error = AMOUNT_ERROR.get(problem.problem, error)
            return 400, {field: error}, ""
        case _:
            return 403, {"merchant": N_("This merchant has not accepted the agreement yet")}, ""


_NO_RATE: Final = N_(
    "There is no exchange rate from this currency to the "
    "merchant's, or the amount is worth too little or too much in it"
)
# Maps a field of the service to a field of the form and its error text.
_ERRORS: Final = {
    "gateway": ("gateway", N_("Choose one of the gateways of this deployment")),
    "price": ("amount", N_("Enter an amount above 0, such as 1.00")),
    "currency": ("currency", N_("Enter an ISO 4217 code such as EUR")),
    "method": ("method", N_("Choose a method that this gateway offers in this currency")),
}
PLACE: Final = f"{CONSOLE_PATH}/gateways/test"
pages: Final = (
    Page("GET", PLACE, "deployment.read", show_gateway_tests),
    Page(
        "POST",
        PLACE,
        "orders.decide",
        open_test_payment,
        fields=FIELDS,
        proves=N_("Open a test payment"),
    ),
)
