"""Bills of whole days of China: the payments and refunds of a dialect, and their files.

As at Alipay and WeChat Pay, the bill of a day is made after its end, and a day without movements
has none.
"""

import gzip
import io
import zipfile
from datetime import UTC, date, datetime
from typing import Final, Literal

import msgspec

from opentill.sandbox.storage import Tx
from opentill.sandbox.timers import now_ms

_OFFSET_MS: Final = 8 * 3_600_000
_DAY_MS: Final = 86_400_000
_BOMB: Final = 16 * 1024 * 1024  # bytes of zeros, which pack to a thousandth
_SQL: Final = """
select * from (
    select 'payment' as kind, '' as refund_id, id as payment_id, amount_minor, settled_at as at,
        description, 'succeeded' as status
    from payments where status = 'succeeded' and dialect = :dialect
    union all
    select 'refund', r.id, r.payment_id, r.amount_minor, r.created_at, p.description,
        case when r.reversed_at is null then r.status else 'reversed' end
    from refunds r join payments p on p.id = r.payment_id
    where p.dialect = :dialect and (r.succeeded_at is not null or r.status = 'pending')
) where at between :since and :until order by at, kind, refund_id, payment_id
"""


class Movement(msgspec.Struct, frozen=True):
    """A payment or a refund; Unix ms."""

    kind: Literal["payment", "refund"]
    refund_id: str
    payment_id: str
    amount_minor: int
    at: int
    description: str
    status: Literal["succeeded", "pending", "reversed"]


def read_day(text: str) -> date | None:
    """Return a day such as 2026-11-27; None for other texts and for days that have not ended."""
    try:
        day = date.fromisoformat(text)
    except ValueError:
        return None
    today = datetime.fromtimestamp((now_ms() + _OFFSET_MS) / 1000, UTC).date()
    return day if day < today else None


def movements(tx: Tx, dialect: str, day: date) -> list[Movement]:
    """Return the movements of a day, oldest first."""
    number = (day - date(1970, 1, 1)).days
    since = number * _DAY_MS - _OFFSET_MS
    return tx.all(Movement, _SQL, dialect=dialect, since=since, until=since + _DAY_MS - 1)


def zipped(*files: tuple[str, bytes]) -> bytes:
    """Return an archive of files whose names are in GBK, as Alipay makes it."""
    target = io.BytesIO()
    with zipfile.ZipFile(target, "w") as archive:
        for name, content in files:
            # Python writes names in CP437 or UTF-8: these characters of CP437 are bytes of GBK.
            info = zipfile.ZipInfo(name.encode("gbk").decode("cp437"))
            info.compress_type = zipfile.ZIP_DEFLATED
            archive.writestr(info, content)
    return target.getvalue()


def gzipped(content: bytes) -> bytes:
    """Return a file compressed with gzip."""
    return gzip.compress(content)


def bomb() -> bytes:
    """Return content that packs to a small part of its size."""
    return bytes(_BOMB)
