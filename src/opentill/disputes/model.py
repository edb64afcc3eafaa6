"""What a dispute is, the table of its transitions, what they post, and its shapes on the wire."""

import re
from collections.abc import Sequence
from typing import Annotated, Final, Literal, Self, get_args

import msgspec
from msgspec import Meta

from opentill import orders, webhooks
from opentill.core import money, structs
from opentill.gateways.model import DisputeStatus
from opentill.http.fields import CreatedAt, DecimalText, UpdatedAt
from opentill.ledger import Account, Held, Movement
from opentill.ledger import Type as PostingType

Status = Literal["OPEN", "WON", "LOST", "RECOVERED"]
Event = Literal["opened", "won", "lost", "recovered"]
STATUSES: Final[tuple[Status, ...]] = get_args(Status)


class Transition(msgspec.Struct, frozen=True):
    """One allowed transition of a dispute, that of its order, and the event it emits."""

    source: Status | None
    event: Event
    target: Status
    order_event: orders.Event
    emits: webhooks.Type


# contract.md#dispute-transitions, contract.md#event-emitted. What is not here cannot happen.
TRANSITIONS: Final = (
    #    source  event        target       the order is    emits
    Transition(None, "opened", "OPEN", "disputed", "dispute.created"),
    Transition("OPEN", "won", "WON", "dispute_won", "dispute.closed"),
    Transition("OPEN", "lost", "LOST", "dispute_lost", "dispute.closed"),
    Transition("LOST", "recovered", "RECOVERED", "recovered", "dispute.closed"),
)
BY_EVENT: Final = {(row.source, row.event): row for row in TRANSITIONS}
# The status of a dispute by what its gateway reports.
REPORTED: Final[dict[DisputeStatus, Status]] = {
    "OPENED": "OPEN",
    "WON": "WON",
    "LOST": "LOST",
    "RECOVERED": "RECOVERED",
}


def _path(target: Status) -> tuple[Transition, ...]:
    """Return the transitions that lead from nothing to a status."""
    last = next(row for row in TRANSITIONS if row.target == target)
    return (last,) if last.source is None else (*_path(last.source), last)


PATHS: Final = {status: _path(status) for status in STATUSES}


def transitions_to(target: Status, current: Status | None) -> tuple[Transition, ...] | None:
    """Return the transitions from a dispute's status to the one that its gateway reports.

    An empty tuple for repeated and late events; several for an event that overtook others. None
    where the event contradicts what was applied before, such as a win after a loss.
    """
    reached = [None, *(row.target for row in PATHS[target])]
    if current in reached:
        return PATHS[target][reached.index(current) :]
    overtaken = current is not None and target in [row.target for row in PATHS[current]]
    return () if overtaken else None


class Dispute(msgspec.Struct, frozen=True, kw_only=True):
    """A dispute as it is stored; amounts in minor units."""

    merchant_id: str
    id: str
    order_id: str
    attempt_id: str
    gateway: str
    gateway_ref: str | None
    status: Status
    amount_minor: int
    currency: str
    debit_minor: int
    fee_minor: int
    debit_currency: str
    disputed_from: Literal["PAID", "SETTLED"]
    offset_minor: int
    reason: str
    respond_by: int | None  # until when evidence counts, Unix ms; None if nobody has said
    created_at: int
    updated_at: int
    closed_at: int | None

    @property
    def stands_in(self) -> Held:
        """The merchant's account that the dispute takes from."""
        return "available" if self.disputed_from == "SETTLED" else "pending"

    @property
    def loss_minor(self) -> int:
        """What losing the dispute costs: the debit and the fee, in the settled currency."""
        return self.debit_minor + self.fee_minor


def recovered_at(dispute: Dispute, history: Sequence[orders.HistoryRow]) -> int:
    """Return when the bank returned the money of a RECOVERED dispute, Unix ms.

    ``history`` is its order's. Where that is pruned, it is when the dispute was changed last.
    """
    times = (
        row.at for row in history if row.event == "recovered" and row.cause.startswith(dispute.id)
    )
    return next(times, dispute.updated_at)


