"""The daily digest of a merchant: who gets it, and its content."""

import msgspec

from opentill.mail.model import Amount


class DigestMerchant(msgspec.Struct, frozen=True, kw_only=True):
    """A merchant whose members get a daily digest."""

    merchant_id: str
    time_zone: str


class DigestDay(msgspec.Struct, frozen=True, kw_only=True):
    """The figures of a day in one currency."""

    payments: int
    paid: Amount
    refunded: Amount
    disputed: Amount
    net: Amount  # paid, minus refunds, lost disputes and fees
    fees: Amount | None = None  # None in mails that an earlier version queued
    direct_payments: int = 0  # to the merchant's own accounts; ``payments`` contains them
    direct: Amount | None = None  # what they paid, which is not part of ``paid``
    direct_refunded: Amount | None = None  # from these accounts, not part of ``refunded``

    @property
    def volume(self) -> Amount:
        """What customers paid, also to the merchant's own accounts."""
        minor, currency = self.paid
        return minor + (0 if self.direct is None else self.direct[0]), currency


class DigestContent(msgspec.Struct, frozen=True, kw_only=True):
    """The figures of a day, and how many payments have a pending or failed refund now."""

    merchant_id: str
    at: int  # when the day began, Unix ms
    days: list[DigestDay]
    pending_refunds: int = 0
    failed_refunds: int = 0  # that nobody has handled
