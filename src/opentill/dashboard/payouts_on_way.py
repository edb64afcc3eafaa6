"""Payouts on their way to the bank, for Balance, Payouts and Home: their sum and expected day."""

from datetime import tzinfo
from typing import Final

import msgspec

from opentill import payouts
from opentill.core.money import Money
from opentill.db.database import Tx
from opentill.payouts import Payout
from opentill.portal.request import PageRequest
from opentill.web.language import Localizer

_LAST_PAYOUTS: Final = 5  # whose arrival says how long the next one takes


class OnTheWay(msgspec.Struct, frozen=True):
    """The pending payouts in one currency: their sum as text, their number, the expected day.

    ``day`` is "" if no payout has arrived yet, or if they are late.
    """

    amount: str
    number: int
    day: str


class UsualArrival(msgspec.Struct, frozen=True):
    """How long the slowest of the last payouts took to arrive, in ms; None if none has arrived."""

    length_ms: int | None

    def shown(self, localizer: Localizer) -> str:
        """Return the length as text, "" if none has arrived."""
        return "" if self.length_ms is None else localizer.duration(self.length_ms)

    def expected_at(self, created_at: int, now: int) -> int | None:
        """Return when a pending payout should arrive, None if that is unknown or has passed."""
        if self.length_ms is None or created_at + self.length_ms <= now:
            return None
        return created_at + self.length_ms


async def find_usual_arrival(tx: Tx, merchant_id: str) -> UsualArrival:
    """Return how long the slowest of the last payouts took to arrive."""
    newest = await payouts.list_newest_of_status(tx, merchant_id, "PAID", _LAST_PAYOUTS)
    times = [payout.paid_at - payout.created_at for payout in newest if payout.paid_at is not None]
    return UsualArrival(max(times, default=None))


async def find(
    tx: Tx, request: PageRequest, zone: tzinfo, arrival: UsualArrival | None = None
) -> dict[str, OnTheWay]:
    """Return the pending payouts by currency, as far as this person may see them.

    ``arrival``: how long payouts usually take, None if the caller has not read it.
    """
    merchant_id = request.access.merchant_id
    if not request.access.may("payouts.read"):
        return {}
    totals = await payouts.sum_pending(tx, merchant_id)
    if not totals:
        return {}
    if arrival is None:
        arrival = await find_usual_arrival(tx, merchant_id)
    return {
        currency: OnTheWay(
            request.localizer.amount(Money(total.amount_minor, currency)),
            total.payouts,
            _day_of(request, arrival.expected_at(total.newest_at, request.now), zone),
        )
        for currency, total in totals.items()
    }


def expected_day(request: PageRequest, arrival: UsualArrival, payout: Payout, zone: tzinfo) -> str:
    """Return the day on which a pending payout should arrive, "" if that is unknown."""
    if payout.status != "PENDING":
        return ""
    return _day_of(request, arrival.expected_at(payout.created_at, request.now), zone)


def _day_of(request: PageRequest, at: int | None, zone: tzinfo) -> str:
    """Return the day of a time as text, "" for None."""
    return "" if at is None else request.localizer.recent_date(at, zone, request.now)
