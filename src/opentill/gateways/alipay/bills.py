"""Alipay's bills of trades (业务明细) by API, joined to one file for reconciliation.

``alipay.data.dataservice.bill.downloadurl.query`` returns a link that is valid for 30 seconds. It
leads to an archive of two files in GBK: the trades, and sums of them. The link is on another host
than the API, and mostly begins with http://; it is called by https, because nothing else protects
the file. An expired link returns a page with status 200
(https://opendocs.alipay.com/open/3c9f1bcf_alipay.data.dataservice.bill.downloadurl.query).
"""

import re
import tempfile
from collections.abc import Awaitable, Callable, Iterator, Mapping
from http import HTTPStatus
from typing import IO, BinaryIO, Final
from urllib.parse import urlsplit

import msgspec

from opentill.core import unzip
from opentill.core.errors import ConfigurationError, Invalid
from opentill.gateways.alipay.wire import Reply
from opentill.gateways.bills import (
    DOWNLOAD_S,
    MOST_BYTES,
    MOST_PACKED,
    Day,
    JoinedBills,
    NoBill,
    TryAgain,
    china_time,
    days,
    fetch_days,
)
from opentill.gateways.failures import FAILURES, ProviderResponse
from opentill.outgoing.addresses import Forbidden, parse
from opentill.outgoing.client import Outgoing

METHOD: Final = "alipay.data.dataservice.bill.downloadurl.query"
# The document names the second code; the service responds with the first.
_NO_BILL: Final = frozenset({"isp.bill_not_exist", "BILL_NOT_EXIST"})
_SERVICE_FAILED: Final = "20000"
# Domains of Alipay, whose hosts serve the files of an API on the same domain.
_DOMAINS: Final = (".alipay.com", ".alipaydev.com")
_ENCODING: Final = "gb18030"  # includes GBK
_LONGEST: Final = 256 * 1024  # bytes of a line
_TITLE: Final = "#支付宝业务明细"
_SUMS: Final = "汇总"
_END: Final = "业务明细列表结束"
_ACCOUNT: Final = re.compile(r"账号[：:]\s*\[(\d{16})(?:0156)?\]", re.ASCII)
_PERIOD: Final = re.compile(
    r"起始日期[：:]\s*\[([^\]]{1,30})\]\s*终止日期[：:]\s*\[([^\]]{1,30})\]"
)

# The columns that reconciliation needs, for a range of time without any bill.
COLUMNS: Final = (
    "支付宝交易号", "商户订单号", "业务类型", "完成时间", "订单金额（元）", "退款批次号/请求号",
)  # fmt: skip

# Queries the link of a day's bill.
QueryLink = Callable[[Mapping[str, str]], Awaitable[ProviderResponse[Reply]]]


class Downloads(msgspec.Struct, frozen=True):
    """The clients for files: on the API's own server, and on Alipay's other hosts."""

    api_url: str
    own: Outgoing
    public: Outgoing

    async def fetch(self, link: str, target: BinaryIO) -> None:
        """Download a file. Raises TryAgain, and ConfigurationError for a link that is not used."""
        client, url = self.choose(link)
        try:
            response = await client.download(
                url, target, timeout_s=DOWNLOAD_S, max_bytes=MOST_PACKED
            )
        except FAILURES as error:
            raise TryAgain(str(error)) from None
        if response.status != HTTPStatus.OK:
            msg = f"the download responds with HTTP {response.status}"
            raise TryAgain(msg)

    def choose(self, link: str) -> tuple[Outgoing, str]:
        """Return the client and the address of a link. Raises ConfigurationError for others."""
        try:
            target, api = parse(link), parse(self.api_url)
        except Forbidden as error:
            msg = f"Alipay's link to a bill is refused: {error}"
            raise ConfigurationError(msg) from None
        if target.origin == api.origin:
            return self.own, link
        domain = next((each for each in _DOMAINS if api.host.endswith(each)), None)
        if domain is None or not target.host.endswith(domain) or target.port not in (80, 443):
            host = urlsplit(link).hostname
            msg = f"Alipay's link to a bill is refused: {host} is none of its hosts"
            raise ConfigurationError(msg)
        return self.public, f"https://{target.host}{target.rest}"


