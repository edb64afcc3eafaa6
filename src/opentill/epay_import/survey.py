"""The first pass over a source: what is in it, by merchant, and what cannot come over.

Memory grows with the number of merchants, channels and groups, not with that of orders.
"""

from collections import Counter
from collections.abc import Iterator
from typing import Final

import msgspec

from opentill.epay_import import reading, values
from opentill.epay_import.model import Channel, Kind, LeftOut, OldMerchant, Row
from opentill.epay_import.tables import Tables

_EXAMPLES: Final = 3


class Reason(msgspec.Struct, kw_only=True):
    """Why rows cannot come over: how many, and the first of them."""

    table: str
    reason: str
    rows: int = 0
    examples: list[int] = msgspec.field(default_factory=list[int])


class MerchantSums(msgspec.Struct, kw_only=True):
    """What belongs to one merchant; amounts in minor units."""

    orders: int = 0
    paid: int = 0
    paid_minor: int = 0
    refunded_minor: int = 0
    unpaid: int = 0
    left_out: int = 0
    open_settlements: int = 0
    open_settlements_minor: int = 0
    settlements: int = 0
    settled_minor: int = 0


class Survey(msgspec.Struct, kw_only=True):
    """The content of a source, except its orders and refunds."""

    version: str = ""
    private_key: str = ""
    public_key: str = ""
    merchants: dict[int, OldMerchant] = msgspec.field(default_factory=dict[int, OldMerchant])
    sums: dict[int, MerchantSums] = msgspec.field(default_factory=dict[int, MerchantSums])
    types: dict[int, str] = msgspec.field(default_factory=dict[int, str])
    channels: list[Channel] = msgspec.field(default_factory=list[Channel])
    groups: dict[int, str] = msgspec.field(default_factory=dict[int, str])
    rows: Counter[str] = msgspec.field(default_factory=Counter[str])
    refunds: int = 0
    reasons: dict[tuple[str, str], Reason] = msgspec.field(
        default_factory=dict[tuple[str, str], Reason]
    )
    channel_orders: Counter[int] = msgspec.field(default_factory=Counter[int])  # paid ones

    def sums_of(self, uid: int) -> MerchantSums:
        """Return the sums of a merchant."""
        return self.sums.setdefault(uid, MerchantSums())

    def leave_out(self, row: Row, reason: str) -> None:
        """Count a row that cannot come over."""
        entry = self.reasons.setdefault((row.table, reason), Reason(table=row.table, reason=reason))
        entry.rows += 1
        if len(entry.examples) < _EXAMPLES:
            entry.examples.append(row.number)

    def is_complete(self, uid: int) -> bool:
        """Whether everything of a merchant comes over, so that it may be switched on."""
        merchant = self.merchants[uid]
        return not merchant.off and not self.sums_of(uid).left_out


class Surveyor:
    """Reads a source once and sums it up."""

    def __init__(self, zone: str) -> None:
        """``zone``: of the old server's times."""
        self.survey = Survey()
        self._reader = reading.Reader(zone, {})
        self._channel_rows: list[Row] = []

    def read(self, rows: Iterator[Row], tables: Tables) -> Survey:
        """Return the survey. Raises BadSource."""
        survey = self.survey
        for row in rows:
            kind = tables.kind(row.table)
            survey.rows[row.table] += 1
            try:
                if kind == "order":
                    self._order(row)
                elif kind is not None:
                    self._other(row, kind)
            except LeftOut as problem:
                survey.leave_out(row, problem.reason)
        tables.check_complete()
        for row in self._channel_rows:
            try:
                survey.channels.append(reading.channel(row, survey.types))
            except LeftOut as problem:
                survey.leave_out(row, problem.reason)
        self._count_orphans(tables)
        return survey

    def _order(self, row: Row) -> None:
        try:
            order = self._reader.order(row)
        except LeftOut:
            uid = row.values[3]
            if uid is not None and values.is_number(uid.decode(errors="replace")):
                self.survey.sums_of(int(uid)).left_out += 1
            raise
        sums = self.survey.sums_of(order.uid)
        sums.orders += 1
        if order.paid_at is None:
            sums.unpaid += 1
        else:
            sums.paid += 1
            sums.paid_minor += order.amount_minor
            sums.refunded_minor += order.refunded_minor
            self.survey.channel_orders[order.channel] += 1

    def _other(self, row: Row, kind: Kind) -> None:
        survey = self.survey
        if kind == "user":
            merchant = reading.merchant(row)
            survey.merchants[merchant.uid] = merchant
        elif kind == "config":
            self._config(row)
        elif kind == "type":
            cells = values.as_dict(row, kind)
            survey.types[values.number(cells["id"], "id")] = values.text(row, cells["name"], "name")
        elif kind == "channel":
            self._channel_rows.append(row)
        elif kind == "group":
            cells = values.as_dict(row, kind)
            survey.groups[values.number(cells["gid"], "gid")] = values.text(
                row, cells["info"], "info"
            )
        elif kind == "refundorder":
            survey.refunds += self._reader.refund(row) is not None
        elif kind == "settle":
            self._settlement(row)

    def _config(self, row: Row) -> None:
        survey = self.survey
        name, value = values.text(row, row.values[0], "k"), row.values[1]
        if name == "version":
            survey.version = values.text(row, value, "v")
        elif name == "private_key":
            survey.private_key = values.text(row, value, "v")
        elif name == "public_key":
            survey.public_key = values.text(row, value, "v")

    def _settlement(self, row: Row) -> None:
        settlement = reading.settlement(row)
        sums = self.survey.sums_of(settlement.uid)
        if settlement.is_open:
            sums.open_settlements += 1
            sums.open_settlements_minor += settlement.amount_minor
        else:
            sums.settlements += 1
            sums.settled_minor += settlement.amount_minor

    def _count_orphans(self, tables: Tables) -> None:
        """Count the orders of merchants that are not there."""
        survey = self.survey
        name = tables.names["order"]
        for uid, sums in survey.sums.items():
            if uid not in survey.merchants and sums.orders:
                reason = "there is no such merchant"
                entry = survey.reasons.setdefault((name, reason), Reason(table=name, reason=reason))
                entry.rows += sums.orders
