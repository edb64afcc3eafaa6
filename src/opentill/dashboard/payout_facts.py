"""What a merchant can know about its payouts: the account, why they wait, how long they take."""

import msgspec

from opentill import payouts
from opentill.dashboard import payout_wait, payouts_on_way
from opentill.portal.request import PageRequest


class PayoutFacts(msgspec.Struct, frozen=True):
    """The bank account, why payouts to it wait, the newest payout, and the usual arrival.

    ``arrival`` is the time that the slowest of the last ones took, "" if none has arrived.
    """

    account: payouts.StoredAccount | None
    wait: payout_wait.PayoutWait | None
    last: payouts.Payout | None
    arrival: str


async def read(request: PageRequest) -> PayoutFacts:
    """Read the facts of the merchant's payouts."""
    merchant_id = request.merchant_id
    async with request.app.db.connection() as tx:
        account = await payouts.find_account(tx, merchant_id)
        newest = await payouts.list_newest(tx, merchant_id, 1, 0)
        arrival = await payouts_on_way.find_usual_arrival(tx, merchant_id)
        wait = await payout_wait.find_for(tx, merchant_id, account, request.now)
    return PayoutFacts(account, wait, next(iter(newest), None), arrival.shown(request.localizer))
