"""What a merchant can know about its payouts: the account, why they wait, how long they take."""

from collections.abc import Sequence
from datetime import tzinfo
from itertools import pairwise
from typing import Final

import msgspec

from opentill import payouts
from opentill.core import times
from opentill.dashboard import payout_wait, payouts_on_way
from opentill.portal.request import PageRequest
from opentill.web.language import Localizer
from opentill.web.translations import N_

COMPARED: Final = 4  # the last payouts, whose distances show how often they are created
_AT_LEAST: Final = 3
_DAY_MS: Final = 24 * 3_600_000


class PayoutFacts(msgspec.Struct, frozen=True):
    """The bank account, why payouts to it wait, the newest payout, and what is usual.

    ``arrival`` is the time that the slowest of the last ones took, "" if none has arrived.
    ``rhythm`` says how often payouts were created, "" if there is no rule.
    """

    account: payouts.StoredAccount | None
    wait: payout_wait.PayoutWait | None
    last: payouts.Payout | None
    arrival: str
    rhythm: str


def find_rhythm(
    newest: Sequence[payouts.Payout], localizer: Localizer, zone: tzinfo, now: int
) -> str:
    """Return how often the last payouts were created and when the next one would be.

    ``newest`` are the last payouts, the newest first. Returns "" unless there are at least three,
    the same number of days apart.
    """
    days = [times.moment(payout.created_at, zone).date() for payout in newest[:COMPARED]]
    gaps = {(later - earlier).days for later, earlier in pairwise(days)}
    gap = next(iter(gaps)) if len(days) >= _AT_LEAST and len(gaps) == 1 else 0
    if not gap:
        return ""
    if gap == 1:
        text = localizer.gettext(N_("The last payouts were created every day."))
    else:
        text = localizer.gettext(
            N_("The last payouts were created every {days} days."), days=localizer.number(gap)
        )
    next_at = newest[0].created_at + gap * _DAY_MS
    if next_at <= now:
        return text
    day = localizer.recent_date(next_at, zone, now)
    following = localizer.gettext(N_("The next one would then be on {day}."), day=day)
    return f"{text} {following}"


async def read(request: PageRequest, zone: tzinfo) -> PayoutFacts:
    """Read the facts of the merchant's payouts."""
    merchant_id = request.merchant_id
    async with request.app.db.connection() as tx:
        account = await payouts.find_account(tx, merchant_id)
        newest = await payouts.list_newest(tx, merchant_id, COMPARED, 0)
        arrival = await payouts_on_way.find_usual_arrival(tx, merchant_id)
        wait = await payout_wait.find_for(tx, merchant_id, account, request.now)
    return PayoutFacts(
        account,
        wait,
        next(iter(newest), None),
        arrival.shown(request.localizer),
        find_rhythm(newest, request.localizer, zone, request.now),
    )
