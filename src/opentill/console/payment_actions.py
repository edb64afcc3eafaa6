"""What staff can do to a payment: a table of actions, and what each moves.

An action calls the service that the command line calls, and names the person with their reason in
the audit log.
"""

from collections.abc import Awaitable, Callable, Iterator, Mapping
from functools import partial
from typing import Final, Literal, get_args

import msgspec

from opentill import approvals, disputes, epay, gateways, merchants, orders, refunds
from opentill.core import money
from opentill.core.errors import Invalid, NotFound
from opentill.core.money import Money
from opentill.core.settings import Settings
from opentill.db.database import Tx
from opentill.disputes import Dispute
from opentill.gateways.model import RefundOutcome
from opentill.merchants import Actor
from opentill.merchants.fees import Scope
from opentill.orders import Order, Status
from opentill.people import Permission, command_permission
from opentill.portal.payment_details import Payment
from opentill.refunds import Refund
from opentill.web.translations import N_

ManualAction = Literal[
    "confirm", "refund-failed", "refund-reversed", "dispute-won", "dispute-recovered"
]


class Given(msgspec.Struct, frozen=True):
    """What an action is given: the order, locked, the fields of the form, and who acts."""

    settings: Settings
    order: Order
    form: Mapping[str, str]
    actor: Actor
    now: int

    @property
    def ids(self) -> tuple[str, str]:
        """The merchant's id and the order's."""
        return self.order.merchant_id, self.order.id

    async def record(self, tx: Tx, action: str, subject: str) -> None:
        """Write the audit log."""
        await merchants.record_audit(
            tx, self.actor, action, self.order.merchant_id, subject, self.now
        )


class Action(msgspec.Struct, frozen=True):
    """One thing that can be done; ``apply`` raises Invalid where it cannot be any more.

    ``command`` does the same, for the same roles. ``payment_do_NAME``, ``payment_text_NAME`` and
    ``payment_done_NAME`` are its sentences.
    """

    name: str
    command: str
    apply: Callable[[Tx, Given], Awaitable[object]]

    @property
    def permission(self) -> Permission:
        """What it takes."""
        return command_permission(self.command)


class Offer(msgspec.Struct, frozen=True, kw_only=True):
    """An action that a payment allows now, of the refund or dispute ``subject``, "" for itself.

    ``moves`` says what it moves: pairs of a sentence's key and an amount. With ``most`` the form
    asks for an amount up to that.
    """

    action: Action
    subject: str = ""
    moves: tuple[tuple[str, Money], ...] = ()
    most: Money | None = None

    @property
    def anchor(self) -> str:
        """What its form is called on the page."""
        return f"{self.action.name}-{self.subject}" if self.subject else self.action.name


async def _manual(tx: Tx, given: Given, *, action: ManualAction) -> object:
    """Do what needs a second person above the limit: of the order, or of its refund or dispute."""
    subject = given.form.get("subject", "") or given.order.id
    merchant_id = given.order.merchant_id
    if action in {"refund-failed", "refund-reversed"}:
        order_id = (await refunds.find(tx, merchant_id, subject)).order_id
    elif action in {"dispute-won", "dispute-recovered"}:
        order_id = (await disputes.find(tx, merchant_id, subject)).order_id
    else:
        order_id = subject
    if order_id != given.order.id:
        raise NotFound
    asked = approvals.ActionRequest(
        action=action, merchant_id=merchant_id, subject=subject, actor=given.actor
    )
    return await approvals.perform(
        tx, asked, approvals.Rules.from_settings(given.settings), given.now
    )


async def _revoke(tx: Tx, given: Given) -> object:
    await given.record(tx, "orders revoke", given.order.id)
    who, why = given.actor.who, given.actor.reason
    return await orders.revoke_manually(tx, *given.ids, who, why, given.now)


async def _refund_done(tx: Tx, given: Given) -> object:
    merchant_id, refund_id = given.order.merchant_id, given.form.get("subject", "")
    refund = await refunds.find(tx, merchant_id, refund_id)
    if refund.order_id != given.order.id:
        raise NotFound
    outcome = RefundOutcome(status="SUCCEEDED")
    await given.record(tx, "refund succeeded", refund_id)
    reporting = gateways.self_reporting(given.settings.gateways)
    return await refunds.end_manually(
        tx, merchant_id, refund_id, outcome, given.now, reporting=reporting
    )


async def _given_back(tx: Tx, given: Given) -> None:
    attempt_id = given.form.get("subject", "")
    await given.record(tx, "orders given-back", attempt_id)
    reporting = gateways.self_reporting(given.settings.gateways)
    await orders.record_duplicate_return(
        tx, *given.ids, attempt_id, given.actor, given.now, reporting=reporting
    )


async def _open_dispute(tx: Tx, given: Given) -> object:
    await given.record(tx, "disputes open", given.order.id)
    try:
        minor = money.parse(given.form.get("amount", "").strip(), given.order.currency)
    except ValueError as error:
        raise Invalid("amount", f"amount {error}") from None
    return await disputes.open_manually(
        tx, *given.ids, who=given.actor.who, reason=given.actor.reason, now=given.now,
        amount_minor=minor,
    )  # fmt: skip


async def _lose(tx: Tx, given: Given) -> object:
    merchant_id, dispute_id = given.order.merchant_id, given.form.get("subject", "")
    dispute = await disputes.find(tx, merchant_id, dispute_id)
    if dispute.order_id != given.order.id:
        raise NotFound
    await given.record(tx, "disputes lose", dispute_id)
    return await disputes.decide(
        tx, merchant_id, dispute_id, "lost",
        who=given.actor.who, reason=given.actor.reason, now=given.now,
    )  # fmt: skip


