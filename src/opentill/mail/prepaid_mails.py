"""Mails when a prepaid balance lasts for less than three days, and when it is used up.

The worker looks at the balances of merchants with active accounts of their own. What was mailed is
stored, so that each fall causes one mail of each kind, and the next one only after a top-up. The
entries since the last run show top-ups, also those that were used up again between two runs.
"""

from typing import Final

from opentill import ledger, merchants
from opentill.context import App
from opentill.core.settings import Settings
from opentill.db.database import Db, Tx
from opentill.gateways import accounts as gateway_accounts
from opentill.ledger import PREPAID_LEVELS, PrepaidLevel, PrepaidState
from opentill.mail import outbox, queries, topics
from opentill.mail.prepaid_model import PrepaidContent, PrepaidNotice

_TOPIC: Final[dict[PrepaidLevel, str]] = {"LOW": "prepaid_low", "EMPTY": "prepaid_empty"}


async def queue_prepaid_mails(db: Db, settings: Settings, now: int) -> int:
    """Mail members about prepaid balances that must be topped up; return how many mails."""
    async with db.connection() as tx:
        owners = await gateway_accounts.list_owners(tx)
    mails = 0
    for merchant_id in owners:

        async def work(tx: Tx, merchant_id: str = merchant_id) -> int:
            return await _examine(tx, settings, merchant_id, now)

        mails += await db.run(work)
    return mails


async def run(app: App) -> int:
    """Queue the mails of a run of the worker."""
    await queue_prepaid_mails(app.db, app.settings, app.clock())
    return 0  # 0 means that the worker waits until the next interval


async def _examine(tx: Tx, settings: Settings, merchant_id: str, now: int) -> int:
    """Queue the mails about one balance, and store what was mailed."""
    currency = (await merchants.find(tx, merchant_id)).settlement_currency
    key = {"merchant_id": merchant_id, "currency": currency}
    notice = await queries.LOCK_PREPAID_NOTICE.first(tx, **key)
    if notice is None:
        if not await ledger.list_newest_of_prepaid(tx, merchant_id, 1):
            return 0  # it was never topped up, so it has not fallen
        await queries.OPEN_PREPAID_NOTICE.run(tx, **key)
        notice = await queries.LOCK_PREPAID_NOTICE.one(tx, **key)
    state = await ledger.find_prepaid_state(tx, merchant_id, currency, now)
    mailed = await _mailed_level(tx, notice, state)
    mails = 0
    if _rank(state.level) > _rank(mailed):
        mailed = state.level
        content = PrepaidContent(
            merchant_id=merchant_id,
            free=(state.free_minor, currency),
            fees=(state.fees_minor, currency),
            at=now,
        )
        cause = f"prepaid {mailed} {currency} {state.entries}"
        new_mails = await topics.mails_to_members(tx, merchant_id, _TOPIC[mailed], cause, content)
        mails = len(await outbox.queue(tx, settings, new_mails, now))
    # Top-ups are of interest only after a mail.
    if mailed != notice.level or (mailed != "ENOUGH" and state.entries != notice.number):
        await queries.SET_PREPAID_NOTICE.run(tx, **key, level=mailed, number=state.entries)
    return mails


async def _mailed_level(tx: Tx, notice: PrepaidNotice, state: PrepaidState) -> PrepaidLevel:
    """Return the mailed level that still holds: a top-up may have ended the fall."""
    if notice.level == "ENOUGH" or state.entries == notice.number:
        return notice.level
    highest = await ledger.find_highest_top_up(
        tx, notice.merchant_id, notice.currency, notice.number, state.entries
    )
    if highest is None:
        return notice.level
    return min(notice.level, state.level_of(highest), key=_rank)


def _rank(level: PrepaidLevel) -> int:
    return PREPAID_LEVELS.index(level)
