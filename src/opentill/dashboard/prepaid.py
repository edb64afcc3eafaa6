"""The prepaid balance, which pays the fees of payments to the merchant's own gateway accounts.

The form first shows the balances before and after the transfer. That quote is a GET, so that its
address keeps the amount.
"""

from collections.abc import Mapping
from typing import Final, Literal

import msgspec
from starlette.responses import Response

from opentill import adjustments, ledger, merchants, people
from opentill.adjustments import AdjustmentRequest, Quote
from opentill.core import amounts
from opentill.core.amounts import UnreadableAmount
from opentill.core.errors import Invalid, KeyReused
from opentill.core.money import Money
from opentill.dashboard import movements, page_helpers
from opentill.db.database import Tx
from opentill.gateways.account import GatewayAccount
from opentill.gateways.accounts.follower import load_changes
from opentill.ledger import PrepaidLevel
from opentill.portal import form_ids, render
from opentill.portal.labels import AMOUNT_ERROR
from opentill.portal.model import DASHBOARD_PATH, Page
from opentill.portal.request import PageRequest
from opentill.web.translations import N_

_NEWEST: Final = 20
_PATH: Final = f"{DASHBOARD_PATH}/balance/prepaid"
_REASON: Final = "on the page of the prepaid balance"  # in the audit log
_AMOUNT_ERROR: Final = N_("Enter an amount above 0, such as 25.00 or 1,200.50")
_TOO_MUCH: Final = N_("There is less than this in the available balance")

_WARNING: Final[Mapping[PrepaidLevel, str | None]] = {
    "ENOUGH": None,
    "LOW": N_("The prepaid balance pays the fees of less than three days: top it up"),
    "EMPTY": N_("The prepaid balance is used up: your own gateway accounts take no payments"),
}
# Whether payments can go to an account of the merchant.
_STATE: Final = {
    "ACTIVE": N_("Takes payments"),
    "UNFUNDED": N_("Needs prepaid balance"),
    "PAUSED": N_("Paused"),
    "RETIRED": N_("Retired"),
}


class OwnAccount(msgspec.Struct, frozen=True):
    """A gateway account of the merchant, and whether payments can go there."""

    account: GatewayAccount
    state: Literal["ACTIVE", "UNFUNDED", "PAUSED", "RETIRED"]

    @property
    def state_text(self) -> str:
        """The state as a message id."""
        return _STATE[self.state]


async def find_warning(tx: Tx, request: PageRequest) -> str | None:
    """Return why the prepaid balance must be topped up, None if it lasts or is not needed."""
    if not any(each.status == "ACTIVE" for each in page_helpers.own_accounts(request)):
        return None
    merchant_id = request.access.merchant_id
    currency = (await merchants.find(tx, merchant_id)).settlement_currency
    state = await ledger.find_prepaid_state(tx, merchant_id, currency, request.now)
    return _WARNING[state.level]


async def show(request: PageRequest) -> Response:
    """Show the balance, its newest movements, and the quote of the amount in the query."""
    amount = request.query.get("amount", "").strip()
    if "amount" not in request.query or not request.may("balance.prepay"):
        return await _page(request, amount)
    try:
        async with request.app.db.snapshot() as tx:
            requested = await _parse(tx, request, amount)
            quote = await adjustments.quote(
                tx, request.access.merchant_id, requested, None, request.now
            )
    except Invalid as problem:
        return await _page(request, amount, _error_of_move(problem), 400)
    return await _page(request, amount, quote=quote)


async def _parse(
    tx: Tx, request: PageRequest, amount: str, reference: str = "quote"
) -> AdjustmentRequest:
    """Parse the amount of the form. Raises Invalid."""
    currency = (await merchants.find(tx, request.access.merchant_id)).settlement_currency
    actor = people.actor_of(request.login, _REASON)
    return AdjustmentRequest(
        kind="prepay",
        amount_minor=amounts.parse_minor("amount", amount, currency),
        reason=actor.reason,
        by=actor.who,
        reference=reference,
    )


def _error_of_move(problem: Invalid) -> dict[str, str]:
    """Return why an amount cannot be read, or that the balance does not allow it."""
    too_much = problem.field == "amount" and not isinstance(problem, UnreadableAmount)
    return {"amount": _TOO_MUCH} if too_much else _error(problem)


def _error(problem: Invalid) -> dict[str, str]:
    if isinstance(problem, UnreadableAmount) and problem.problem in AMOUNT_ERROR:
        return {"amount": AMOUNT_ERROR[problem.problem]}
    return {"amount": _AMOUNT_ERROR}


async def _page(
    request: PageRequest,
    amount: str,
    errors: Mapping[str, str] | None = None,
    status: int = 200,
    quote: Quote | None = None,
) -> Response:
    merchant_id, localizer = request.access.merchant_id, request.localizer
    async with request.app.db.snapshot() as tx:
        merchant = await merchants.find(tx, merchant_id)
        balance = await ledger.find_balance(tx, merchant_id, merchant.settlement_currency)
        entries = await ledger.list_newest_of_prepaid(tx, merchant_id, _NEWEST)
        rows = await movements.rows(
            tx,
            localizer,
            merchant_id,
            entries,
            with_customers=request.access.may("payments.read"),
        )
        warning = await find_warning(tx, request)
        state = await ledger.find_prepaid_state(
            tx, merchant_id, merchant.settlement_currency, request.now
        )

    def write(minor: int) -> str:
        return localizer.amount(Money(minor, merchant.settlement_currency))

    return render.page(
        request,
        "prepaid.html",
        status,
        merchant=merchant,
        zone=page_helpers.zone_of(request),
        prepaid=write(balance.prepaid if balance else 0),
        reserved=write(balance.prepaid_reserved if balance else 0),
        free=write(state.free_minor),
        available=write(balance.available if balance else 0),
        warning=warning,
        accounts=[
            OwnAccount(
                each,
                "UNFUNDED" if each.status == "ACTIVE" and state.level == "EMPTY" else each.status,
            )
            for each in page_helpers.own_accounts(request)
        ],
        rows=rows,
        most=_NEWEST,
        amount=amount,
        moves=[
            (name, write(before), write(after))
            for name, before, after in (quote.moved if quote else ())
        ],
        manages=request.may("balance.prepay"),
        form_id=form_ids.new_form_id(),
        errors=dict(errors or {}),
    )


async def move(request: PageRequest) -> Response:
    """Move available money to the prepaid balance. The same form has one effect."""
    form = await request.form()
    amount = form.get("amount", "").strip()
    merchant_id = request.access.merchant_id
    reference = f"prepay {form.get(form_ids.FIELD, '') or form_ids.new_form_id()}"

    async def work(tx: Tx) -> str:
        requested = await _parse(tx, request, amount, reference)
        return (await adjustments.request(tx, merchant_id, requested, None, request.now)).id

    try:
        await form_ids.run_once(request, work)
    except KeyReused:
        return await _page(request, amount, {"amount": form_ids.FORM_REUSED}, 422)
    except UnreadableAmount as problem:
        return await _page(request, amount, _error(problem), 400)
    except Invalid as problem:
        return await _page(request, amount, _error_of_move(problem), 409)
    await load_changes(request.app.gateways)
    return render.see_other(request, f"{request.path}?done=1")


pages: Final = (
    Page("GET", _PATH, "balance.read", show),
    Page("POST", _PATH, "balance.prepay", move, fields=("amount",)),
)