# How an unmatched event is closed where no operator does it.
CLOSED_AS_MATCHED: Final = "matched by {}"
CLOSED_AS_UNDONE: Final = "{} at the gateway"
_BY_ITSELF: Final = re.compile(r"matched by dp_\w+|(?:won|recovered) at the gateway", re.ASCII)


class Unmatched(msgspec.Struct, frozen=True, kw_only=True):
    """A dispute event that cannot be applied to its order, stored until it can be.

    The ledger does not have money that the gateway took or returned by it: see ``ATTENTION``.
    """

    merchant_id: str
    gateway: str
    gateway_ref: str
    order_id: str
    attempt_id: str
    status: DisputeStatus  # the last that the gateway reported
    amount_minor: int  # as the gateway names it, in its own currency
    currency: str
    reason: str
    respond_by: int | None
    refusal: str
    try_at: int
    tries: int
    created_at: int
    updated_at: int
    closed_at: int | None
    closed_by: str | None
    closed_before: str | None  # how an earlier event was closed, if this one is newer

    @property
    def was_closed(self) -> str | None:
        """Who closed this event or an earlier one, or what became of it; None if nobody did."""
        return self.closed_by or self.closed_before

    @property
    def dismissed_by(self) -> str | None:
        """The operator who closed this event or an earlier one, if it was one."""
        closed = self.was_closed
        return None if closed is None or _BY_ITSELF.fullmatch(closed) else closed


# Unmatched events by which money moved at the gateway: an operator has to correct the balance,
# unless the event can be applied after all.
ATTENTION: Final[tuple[DisputeStatus, ...]] = ("WON", "LOST", "RECOVERED")


class Note(msgspec.Struct, frozen=True, kw_only=True):
    """A note about a dispute, such as the evidence sent to the bank."""

    merchant_id: str
    dispute_id: str
    number: int
    at: int
    who: str
    note: str
    by_merchant: bool  # a member of the merchant wrote it, and not the operator


def debit(order: orders.Order, amount_minor: int) -> int:
    """Return what a dispute of ``amount_minor`` of an order takes, in the settled currency.

    A dispute of all that is left takes exactly what refunds have left of the payment's gross. What
    a refund took of it is its debit and the part of the fee that was returned with it.
    """
    left = order.amount_minor - order.refund_held_minor
    rest = order.gross_settled_minor - order.refund_debit_minor
    currency = order.settled_currency
    if order.refund_fee_policy == "RETURNED":
        fee = order.gross_settled_minor - order.net_settled_minor
        rest -= money.share(fee, order.refund_held_minor, order.amount_minor, currency)
    if amount_minor == left:
        return max(0, rest)
    return money.share(max(0, rest), amount_minor, left, currency)


def opened(dispute: Dispute) -> list[Movement]:
    """Return what opening posts: settled money is frozen; pending money only does not settle."""
    return _frozen(dispute, "FREEZE", "available", "frozen", "Disputed")


def won(dispute: Dispute) -> list[Movement]:
    """Return what winning posts."""
    return _frozen(dispute, "UNFREEZE", "frozen", "available", "Dispute won")


def lost(dispute: Dispute, offset_minor: int, released_minor: int) -> list[Movement]:
    """Return what losing posts: the loss, and the reserve that covers it.

    The part of the reserve that the loss does not use is released: it has nothing left to cover.
    """
    where = dispute.stands_in
    return [
        *_frozen(dispute, "UNFREEZE", "frozen", "available", "Dispute lost"),
        *_move(dispute, "CHARGEBACK", where, "gateway", dispute.debit_minor, "Chargeback"),
        *_move(dispute, "CHARGEBACK_FEE", where, "platform", dispute.fee_minor, "Chargeback fee"),
        *_move(
            dispute, "ROLLING_RESERVE_OFFSET", "reserve", "available", offset_minor,
            "Rolling reserve covers the chargeback",
        ),
        *_move(
            dispute, "ROLLING_RESERVE_RELEASE", "reserve", "available", released_minor,
            "Rest of the rolling reserve released",
        ),
    ]  # fmt: skip


def recovered(dispute: Dispute) -> list[Movement]:
    """Return what recovering posts; the fee stays lost."""
    text = "Chargeback recovered"
    return [
        *_move(
            dispute, "CHARGEBACK_RECOVERY", "gateway", "available", dispute.debit_minor, text
        ),
        *_move(
            dispute, "ROLLING_RESERVE_RECOVERY", "available", "reserve", dispute.offset_minor,
            "Rolling reserve held again",
        ),
    ]  # fmt: skip


