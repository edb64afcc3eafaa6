"""A merchant's remaining money and work, which may block closing it."""

from typing import Final

import msgspec

from opentill.core import money
from opentill.core.errors import Invalid

MAX_COUNT: Final = 1000  # the highest value of each count


class Work(msgspec.Struct, frozen=True, kw_only=True):
    """Counts of work in progress, each capped at ``MAX_COUNT``."""

    payments: int  # payments in progress, also if the gateway has not responded
    refunds: int
    disputes: int
    payouts: int
    approvals: int  # requests that wait for a second person
    sessions: int  # open sessions, which do not block closing, because they expire by themselves


class Unfinished(Work, frozen=True, kw_only=True):
    """A merchant's money in minor units of ``currency``, and its work in progress."""

    currency: str
    pending: int
    available: int
    frozen: int
    reserve: int
    prepaid: int

    @property
    def blockers(self) -> dict[str, int]:
        """The nonzero fields that block closing the merchant."""
        fields = (
            "pending", "available", "frozen", "reserve", "prepaid", "payments", "refunds",
            "disputes", "payouts", "approvals",
        )  # fmt: skip
        values = {name: int(getattr(self, name)) for name in fields}
        return {name: value for name, value in values.items() if value}

    def described(self) -> str:
        """Describe the blockers for people."""
        accounts = {"pending", "available", "frozen", "reserve", "prepaid"}
        parts = [
            f"{money.show(value, self.currency)} {self.currency} {name}"
            if name in accounts
            else f"{value} {_WORDS[name]}"
            for name, value in self.blockers.items()
        ]
        return ", ".join(parts)


_WORDS: Final = {
    "payments": "payments under way",
    "refunds": "refunds under way",
    "disputes": "open disputes",
    "payouts": "payouts that the bank has not confirmed",
    "approvals": "requests that wait for a second person",
}


class NotClosable(Invalid):
    """A merchant that still has money or work in progress cannot be closed."""

    def __init__(self, left: Unfinished) -> None:
        """``left``: the money and work that is left, with at least one blocker."""
        reason = (
            f"merchant must have no money and nothing under way: there are {left.described()}; "
            "settle, pay out or correct the balance, and decide about approvals, first"
        )
        super().__init__("merchant", reason)
        self.left = left
