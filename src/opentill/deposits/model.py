"""Positions, sums, cases and recorded refunds of deposits.

Sums are in multiples of 10**-18 of a token, so that tokens with different decimals can be added.
"""

from decimal import Decimal
from typing import Literal

import msgspec

# EXCESS         more arrived than was due: the excess belongs to the customer
# UNKNOWN_TOKEN  a token arrived that the account does not take
# REORGANIZED    a transfer that had counted is no longer part of the chain
CaseKind = Literal["EXCESS", "UNKNOWN_TOKEN", "REORGANIZED"]


class Position(msgspec.Struct, frozen=True):
    """How far a chain was read. ``claimed_until`` identifies the lease of a process."""

    number: int
    hash: str
    claimed_until: int


class ChainState(msgspec.Struct, frozen=True, rename="camel"):
    """How far the chain of an account was read, and why it cannot be read now, if so.

    ``failing_since`` is real time (Unix ms).
    """

    account: str
    chain_id: int
    number: int  # of the last block whose transfers are stored
    failure: str | None
    failing_since: int | None


class StoredTransfer(msgspec.Struct, frozen=True):
    """A transfer that was stored and not removed."""

    block_number: int
    block_hash: str
    transaction: str
    log_index: int
    token: str
    sender: str
    address: str
    units: Decimal
    scaled: Decimal


class DueReport(msgspec.Struct, frozen=True):
    """An address at which another sum arrived than its attempt knows."""

    address: str
    attempt_id: str
    amount_minor: int
    currency: str
    due: Decimal
    received: Decimal
    reported: Decimal


class Progress(msgspec.Struct, frozen=True):
    """What arrived for an attempt: confirmed money, and whether enough was seen."""

    address: str
    due: Decimal
    received: Decimal
    seen_at: int | None


class DepositCase(msgspec.Struct, frozen=True):
    """Something that staff must look at. ``closed_at`` is None until they record what they did."""

    id: str
    kind: CaseKind
    account: str
    merchant_id: str
    order_id: str
    attempt_id: str
    address: str
    transaction: str
    log_index: int
    token: str
    units: Decimal
    opened_at: int
    closed_at: int | None
    closed_by: str | None
    resolution: str | None


class RefundEvidence(msgspec.Struct, frozen=True):
    """The transaction by which staff sent a refund, as it was found on the chain."""

    refund_id: str
    account: str
    chain_id: int
    transaction: str
    log_index: int
    recipient: str
    token: str
    units: Decimal
