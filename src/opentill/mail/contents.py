"""What each message says: a struct for each topic, as it is kept in the outbox.

Amounts are minor units with their currency, times Unix ms.
"""

import msgspec

from opentill.mail.words import Amount


class Receipt(msgspec.Struct, frozen=True, kw_only=True):
    """An order was paid; ``shop`` is what its customer knew the merchant as."""

    shop: str
    livemode: bool
    session_id: str
    order_id: str
    item: str
    amount: Amount
    method: str
    paid_at: int
    reference: str = ""  # the shop's own number


class Refund(msgspec.Struct, frozen=True, kw_only=True):
    """Money was given back, or came back to the shop; for the customer, who knew it as ``shop``."""

    shop: str
    livemode: bool
    session_id: str
    order_id: str
    item: str
    amount: Amount
    refunded: Amount
    at: int
    reference: str = ""  # the shop's own number
    refund_id: str = ""  # not in mails of earlier versions


class RefundReport(msgspec.Struct, frozen=True, kw_only=True):
    """A refund was reversed, or made at the provider; for its merchant."""

    merchant_id: str
    order_id: str
    refund_id: str
    amount: Amount
    reason: str
    at: int


class Dispute(msgspec.Struct, frozen=True, kw_only=True):
    """A customer disputes a payment."""

    merchant_id: str
    dispute_id: str
    order_id: str
    amount: Amount
    reason: str
    respond_by: int | None


class Payout(msgspec.Struct, frozen=True, kw_only=True):
    """A payout was paid, or failed; ``returned``: the bank had sent it before."""

    merchant_id: str
    payout_id: str
    amount: Amount
    reference: str = ""
    reason: str = ""
    returned: bool = False


class Entry(msgspec.Struct, frozen=True, kw_only=True):
    """Somebody changed something, as the audit log has it."""

    merchant_id: str
    action: str
    who: str
    subject: str
    at: int


class AccountChange(msgspec.Struct, frozen=True, kw_only=True):
    """Somebody's account was changed; ``change`` names what (``of_accounts.py``)."""

    change: str
    email: str
    who: str
    subject: str
    reason: str
    at: int


class FactorsWaiting(msgspec.Struct, frozen=True, kw_only=True):
    """Somebody's second factors end at ``until``."""

    at: int
    until: int


class Login(msgspec.Struct, frozen=True, kw_only=True):
    """Somebody logged in where this account was not seen before."""

    address: str
    device: str
    at: int


class Invitation(msgspec.Struct, frozen=True, kw_only=True):
    """Somebody is invited."""

    by: str
    expires_at: int


class Reset(msgspec.Struct, frozen=True, kw_only=True):
    """Somebody wants to choose a new password."""

    at: int


class Day(msgspec.Struct, frozen=True, kw_only=True):
    """What a day brought in one currency."""

    payments: int
    paid: Amount
    refunded: Amount
    disputed: Amount
    net: Amount


class Digest(msgspec.Struct, frozen=True, kw_only=True):
    """What a day brought."""

    merchant_id: str
    at: int  # a moment of that day
    days: list[Day]


class Test(msgspec.Struct, frozen=True, kw_only=True):
    """Somebody tries whether mail arrives."""

    at: int


class Violated(msgspec.Struct, frozen=True, kw_only=True):
    """The incremental check found what must not be."""

    found: int


class Stuck(msgspec.Struct, frozen=True, kw_only=True):
    """A gateway says nothing about payments that it was asked about long ago."""

    gateway: str
    payments: int
    since: int


class Approval(msgspec.Struct, frozen=True, kw_only=True):
    """Something waits for a second person; ``kind`` is that of ``approvals.Waiting``."""

    shop: str
    kind: str
    amount: Amount
    reason: str
    who: str
    at: int


class Deadline(msgspec.Struct, frozen=True, kw_only=True):
    """A dispute is to be responded to within some days; ``path`` is its page."""

    shop: str
    path: str
    order_id: str
    amount: Amount
    reason: str
    respond_by: int
    days: int
    responded: bool = False  # the merchant has, and the operator is to send it on
