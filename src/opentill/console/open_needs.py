"""The kinds of matters that need attention now, with their items: the lines of the home page."""

from collections import Counter

import msgspec

from opentill.console.needs import NEEDS, Item, Need
from opentill.core.money import Money
from opentill.db.database import Tx
from opentill.portal.model import CONSOLE_PATH
from opentill.portal.request import PageRequest


class OpenNeed(msgspec.Struct, frozen=True):
    """A kind that has items: how many, and the path of the page with them or of the only one.

    ``items`` are those that were read to count them; kinds that are only counted have none.
    """

    need: Need
    count: int
    path: str
    items: list[Item] = []

    @property
    def sums(self) -> list[Money]:
        """The money of the items, by currency."""
        by_currency: Counter[str] = Counter()
        for item in self.items:
            if item.money is not None:
                by_currency[item.money.currency] += item.money.minor
        return [Money(minor, currency) for currency, minor in by_currency.most_common()]

    @property
    def deadline(self) -> int | None:
        """When the first response is due (Unix ms), None if none is."""
        return min((item.due for item in self.items if item.due is not None), default=None)


async def count_all(tx: Tx, request: PageRequest) -> list[OpenNeed]:
    """Count each kind that the person may see; return the kinds that have items."""
    visible = [need for need in NEEDS if request.may(need.permission)]
    needs = [await _count(tx, need, request) for need in visible]
    return [need for need in needs if need.count]


async def _count(tx: Tx, need: Need, request: PageRequest) -> OpenNeed:
    now, items = request.now, list[Item]()
    if (read := need.items or need.listed) is not None:
        items = await read(tx, now)
        count = len(items)
    else:
        count = await need.count(tx, now)
    if need.count_for is not None:
        count += await need.count_for(tx, request)
    return OpenNeed(need, count, await find_path(tx, need, count, items, now), items)


async def find_path(tx: Tx, need: Need, count: int, items: list[Item], now: int) -> str:
    """Return the page of the only item, or the one that lists them all."""
    if count == 1 and len(items) == 1:
        return items[0].path
    below = ""
    if count == 1 and need.find_only is not None:
        below = await need.find_only(tx, now)
    return CONSOLE_PATH + (below or need.place)