async def _notify(tx: Tx, given: Given) -> object:
    return await epay.resend(tx, *given.ids, given.now, actor=given.actor)


CONFIRM: Final = Action("confirm", "orders confirm", partial(_manual, action="confirm"))
REVOKE: Final = Action("revoke", "orders revoke", _revoke)
REFUND_DONE: Final = Action("refund-done", "refunds done", _refund_done)
REFUND_FAILED: Final = Action(
    "refund-failed", "refunds failed", partial(_manual, action="refund-failed")
)
REFUND_REVERSED: Final = Action(
    "refund-reversed", "refunds reversed", partial(_manual, action="refund-reversed")
)
GIVEN_BACK: Final = Action("given-back", "orders given-back", _given_back)
DISPUTE_OPEN: Final = Action("dispute-open", "disputes open", _open_dispute)
DISPUTE_WON: Final = Action("dispute-won", "disputes win", partial(_manual, action="dispute-won"))
DISPUTE_LOST: Final = Action("dispute-lost", "disputes lose", _lose)
DISPUTE_RECOVERED: Final = Action(
    "dispute-recovered", "disputes recover", partial(_manual, action="dispute-recovered")
)
NOTIFY: Final = Action("notify", "epay resend", _notify)
ACTIONS: Final = (
    CONFIRM,
    REVOKE,
    REFUND_DONE,
    REFUND_FAILED,
    REFUND_REVERSED,
    GIVEN_BACK,
    DISPUTE_OPEN,
    DISPUTE_WON,
    DISPUTE_LOST,
    DISPUTE_RECOVERED,
    NOTIFY,
)
# What a dispute's status allows.
_DECISIONS: Final[Mapping[str, tuple[Action, ...]]] = {
    "OPEN": (DISPUTE_WON, DISPUTE_LOST),
    "LOST": (DISPUTE_RECOVERED,),
}


def seen(order: Order) -> str:
    """Return what a form was made of: as long as the order is so, it may be sent."""
    return f"{order.status}.{order.updated_at}"


def status_of(shown: str) -> Status | None:
    """Return the status of ``seen``'s text, None for any other text."""
    status = shown.partition(".")[0]
    return next((one for one in get_args(Status) if one == status), None)


def offers(payment: Payment, settings: Settings) -> Iterator[Offer]:
    """Yield what a payment allows now, whoever asks."""
    order = payment.order
    if orders.can(order, "confirmed"):
        yield _confirmation(order)
    if orders.can(order, "voided"):
        yield Offer(action=REVOKE)
    yield from _of_refunds(payment, settings)
    reporting = gateways.self_reporting(settings.gateways)
    for attempt in (one for one in payment.attempts if orders.needs_manual_return(one, reporting)):
        moves = ((N_("The customer has got back"), Money(attempt.amount_minor, attempt.currency)),)
        yield Offer(action=GIVEN_BACK, subject=attempt.id, moves=moves)
    left = Money(order.amount_minor - order.refund_held_minor, order.currency)
    if orders.can(order, "disputed") and left.minor > 0:
        yield Offer(action=DISPUTE_OPEN, most=left)
    for dispute in payment.disputes:
        for action in _DECISIONS.get(dispute.status, ()):
            yield _of_dispute(action, dispute)
    if payment.notice is not None and order.paid_at is not None:
        yield Offer(action=NOTIFY)


def _of_refunds(payment: Payment, settings: Settings) -> Iterator[Offer]:
    reporting = gateways.self_reporting(settings.gateways)
    gateway_of = {attempt.id: attempt.gateway for attempt in payment.attempts}
    for refund in payment.refunds:
        if refund.status == "PROCESSING" and gateway_of.get(refund.attempt_id) not in reporting:
            yield from _of_refund(refund)
        elif refund.status == "SUCCEEDED":
            debit = Money(refund.debit_minor, refund.debit_currency)
            moves = ((N_("Returns to the merchant’s balance"), debit),)
            yield Offer(action=REFUND_REVERSED, subject=refund.id, moves=moves)


def _confirmation(unpaid: Order) -> Offer:
    order = orders.with_fee_of(unpaid, Scope(method="BANK_TRANSFER", currency=unpaid.currency))
    settled = order.settled_currency
    fee = order.gross_settled_minor - order.net_settled_minor
    moves = (
        (N_("Counts as received"), Money(order.amount_minor, order.currency)),
        (N_("Fee of the platform"), Money(fee, settled)),
        (N_("The merchant’s pending balance gains"), Money(order.net_settled_minor, settled)),
    )
    return Offer(action=CONFIRM, moves=moves)


def _of_refund(refund: Refund) -> Iterator[Offer]:
    held = Money(refund.debit_minor, refund.debit_currency)
    back = (N_("The customer has got back"), Money(refund.amount_minor, refund.currency))
    left = (N_("Leaves the merchant’s frozen balance"), held)
    yield Offer(action=REFUND_DONE, subject=refund.id, moves=(back, left))
    returned = (N_("Returns to the merchant’s balance"), held)
    yield Offer(action=REFUND_FAILED, subject=refund.id, moves=(returned,))


def _of_dispute(action: Action, dispute: Dispute) -> Offer:
    debit = Money(dispute.debit_minor, dispute.debit_currency)
    moves: dict[str, tuple[tuple[str, Money], ...]] = {
        DISPUTE_WON.name: ((N_("The merchant keeps"), debit),),
        DISPUTE_LOST.name: (
            (N_("The merchant loses"), debit),
            (N_("And the fee of the dispute"), Money(dispute.fee_minor, dispute.debit_currency)),
        ),
        DISPUTE_RECOVERED.name: ((N_("Returns to the merchant’s balance"), debit),),
    }
    return Offer(action=action, subject=dispute.id, moves=moves[action.name])
