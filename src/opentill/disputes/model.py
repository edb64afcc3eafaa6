"""Disputes, the table of their transitions and postings, and their views."""

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
Response = Literal["ACCEPTED", "CONTESTED"]
# The status of a dispute together with the merchant's response while it is open.
State = Literal["TO_RESPOND", "UNDER_REVIEW", "ACCEPTED", "WON", "LOST", "RECOVERED"]
STATUSES: Final[tuple[Status, ...]] = get_args(Status)
STATES: Final[tuple[State, ...]] = get_args(State)
# Response → the state of an open dispute.
OPEN_STATES: Final[dict[Response | None, State]] = {
    None: "TO_RESPOND",
    "CONTESTED": "UNDER_REVIEW",
    "ACCEPTED": "ACCEPTED",
}


class Transition(msgspec.Struct, frozen=True):
    """An allowed transition of a dispute, the transition of its order, and the emitted event."""

    source: Status | None
    event: Event
    target: Status
    order_event: orders.Event
    emits: webhooks.Type


# No other transition is possible (contract.md#dispute-transitions, contract.md#event-emitted).
TRANSITIONS: Final = (
    #    source  event        target       the order is    emits
    Transition(None, "opened", "OPEN", "disputed", "dispute.created"),
    Transition("OPEN", "won", "WON", "dispute_won", "dispute.closed"),
    Transition("OPEN", "lost", "LOST", "dispute_lost", "dispute.closed"),
    Transition("LOST", "recovered", "RECOVERED", "recovered", "dispute.closed"),
)
BY_EVENT: Final = {(row.source, row.event): row for row in TRANSITIONS}
# Maps the status that a gateway reports to the status of the dispute.
REPORTED: Final[dict[DisputeStatus, Status]] = {
    "OPENED": "OPEN",
    "WON": "WON",
    "LOST": "LOST",
    "RECOVERED": "RECOVERED",
}


def _path(target: Status) -> tuple[Transition, ...]:
    """Return the transitions by which a dispute reaches a status, the opening first."""
    last = next(row for row in TRANSITIONS if row.target == target)
    return (last,) if last.source is None else (*_path(last.source), last)


PATHS: Final = {status: _path(status) for status in STATUSES}


def transitions_to(target: Status, current: Status | None) -> tuple[Transition, ...] | None:
    """Return the transitions from a dispute's status to the one that its gateway reports.

    There are none for repeated and late events, and several for an event that overtook others.
    Returns None if the event contradicts an earlier one, such as a win after a loss.
    """
    statuses = [None, *(row.target for row in PATHS[target])]
    if current in statuses:
        return PATHS[target][statuses.index(current) :]
    is_late = current is not None and target in [row.target for row in PATHS[current]]
    return () if is_late else None


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
    respond_by: int | None  # deadline for evidence, Unix ms; None if it is unknown
    created_at: int
    updated_at: int
    closed_at: int | None
    response: Response | None = None  # of the merchant; None: not decided yet
    responded_at: int | None = None
    responded_by: str | None = None

    @property
    def responder(self) -> str:
        """The email address of the member who responded, "" if nobody did."""
        return (self.responded_by or "").partition(" (")[0]

    @property
    def outcome(self) -> Literal["", "WON", "LOST", "RECOVERED"]:
        """How the dispute ended, "" while it is open."""
        return "" if self.status == "OPEN" else self.status

    @property
    def state(self) -> State:
        """The status, and for an open dispute what the merchant has responded."""
        return OPEN_STATES[self.response] if self.status == "OPEN" else self.status

    @property
    def may_contest(self) -> bool:
        """Whether the merchant may still contest it."""
        return self.status == "OPEN" and self.response is None

    @property
    def may_accept(self) -> bool:
        """Whether the merchant may still accept it, also after having contested it."""
        return self.status == "OPEN" and self.response != "ACCEPTED"

    @property
    def takes_evidence(self) -> bool:
        """Whether the merchant may still add files and notes for the bank."""
        return self.state in ("TO_RESPOND", "UNDER_REVIEW")

    @property
    def may_remove_evidence(self) -> bool:
        """Whether files may be removed: the operator does not submit them before a response."""
        return self.state == "TO_RESPOND"

    @property
    def stands_in(self) -> Held:
        """The merchant's account from which a loss of the dispute is taken."""
        return "available" if self.disputed_from == "SETTLED" else "pending"

    @property
    def loss_minor(self) -> int:
        """The cost of losing the dispute: the debit and the fee, in the settled currency."""
        return self.debit_minor + self.fee_minor


