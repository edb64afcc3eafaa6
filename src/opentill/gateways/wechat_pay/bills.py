"""WeChat Pay's trade bills (交易账单) by API, joined to one file for reconciliation.

``/v3/bill/tradebill`` returns an address on the same server and the SHA-1 of the unpacked bill in a
signed response; the file itself is not signed (pay.weixin.qq.com, "申请交易账单", "下载账单", and
4013071254 for what the error codes mean). The address is valid for half a minute or longer.
"""

import hashlib
import hmac
import tempfile
from collections.abc import Awaitable, Callable, Iterator
from http import HTTPStatus
from typing import IO, BinaryIO, Final

import msgspec

from opentill.core import unzip
from opentill.core.errors import ConfigurationError, Invalid
from opentill.gateways.bills import (
    MOST_BYTES,
    Day,
    JoinedBills,
    NoBill,
    TryAgain,
    fetch_days,
)
from opentill.gateways.wechat_pay import wire
from opentill.gateways.wechat_pay.transport import NoReply, Reply

_NO_BILL: Final = frozenset({"NO_STATEMENT_EXIST"})
_CREATING: Final = frozenset({"STATEMENT_CREATING"})
_HASH: Final = "SHA1"
_LONGEST: Final = 256 * 1024  # bytes of a line
_CHUNK: Final = 64 * 1024
_TOTALS: Final = "总交易单数"  # begins the header of the totals
# The columns that reconciliation needs, for a range of time without any bill.
COLUMNS: Final = (
    "交易时间", "微信订单号", "商户订单号", "交易状态", "货币种类", "微信退款单号",
)  # fmt: skip

# Sends a GET request to a path.
Get = Callable[[str], Awaitable[Reply | NoReply]]
# Downloads a file from a path; returns the HTTP status, or why there is none.
Download = Callable[[str, BinaryIO], Awaitable[int | str]]


class Link(msgspec.Struct, frozen=True):
    """The response to the query of a bill."""

    hash_type: str
    hash_value: str
    download_url: str


async def write(
    get: Get,
    download: Download,
    api_url: str,
    target: BinaryIO,
    since: int | None,
    until: int | None,
    now_ms: int,
) -> None:
    """Write the trades between two times (Unix ms, inclusive) and of the rest of their days.

    ``api_url`` is that of the API, without a trailing slash; files are on its server only.
    """
    joined = JoinedBills(target)

    async def add(day: Day) -> None:
        link = _read_link(await get(_path(day)), day)
        path = link.download_url.removeprefix(api_url)
        if path == link.download_url or not path.startswith("/"):
            msg = f"WeChat Pay's link to the bill of {day.name} is refused: it is not on {api_url}"
            raise ConfigurationError(msg)
        with tempfile.TemporaryFile() as file:
            status = await download(path, file)
            if status != HTTPStatus.OK:
                reason = status if isinstance(status, str) else f"HTTP {status}"
                msg = f"the download responds with {reason}"
                raise TryAgain(msg)
            try:
                with unzip.open_gunzipped(file, MOST_BYTES) as unpacked:
                    _check_digest(unpacked, link)
                    _add_bill(joined, _lines(unpacked), day)
            except unzip.Damaged as error:
                # A connection that ends early may look like the end of the file: download it again.
                raise TryAgain(error.reason) from None
            except Invalid as error:
                msg = f"WeChat Pay's bill of {day.name} cannot be read: {error.reason}"
                raise ConfigurationError(msg) from None

    await fetch_days("WeChat Pay", add, since, until, now_ms)
    if not joined.header:
        joined.begin_bill(",".join(COLUMNS))


def _path(day: Day) -> str:
    return f"/v3/bill/tradebill?bill_date={day.name}&bill_type=ALL&tar_type=GZIP"


def _read_link(reply: Reply | NoReply, day: Day) -> Link:
    """Return the link of a response. Raises TryAgain, NoBill and ConfigurationError."""
    if isinstance(reply, NoReply):
        raise TryAgain(reply.reason)
    if reply.is_success:
        link = wire.read(reply.body, Link)
        if link is None or link.hash_type != _HASH:
            msg = "a response in another format"
            raise TryAgain(msg)
        return link
    error = reply.error
    if error.code in _NO_BILL:
        raise NoBill(error.summary)
    is_failure = reply.status >= HTTPStatus.INTERNAL_SERVER_ERROR
    if is_failure or error.code in _CREATING | wire.SYSTEM_ERRORS | wire.NOT_PROCESSED:
        raise TryAgain(error.summary)
    msg = f"WeChat Pay does not return the bill of {day.name}: {error.summary}"
    raise ConfigurationError(msg)


def _check_digest(file: IO[bytes], link: Link) -> None:
    """Raise TryAgain unless the unpacked file is the one of the signed response."""
    digest = hashlib.sha1(usedforsecurity=False)
    file.seek(0)
    while chunk := file.read(_CHUNK):
        digest.update(chunk)
    file.seek(0)
    if not hmac.compare_digest(digest.hexdigest(), link.hash_value.lower()):
        msg = "the file is not the one that WeChat Pay announced: its SHA-1 differs"
        raise TryAgain(msg)


def _lines(file: IO[bytes]) -> Iterator[str]:
    """Yield the lines of a bill without their ends. Raises Invalid."""
    while line := file.readline(_LONGEST):
        try:
            yield line.decode().rstrip("\r\n").removeprefix("\ufeff")
        except UnicodeDecodeError:
            raise Invalid("file", "it must be in UTF-8") from None


def _add_bill(joined: JoinedBills, lines: Iterator[str], day: Day) -> None:
    """Add the rows of a bill. Raises Invalid for one without totals, which is cut off."""
    joined.begin_bill(next(lines, ""), day)
    for line in lines:
        if line.startswith(_TOTALS):
            return
        joined.write(f"{line}\r\n")
    raise Invalid("file", "it is cut off")
