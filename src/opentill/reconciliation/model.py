"""Rows of settlement and bank reports, items of our books, and differences between them."""

from datetime import datetime, timedelta, tzinfo
from typing import Final, Literal, get_args

import msgspec

from opentill.core.errors import Invalid

# "payment_failure" is a payment that the provider took back without a dispute, and "unknown" a row
# of a type that is not listed here. Our books have neither, so every such row is a difference.
Kind = Literal[
    "payment", "refund", "refund_failure", "chargeback", "recovery", "payment_failure", "unknown"
]
BankKind = Literal["sent", "returned"]
Discrepancy = Literal["missing in ledger", "missing in report", "double in report", "different"]
KINDS: Final[dict[str, Kind]] = {kind: kind for kind in get_args(Kind) if kind != "unknown"}

# Column of a report → its meaning. Columns may have any order, and further ones are ignored.
COLUMNS: Final = {
    "kind": "payment, refund, refund_failure (a refund that came back), chargeback, recovery (of a"
    " chargeback), or payment_failure (a payment that was taken back without a dispute)",
    "reference": "our attempt or refund id or the gateway's own reference; of a chargeback or"
    " recovery that of the payment or of the dispute",
    "amount": 'a positive decimal number without separators, such as "9.99"',
    "currency": "an ISO 4217 code such as USD",
    "settled_at": "a time of 2000 to 2099 such as 2026-01-31T10:00:00Z, a date, or Unix ms",
}

# Kind of item → the statuses that mean that its money has moved.
SETTLED: Final[dict[Kind, tuple[str, ...]]] = {
    "payment": ("SUCCEEDED", "DUPLICATE", "GIVEN_BACK"),
    "refund": ("SUCCEEDED", "GIVEN_BACK"),
    "refund_failure": ("REVERSED",),
    "chargeback": ("LOST", "RECOVERED"),
    "recovery": ("RECOVERED",),
    "payment_failure": (),
    "unknown": (),
}


# Further statuses that mean that money has moved, at providers that take the money when a dispute
# opens and return it if the dispute is won.
STATUSES_AFTER_TAKING: Final[dict[Kind, tuple[str, ...]]] = {
    "payment": (),
    "refund": (),
    "refund_failure": (),
    "chargeback": ("OPEN", "WON"),
    "recovery": ("WON",),
    "payment_failure": (),
    "unknown": (),
}


class Row(msgspec.Struct, frozen=True, kw_only=True):
    """A row of a report; ``line`` is its last line in the file, ``settled_at`` Unix ms."""

    line: int
    kind: Kind
    reference: str
    amount_minor: int
    currency: str
    settled_at: int
    # The report has all movements between these times, according to this row; see ``Period``.
    complete_since: int
    complete_until: int
    at_once: bool = False  # whether the provider takes disputed money when the dispute opens


class ReportWithoutPeriod(Invalid):
    """A report without rows that does not state its period, which nobody gave either."""


class ReportOfAnotherAccount(Invalid):
    """A report states another account at the provider than the one that is configured."""

    def __init__(self, stated: str, configured: str) -> None:
        """Both are the account's number at the provider."""
        reason = f"file is of the account {stated}, but the configured one is {configured}"
        super().__init__("file", reason)
        self.stated, self.configured = stated, configured


class Period(msgspec.Struct, kw_only=True):
    """The time of which a report has all movements. Unix ms, inclusive; None: not stated.

    A report that states its period does so before its first row. Otherwise its rows bound it: days
    count as whole days. A report with times may begin and end between movements of the same moment,
    so that it is complete only between its first and its last moment.
    """

    since: int | None = None
    until: int | None = None
    kinds: frozenset[Kind] | None = None  # the kinds of movements that it has; None: all
    account: str = ""  # the account's number at the provider, "" if the report does not state it


def bounds_of_moment(time_ms: int, unit_ms: int) -> tuple[int, int]:
    """Return ``complete_since`` and ``complete_until`` of a row with a time of this precision."""
    return time_ms + unit_ms, time_ms - 1


def bounds_of_day(time_ms: int, zone: tzinfo) -> tuple[int, int]:
    """Return ``complete_since`` and ``complete_until`` of a row of a report of whole days."""
    moment = datetime.fromtimestamp(time_ms / 1000, zone)
    start = moment.replace(hour=0, minute=0, second=0, microsecond=0)
    end = start + timedelta(days=1)
    return round(start.timestamp() * 1000), round(end.timestamp() * 1000) - 1