class WaitingCases(msgspec.Struct, frozen=True, kw_only=True):
    """A merchant's open disputes without a response, their next deadline, unhandled refunds.

    ``dispute_id`` is one of them, and ``refunded_order_id`` the order of one of the refunds.
    """

    disputes: int
    respond_by: int | None
    failed_refunds: int
    dispute_id: str | None = None
    refunded_order_id: str | None = None


class Stake(msgspec.Struct, frozen=True, kw_only=True):
    """What a merchant loses with the open disputes in one currency, fees included."""

    currency: str
    loss_minor: int


class StateFilter(msgspec.Struct, frozen=True, kw_only=True):
    """Filter for disputes of a status, and of a response: "NONE" for none, None for any."""

    status: Status | None = None
    response: Response | Literal["NONE"] | None = None


class StateCount(msgspec.Struct, frozen=True):
    """How many disputes have a status and a response."""

    status: Status
    response: Response | None
    number: int

    @property
    def state(self) -> State:
        """The state that they have in common."""
        return OPEN_STATES[self.response] if self.status == "OPEN" else self.status


def filter_of(choice: State | Status | None) -> StateFilter:
    """Return the filter for a state; "OPEN" stands for all open disputes, None for all."""
    for response, state in OPEN_STATES.items():
        if state == choice:
            return StateFilter(status="OPEN", response=response or "NONE")
    return StateFilter(status=next((status for status in STATUSES if status == choice), None))


def recovered_at(dispute: Dispute, history: Sequence[orders.HistoryRow]) -> int:
    """Return when the bank returned the money of a RECOVERED dispute, Unix ms.

    ``history`` is the history of the dispute's order. If it has no such row any more, the time of
    the dispute's last change is returned.
    """
    times = (
        row.at for row in history if row.event == "recovered" and row.cause.startswith(dispute.id)
    )
    return next(times, dispute.updated_at)


# Texts of `closed_by` for events that were closed automatically; {} stands for a dispute's id or a
# reported status.
CLOSED_AS_MATCHED: Final = "matched by {}"
CLOSED_AS_UNDONE: Final = "{} at the gateway"
_AUTOMATIC: Final = re.compile(r"matched by dp_\w+|(?:won|recovered) at the gateway", re.ASCII)


class Unmatched(msgspec.Struct, frozen=True, kw_only=True):
    """A dispute event that cannot be applied to its order, stored until it can be.

    If the gateway took or returned money for the dispute, the ledger lacks that movement: see
    ``ATTENTION``.
    """

    merchant_id: str
    gateway: str
    gateway_ref: str
    order_id: str
    attempt_id: str
    status: DisputeStatus  # the status that the gateway has reported last
    amount_minor: int  # as reported, in minor units of ``currency``
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
    # `closed_by` of an earlier event of this dispute, None if there is none.
    closed_before: str | None

    @property
    def was_closed(self) -> str | None:
        """`closed_by` of this event or an earlier one; None if none was closed."""
        return self.closed_by or self.closed_before

    @property
    def dismissed_by(self) -> str | None:
        """The operator who closed this event or an earlier one; None if no operator did."""
        closed = self.was_closed
        return None if closed is None or _AUTOMATIC.fullmatch(closed) else closed


# Unmatched events with these statuses moved money at the gateway. Unless the event can be applied
# later, an operator has to correct the balance.
ATTENTION: Final[tuple[DisputeStatus, ...]] = ("WON", "LOST", "RECOVERED")


class Note(msgspec.Struct, frozen=True, kw_only=True):
    """A note about a dispute, such as the evidence sent to the bank."""

    merchant_id: str
    dispute_id: str
    number: int
    at: int
    who: str
    note: str
    by_merchant: bool  # whether a member of the merchant wrote it instead of the operator


