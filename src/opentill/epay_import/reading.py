"""Rows of the old server as merchants, orders, refunds and settlements.

Status values are those of its source (maker857/Epay: ``includes/lib/Order.php``,
``admin/order.php``, ``admin/ajax_settle.php``). Orders: 0 unpaid, 1 paid, 2 refunded in full or in
part, 3 frozen, 4 pre-authorized. Refunds: 1 done. Settlements: 0 waiting, 1 paid, 2 in progress, 3
failed.
"""

import re
from collections.abc import Mapping
from ipaddress import ip_address
from typing import Final
from urllib.parse import urlsplit

from opentill.core.errors import Invalid
from opentill.epay import Versions, read_public_key
from opentill.epay_import import values
from opentill.epay_import.model import (
    Channel,
    ImportedStatus,
    LeftOut,
    OldMerchant,
    OldOrder,
    OldRefund,
    OldSettlement,
    Row,
)

MAX_PID: Final = 999_999_999
_OUT_TRADE_NO: Final = re.compile(r"[A-Za-z0-9._|-]{1,64}", re.ASCII)
_TRADE_NO: Final = re.compile(r"[A-Za-z0-9]{1,64}", re.ASCII)
_ADDRESS: Final = re.compile(r"https?://[^\s\x00-\x1f]+", re.IGNORECASE)
_MAX_NAME: Final = 127  # bytes, as submissions are cut
_MAX_MINOR: Final = 9_999_999_999
_MAX_TYPE: Final = 32
_MAX_TEXT: Final = 2048
_STATUS_UNPAID, _STATUS_PAID, _STATUS_REFUNDED = b"0", b"1", b"2"
_UNUSABLE: Final = {
    b"3": "it is frozen: unfreeze or refund it on the old server",
    b"4": "it is pre-authorized: capture or cancel it on the old server",
}
_DONE: Final = 1
_OPEN_SETTLEMENTS: Final = (0, 2)


def cut(name: str) -> str:
    """Cut a name to the length of submitted ones, on the boundary of a character."""
    return name.encode()[:_MAX_NAME].decode(errors="ignore")


class Reader:
    """Reads rows with the times of a zone; ``types`` are the names of payment types."""

    def __init__(self, zone: str, types: Mapping[int, str]) -> None:
        """``types``: names by ids; they are looked up when an order is read."""
        self._time = values.time_reader(zone)
        self._types = types

    def order(self, row: Row) -> OldOrder:
        """Read an order. Raises LeftOut and BadSource."""
        (
            trade_no, out_trade_no, api_trade_no, uid, type_, channel, name, money, notify_url,
            return_url, addtime, endtime, ip, status, notify, realmoney, refundmoney, param,
            version,
        ) = row.values  # fmt: skip
        if status in _UNUSABLE:
            raise LeftOut(_UNUSABLE[status])
        number = values.text(row, trade_no, "trade_no")
        if _TRADE_NO.fullmatch(number) is None:
            msg = "trade_no is not of letters and digits"
            raise LeftOut(msg)
        shop_number = values.text(row, out_trade_no, "out_trade_no")
        if _OUT_TRADE_NO.fullmatch(shop_number) is None:
            msg = "out_trade_no is not of 1 to 64 letters, digits and . _ | -"
            raise LeftOut(msg)
        amount = values.minor(money, "money")
        if not 0 < amount <= _MAX_MINOR:
            msg = "money is not from 0.01 to 99999999.99"
            raise LeftOut(msg)
        created_at, paid_at = self._time(addtime, "addtime"), self._time(endtime, "endtime")
        created_at = created_at or paid_at
        if created_at is None:
            msg = "addtime is no time"
            raise LeftOut(msg)
        refunded, stands = self._read_status(status, amount, realmoney, refundmoney)
        is_paid = stands != "CLOSED"
        return OldOrder(
            uid=values.number(uid, "uid"),
            trade_no=number,
            out_trade_no=shop_number,
            api_trade_no=values.text(row, api_trade_no, "api_trade_no"),
            type=self._type(row, type_),
            channel=values.number(channel, "channel", 0),
            name=cut(values.text(row, name, "name")) or shop_number,
            money=f"{amount // 100}.{amount % 100:02}",
            amount_minor=amount,
            refunded_minor=refunded,
            notify_url=_address(values.text(row, notify_url, "notify_url")),
            return_url=_address(values.text(row, return_url, "return_url")),
            param=values.text(row, param, "param")[:_MAX_TEXT],
            created_at=created_at,
            paid_at=max(paid_at or created_at, created_at) if is_paid else None,
            payer_ip=_ip(ip),
            status=stands,
            notify=values.number(notify, "notify", 0),
            version=2 if version == b"1" else 1,
        )

    @staticmethod
    def _read_status(
        status: bytes | None, amount: int, realmoney: bytes | None, refundmoney: bytes | None
    ) -> tuple[int, ImportedStatus]:
        """Return how much was refunded, and the status here. Raises LeftOut."""
        if status == _STATUS_UNPAID:
            return 0, "CLOSED"
        if status not in (_STATUS_PAID, _STATUS_REFUNDED):
            msg = "its status is unknown"
            raise LeftOut(msg)
        refunded = values.minor(refundmoney, "refundmoney")
        paid = values.minor(realmoney, "realmoney") or amount
        # Versions before 2024 do not store how much was refunded: it was everything.
        is_full = refunded >= min(amount, paid) if refunded else status == _STATUS_REFUNDED
        if refunded < 0:
            msg = "refundmoney is below zero"
            raise LeftOut(msg)
        return (amount, "REFUNDED") if is_full else (refunded, "SETTLED")

    def _type(self, row: Row, value: bytes | None) -> str:
        written = values.text(row, value, "type")
        name = self._types.get(int(written), "") if values.is_number(written) else written
        return name[:_MAX_TYPE]

    def refund(self, row: Row) -> OldRefund | None:
        """Read a refund, None if it did not succeed. Raises LeftOut and BadSource."""
        refund_no, out_refund_no, trade_no, uid, money, status, addtime = row.values
        if values.number(status, "status") != _DONE:
            return None
        amount = values.minor(money, "money")
        if amount <= 0:
            msg = "money is not above zero"
            raise LeftOut(msg)
        created_at = self._time(addtime, "addtime")
        return OldRefund(
            uid=values.number(uid, "uid"),
            refund_no=values.text(row, refund_no, "refund_no"),
            out_refund_no=values.text(row, out_refund_no, "out_refund_no"),
            trade_no=values.text(row, trade_no, "trade_no"),
            amount_minor=amount,
            created_at=created_at or 0,
        )


