"""Actions of staff on a payment: a table of them, and the offers with the amounts that they move.

An action calls the same service as its command of the command line. Person and reason are written
to the audit log.
"""

from collections.abc import Awaitable, Callable, Collection, Container, Iterable, Iterator, Mapping
from functools import partial
from typing import Final, Literal, get_args

import msgspec

from opentill import approvals, disputes, epay, gateways, merchants, orders, refunds
from opentill.core import amounts, money
from opentill.core.errors import NotFound
from opentill.core.money import Money
from opentill.core.settings import Settings
from opentill.db.database import Tx
from opentill.disputes import Dispute
from opentill.gateways import accounts as gateway_accounts
from opentill.gateways.model import RefundOutcome
from opentill.merchants import Actor
from opentill.merchants.fee_schedule import Scope
from opentill.orders import Order, Status
from opentill.people import Permission, command_permission
from opentill.portal.payment_details import Payment
from opentill.refunds import Refund
from opentill.web.translations import N_

ManualAction = Literal[
    "confirm", "refund-failed", "refund-reversed", "dispute-won", "dispute-recovered"
]


class ActionCall(msgspec.Struct, frozen=True):
    """Arguments of an action: the locked order, the fields of the form, and who acts."""

    settings: Settings
    order: Order
    form: Mapping[str, str]
    actor: Actor
    now: int

    @property
    def ids(self) -> tuple[str, str]:
        """The ids of the merchant and the order."""
        return self.order.merchant_id, self.order.id

    async def record(self, tx: Tx, action: str, subject: str) -> None:
        """Write a row of the audit log."""
        await merchants.record_audit(
            tx, self.actor, action, self.order.merchant_id, subject, self.now
        )


class Action(msgspec.Struct, frozen=True):
    """An action of staff. Its texts are in the tables of ``labels.py`` with ``PAYMENT_ACTION``."""

    name: str
    command: str  # the command that does the same and needs the same permission
    # Raises Invalid if the payment does not allow the action now.
    apply: Callable[[Tx, ActionCall], Awaitable[object]]

    @property
    def permission(self) -> Permission:
        """The permission that the action requires."""
        return command_permission(self.command)


class Offer(msgspec.Struct, frozen=True, kw_only=True):
    """An action that a payment allows now."""

    action: Action
    subject: str = ""  # the id of the refund, dispute or attempt, "" for the payment itself
    # the amounts that the action moves, each with a label
    moves: tuple[tuple[str, Money], ...] = ()
    most: Money | None = None  # the largest amount; None: the form has no amount
    # the amount that counts against the approval limit; None: the action needs no second person
    limited: Money | None = None

    @property
    def anchor(self) -> str:
        """The HTML id of the action's form."""
        return f"{self.action.name}-{self.subject}" if self.subject else self.action.name


def _check_order(order_id: str, call: ActionCall) -> None:
    """Raise NotFound unless the form's subject belongs to the order of the page."""
    if order_id != call.order.id:
        raise NotFound


async def _perform_manually(tx: Tx, call: ActionCall, *, action: ManualAction) -> object:
    """Perform an action that needs a second person above the limit."""
    subject = call.form.get("subject", "") or call.order.id
    merchant_id = call.order.merchant_id
    if action in {"refund-failed", "refund-reversed"}:
        order_id = (await refunds.find(tx, merchant_id, subject)).order_id
    elif action in {"dispute-won", "dispute-recovered"}:
        order_id = (await disputes.find(tx, merchant_id, subject)).order_id
    else:
        order_id = subject
    _check_order(order_id, call)
    action_request = approvals.ActionRequest(
        action=action, merchant_id=merchant_id, subject=subject, actor=call.actor
    )
    rules = approvals.Rules.from_settings(call.settings)
    return await approvals.perform(tx, action_request, rules, call.now)


async def _revoke(tx: Tx, call: ActionCall) -> object:
    await call.record(tx, "orders revoke", call.order.id)
    who, reason = call.actor.who, call.actor.reason
    return await orders.revoke_manually(tx, *call.ids, who, reason, call.now)


async def _end_refund(tx: Tx, call: ActionCall) -> object:
    merchant_id, refund_id = call.order.merchant_id, call.form.get("subject", "")
    refund = await refunds.find(tx, merchant_id, refund_id)
    _check_order(refund.order_id, call)
    outcome = RefundOutcome(status="SUCCEEDED")
    await call.record(tx, "refund succeeded", refund_id)
    reporting = await _reporting(tx, call)
    return await refunds.end_manually(
        tx, merchant_id, refund_id, outcome, call.now, reporting=reporting
    )


async def _reporting(tx: Tx, call: ActionCall) -> Container[str]:
    """Return the gateways and accounts that report the result of every refund themselves."""
    names = gateways.self_reporting(call.settings.gateways)
    return await gateway_accounts.with_self_reporting(tx, names)


