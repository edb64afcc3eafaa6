"""The report of a survey: what comes over and what does not, by table and by merchant."""

from collections.abc import Mapping, Sequence
from typing import Any, Final

import msgspec

from opentill.core import money
from opentill.epay_import import rates
from opentill.epay_import.model import CURRENCY
from opentill.epay_import.survey import Survey

# Tables of the old server that stay there, and why.
_STAY: Final[tuple[str, ...]] = (
    "Settlements and records of balances stay on the old server; the opening balance is the result",
    "Logins and identity checks stay on the old server; invite people by `opentill people invite`",
)


class TableCount(msgspec.Struct, frozen=True, kw_only=True):
    """How many rows of a table were read, and how many of them cannot come over."""

    table: str
    rows: int
    left_out: int


class MerchantReport(msgspec.Struct, frozen=True, kw_only=True):
    """What comes over of a merchant; amounts are decimal text."""

    pid: int
    name: str
    versions: str
    balance: str
    orders: int
    paid: int
    paid_amount: str
    refunded_amount: str
    unpaid: int
    left_out: int
    fees: dict[str, str]
    switched_on: bool
    notes: list[str]


class LeftOutReport(msgspec.Struct, frozen=True, kw_only=True):
    """Rows that cannot come over for one reason; ``rows_in_file`` are the first of them."""

    table: str
    reason: str
    rows: int
    rows_in_file: list[int]


class ChannelReport(msgspec.Struct, frozen=True, kw_only=True):
    """A channel of the old server with paid orders, and the gateway of their refunds here."""

    channel: int
    name: str
    plugin: str
    paid: int
    gateway: str


class Report(msgspec.Struct, frozen=True, kw_only=True):
    """What a dry run reports."""

    version: str
    currency: str
    tables: list[TableCount]
    merchants: list[MerchantReport]
    left_out: list[LeftOutReport]
    channels: list[ChannelReport]
    conflicts: list[str]
    platform_key: bool
    notes: list[str]


def summarize(old_server: Survey, conflicts: Sequence[str], gateways: Mapping[int, str]) -> Report:
    """Return the report of a survey; ``conflicts`` are merchants here with a pid of the source."""
    reasons = sorted(old_server.reasons.values(), key=lambda reason: (reason.table, -reason.rows))
    left_out: dict[str, int] = {}
    for reason in reasons:
        left_out[reason.table] = left_out.get(reason.table, 0) + reason.rows
    names = {channel.id: channel for channel in old_server.channels}
    return Report(
        version=old_server.version,
        currency=CURRENCY,
        tables=[
            TableCount(table=table, rows=rows, left_out=left_out.get(table, 0))
            for table, rows in sorted(old_server.rows.items())
        ],
        merchants=[_merchant(old_server, uid) for uid in sorted(old_server.merchants)],
        left_out=[
            LeftOutReport(
                table=reason.table,
                reason=reason.reason,
                rows=reason.rows,
                rows_in_file=reason.examples,
            )
            for reason in reasons
        ],
        channels=[
            ChannelReport(
                channel=number,
                name=names[number].name if number in names else "",
                plugin=names[number].plugin if number in names else "",
                paid=paid,
                gateway=gateways.get(number, "manual"),
            )
            for number, paid in sorted(old_server.channel_orders.items())
        ],
        conflicts=list(conflicts),
        platform_key=bool(old_server.private_key),
        notes=_notes(old_server),
    )


def _show(minor: int) -> str:
    return money.show(minor, CURRENCY)


def _merchant(old_server: Survey, uid: int) -> MerchantReport:
    old, sums = old_server.merchants[uid], old_server.sums_of(uid)
    fees, unclear = rates.find_fees(old, old_server.groups, old_server.channels, old_server.types)
    notes = [*old.off, *old.notes, *unclear]
    notes += [why for why in (old.charge_off, old.refund_off, old.payout_off) if why]
    if sums.left_out:
        notes.append(
            "some rows of it are left out, so it stays off: repair them on the old server and"
            " import a new dump, or use --accept-left-out"
        )
    if sums.open_settlements:
        amount = _show(sums.open_settlements_minor)
        notes.append(
            f"{sums.open_settlements} settlements of {amount} are not paid yet: pay them on the old"
            " server, because its balance is without them"
        )
    return MerchantReport(
        pid=uid,
        name=old.name,
        versions=old.versions,
        balance=_show(old.balance_minor),
        orders=sums.orders,
        paid=sums.paid,
        paid_amount=_show(sums.paid_minor),
        refunded_amount=_show(sums.refunded_minor),
        unpaid=sums.unpaid,
        left_out=sums.left_out,
        fees={method: f"{fee:f}" for method, fee in sorted(fees.items())},
        switched_on=old_server.is_complete(uid),
        notes=notes,
    )


def _notes(old_server: Survey) -> list[str]:
    notes: list[str] = [*_STAY]
    if (
        any(merchant.public_key for merchant in old_server.merchants.values())
        and not old_server.private_key
    ):
        notes.append("Merchants have keys for V2, and the platform's private key is missing")
    others = sorted(name for name in old_server.types.values() if name not in rates.METHODS)
    if others:
        notes.append(
            f"Payments by {', '.join(others)} are shown as bank transfers; shops see their own type"
        )
    return notes


def as_rows(reports: Sequence[LeftOutReport]) -> list[dict[str, Any]]:
    """Return reports as rows of a table for people."""
    return [
        {
            "table": report.table,
            "reason": report.reason,
            "rows": report.rows,
            "rowsInFile": ", ".join(map(str, report.rows_in_file)),
        }
        for report in reports
    ]