def merchant(row: Row) -> OldMerchant:
    """Read a merchant. Raises LeftOut and BadSource."""
    cells = values.as_dict(row, "user")
    uid = values.number(cells["uid"], "uid")
    if not 0 < uid <= MAX_PID:
        msg = "uid is not from 1 to 999999999"
        raise LeftOut(msg)
    key = values.text(row, cells["key"], "key")
    off: list[str] = []
    notes: list[str] = []
    if not key:
        off.append("it has no key")
    balance = values.minor(cells["money"], "money")
    if balance < 0:
        off.append("its balance is below zero: settle the debt on the old server")
    if values.minor(cells["deposit"], "deposit") > 0:
        notes.append(
            "its deposit stays on the old server: freeze it here by `opentill balance freeze`"
        )
    if cells["mode"] == b"1":
        notes.append("its customers paid the fee: here the merchant pays it")
    public_key, versions = _read_versions(row, cells, notes)
    if cells["keytype"] == b"1" and public_key is None:
        off.append("it allows V2 only and has no usable public key")
    status, pay = cells["status"], cells["pay"]
    blocked = "the merchant was blocked on the old server" if status != b"1" else ""
    return OldMerchant(
        uid=uid,
        gid=values.number(cells["gid"], "gid", 0),
        name=_name(row, cells, uid),
        key=key,
        versions=versions,
        public_key=public_key,
        balance_minor=balance,
        channel_info=values.text(row, cells["channelinfo"], "channelinfo"),
        off=tuple(off),
        charge_off=blocked or ("payments were off on the old server" if pay == b"0" else ""),
        refund_off="refunds were off on the old server" if cells["refund"] == b"0" else "",
        payout_off="settlements were off on the old server" if cells["settle"] == b"0" else "",
        notes=tuple(notes),
    )


def _read_versions(
    row: Row, cells: Mapping[str, bytes | None], notes: list[str]
) -> tuple[str | None, Versions]:
    written = values.text(row, cells["publickey"], "publickey").strip()
    if not written:
        return None, "V1"
    try:
        public_key = read_public_key(written)
    except Invalid:
        notes.append("its public key for V2 cannot be read: it has V1 only")
        return None, "V1"
    return public_key, "V2" if cells["keytype"] == b"1" else "BOTH"


def _name(row: Row, cells: Mapping[str, bytes | None], uid: int) -> str:
    """Return the name of a merchant; it is shown to customers, so it is never a person's."""
    for column in ("codename", "certcorpname"):
        name = values.text(row, cells[column], column).strip()
        if name:
            return name[:200]
    url = values.text(row, cells["url"], "url").strip()
    host = _netloc(url if "//" in url else f"//{url}")
    return host[:200] or f"Merchant {uid}"


def _netloc(url: str) -> str:
    """Return host and port of an address, "" if it is none."""
    try:
        return urlsplit(url).netloc
    except ValueError:  # such as http://[
        return ""


def channel(row: Row, types: Mapping[int, str]) -> Channel:
    """Read a channel. Raises LeftOut and BadSource."""
    cells = values.as_dict(row, "channel")
    return Channel(
        id=values.number(cells["id"], "id"),
        type=types.get(values.number(cells["type"], "type"), ""),
        plugin=values.text(row, cells["plugin"], "plugin"),
        name=values.text(row, cells["name"], "name"),
        rate=values.text(row, cells["rate"], "rate"),
        is_on=cells["status"] == b"1",
    )


def settlement(row: Row) -> OldSettlement:
    """Read a settlement. Raises LeftOut."""
    cells = values.as_dict(row, "settle")
    return OldSettlement(
        uid=values.number(cells["uid"], "uid"),
        amount_minor=values.minor(cells["money"], "money"),
        is_open=values.number(cells["status"], "status") in _OPEN_SETTLEMENTS,
    )


def _address(url: str) -> str:
    is_address = len(url) <= _MAX_TEXT and _ADDRESS.fullmatch(url) and _netloc(url)
    return url if is_address else ""


def _ip(value: bytes | None) -> str:
    try:
        return str(ip_address((value or b"").decode("ascii")))
    except ValueError:
        return ""