async def _mark_refund_handled(tx: Tx, call: ActionCall) -> object:
    merchant_id, refund_id = call.order.merchant_id, call.form.get("subject", "")
    refund = await refunds.find(tx, merchant_id, refund_id)
    _check_order(refund.order_id, call)
    await call.record(tx, "refunds handled", refund_id)
    return await refunds.mark_handled(
        tx, merchant_id, refund_id, who=call.actor.who, how=call.actor.reason, now=call.now
    )


async def _record_given_back(tx: Tx, call: ActionCall) -> None:
    attempt_id = call.form.get("subject", "")
    await call.record(tx, "orders given-back", attempt_id)
    reporting = await _reporting(tx, call)
    await orders.record_duplicate_return(
        tx, *call.ids, attempt_id, call.actor, call.now, reporting=reporting
    )


async def _open_dispute(tx: Tx, call: ActionCall) -> object:
    await call.record(tx, "disputes open", call.order.id)
    currency = call.order.currency
    entry = amounts.parse_entry("amount", call.form.get("amount", ""), currency)
    return await disputes.open_manually(
        tx, *call.ids, who=call.actor.who, reason=call.actor.reason, now=call.now,
        amount_minor=money.parse(entry, currency),
    )  # fmt: skip


async def _lose_dispute(tx: Tx, call: ActionCall) -> object:
    merchant_id, dispute_id = call.order.merchant_id, call.form.get("subject", "")
    dispute = await disputes.find(tx, merchant_id, dispute_id)
    _check_order(dispute.order_id, call)
    await call.record(tx, "disputes lose", dispute_id)
    return await disputes.decide(
        tx, merchant_id, dispute_id, "lost",
        who=call.actor.who, reason=call.actor.reason, now=call.now,
    )  # fmt: skip


async def _notify(tx: Tx, call: ActionCall) -> object:
    return await epay.resend(tx, *call.ids, call.now, actor=call.actor)


CONFIRM: Final = Action("confirm", "orders confirm", partial(_perform_manually, action="confirm"))
REVOKE: Final = Action("revoke", "orders revoke", _revoke)
REFUND_DONE: Final = Action("refund-done", "refunds done", _end_refund)
REFUND_FAILED: Final = Action(
    "refund-failed", "refunds failed", partial(_perform_manually, action="refund-failed")
)
REFUND_REVERSED: Final = Action(
    "refund-reversed", "refunds reversed", partial(_perform_manually, action="refund-reversed")
)
REFUND_HANDLED: Final = Action("refund-handled", "refunds handled", _mark_refund_handled)
GIVEN_BACK: Final = Action("given-back", "orders given-back", _record_given_back)
DISPUTE_OPEN: Final = Action("dispute-open", "disputes open", _open_dispute)
DISPUTE_WON: Final = Action(
    "dispute-won", "disputes win", partial(_perform_manually, action="dispute-won")
)
DISPUTE_LOST: Final = Action("dispute-lost", "disputes lose", _lose_dispute)
DISPUTE_RECOVERED: Final = Action(
    "dispute-recovered", "disputes recover", partial(_perform_manually, action="dispute-recovered")
)
NOTIFY: Final = Action("notify", "epay resend", _notify)
ACTIONS: Final = (
    CONFIRM,
    REVOKE,
    REFUND_DONE,
    REFUND_FAILED,
    REFUND_REVERSED,
    REFUND_HANDLED,
    GIVEN_BACK,
    DISPUTE_OPEN,
    NOTIFY,
)
# The actions that a dispute's status allows.
_DECISIONS: Final[Mapping[str, tuple[Action, ...]]] = {
    "OPEN": (DISPUTE_WON, DISPUTE_LOST),
    "LOST": (DISPUTE_RECOVERED,),
}

# The outcomes of a dispute, which are recorded on its own page.
DISPUTE_ACTIONS: Final = (DISPUTE_WON, DISPUTE_LOST, DISPUTE_RECOVERED)


def state_token(order: Order) -> str:
    """Return a token of an order's present state. A form with another token is stale."""
    return f"{order.status}.{order.updated_at}"


def status_of_token(token: str) -> Status | None:
    """Return the status in a ``state_token``, None for any other text."""
    text = token.partition(".")[0]
    return next((status for status in get_args(Status) if status == text), None)


