"""Adjustments, the table of their kinds, and their representation for people."""

from collections.abc import Sequence
from typing import Final, Literal, Self, get_args

import msgspec

from opentill.core import money, structs
from opentill.ledger import Account, Held, Movement
from opentill.ledger import Type as PostingType

Kind = Literal["freeze", "unfreeze", "recharge", "correct", "fee", "topup", "prepay", "unprepay"]
Status = Literal["WAITING", "DONE", "REJECTED"]
Decision = Literal["approve", "reject"]
Floor = Literal["none", "zero", "overdraft", "frozen by operators", "reserved fees"]
KINDS: Final[tuple[Kind, ...]] = get_args(Kind)


class Move(msgspec.Struct, frozen=True):
    """One kind of adjustment that an operator may make: its accounts, its posting and its limit.

    ``sign`` is the sign that the entered amount must have; only a correction may be negative.
    ``floor`` limits what the posting takes from ``source``: nothing below zero, nothing below the
    merchant's overdraft limit, only what operators froze, nothing of the prepaid balance that
    payments have reserved, or any amount ("none").
    """

    kind: Kind
    account: Held
    sign: Literal[1, -1]
    posting: PostingType
    source: Account
    target: Account
    floor: Floor


# The postings that an operator may make (contract.md#adjustments).
MOVES: Final = (
    #    kind       account      ±   posting               source       target       floor
    Move("freeze", "available", +1, "FREEZE", "available", "frozen", "zero"),
    Move("unfreeze", "available", +1, "UNFREEZE", "frozen", "available", "frozen by operators"),
    Move("recharge", "available", +1, "ADMIN_RECHARGE", "bank", "available", "none"),
    Move("correct", "available", +1, "BALANCE_CORRECTION", "platform", "available", "none"),
    Move("correct", "available", -1, "BALANCE_CORRECTION", "available", "platform", "overdraft"),
    Move("correct", "pending", +1, "BALANCE_CORRECTION", "platform", "pending", "none"),
    Move("correct", "pending", -1, "BALANCE_CORRECTION", "pending", "platform", "overdraft"),
    Move("fee", "available", +1, "FEE", "available", "platform", "zero"),
    Move("topup", "available", +1, "ADMIN_RECHARGE", "bank", "prepaid", "none"),
    Move("prepay", "available", +1, "FREEZE", "available", "prepaid", "zero"),
    Move("unprepay", "available", +1, "UNFREEZE", "prepaid", "available", "reserved fees"),
)
# The nouns of the other kinds, for the descriptions of their entries.
_NOUNS: Final[dict[Kind, str]] = {
    "freeze": "Hold",
    "unfreeze": "Release",
    "correct": "Correction",
}
# Descriptions of the entries of the prepaid balance; merchants make some of them themselves.
_PREPAID_TEXTS: Final[dict[Kind, str]] = {
    "topup": "Prepaid balance topped up",
    "prepay": "Moved to the prepaid balance",
    "unprepay": "Moved back from the prepaid balance",
}
BY_KIND: Final = {(move.kind, move.account, move.sign): move for move in MOVES}
# The transitions of an adjustment that waits for a second operator.
DECISIONS: Final[dict[tuple[Status, Decision], Status]] = {
    ("WAITING", "approve"): "DONE",
    ("WAITING", "reject"): "REJECTED",
}


class AdjustmentRequest(msgspec.Struct, frozen=True, kw_only=True):
    """A requested adjustment; ``amount_minor`` is negative if it corrects the balance downwards."""

    kind: Kind
    amount_minor: int
    reason: str
    by: str
    reference: str
    account: Held = "available"
    # The order that a correction is about, None if it is about no order.
    order_id: str | None = None


class Quote(msgspec.Struct, frozen=True):
    """The effect that an adjustment would have now; amounts are in minor units.

    ``moved`` lists each account of the merchant that changes: name, balance before, balance after.
    ``waits``: a second person must approve the adjustment first.
    """

    currency: str
    moved: Sequence[tuple[Account, int, int]]
    waits: bool


class Adjustment(msgspec.Struct, frozen=True, kw_only=True):
    """A stored adjustment; amounts are in minor units."""

    merchant_id: str
    id: str
    kind: Kind
    status: Status
    amount_minor: int
    currency: str
    account: Held
    order_id: str | None
    reference: str
    reason: str
    asked_by: str
    decided_by: str | None  # None before the decision, and if no second operator was needed
    rejection: str | None  # the reason of a rejection; None for older ones
    created_at: int
    decided_at: int | None

    @property
    def move(self) -> Move:
        """The row of ``MOVES`` that allows the adjustment."""
        return BY_KIND[self.kind, self.account, 1 if self.amount_minor > 0 else -1]

    @property
    def described(self) -> str:
        """The adjustment's name in the audit log and in error messages."""
        return f"{self.kind} of {money.show(self.amount_minor, self.currency)} {self.currency}"

    @property
    def movement(self) -> Movement:
        """The posting of the adjustment."""
        move, amount = self.move, abs(self.amount_minor)
        suffix = f" for {self.order_id}" if self.order_id else ""
        text = _PREPAID_TEXTS.get(self.kind) or (
            f"{_NOUNS.get(self.kind, self.kind.capitalize())} by the operator{suffix}"
        )
        return Movement(move.posting, move.source, move.target, amount, "operator", self.id, text)


class CurrencySum(msgspec.Struct, frozen=True):
    """The sum of adjustments of one kind and currency, in minor units."""

    currency: str
    amount_minor: int


class AdjustmentOut(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """An adjustment as commands print it."""

    id: str
    merchant_id: str
    kind: Kind
    status: Status
    amount: str
    currency: str
    account: Held
    order_id: str | None
    reference: str
    reason: str
    asked_by: str
    decided_by: str | None
    rejection: str | None
    created_at: int
    decided_at: int | None

    @classmethod
    def from_adjustment(cls, adjustment: Adjustment) -> Self:
        """Convert an adjustment."""
        return structs.convert(
            adjustment, cls, amount=money.show(adjustment.amount_minor, adjustment.currency)
        )
