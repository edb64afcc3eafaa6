"""What counting payment attempts that failed reads."""

import msgspec


class FailedAttempts(msgspec.Struct, frozen=True):
    """How many attempts failed in the quarter hour from ``since`` (Unix ms): below zero, fewer.

    Of one gateway, method and currency.
    ``attempts`` is how many were looked at.
    """

    since: int
    gateway: str
    method: str
    currency: str
    failed: int
    attempts: int


class UncountedMerchant(msgspec.Struct, frozen=True):
    """A merchant with attempts to be counted."""

    merchant_id: str