async def write(
    query: QueryLink,
    downloads: Downloads,
    target: BinaryIO,
    since: int | None,
    until: int | None,
    now_ms: int,
) -> None:
    """Write the trades between two times (Unix ms, inclusive) and of the rest of their days."""
    joined = JoinedBills(target)
    joined.write(f"{_TITLE}查询\r\n")
    if since is not None and until is not None:
        whole_days = list(days(since, until))
        start, end = china_time(whole_days[0].start_ms), china_time(whole_days[-1].end_ms)
        joined.write(f"#起始日期：[{start}]   终止日期：[{end}]\r\n")

    async def add(day: Day) -> None:
        response = await query({"bill_type": "trade", "bill_date": day.name})
        reply = response.value
        if reply is None:
            raise TryAgain(response.reason)
        if reply.sub_code in _NO_BILL:
            raise NoBill(reply.summary)
        if reply.code == _SERVICE_FAILED:
            raise TryAgain(reply.summary)
        if not reply.is_success:
            msg = f"Alipay does not return the bill of {day.name}: {reply.summary}"
            raise ConfigurationError(msg)
        with tempfile.TemporaryFile() as file:
            await downloads.fetch(reply.bill_download_url, file)
            _add_archive(joined, file, day)

    await fetch_days("Alipay", add, since, until, now_ms)
    if not joined.header:
        joined.begin_bill(",".join(COLUMNS))
    joined.write(f"#{_END}\r\n")


def _add_archive(joined: JoinedBills, file: IO[bytes], day: Day) -> None:
    """Add the rows of a downloaded archive. Raises TryAgain and ConfigurationError."""
    file.seek(0)
    if file.read(4) not in unzip.MAGIC:
        msg = "the file is no archive; the link has probably expired"
        raise TryAgain(msg)
    try:
        with unzip.open_unpacked(file, MOST_BYTES, _is_sums) as unpacked:
            _add_bill(joined, _lines(unpacked), day)
    except unzip.Damaged as error:
        # A connection that ends early may look like the end of the file: download it again.
        raise TryAgain(error.reason) from None
    except Invalid as error:
        msg = f"Alipay's bill of {day.name} cannot be read: {error.reason}"
        raise ConfigurationError(msg) from None


def _is_sums(name: str) -> bool:
    return _SUMS in unzip.decode_gbk_name(name)


def _lines(file: IO[bytes]) -> Iterator[str]:
    """Yield the lines of a bill without their ends. Raises Invalid."""
    while line := file.readline(_LONGEST):
        try:
            yield line.decode(_ENCODING).rstrip("\r\n")
        except UnicodeDecodeError:
            raise Invalid("file", "it must be in GBK") from None


def _add_bill(joined: JoinedBills, lines: Iterator[str], day: Day) -> None:
    """Add the rows of a bill, which must be that of the day and complete. Raises Invalid."""
    if not next(lines, "").startswith(_TITLE):
        raise Invalid("file", "it is no bill of trades")
    header = period = ""
    for line in lines:
        if not line.startswith("#"):
            header = line
            break
        if _ACCOUNT.search(line) and not joined.header:
            joined.write(f"{line}\r\n")
        if (stated := _PERIOD.search(line)) is not None:
            period = stated[1]
    if period != china_time(day.start_ms):
        raise Invalid("file", f"it begins on {period or 'no day'}")
    joined.begin_bill(header, day)
    for line in lines:
        if line.startswith("#"):
            if _END in line:
                return
            break
        joined.write(f"{line}\r\n")
    raise Invalid("file", "it is cut off")
