"""Manual actions that can need a second person, and a deployment's rules about them."""

from collections.abc import Container
from decimal import Decimal
from typing import Final, Literal, Self, get_args

import msgspec

from opentill import gateways
from opentill.core import money, structs
from opentill.core.settings import Settings
from opentill.merchants import Actor

Action = Literal[
    "confirm",
    "refund",
    "refund-recorded",
    "refund-failed",
    "refund-reversed",
    "dispute-won",
    "dispute-recovered",
    "payout-failed",
    "payout-returned",
]
Status = Literal["WAITING", "APPROVED", "REJECTED"]
ACTIONS: Final[tuple[Action, ...]] = get_args(Action)
_REFUNDS: Final = ("refund", "refund-recorded")
_PAYOUTS: Final = ("payout-failed", "payout-returned")


class RefundDetails(msgspec.Struct, frozen=True, kw_only=True):
    """A refund by a member of staff, which is to be made or only to be recorded.

    ``forced``: make the refund even if the merchant's refunds are switched off. ``reference`` is
    the provider's or bank's reference of a refund that is only recorded.
    """

    amount: str
    refund_no: str | None = None
    forced: bool = False
    reference: str | None = None


class ReportLine(msgspec.Struct, frozen=True, kw_only=True):
    """A line of the bank's report about a payout."""

    file_id: str
    line: int


class ActionRequest(msgspec.Struct, frozen=True, kw_only=True):
    """A manual action of a member of staff.

    ``subject`` is the id of the order, refund, dispute or payout that the action changes. If a
    refund is to be made or recorded, ``subject`` is the order and ``refund`` is set. ``report`` is
    the line of the bank's report that caused the request, None if there is none.
    """

    action: Action
    merchant_id: str
    subject: str
    actor: Actor
    refund: RefundDetails | None = None
    report: ReportLine | None = None


class Rules(msgspec.Struct, frozen=True):
    """Settings for manual actions: approval limit, live mode, and which gateways report refunds."""

    above: Decimal | None
    livemode: bool
    reporting: Container[str]

    @classmethod
    def from_settings(cls, settings: Settings) -> Self:
        """Return the rules of a deployment's settings."""
        reporting = gateways.self_reporting(settings.gateways)
        return cls(settings.approval_above, settings.livemode, reporting)


class WaitingAction(msgspec.Struct, frozen=True, kw_only=True):
    """A stored request for a manual action; ``details`` is JSON.

    The amount is what the merchant gains by the action; for a refund to be made or recorded, it is
    what the merchant loses.
    """

    merchant_id: str
    id: str
    action: Action
    status: Status
    subject: str
    details: str
    amount_minor: int
    currency: str
    reason: str
    asked_by: str
    decided_by: str | None
    rejection: str | None
    created_at: int
    decided_at: int | None

    @property
    def description(self) -> str:
        """The request as the audit log describes it."""
        return f"{self.id}: {self.action} of {self.amount_text} for {self.subject}"

    @property
    def refund(self) -> RefundDetails | None:
        """The details of a request for a refund, None for another action."""
        if self.action not in _REFUNDS:
            return None
        return msgspec.json.decode(self.details, type=RefundDetails | None)

    @property
    def report(self) -> ReportLine | None:
        """The line of the bank's report that caused the request, None if there is none."""
        if self.action not in _PAYOUTS:
            return None
        return msgspec.json.decode(self.details, type=ReportLine | None)

    @property
    def amount_text(self) -> str:
        """The amount with its currency."""
        return money.named(self.amount_minor, self.currency)


class WaitingActionOut(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """A request for a manual action, as the command line prints it."""

    id: str
    merchant_id: str
    action: Action
    status: Status
    subject: str
    amount: str
    currency: str
    reason: str
    asked_by: str
    decided_by: str | None
    rejection: str | None
    created_at: int
    decided_at: int | None

    @classmethod
    def from_request(cls, request: WaitingAction) -> Self:
        """Convert a request."""
        amount = money.show(request.amount_minor, request.currency)
        return structs.convert(request, cls, amount=amount)


class Waiting(msgspec.Struct, frozen=True, kw_only=True):
    """A request that waits for a second person: an adjustment, a payout or a manual action.

    ``about`` is the order of a correction, the reference of a payout, or the subject of an action.
    """

    id: str
    kind: str
    merchant_id: str
    amount_minor: int
    fee_minor: int
    currency: str
    about: str
    reason: str
    asked_by: str
    created_at: int


class Decided(Waiting, frozen=True, kw_only=True):
    """A request that a second person approved, or that somebody rejected."""

    is_approved: bool
    decided_by: str
    decided_at: int
    rejection: str | None  # None for an approved request