def debit(order: orders.Order, amount_minor: int) -> int:
    """Return what losing a dispute about ``amount_minor`` of an order would take from the balance.

    The result is in minor units of the settled currency. If the dispute is about everything that is
    not refunded, it is exactly the payment's gross amount minus the debits of the refunds and the
    part of the fee that the merchant got back with them. It is 0 for a direct payment.
    """
    if order.paid_directly:
        return 0
    remaining_minor = order.amount_minor - order.refund_held_minor
    remaining_gross_minor = order.gross_settled_minor - order.refund_debit_minor
    currency = order.settled_currency
    if order.refund_fee_policy == "RETURNED":
        fee_minor = order.gross_settled_minor - order.net_settled_minor
        remaining_gross_minor -= money.share(
            fee_minor, order.refund_held_minor, order.amount_minor, currency
        )
    if amount_minor == remaining_minor:
        return max(0, remaining_gross_minor)
    return money.share(max(0, remaining_gross_minor), amount_minor, remaining_minor, currency)


def opened(dispute: Dispute) -> list[Movement]:
    """Return the movements of an opening: settled money is frozen; pending money does not move."""
    return _move_settled(dispute, "FREEZE", "available", "frozen", "Disputed")


def won(dispute: Dispute) -> list[Movement]:
    """Return the movements of a win: frozen money is released."""
    return _move_settled(dispute, "UNFREEZE", "frozen", "available", "Dispute won")


def lost(dispute: Dispute, offset_minor: int, released_minor: int) -> list[Movement]:
    """Return the movements of a loss; the reserve covers ``offset_minor`` of it.

    The rest of the reserve, ``released_minor``, has nothing left to cover and is released.
    """
    account = dispute.stands_in
    return [
        *_move_settled(dispute, "UNFREEZE", "frozen", "available", "Dispute lost"),
        *_move(dispute, "CHARGEBACK", account, "gateway", dispute.debit_minor, "Chargeback"),
        *_move(dispute, "CHARGEBACK_FEE", account, "platform", dispute.fee_minor, "Dispute fee"),
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
    """Return the movements of a recovery. The merchant gets the debit back, but not the fee."""
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


def _move_settled(
    dispute: Dispute, kind: PostingType, source: Account, target: Account, text: str
) -> list[Movement]:
    """Return the movement of the debit if the order had settled before the dispute, else none."""
    amount = dispute.debit_minor if dispute.disputed_from == "SETTLED" else 0
    return _move(dispute, kind, source, target, amount, text)


def _move(
    dispute: Dispute, kind: PostingType, source: Account, target: Account, amount: int, text: str
) -> list[Movement]:
    if not amount:
        return []
    return [Movement(kind, source, target, amount, "dispute", dispute.id, text)]


class NoteOut(msgspec.Struct, frozen=True, kw_only=True):
    """A note about a dispute."""

    at: Annotated[int, Meta(description="When it was noted, Unix ms.")]
    note: Annotated[str, Meta(description="What the operator or your team wrote.")]


class DisputeOut(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """A dispute in a list. Losing it takes ``debit`` and ``fee`` from the balance."""

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
    def from_dispute(cls, dispute: Dispute) -> Self:
        """Return the API's view of a dispute in a list."""
        return structs.convert(dispute, cls, **_amounts(dispute))


class DisputeDetail(DisputeOut, frozen=True, kw_only=True, rename="camel"):
    """A single dispute, with its notes, oldest first."""

    notes: Annotated[
        list[NoteOut],
        Meta(description="What the operator and your team noted about it, oldest first."),
    ]

    @classmethod
    def from_dispute(cls, dispute: Dispute, notes: list[Note] | None = None) -> Self:
        """Return the API's view of a dispute with its notes."""
        note_views = [NoteOut(at=note.at, note=note.note) for note in notes or ()]
        return structs.convert(dispute, cls, **_amounts(dispute), notes=note_views)


def _amounts(dispute: Dispute) -> dict[str, str]:
    return {
        "amount": money.show(dispute.amount_minor, dispute.currency),
        "debit": money.show(dispute.debit_minor, dispute.debit_currency),
        "fee": money.show(dispute.fee_minor, dispute.debit_currency),
    }