def list_offers(payment: Payment, adapters: Collection[str]) -> Iterator[Offer]:
    """Yield the actions that a payment allows now, without regard to permissions.

    ``adapters`` are the gateways and accounts of this process.
    """
    order = payment.order
    if orders.can(order, "confirmed"):
        yield _offer_confirmation(order)
    if orders.can(order, "voided"):
        yield Offer(action=REVOKE)
    reporting = gateways.self_reporting(adapters)
    yield from _offer_for_refunds(payment, reporting)
    for attempt in (a for a in payment.attempts if orders.needs_manual_return(a, reporting)):
        moves = ((N_("The customer has got back"), Money(attempt.amount_minor, attempt.currency)),)
        yield Offer(action=GIVEN_BACK, subject=attempt.id, moves=moves)
    unrefunded = Money(order.amount_minor - order.refund_held_minor, order.currency)
    if orders.can(order, "disputed") and unrefunded.minor > 0:
        yield Offer(action=DISPUTE_OPEN, most=unrefunded)
    if payment.notice is not None and order.paid_at is not None:
        yield Offer(action=NOTIFY)


def offer_decisions(dispute: Dispute) -> Iterator[Offer]:
    """Yield the outcomes that a dispute allows now."""
    for action in _DECISIONS.get(dispute.status, ()):
        yield _offer_for_dispute(action, dispute)


async def list_waiting(
    tx: Tx, order: Order, offers: Iterable[Offer], call: tuple[str, Settings, int]
) -> frozenset[str]:
    """Return the anchors of the offers that would wait for a second person now.

    ``call`` has the person who would act, the settings and the time.
    """
    who, settings, now = call
    rules, anchors = approvals.Rules.from_settings(settings), set[str]()
    for offer in offers:
        if offer.limited is None:
            continue
        # A payment that its customer has reported needs no second person.
        if offer.action is CONFIRM and await orders.awaits_confirmation(tx, order):
            continue
        amount = offer.limited.minor, offer.limited.currency
        if await approvals.will_wait(tx, order.merchant_id, who, amount, rules, now):
            anchors.add(offer.anchor)
    return frozenset(anchors)


def _offer_for_refunds(payment: Payment, reporting: Collection[str]) -> Iterator[Offer]:
    gateway_of = {attempt.id: attempt.gateway for attempt in payment.attempts}
    for refund in payment.refunds:
        if refund.status == "PROCESSING" and gateway_of.get(refund.attempt_id) not in reporting:
            yield from _offer_for_refund(refund)
        elif refund.status == "SUCCEEDED":
            debit = Money(refund.debit_minor, refund.debit_currency)
            moves = ((N_("Returns to the merchant’s balance"), debit),)
            yield Offer(action=REFUND_REVERSED, subject=refund.id, moves=moves, limited=debit)
        elif refund.needs_attention:
            yield Offer(action=REFUND_HANDLED, subject=refund.id)


def _offer_confirmation(unpaid: Order) -> Offer:
    order = orders.with_fee_of(unpaid, Scope(method="BANK_TRANSFER", currency=unpaid.currency))
    settled = order.settled_currency
    fee = order.gross_settled_minor - order.net_settled_minor
    moves = (
        (N_("Counts as received"), Money(order.amount_minor, order.currency)),
        (N_("Fee of the platform"), Money(fee, settled)),
        (N_("The merchant’s pending balance gains"), Money(order.net_settled_minor, settled)),
    )
    return Offer(action=CONFIRM, moves=moves, limited=Money(order.gross_settled_minor, settled))


def _offer_for_refund(refund: Refund) -> Iterator[Offer]:
    debit = Money(refund.debit_minor, refund.debit_currency)
    paid_back = (N_("The customer has got back"), Money(refund.amount_minor, refund.currency))
    unfrozen = (N_("Leaves the merchant’s money on hold"), debit)
    yield Offer(action=REFUND_DONE, subject=refund.id, moves=(paid_back, unfrozen))
    released = (N_("Returns to the merchant’s balance"), debit)
    yield Offer(action=REFUND_FAILED, subject=refund.id, moves=(released,), limited=debit)


def _offer_for_dispute(action: Action, dispute: Dispute) -> Offer:
    debit = Money(dispute.debit_minor, dispute.debit_currency)
    moves: dict[str, tuple[tuple[str, Money], ...]] = {
        DISPUTE_WON.name: ((N_("The merchant keeps"), debit),),
        DISPUTE_LOST.name: (
            (N_("The merchant loses"), debit),
            (N_("Dispute fee"), Money(dispute.fee_minor, dispute.debit_currency)),
            (N_("In total"), Money(debit.minor + dispute.fee_minor, dispute.debit_currency)),
        ),
        DISPUTE_RECOVERED.name: ((N_("Returns to the merchant’s balance"), debit),),
    }
    limited = {
        DISPUTE_WON.name: debit,
        DISPUTE_RECOVERED.name: Money(dispute.loss_minor, dispute.debit_currency),
    }
    return Offer(
        action=action,
        subject=dispute.id,
        moves=moves[action.name],
        limited=limited.get(action.name),
    )
