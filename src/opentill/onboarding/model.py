"""What a merchant that is to be closed has left, and which of it stands in the way."""

from typing import Final

import msgspec

from opentill.core import money
from opentill.core.errors import Invalid

MANY: Final = 1000  # more of a kind than this are counted as this


class Work(msgspec.Struct, frozen=True, kw_only=True):
    """How much is under way; ``MANY`` of a kind stands for more, too."""

    payments: int  # somebody pays just now, or a gateway has not responded
    refunds: int
    disputes: int
    payouts: int
    approvals: int  # pending requests for a second person
    sessions: int  # open ones; those that nobody pays expire by themselves


class Unfinished(Work, frozen=True, kw_only=True):
    """What a merchant has left: money, in minor units of ``currency``, and work under way."""

    currency: str
    pending: int
    available: int
    frozen: int
    reserve: int

    @property
    def in_the_way(self) -> dict[str, int]:
        """What must come to an end before the merchant can be closed, by its field."""
        fields = (
            "pending", "available", "frozen", "reserve", "payments", "refunds", "disputes",
            "payouts", "approvals",
        )  # fmt: skip
        values = {name: int(getattr(self, name)) for name in fields}
        return {name: value for name, value in values.items() if value}

    def described(self) -> str:
        """Write what is in the way, for people."""
        accounts = {"pending", "available", "frozen", "reserve"}
        parts = [
            f"{money.show(value, self.currency)} {self.currency} {name}"
            if name in accounts
            else f"{value} {_WORDS[name]}"
            for name, value in self.in_the_way.items()
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
    """A merchant has money or work left."""

    def __init__(self, left: Unfinished) -> None:
        """``left`` has something in the way."""
        reason = (
            f"merchant must have no money and nothing under way: there are {left.described()}; "
            "settle, pay out or correct the balance, and decide about approvals, first"
        )
        super().__init__("merchant", reason)
        self.left = left
