"""WeChat Pay's trade bill (交易账单), as its merchant platform exports it.

Source: pay.weixin.qq.com, "交易账单详细说明" (format-trade). The file has a header, a line for each
payment and each accepted refund, another header and a line of totals. A backtick begins each value,
so that values may contain commas. Times are those of China, amounts are in yuan, and a bill has
whole days of China. The bills of types ALL, SUCCESS and REFUND differ in their columns: SUCCESS has
payments only, and REFUND refunds only, of the day on which they were accepted; its 交易时间 is
that of the payment.
"""

import re
from collections.abc import Iterator, Mapping
from datetime import datetime, timedelta, timezone
from decimal import Decimal
from typing import Final

from opentill.core import times
from opentill.core.errors import Invalid
from opentill.core.money import EXPONENTS, MOST_MINOR, exponent
from opentill.reconciliation.model import Kind, Period, Row, bounds_of_day

Cells = Mapping[str, str]
_CHINA: Final = timezone(timedelta(hours=8))
_AMOUNT: Final = re.compile(r"[0-9]{1,13}(?:\.[0-9]{1,2})?", re.ASCII)
_TIME, _PAYMENT, _STATE, _CURRENCY = "交易时间", "商户订单号", "交易状态", "货币种类"
_NEEDED: Final = {_TIME, "微信订单号", _PAYMENT, _STATE, _CURRENCY}
_ACCOUNT: Final = "商户号"
_TOTALS: Final = "总交易单数"  # begins the second header
_REFUND, _THEIR_REFUND, _REFUND_STATE = "商户退款单号", "微信退款单号", "退款状态"
_ACCEPTED: Final = "退款申请时间"  # only bills of type REFUND have it
# The amount that the customer was charged, or got back: newer bills first.
_PAID: Final[tuple[str, ...]] = ("订单金额", "应结订单金额", "总金额")
_REFUNDED: Final = ("申请退款金额", "退款金额")
_OUR_REFUNDS: Final = ("re_", "att_")
_NO_REFUND: Final = "FAIL"  # the refund was accepted, and has failed
# REVOKED: the payment was cancelled after it had succeeded.
_KINDS: Final[dict[str, Kind]] = {
    "SUCCESS": "payment",
    "REFUND": "refund",
    "REVOKED": "payment_failure",
}


def is_bill(header: list[str]) -> bool:
    """Whether a report with these columns is a trade bill."""
    return set(header) >= _NEEDED


def kinds_of(header: list[str]) -> frozenset[Kind] | None:
    """Return the kinds of movements that a bill with these columns has; None for all."""
    if _ACCEPTED in header:
        return frozenset(["refund"])
    if _THEIR_REFUND not in header:
        return frozenset(["payment", "payment_failure"])
    return None


def read(lines: Iterator[str], header: list[str], period: Period) -> Iterator[Row]:
    """Yield the rows after the header. Raises Invalid that names the line.

    Stores the number of the merchant account in ``period``.
    """
    for number, line in enumerate(lines, 2):
        text = line.strip()
        if text.startswith(_TOTALS):
            return
        if not text:
            continue
        cells = text.removeprefix("`").split(",`")
        if len(cells) != len(header):
            reason = f"line {number}: as many cells as line 1 are needed"
            raise Invalid("file", f"{reason}: {len(header)}, not {len(cells)}")
        by_name = dict(zip(header, map(str.strip, cells), strict=True))
        account = by_name.get(_ACCOUNT, "")
        if period.account not in ("", account):
            reason = f"{account} is another account than {period.account} in the lines before"
            raise Invalid("file", f"line {number}: {reason}")
        period.account = account
        row = _parse_row(number, by_name)
        if row is not None:
            yield row


def _parse_row(line: int, cells: Cells) -> Row | None:
    state = cells[_STATE]
    kind = _KINDS.get(state, "unknown")
    reference, amounts = cells[_PAYMENT], _PAID
    if kind == "refund":
        if cells.get(_REFUND_STATE) == _NO_REFUND:
            return None
        ours, theirs = cells.get(_REFUND, ""), cells.get(_THEIR_REFUND, "")
        # Our books know a refund that was made at WeChat Pay by WeChat Pay's number.
        reference, amounts = ours if ours.startswith(_OUR_REFUNDS) else theirs or ours, _REFUNDED
    elif kind == "unknown":
        reference = f"{state} {reference}"
    if not reference or "\x00" in reference:
        raise Invalid("file", f"line {line}: must have a number of the payment or refund")
    settled_at = _parse_time(line, *_time_cell(cells, kind))
    complete_since, complete_until = bounds_of_day(settled_at, _CHINA)
    return Row(
        line=line,
        kind=kind,
        reference=reference[:255],
        amount_minor=_parse_amount(line, cells, amounts),
        currency=cells[_CURRENCY],
        settled_at=settled_at,
        complete_since=complete_since,
        complete_until=complete_until,
    )


def _parse_amount(line: int, cells: Cells, columns: tuple[str, ...]) -> int:
    text = next((cells[name] for name in columns if name in cells), "")
    currency = cells[_CURRENCY]
    if _AMOUNT.fullmatch(text) is None or currency not in EXPONENTS:
        reason = "amount and currency must be such as 9.99 and CNY"
        raise Invalid("file", f"line {line}: {reason}")
    exact = Decimal(text).scaleb(exponent(currency))
    if not 0 <= exact <= MOST_MINOR or exact != int(exact):
        raise Invalid("file", f"line {line}: must have an amount of {currency}")
    return int(exact)


def _time_cell(cells: Cells, kind: Kind) -> tuple[str, str]:
    """Return the name and the text of the cell with the time of a movement."""
    name = _ACCEPTED if kind == "refund" and _ACCEPTED in cells else _TIME
    return name, cells[name]


def _parse_time(line: int, name: str, text: str) -> int:
    try:
        moment = datetime.strptime(text, "%Y-%m-%d %H:%M:%S").replace(tzinfo=_CHINA)
        time_ms = round(moment.timestamp() * 1000)
    except (ValueError, OverflowError):
        time_ms = 0
    if not times.is_credible(time_ms):
        reason = f"{name} must be such as 2026-01-31 10:00:00, of 2000 to 2099"
        raise Invalid("file", f"line {line}: {reason}")
    return time_ms
