"""Why a merchant's available balance is not paid out now, for Balance, Payouts and Home."""

from typing import Literal

import msgspec

from opentill import payouts
from opentill.db.database import Tx
from opentill.payouts import StoredAccount


class PayoutWait(msgspec.Struct, frozen=True):
    """The reason for which payouts wait, and until when (Unix ms) if that is known."""

    reason: Literal["no account", "payout returned", "account changed"]
    until: int | None = None


async def find(tx: Tx, merchant_id: str, now: int) -> PayoutWait | None:
    """Return why the merchant's payouts wait, None if they do not."""
    return await find_for(tx, merchant_id, await payouts.find_account(tx, merchant_id), now)


async def find_for(
    tx: Tx, merchant_id: str, account: StoredAccount | None, now: int
) -> PayoutWait | None:
    """Return why payouts to the merchant's bank account wait, None if they do not."""
    if account is None:
        return PayoutWait("no account")
    if await payouts.account_held_since(tx, merchant_id) is not None:
        return PayoutWait("payout returned")
    if account.usable_from > now:
        return PayoutWait("account changed", account.usable_from)
    return None
