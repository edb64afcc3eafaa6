"""Records of an old Epay server that are imported, and the reasons why a row is left out."""

from typing import Final, Literal, NamedTuple

import msgspec

from opentill.epay import Versions

Kind = Literal["config", "type", "channel", "group", "user", "order", "refundorder", "settle"]
# The status that an old order gets here.
ImportedStatus = Literal["SETTLED", "REFUNDED", "CLOSED"]
CURRENCY: Final = "CNY"  # the only currency of the old server


class BadSource(Exception):
    """The dump or database cannot be read; nothing of it was written."""

    def __init__(self, reason: str, table: str = "", row: int = 0) -> None:
        """``table`` and ``row`` say where: the last table, and the last row that was read of it."""
        where = f"{table}, row {row}: " if row else f"{table}: " if table else ""
        super().__init__(f"{where}{reason}")


class Row(NamedTuple):
    """A row of a table: its number in the file, from 1, and the values of the chosen columns."""

    table: str
    number: int
    values: tuple[bytes | None, ...]


class LeftOut(Exception):
    """A row that cannot come over, and why."""

    def __init__(self, reason: str) -> None:
        """``reason`` names no value, so that rows with the same reason are counted together."""
        super().__init__(reason)
        self.reason = reason


class OldMerchant(msgspec.Struct, frozen=True, kw_only=True):
    """A merchant of the old server."""

    uid: int
    gid: int
    name: str
    key: str
    versions: Versions
    public_key: str | None
    balance_minor: int
    channel_info: str  # JSON: rates of this merchant only
    off: tuple[str, ...]  # why it must not be switched on
    charge_off: str  # why it may not take payments, "" if it may
    refund_off: str
    payout_off: str
    notes: tuple[str, ...]  # what the operator should know


class OldOrder(NamedTuple):
    """An order of the old server; a tuple, because there may be millions."""

    uid: int
    trade_no: str
    out_trade_no: str
    api_trade_no: str
    type: str  # the name of the payment type, "" if the customer had chosen none
    channel: int
    name: str
    money: str
    amount_minor: int
    refunded_minor: int
    notify_url: str
    return_url: str
    param: str
    created_at: int
    paid_at: int | None
    payer_ip: str
    status: ImportedStatus
    notify: int  # 0: the shop has acknowledged it; above 0: tries that failed; below: given up
    version: int


class OldRefund(msgspec.Struct, frozen=True, kw_only=True):
    """A refund of the old server that succeeded."""

    uid: int
    refund_no: str
    out_refund_no: str
    trade_no: str
    amount_minor: int
    created_at: int


class OldSettlement(msgspec.Struct, frozen=True, kw_only=True):
    """A settlement of the old server: money that left, or leaves, a merchant's balance."""

    uid: int
    amount_minor: int
    is_open: bool


class Channel(msgspec.Struct, frozen=True, kw_only=True):
    """An account of the operator at a provider, as the old server knows it."""

    id: int
    type: str
    plugin: str
    name: str
    rate: str  # the merchant's share in percent
    is_on: bool
