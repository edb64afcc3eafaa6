"""Alipay's bill of trades (业务明细), as its merchant center and its API export it.

The API's archive has two files in GBK: the trades, and sums of them (汇总), which are skipped. The
trades are a table between lines that begin with ``#``, which state the bill's period; its cells
may end with tabs, and refunds have negative amounts (https://opendocs.alipay.com/open/204/106262).
"""

import csv
import re
from collections.abc import Iterator, Mapping
from datetime import datetime, timedelta, timezone
from decimal import Decimal
from typing import IO, Any, Final

from opentill.core import times, unzip
from opentill.core.errors import Invalid
from opentill.core.money import MOST_MINOR
from opentill.reconciliation.lines import LONGEST
from opentill.reconciliation.model import Kind, Period, Row, bounds_of_moment

_CURRENCY: Final = "CNY"
_CHINA: Final = timezone(timedelta(hours=8))
_ENCODING: Final = "gb18030"  # includes GBK
_TITLE: Final = "#支付宝业务明细"
_SUMS: Final = "汇总"
_UNIT: Final = re.compile(r"[（(]元[）)]$")
_AMOUNT: Final = re.compile(r"-?([0-9]{1,15}(?:\.[0-9]{1,2})?)", re.ASCII)
_TRADE, _ORDER, _KIND = "支付宝交易号", "商户订单号", "业务类型"
_AT, _PRICE, _REQUEST = "完成时间", "订单金额", "退款批次号/请求号"
_COLUMNS: Final = (_TRADE, _ORDER, _KIND, _AT, _PRICE, _REQUEST)
_KINDS: Final[dict[str, Kind]] = {"交易": "payment", "退款": "refund"}
_MOST_LINES: Final = 100  # before the table
# The period, in China's time. Its end is the first moment after it.
_STATED: Final = r"[：:]\s*\[(\d{4})年(\d\d)月(\d\d)日\s*(\d\d):(\d\d):(\d\d)\]"
_SINCE: Final = re.compile("起始日期" + _STATED, re.ASCII)
_UNTIL: Final = re.compile("终止日期" + _STATED, re.ASCII)
# The account's number; files of the API have four more digits, which mean nothing.
_ACCOUNT: Final = re.compile(r"账号[：:]\s*\[(\d{16})(?:\d{4})?\]", re.ASCII)
_EXPORTED: Final = re.compile("导出时间" + _STATED, re.ASCII)


def encoding_of(file: IO[bytes]) -> str:
    """Return the encoding of a report: that of Alipay if it begins like its bill, else UTF-8."""
    first = file.readline(LONGEST)
    file.seek(0)
    try:
        first.decode()
    except UnicodeDecodeError:
        if first.startswith(b"#"):
            return _ENCODING
    return "utf-8"


def is_sums(name: str) -> bool:
    """Whether a file of an archive has only sums. The names in Alipay's archives are in GBK."""
    return _SUMS in unzip.decode_gbk_name(name)


def is_bill(first_row: list[str]) -> bool:
    """Whether a report that begins with this row is a bill of Alipay."""
    return bool(first_row) and first_row[0].strip().startswith(_TITLE)


def read(lines: Any, period: Period) -> Iterator[Row]:
    """Yield the rows of a ``csv.reader``, whose first row was read. Raises Invalid.

    Stores the bill's period and account in ``period``.
    """
    header = _find_header(lines, period)
    try:
        for cells in lines:
            if cells and cells[0].startswith("#"):
                _end_at_export(lines, period)
                return
            if not any(cell.strip() for cell in cells):
                continue
            if len(cells) != len(header):
                reason = (
                    f"line {lines.line_num}: as many cells as the table's first line are needed"
                )
                raise Invalid("file", f"{reason}: {len(header)}, not {len(cells)}")
            by_name = {name: cell.strip() for name, cell in zip(header, cells, strict=True)}
            yield _row(lines.line_num, by_name)
    except csv.Error as error:
        raise Invalid("file", f"line {lines.line_num}: must be CSV ({error})") from None
    reason = f"line {lines.line_num}: the bill is cut off; its last line must begin with #"
    raise Invalid("file", reason)


def _find_header(lines: Any, period: Period) -> list[str]:
    """Return the names of the columns, without their unit. Stores the period and the account."""
    for cells in lines:
        text = ",".join(cells)
        since, until = _SINCE.search(text), _UNTIL.search(text)
        if (account := _ACCOUNT.search(text)) is not None:
            period.account = account[1]
        if since is not None and until is not None:
            period.since = _stated_time(lines.line_num, since)
            period.until = _stated_time(lines.line_num, until) - 1
        names = [_UNIT.sub("", cell.strip()) for cell in cells]
        if names.count(_TRADE) == 1 and all(names.count(name) == 1 for name in _COLUMNS):
            return names
        if lines.line_num > _MOST_LINES:
            break
    columns = ", ".join(_COLUMNS)
    raise Invalid("file", f"file must be Alipay's bill of trades with the columns {columns}")


def _row(line: int, cells: Mapping[str, str]) -> Row:
    kind: Kind = _KINDS.get(cells[_KIND], "unknown")
    reference = cells[_ORDER] if kind == "payment" else cells[_REQUEST]
    if kind == "unknown":
        reference = f"{cells[_KIND]} {cells[_TRADE]}"
    reference = reference or cells[_TRADE]
    number = _AMOUNT.fullmatch(cells[_PRICE])
    minor = int(Decimal(number[1]).scaleb(2)) if number is not None else -1
    if not 0 <= minor <= MOST_MINOR or not reference or "\x00" in reference:
        raise Invalid("file", f"line {line}: must have a number and an amount such as 9.99")
    settled_at = _parse_time(line, cells[_AT])
    complete_since, complete_until = bounds_of_moment(settled_at, 1000)
    return Row(
        line=line,
        kind=kind,
        reference=reference[:255],
        amount_minor=minor,
        currency=_CURRENCY,
        settled_at=settled_at,
        complete_since=complete_since,
        complete_until=complete_until,
    )


def _end_at_export(lines: Any, period: Period) -> None:
    """End the period at the time of the export, which may be before its last day has ended."""
    for cells in lines:
        if (match := _EXPORTED.search(",".join(cells))) is not None and period.until is not None:
            period.until = min(period.until, _stated_time(lines.line_num, match) - 1)


def _stated_time(line: int, match: re.Match[str]) -> int:
    try:
        moment = datetime.strptime(" ".join(match.groups()), "%Y %m %d %H %M %S").replace(
            tzinfo=_CHINA
        )
    except ValueError:
        raise Invalid("file", f"line {line}: {match[0]} must have a date and a time") from None
    return round(moment.timestamp() * 1000)


def _parse_time(line: int, text: str) -> int:
    try:
        moment = datetime.strptime(text, "%Y-%m-%d %H:%M:%S").replace(tzinfo=_CHINA)
        time_ms = round(moment.timestamp() * 1000)
    except (ValueError, OverflowError):
        time_ms = 0
    if not times.is_credible(time_ms):
        reason = f"{_AT} must be a time of 2000 to 2099 such as 2026-01-31 10:00:00"
        raise Invalid("file", f"line {line}: {reason}")
    return time_ms
