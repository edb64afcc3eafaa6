"""What a merchant can know about its payouts: the account, why they wait, how long they take."""

from collections.abc import Sequence
from datetime import tzinfo
from itertools import pairwise
from typing import Final
from zoneinfo import ZoneInfo

import msgspec

from opentill import payouts
from opentill.core import times
from opentill.dashboard import payout_wait, payouts_on_way
from opentill.db.database import Tx
from opentill.merchants import Merchant
from opentill.portal.request import PageRequest
from opentill.web.language import Localizer
from opentill.web.translations import N_

COMPARED: Final = 4  # the last payouts, whose distances show how often they are created
_AT_LEAST: Final = 3
_DAY_MS: Final = 24 * 3_600_000


class PayoutFacts(msgspec.Struct, frozen=True):
    """The bank account, why payouts to it wait, the newest payout, and what is usual.

    ``arrival`` is the time that the slowest of the last ones took, "" if none has arrived.
    ``schedule`` says when the next payout is expected, or who decides.
    """

    account: payouts.StoredAccount | None
    wait: payout_wait.PayoutWait | None
    last: payouts.Payout | None
    arrival: str
    schedule: str


def find_schedule(
    newest: Sequence[payouts.Payout], localizer: Localizer, zone: tzinfo, now: int
) -> str:
    """Return when the next payout is expected, for all pages that say so.

    ``newest`` are the last payouts, the newest first. If at least three of them are the same number
    of days apart, they show how often payouts are usual; otherwise the operator decides.
    """
    days = [times.moment(payout.created_at, zone).date() for payout in newest[:COMPARED]]
    gaps = {(later - earlier).days for later, earlier in pairwise(days)}
    gap = next(iter(gaps)) if len(days) >= _AT_LEAST and len(gaps) == 1 else 0
    if not gap:
        return localizer.gettext(N_("The operator decides when it pays out what is available."))
    if gap == 1:
        text = localizer.gettext(N_("Payouts are usually created every day."))
    else:
        text = localizer.gettext(
            N_("Payouts are usually created every {days} days."), days=localizer.number(gap)
        )
    next_at = newest[0].created_at + gap * _DAY_MS
    if next_at <= now:
        return text
    day = localizer.recent_date(next_at, zone, now)
    following = localizer.gettext(N_("The next one is expected on {day}."), day=day)
    return f"{text} {following}"


async def read_schedule(tx: Tx, request: PageRequest, merchant: Merchant) -> str:
    """Return when the merchant's next payout is expected, or who decides."""
    if merchant.off("payout"):
        return request.localizer.gettext(N_("The operator has switched payouts off."))
    newest = await payouts.list_newest(tx, merchant.id, COMPARED, 0)
    return find_schedule(newest, request.localizer, ZoneInfo(merchant.time_zone), request.now)


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
        find_schedule(newest, request.localizer, zone, request.now),
    )
