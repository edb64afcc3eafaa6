"""The view of gateways' reports about disputes that match no order."""

from typing import Self

import msgspec

from opentill.core import money, structs
from opentill.disputes.model import Unmatched
from opentill.gateways.model import DisputeStatus


class UnmatchedOut(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """An unmatched event as the command line shows it."""

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
    def from_report(cls, unmatched: Unmatched) -> Self:
        """Convert an unmatched event; an amount in an unknown currency stays in minor units."""
        amount = (unmatched.amount_minor, unmatched.currency)
        return structs.convert(unmatched, cls, amount=money.shown(*amount) or money.named(*amount))
