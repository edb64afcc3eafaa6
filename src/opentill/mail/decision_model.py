"""The contents of mails about decisions: of disputes, merchants' standing and applications."""

from typing import Literal

import msgspec

from opentill.mail.model import Amount


class DisputeResultContent(msgspec.Struct, frozen=True, kw_only=True):
    """A dispute was decided, or a loss was recovered."""

    merchant_id: str
    dispute_id: str
    order_id: str
    status: Literal["WON", "LOST", "RECOVERED"]
    amount: Amount  # what the customer disputed
    debit: Amount  # what a loss takes from the balance
    fee: Amount  # the fee of a loss, on top
    reason: str
    at: int


class StandingContent(msgspec.Struct, frozen=True, kw_only=True):
    """The operator suspended a merchant's account or ended the suspension."""

    merchant_id: str
    suspended: bool
    reason: str
    at: int


class ApplicationContent(msgspec.Struct, frozen=True, kw_only=True):
    """An application to become a merchant was received; ``name`` is the shop's."""

    name: str
    at: int
