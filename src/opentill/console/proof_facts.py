"""What the page that asks for a proof of identity says about the object of a form."""

from typing import Final

from opentill import approvals, disputes, merchants, orders, payouts
from opentill.console.labels import ADJUSTMENT_KIND, MOVEMENT_KIND
from opentill.core.money import Money
from opentill.db.database import Tx
from opentill.portal.model import Facts
from opentill.portal.request import PageRequest
from opentill.web.translations import N_

_AMOUNT: Final = N_("Amount")
_MERCHANT: Final = N_("Merchant")


async def of_merchant(request: PageRequest) -> Facts:
    """Return the merchant in the path. Raises NotFound."""
    async with request.app.db.connection() as tx:
        return [await _name(tx, request.merchant_id)]


async def of_adjustment(request: PageRequest) -> Facts:
    """Return kind, amount and merchant of an adjustment as they were entered. Raises NotFound."""
    form = await request.form()
    async with request.app.db.connection() as tx:
        merchant = await merchants.find(tx, request.merchant_id)
    kind, amount = form.get("kind", ""), form.get("amount", "")
    facts = [(_AMOUNT, f"{amount} {merchant.settlement_currency}"), (_MERCHANT, merchant.name)]
    if kind in ADJUSTMENT_KIND:
        facts.insert(0, (N_("Kind"), request.localizer.gettext(ADJUSTMENT_KIND[kind])))
    return facts


async def of_request(request: PageRequest) -> Facts:
    """Return a request that waits for a second person; nothing if it was decided."""
    async with request.app.db.connection() as tx:
        waiting = await approvals.list_waiting(tx)
        row = next((row for row in waiting if row.id == request.ids["approval"]), None)
        if row is None:
            return []
        return [
            (N_("Request"), request.localizer.gettext(MOVEMENT_KIND[row.kind])),
            (_AMOUNT, _amount(request, row.amount_minor, row.currency)),
            await _name(tx, row.merchant_id),
        ]


async def of_payment(request: PageRequest) -> Facts:
    """Return amount and merchant of a payment. Raises NotFound."""
    async with request.app.db.connection() as tx:
        order = await orders.find_anywhere(tx, request.ids["order"])
        amount = _amount(request, order.amount_minor, order.currency)
        return [(N_("Payment"), amount), await _name(tx, order.merchant_id)]


async def of_dispute(request: PageRequest) -> Facts:
    """Return amount and merchant of a dispute. Raises NotFound."""
    async with request.app.db.connection() as tx:
        dispute = await disputes.find_anywhere(tx, request.ids["dispute"])
        amount = _amount(request, dispute.amount_minor, dispute.currency)
        return [(N_("Dispute"), amount), await _name(tx, dispute.merchant_id)]


async def of_payout(request: PageRequest) -> Facts:
    """Return amount and merchant of a payout. Raises NotFound."""
    async with request.app.db.connection() as tx:
        payout = await payouts.find_anywhere(tx, request.ids["payout"])
        amount = _amount(request, payout.amount_minor, payout.currency)
        return [(N_("Payout"), amount), await _name(tx, payout.merchant_id)]


def _amount(request: PageRequest, minor: int, currency: str) -> str:
    return request.localizer.amount(Money(minor, currency))


async def _name(tx: Tx, merchant_id: str) -> tuple[str, str]:
    return _MERCHANT, (await merchants.find(tx, merchant_id)).name
