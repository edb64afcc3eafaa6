"""What lists of payments show of an order besides its own columns."""

from collections.abc import Sequence

import msgspec

from opentill import disputes, orders, refunds
from opentill.db.database import Tx
from opentill.disputes import Dispute
from opentill.gateways.model import Method
from opentill.orders import Order, PaymentAttempt, ShownStatus
from opentill.portal import unpaid
from opentill.portal.request import PageRequest
from opentill.refunds import Refund
from opentill.web import declines


class Listed(msgspec.Struct, frozen=True):
    """An order of a list.

    ``attempt`` paid it or, of an unpaid order, is the last one. ``dispute`` and ``refund`` are the
    newest ones. Each is None if there is none, or the person may not see it.
    """

    order: Order
    attempt: PaymentAttempt | None = None
    dispute: Dispute | None = None
    refund: Refund | None = None

    @property
    def shown_dispute(self) -> Dispute | None:
        """The dispute whose state is shown as the status; None if the order has another status."""
        return self.dispute if self.shown_status in ("DISPUTED", "CHARGEBACK") else None

    @property
    def shown_status(self) -> ShownStatus:
        """The status that pages show, with regard to an attempt that the bank has not decided."""
        return unpaid.shown_status(self.order, self.attempt)

    @property
    def method(self) -> Method | None:
        """The payment method, of an unpaid order that of its last attempt."""
        return self.order.payment_method or (self.attempt.method if self.attempt else None)

    @property
    def card(self) -> str:
        """The card of the attempt, as people know it; "" if it is unknown."""
        card = orders.card_of_attempt(self.attempt) if self.attempt else None
        return orders.format_card(card) if card else ""

    @property
    def decline_reason(self) -> str:
        """Why the last attempt failed, of an order that is not paid; "" if it did not."""
        is_unpaid = self.order.paid_at is None and self.attempt is not None
        if self.attempt is None or not is_unpaid or self.attempt.status not in declines.STATUSES:
            return ""
        return declines.merchant_reason_of(self.attempt.reason)


async def read(request: PageRequest, listed: Sequence[Order]) -> list[Listed]:
    """Read what a page of a list shows of its orders, in at most three statements."""
    merchant_id = request.merchant_id
    disputed = [order.id for order in listed if order.status in ("DISPUTED", "CHARGEBACK")]
    refunded = [order.id for order in listed if order.refund_held_minor or order.refund_failed]
    may_see_disputes = request.access.may("disputes.read")

    async def work(tx: Tx) -> list[Listed]:
        attempts = await orders.decisive_attempts(tx, merchant_id, listed)
        newest_disputes = (
            await disputes.newest_of_orders(tx, merchant_id, disputed)
            if disputed and may_see_disputes
            else {}
        )
        newest_refunds = (
            await refunds.newest_of_orders(tx, merchant_id, refunded) if refunded else {}
        )
        return [
            Listed(
                order,
                attempts.get(order.id),
                newest_disputes.get(order.id),
                newest_refunds.get(order.id),
            )
            for order in listed
        ]

    return await request.app.replica.reading().read(work) if listed else []
