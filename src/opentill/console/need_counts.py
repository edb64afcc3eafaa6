"""Counts of the kinds that have a page of their own, and the page of a kind's only item."""

from typing import Final
from urllib.parse import urlencode

from opentill import deposits, disputes, ledger, merchants, reconciliation, refunds
from opentill.db.database import Tx
from opentill.disputes import Dispute
from opentill.gateways import accounts as gateway_accounts
from opentill.gateways.account import GatewayAccount

MOST: Final = 200  # at most this many items of a kind are counted


async def list_open_disputes(tx: Tx) -> list[Dispute]:
    """Return the newest open disputes, at most ``MOST``."""
    return await disputes.search_all(tx, disputes.DisputeFilter(statuses=("OPEN",)), MOST)


def _only(pages: list[str]) -> str:
    """Return the page of the only item; others may have come since they were counted."""
    return pages[0] if len(pages) == 1 else ""


async def count_unmatched(tx: Tx, _now: int) -> int:
    """Count the disputes that do not fit their payment."""
    return len((await disputes.list_unmatched(tx))[:MOST])


async def count_refund_cases(tx: Tx, _now: int) -> int:
    """Count the refunds that were reversed or made at the provider."""
    return len((await refunds.list_open(tx))[:MOST])


async def count_deposits(tx: Tx, _now: int) -> int:
    """Count the transfers of tokens that staff must look at."""
    return min(await deposits.count_open_cases(tx), MOST)


async def count_books(tx: Tx, _now: int) -> int:
    """Count the balances that break a rule of the ledger."""
    return len(await ledger.list_violated(tx, MOST))


async def count_broken_accounts(tx: Tx, _now: int) -> int:
    """Count the gateway accounts that paused themselves."""
    return len(await gateway_accounts.list_broken(tx))


async def find_only_broken_account(tx: Tx, _now: int) -> str:
    """Return the page of the only account that paused itself."""
    return _only(
        [
            f"/gateway-accounts/{account.id}"
            if isinstance(account, GatewayAccount)
            else f"/gateway-accounts/environment?{urlencode({'gateway': account.id})}"
            for account in await gateway_accounts.list_broken(tx)
        ]
    )


async def count_applications(tx: Tx, _now: int) -> int:
    """Count the applications that wait for a decision."""
    return await merchants.count_waiting(tx)


async def count_differences(tx: Tx, _now: int) -> int:
    """Count the open differences of reconciliation."""
    return await reconciliation.count_open(tx)


async def find_only_difference(tx: Tx, _now: int) -> str:
    """Return the page of the only open difference."""
    listed = await reconciliation.list_differences(tx, limit=2)
    return _only([f"/reconciliation/{difference.id}" for difference in listed])


async def count_none(_tx: Tx, _now: int) -> int:
    """Count nothing: the kind is counted for each person."""
    return 0
