"""The pending orders of a merchant: those whose search terms are not in the index yet."""

from collections.abc import AsyncIterator
from typing import Final

from opentill.db.database import Tx
from opentill.orders.search import queries
from opentill.orders.search.model import Candidate

_MOST_KEPT: Final = 1000  # pending orders that are kept in memory


class PendingOrders:
    """A merchant's pending orders in one snapshot, read again only if they are very many."""

    def __init__(self, tx: Tx, merchant_id: str) -> None:
        """``tx`` is a snapshot."""
        self._tx = tx
        self._merchant_id = merchant_id
        self._kept: list[Candidate] | None = None  # all of them, once they have been read

    async def each(self) -> AsyncIterator[Candidate]:
        """Yield every pending order."""
        if self._kept is not None:
            for candidate in self._kept:
                yield candidate
            return
        read: list[Candidate] = []
        number = 0
        async for candidate in queries.PENDING.each(self._tx, merchant_id=self._merchant_id):
            number += 1
            if number <= _MOST_KEPT:
                read.append(candidate)
            yield candidate
        if number == len(read):
            self._kept = read
