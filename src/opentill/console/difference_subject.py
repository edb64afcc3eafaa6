"""What a difference is about: its page in the console, and the correction that would resolve it."""

from typing import Final

import msgspec

from opentill import merchants, orders, payouts, reconciliation
from opentill.adjustments import AdjustmentRequest
from opentill.console.difference_texts import amounts_of
from opentill.console.payout_labels import PAYOUT_STATUS, RETURNED_PAYOUT
from opentill.core.errors import Invalid, NotFound
from opentill.db.database import Tx
from opentill.merchants import Actor
from opentill.payouts import RunOfPayout
from opentill.portal.labels import SHOWN_STATUS
from opentill.portal.request import PageRequest
from opentill.reconciliation import OpenDifference
from opentill.web.translations import N_

# The sign with which the money of an item counts for its merchant; other kinds get no proposal.
_SIGNS: Final = {"payment": 1, "recovery": 1, "refund": -1, "chargeback": -1}
_LINK_TEXTS: Final = {
    "payment": N_("View the payment"),
    "refund": N_("View the payment of the refund"),
    "refund_failure": N_("View the payment of the refund"),
    "chargeback": N_("View the dispute"),
    "recovery": N_("View the dispute"),
}
_UNKNOWN: Final = {
    "payment": N_(
        "The books have no payment with this reference. Look for a payment of the same amount and "
        "day: if the customer has paid it, mark it as paid. If there is none, ask the provider "
        "whose money it is. Resolve the difference with what you find."
    ),
    "refund": N_(
        "The books have no refund with this reference. If it was made at the provider, record it "
        "with “opentill refunds record”. Then resolve the difference."
    ),
    "refund_failure": N_(
        "The books have no refund with this reference. Look for the payment, and reverse its "
        "refund if the money came back. Then resolve the difference."
    ),
    "chargeback": N_(
        "The books have no dispute with this reference. Look for the payment, and open a dispute "
        "on its page. Then resolve the difference."
    ),
    "payout": N_(
        "The books have no payout with this reference. If the bank names it otherwise, look for "
        "its amount in the list of payouts and record the result there. Then resolve the "
        "difference."
    ),
}
_UNKNOWN_OTHERS: Final = N_(
    "The books have no entry with this reference. Ask the provider what it is about, and resolve "
    "the difference with its explanation."
)


class Subject(msgspec.Struct, frozen=True, kw_only=True):
    """What a difference is about. ``order_id`` and ``href`` are "" if the books have no such item.

    ``correction_minor`` is what the merchant's balance lacks, in its settlement currency; None if
    nothing can be proposed.
    """

    order_id: str = ""
    href: str = ""
    link_text: str = ""
    advice: str = ""  # what to do if the books have no such item
    present: str = ""  # the item's status now, a message id; "" if it has none
    run: RunOfPayout | None = None  # of a payout
    correction_minor: int | None = None
    currency: str = ""

    def correction(self, actor: Actor, reference: str) -> AdjustmentRequest:
        """Return the proposed correction. Raises Invalid if there is none."""
        if self.correction_minor is None:
            raise Invalid("correction", "correction must be one that the page proposes")
        return AdjustmentRequest(
            kind="correct",
            amount_minor=self.correction_minor,
            reason=actor.reason,
            by=actor.who,
            reference=reference,
            order_id=self.order_id,
        )


async def find_subject(tx: Tx, request: PageRequest, difference: OpenDifference) -> Subject:
    """Return what a difference is about."""
    if difference.source == reconciliation.BANK:
        return await _find_payout(tx, request, difference)
    item = await reconciliation.find_item(tx, difference)
    if item is None:
        advice = _UNKNOWN.get(difference.kind, _UNKNOWN_OTHERS)
        return Subject(advice=advice if difference.what == "missing in ledger" else "")
    try:
        order = await orders.find_by_anything(tx, item.id)
    except (NotFound, Invalid):
        return Subject()
    is_dispute = item.kind in {"chargeback", "recovery"}
    if is_dispute and request.may("disputes.read"):
        href = request.console("disputes", item.id)
    else:
        href = request.console("payments", order.id) if request.may("payments.read") else ""
    subject = Subject(
        order_id=order.id,
        href=href,
        present="" if is_dispute else SHOWN_STATUS[order.shown_status],
        link_text=_LINK_TEXTS[item.kind if is_dispute and href else _without_dispute(item.kind)],
    )
    merchant_id = difference.merchant_id
    if not merchant_id or order.merchant_id != merchant_id or item.kind != difference.kind:
        return subject
    currency = (await merchants.find(tx, merchant_id)).settlement_currency
    minor = _correction(difference, currency) if reconciliation.is_settled(item) else None
    return msgspec.structs.replace(subject, correction_minor=minor, currency=currency)


def _without_dispute(kind: str) -> str:
    return "refund" if kind in {"refund", "refund_failure"} else "payment"


def _correction(difference: OpenDifference, currency: str) -> int | None:
    """Return what a merchant's balance lacks according to the report; None if it is uncertain.

    Rows that a report has twice, and amounts in another currency than the balance, need a person.
    """
    sign = _SIGNS.get(difference.kind)
    ours, theirs = amounts_of(difference)
    if sign is None or ours is None or ours.currency != currency:
        return None
    if difference.what == "missing in report":
        minor = -ours.minor
    elif difference.what == "different" and theirs is not None and theirs.currency == currency:
        minor = theirs.minor - ours.minor
    else:
        return None
    return sign * minor or None


async def _find_payout(tx: Tx, request: PageRequest, difference: OpenDifference) -> Subject:
    reference = difference.reference
    payout_id, run_id = reconciliation.payout_id_of(reference), reconciliation.run_id_of(reference)
    may_read = request.may("payouts.read")
    if payout_id and (paid_out := await payouts.find_many(tx, [payout_id])):
        (payout,), runs = paid_out, await payouts.find_runs_of_payouts(tx, paid_out)
        return Subject(
            href=request.console("payouts", payout_id) if may_read else "",
            link_text=N_("View the payout"),
            present=RETURNED_PAYOUT if payout.is_returned else PAYOUT_STATUS[payout.status],
            run=runs.get((payout.merchant_id, payout.id)) if may_read else None,
        )
    if run_id and difference.what != "missing in ledger":  # else there is no such run
        href = request.console("payout-runs", run_id) if may_read else ""
        return Subject(href=href, link_text=N_("View the payout run"))
    return Subject(advice=_UNKNOWN["payout"] if difference.what == "missing in ledger" else "")
