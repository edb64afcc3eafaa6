"""Receipt numbers: short numbers for people, which follow from the ids of orders.

A number such as ``261127-4K7D-9QXM-T3RW`` is the day (UTC) on which the order was created, and the
last twelve digits of its id in capitals. It therefore needs no counter, which each payment of a
merchant would have to lock, exists for orders of earlier versions, and does not show how much a
merchant sells. Twelve digits are 60 random bits, so that no two orders of a day have the same. The
day makes the order findable: its id is in a range of the primary key.
"""

import re
from datetime import UTC, datetime, timedelta
from typing import Final

import msgspec

from opentill.core import ids, times

_TAIL: Final = 12  # digits of the id
_GROUP: Final = 4
_DAY: Final = "%y%m%d"
_NUMBER: Final = re.compile(r"([0-9]{6})-?([0-9a-z]{4})-?([0-9a-z]{4})-?([0-9a-z]{4})", re.ASCII)


class IdRange(msgspec.Struct, frozen=True):
    """The ids from ``first`` up to, but not including, ``until`` that end with ``tail``."""

    first: str
    until: str
    tail: str


def receipt_number(order_id: str) -> str:
    """Return the receipt number of an order."""
    tail = order_id[-_TAIL:].upper()
    groups = [tail[at : at + _GROUP] for at in range(0, len(tail), _GROUP)]
    day = times.moment(ids.creation_time(order_id))
    return "-".join((f"{day:{_DAY}}", *groups))


def parse_receipt_number(text: str) -> IdRange | None:
    """Return the ids that an order with a receipt number can have; None for another text.

    Upper and lower case are equal, and the hyphens may be missing.
    """
    match = _NUMBER.fullmatch(text.strip().lower())
    if match is None:
        return None
    try:
        day = datetime.strptime(match[1], _DAY).replace(tzinfo=UTC)
    except ValueError:  # the digits are no date
        return None
    first, until = (
        ids.first_id("order", int(moment.timestamp()) * 1000)
        for moment in (day, day + timedelta(days=1))
    )
    return IdRange(first, until, "".join(match.groups()[1:]))