class Item(msgspec.Struct, frozen=True, kw_only=True):
    """An item of our books. ``at`` is when it happened (Unix ms); references may be ""."""

    kind: Kind
    merchant_id: str
    id: str
    provider_ref: str
    payment: str  # the attempt's id if a report may name the item by its payment, else ""
    amount_minor: int
    currency: str
    status: str
    at: int

    @property
    def references(self) -> tuple[str, ...]:
        """The references by which a report may name the item."""
        return tuple(name for name in (self.id, self.provider_ref, self.payment) if name)


class ItemName(msgspec.Struct, frozen=True):
    """The kind and the id of an item."""

    kind: str
    reference: str


class Difference(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """A discrepancy between a report and our books; ``line`` None: the report has no such line."""

    what: Discrepancy
    kind: Kind | Literal["payout", "booking"]
    reference: str
    line: int | None
    merchant_id: str
    ours: str
    theirs: str


class NewDifference(msgspec.Struct, frozen=True, kw_only=True):
    """The parameters of ``queries.ADD_DIFFERENCES``."""

    id: str
    what: str
    kind: str
    reference: str
    line: int | None
    merchant_id: str
    ours: str
    theirs: str


class EarlierResolution(msgspec.Struct, frozen=True, kw_only=True):
    """A resolution that was undone because its adjustment was rejected. Times are Unix ms."""

    at: int
    by: str
    resolution: str
    adjustment_id: str
    rejected_at: int
    rejected_by: str
    why: str  # "" for rejections by older versions; the audit log has the reason


class OpenDifference(msgspec.Struct, frozen=True, kw_only=True):
    """A difference in the inbox; ``merchant_id`` is "" if its merchant is unknown.

    ``earlier`` is JSON: the undone resolutions, oldest first.
    """

    id: str
    file_id: str
    source: str
    what: Discrepancy
    kind: str
    reference: str
    line: int | None
    merchant_id: str
    ours: str
    theirs: str
    created_at: int
    resolved_at: int | None
    resolved_by: str | None
    resolution: str | None
    earlier: str

    @property
    def resolutions(self) -> list[EarlierResolution]:
        """The undone resolutions, oldest first."""
        return msgspec.json.decode(self.earlier, type=list[EarlierResolution])


class StoredFile(msgspec.Struct, frozen=True, kw_only=True):
    """A file that was read, or is being read while it is OPEN."""

    id: str
    source: str
    sha256: str
    name: str
    status: Literal["OPEN", "DONE"]
    rows: int
    matched: int
    difference_count: int = msgspec.field(name="found")
    who: str
    created_at: int
    done_at: int | None


class BankLine(msgspec.Struct, frozen=True, kw_only=True):
    """A booked line of the bank's report; ``amount_minor`` None: it has no readable amount."""

    line: int
    end_to_end: str
    kind: BankKind
    amount_minor: int | None
    currency: str
    bank_reference: str
    reason: str
    payment: str = ""  # the file's PmtInfId if the line books a whole bank file, else ""
    payments: str = ""  # how many transfers that file has, as the bank writes it; "" if unknown
    is_reversal: bool = False  # whether it reverses an earlier booking of the opposite direction


class SumOfPayouts(msgspec.Struct, frozen=True):
    """The amount of a payout that is PENDING or was paid recently, or of a file sent recently."""

    amount_minor: int
    currency: str


class WaitingLine(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """A line of the bank's report that has moved nothing: it waits for a second person."""

    line: int
    payout_id: str
    request_id: str


class BankResult(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """The effects of a bank's report; ``is_new`` is false for a file that was read before."""

    file_id: str
    is_new: bool
    lines: int
    sent: int  # payouts that became PAID
    returned: int  # payouts that became FAILED
    repeated: int = msgspec.field(name="known")  # lines whose bookings were applied before
    in_inbox: int = msgspec.field(name="found")
    unrelated: int = msgspec.field(name="other")  # lines that concern no payout
    waiting: list[WaitingLine]  # lines that a second person must approve


class Result(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """The result of a comparison. Times are inclusive Unix ms, null where open."""

    gateway: str
    file_id: str | None  # id of the file in the inbox; null if the comparison is not recorded
    since: int | None
    until: int | None
    rows: int  # how many rows of the report are within the times
    items: int  # how many items of our books are in the report, or should be
    matched: int  # how many rows agree with our books
    difference_count: int = msgspec.field(name="found")
    differences: list[Difference]  # at most ``service.MOST``
