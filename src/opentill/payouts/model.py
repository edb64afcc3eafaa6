"""What a payout is, the table of its transitions, and its shape on the wire."""

from typing import Annotated, Final, Literal, Self, get_args

import msgspec
from msgspec import Meta

from opentill import webhooks
from opentill.core import money, structs
from opentill.http.fields import CreatedAt, UpdatedAt
from opentill.ledger import Movement
from opentill.ledger import Type as PostingType

Status = Literal["PENDING", "PAID", "FAILED"]
Event = Literal["created", "paid", "failed"]
STATUSES: Final[tuple[Status, ...]] = get_args(Status)
EVENTS: Final[tuple[Event, ...]] = get_args(Event)


class Transition(msgspec.Struct, frozen=True):
    """One allowed transition of a payout, its postings (no fee where there is none) and event."""

    source: Status | None
    event: Event
    target: Status
    postings: tuple[PostingType, ...] = ()
    emits: webhooks.Type | None = None


# contract.md#payout-transitions, contract.md#event-emitted. What is not here cannot happen.
TRANSITIONS: Final = (
    #    source     event      target     postings     emits
    Transition(None, "created", "PENDING", ("PAYOUT", "FEE")),
    Transition("PENDING", "paid", "PAID", (), "payout.paid"),
    Transition("PENDING", "failed", "FAILED", ("PAYOUT", "BALANCE_CORRECTION"), "payout.failed"),
)
BY_EVENT: Final = {(row.source, row.event): row for row in TRANSITIONS}


class Payout(msgspec.Struct, frozen=True, kw_only=True):
    """A payout as it is stored; amounts in minor units. The fee comes on top of the amount."""

    merchant_id: str
    id: str
    status: Status
    amount_minor: int
    fee_minor: int
    currency: str
    reference: str
    bank_reference: str  # "" until it is paid
    failure_reason: str  # "" unless it failed
    reason: str
    created_by: str
    approved_by: str | None
    created_at: int
    updated_at: int
    paid_at: int | None
    failed_at: int | None


class DuePayout(msgspec.Struct, frozen=True, kw_only=True):
    """A merchant's money that can be paid out now; ``last_at`` is of the last payout, Unix ms."""

    merchant_id: str
    merchant_name: str
    currency: str
    available: int
    last_at: int | None


class PayoutRequest(msgspec.Struct, frozen=True, kw_only=True):
    """A requested payout; minor units, ``amount_minor`` None for everything available."""

    amount_minor: int | None
    fee_minor: int = 0
    reference: str
    reason: str
    by: str
    approved_by: str | None = None


def posted(payout: Payout, event: Event) -> list[Movement]:
    """Return what an event of a payout posts."""
    amount, fee, cause = payout.amount_minor, payout.fee_minor, payout.id
    out = f"Payout of {money.show(amount, payout.currency)} {payout.currency}"
    back, returned = "Payout failed", "Payout fee returned"
    match event:
        case "created":
            moves = [
                Movement("PAYOUT", "available", "bank", amount, "payout", cause, out),
                Movement("FEE", "available", "platform", fee, "payout", cause, "Payout fee"),
            ]
        case "paid":
            moves = []
        case "failed":
            kind: PostingType = "BALANCE_CORRECTION"
            moves = [
                Movement("PAYOUT", "bank", "available", amount, "payout", cause, back),
                Movement(kind, "platform", "available", fee, "payout", cause, returned),
            ]
    return [move for move in moves if move.amount_minor]


class PayoutOut(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """Money sent to the merchant's bank."""

    id: Annotated[str, Meta(description="The payout's id.")]
    status: Annotated[
        Status,
        Meta(
            description="`PENDING`: it is on its way. `PAID`: the bank has confirmed it. "
            "`FAILED`: it came back, and the money is on your balance again."
        ),
    ]
    amount: Annotated[str, Meta(description="What your bank account receives.")]
    fee: Annotated[
        str, Meta(description="What the payout cost. Your balance lost it beside the amount.")
    ]
    currency: Annotated[
        str, Meta(description="The currency of amount and fee: your settlement currency.")
    ]
    bank_reference: Annotated[
        str | None,
        Meta(description="The bank's own number of the transfer. Null until it is known."),
    ]
    failure_reason: Annotated[str | None, Meta(description="Why it failed. Null unless it did.")]
    created_at: CreatedAt
    updated_at: UpdatedAt
    paid_at: Annotated[
        int | None, Meta(description="When the bank confirmed it, Unix ms. Null until then.")
    ]
    failed_at: Annotated[
        int | None, Meta(description="When it came back, Unix ms. Null unless it did.")
    ]

    @classmethod
    def of(cls, payout: Payout) -> Self:
        """Show a payout."""
        return structs.convert(
            payout,
            cls,
            amount=money.show(payout.amount_minor, payout.currency),
            fee=money.show(payout.fee_minor, payout.currency),
            bank_reference=payout.bank_reference or None,
            failure_reason=payout.failure_reason or None,
        )
