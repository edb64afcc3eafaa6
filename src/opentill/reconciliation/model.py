"""The row of a settlement report, an item of ours, and a difference between them."""

from typing import Final, Literal, get_args

import msgspec

Kind = Literal["payment", "refund", "chargeback", "recovery"]
What = Literal["missing in ledger", "missing in report", "double in report", "different"]
KINDS: Final[dict[str, Kind]] = {kind: kind for kind in get_args(Kind)}

# The columns of a report, in any order; others are left alone.
COLUMNS: Final = {
    "kind": "payment, refund, chargeback, or recovery (of a chargeback)",
    "reference": "our attempt or refund id or the gateway's own reference; of a chargeback or"
    " recovery that of the payment or of the dispute",
    "amount": 'a positive decimal number without separators, such as "9.99"',
    "currency": "an ISO 4217 code such as USD",
    "settled_at": "a time such as 2026-01-31T10:00:00Z, a date, or Unix milliseconds",
}

# Which of our states say that money moved.
SETTLED: Final[dict[Kind, tuple[str, ...]]] = {
    "payment": ("SUCCEEDED", "DUPLICATE", "GIVEN_BACK"),
    "refund": ("SUCCEEDED", "GIVEN_BACK"),
    "chargeback": ("LOST", "RECOVERED"),
    "recovery": ("RECOVERED",),
}


class Row(msgspec.Struct, frozen=True, kw_only=True):
    """A row of a report; ``line`` is where it ends in the file, ``settled_at`` Unix ms."""

    line: int
    kind: Kind
    reference: str
    amount_minor: int
    currency: str
    settled_at: int


class Item(msgspec.Struct, frozen=True, kw_only=True):
    """What our books have: ``at`` is when we took it in, Unix ms; "" for names it has not."""

    kind: Kind
    merchant_id: str
    id: str
    provider_ref: str
    payment: str  # the attempt's id, where a report may name the payment instead
    amount_minor: int
    currency: str
    status: str
    at: int

    @property
    def references(self) -> tuple[str, ...]:
        """What a report may call it."""
        return tuple(name for name in (self.id, self.provider_ref, self.payment) if name)


class Difference(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """One thing that is not as it should be; ``line`` is the report's, null if it has none."""

    what: What
    kind: Kind
    reference: str
    line: int | None
    merchant_id: str
    ours: str
    theirs: str


class Result(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """The result of a comparison. Times are inclusive Unix ms, null where open."""

    gateway: str
    since: int | None
    until: int | None
    rows: int  # of the report, within the times
    items: int  # of ours, within the times
    matched: int  # rows that are as our books say
    found: int  # differences in all
    differences: list[Difference]  # the first of them