def _frozen(
    dispute: Dispute, kind: PostingType, source: Account, target: Account, text: str
) -> list[Movement]:
    frozen = dispute.debit_minor if dispute.disputed_from == "SETTLED" else 0
    return _move(dispute, kind, source, target, frozen, text)


def _move(
    dispute: Dispute, kind: PostingType, source: Account, target: Account, amount: int, text: str
) -> list[Movement]:
    if not amount:
        return []
    return [Movement(kind, source, target, amount, "dispute", dispute.id, text)]


class NoteOut(msgspec.Struct, frozen=True, kw_only=True):
    """What somebody noted about a dispute, and when."""

    at: Annotated[int, Meta(description="When it was noted, Unix ms.")]
    note: Annotated[str, Meta(description="What the operator or your team wrote.")]


class DisputeOut(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """A dispute in a list; ``debit`` and ``fee`` are what losing it takes."""

    id: Annotated[str, Meta(description="The dispute's id.")]
    order_id: Annotated[str, Meta(description="The order whose payment the customer disputes.")]
    status: Annotated[
        Status,
        Meta(
            description="`OPEN`: the bank has not decided. `WON`: you keep the money. `LOST`: the"
            " customer has it back. `RECOVERED`: it was lost, and came back later."
        ),
    ]
    amount: Annotated[
        DecimalText, Meta(description="What the customer disputes, in the currency they paid in.")
    ]
    currency: Annotated[str, Meta(description="The currency of the amount: the order's.")]
    debit: Annotated[
        DecimalText, Meta(description="What losing takes from your balance, without the fee.")
    ]
    fee: Annotated[DecimalText, Meta(description="What losing costs beside it.")]
    debit_currency: Annotated[
        str, Meta(description="The currency of `debit` and `fee`: your settlement currency.")
    ]
    reason: Annotated[
        str, Meta(description="The customer's reason, as the bank gave it. Empty if it gave none.")
    ]
    respond_by: Annotated[
        int | None,
        Meta(
            description="Until when evidence counts, Unix ms. Null if neither the bank nor the"
            " operator has named a time."
        ),
    ]
    created_at: CreatedAt
    updated_at: UpdatedAt
    closed_at: Annotated[
        int | None, Meta(description="When it was decided, Unix ms. Null while it is open.")
    ]

    @classmethod
    def of(cls, dispute: Dispute) -> Self:
        """Show a dispute as a list does."""
        return structs.convert(dispute, cls, **_amounts(dispute))


class DisputeDetail(DisputeOut, frozen=True, kw_only=True, rename="camel"):
    """A single dispute, with its notes, oldest first."""

    notes: Annotated[
        list[NoteOut],
        Meta(description="What the operator and your team noted about it, oldest first."),
    ]

    @classmethod
    def of(cls, dispute: Dispute, notes: list[Note] | None = None) -> Self:
        """Show a dispute with everything."""
        shown = [NoteOut(at=note.at, note=note.note) for note in notes or ()]
        return structs.convert(dispute, cls, **_amounts(dispute), notes=shown)


def _amounts(dispute: Dispute) -> dict[str, str]:
    return {
        "amount": money.show(dispute.amount_minor, dispute.currency),
        "debit": money.show(dispute.debit_minor, dispute.debit_currency),
        "fee": money.show(dispute.fee_minor, dispute.debit_currency),
    }


class UnmatchedOut(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """An unmatched event as the command line shows it; ``amount`` as the gateway names it."""

    merchant_id: str
    gateway: str
    gateway_ref: str
    order_id: str
    status: DisputeStatus
    amount: str
    currency: str
    reason: str
    refusal: str
    created_at: int
    closed_at: int | None
    closed_by: str | None

    @classmethod
    def of(cls, kept: Unmatched) -> Self:
        """Show an unmatched event; an amount that cannot be shown says how many minor units."""
        named = (kept.amount_minor, kept.currency)
        return structs.convert(kept, cls, amount=money.shown(*named) or money.named(*named))
