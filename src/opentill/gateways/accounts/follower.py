"""Keeps the accounts of a process equal to those in the database.

Every process polls the sum of the accounts' revisions, one aggregate of a small table, and the
revision of the routing rules, and loads what has changed. An account that cannot be loaded, such as
one whose credentials were encrypted with another key, affects no other account.
"""

import asyncio
from collections.abc import AsyncIterator, Iterable
from contextlib import asynccontextmanager, suppress
from typing import Final

import asyncpg
import structlog

from opentill.core import metrics
from opentill.core.encryption import WrongKey
from opentill.core.money import Money
from opentill.core.settings import Settings
from opentill.db.database import Db, Tx, retry_while_away
from opentill.db.polling import poll_in_background
from opentill.gateways import registry
from opentill.gateways.account import GatewayAccount
from opentill.gateways.accounts import environment, queries, stored_credentials
from opentill.gateways.accounts.model import StoredAccount
from opentill.gateways.calls import initialize_metrics
from opentill.gateways.model import Gateway
from opentill.gateways.routing import Gateways
from opentill.gateways.rules import queries as rule_queries
from opentill.gateways.rules.model import RuleSet
from opentill.gateways.running_calls import RunningCalls

POLL_S: Final = 2.0
_RETRY_S: Final = 30.0  # accounts that could not be loaded are tried again after this time
# A replaced adapter is closed when its running calls have ended, but not before this time: whoever
# has just looked it up may still call it.
GRACE_S: Final = 5.0
# … and not later than this, since an operation takes about ten seconds at most (``model.Gateway``).
LONGEST_CALL_S: Final = 60.0
_log: Final = structlog.get_logger()


class AccountFollower:
    """Loads the accounts of the database into the gateways of a process."""

    def __init__(
        self,
        db: Db,
        gateways: Gateways,
        settings: Settings,
        attempt_ends: Iterable[str],
        grace_s: float = GRACE_S,
    ) -> None:
        """``attempt_ends`` are the final statuses of attempts, for the metrics."""
        self._db = db
        self._gateways = gateways
        self._settings = settings
        self._attempt_ends = tuple(attempt_ends)
        self._grace_s = grace_s
        self._refreshing = asyncio.Lock()
        self._revisions = 0  # the sum of the accounts that were loaded
        self._rules_revision = 0
        self._retry_at = 0.0
        self._loaded: dict[str, StoredAccount] = {}
        self._calls: dict[int, RunningCalls] = {}  # by the identity of the adapter
        self._closing: dict[asyncio.Task[None], tuple[Gateway, ...]] = {}

    async def refresh(self) -> None:
        """Load the accounts that have changed. Raises Unavailable.

        Before the migration that creates the table, there are no accounts.
        """
        async with self._refreshing:
            await self._refresh()

    async def _refresh(self) -> None:
        loop = asyncio.get_running_loop()
        try:
            async with self._db.connection() as tx:
                head = await rule_queries.REVISIONS.one(tx)
                await self._read_prepaid(tx)
                if head.rules != self._rules_revision:
                    self._gateways.rules = RuleSet(await rule_queries.LIST.all(tx))
                    self._gateways.paused = await environment.list_paused(tx)
                    self._gateways.environment = await environment.list_breakers(tx)
                    self._rules_revision = head.rules
                is_retry = bool(self._gateways.unreadable) and loop.time() >= self._retry_at
                if head.accounts == self._revisions and not is_retry:
                    return
                accounts = await queries.STORED.all(tx)
        except asyncpg.UndefinedTableError:
            return
        if self._gateways.unreadable:
            self._retry_at = loop.time() + _RETRY_S
        for account in accounts:
            await self._load(account)
        if accounts:
            async with self._db.connection() as tx:
                await self._read_prepaid(tx)
        self._revisions = sum(account.revision for account in accounts)

    async def _read_prepaid(self, tx: Tx) -> None:
        """Read the prepaid balances of merchants with accounts, if there are any."""
        owners = {each.merchant_id for each in self._loaded.values()} - {None}
        if not owners:
            return
        for funds in await queries.FREE_PREPAID.all(tx, merchant_ids=sorted(filter(None, owners))):
            free = Money(funds.free_minor, funds.currency)
            self._gateways.record_prepaid(funds.merchant_id, free)

    async def _load(self, account: StoredAccount) -> None:
        loaded = self._loaded.get(account.id)
        is_readable = account.id not in self._gateways.unreadable
        if loaded is not None and is_readable and _has_same_adapter(loaded, account):
            self._gateways.update_account(account)
            self._loaded[account.id] = account
            return
        try:
            replaced = self._put(account)
        except Exception as error:  # noqa: BLE001 - one account must not stop the others
            self._report(account, _reason(error))
            return
        self._loaded[account.id] = account
        initialize_metrics(self._gateways, self._attempt_ends, only=(account.id,))
        if replaced:
            task = asyncio.create_task(self._close_later(replaced))
            self._closing[task] = replaced
            task.add_done_callback(self._closing.pop)

    def _put(self, account: StoredAccount) -> tuple[Gateway, ...]:
        settings = self._settings
        credentials = stored_credentials.decrypt(settings, account.id, account.credentials)
        adapter, allowed = registry.build_account(
            account.gateway,
            credentials,
            account.methods,
            settings,
            by_merchant=account.by_merchant,
        )
        self._calls[id(adapter)] = RunningCalls(adapter)
        return self._gateways.put_account(account, adapter, allowed, self._previous(account))

    def _previous(self, account: StoredAccount) -> Gateway | None:
        """Return the adapter with the credentials before the last rotation, if they are usable."""
        if account.previous_credentials is None:
            return None
        try:
            old = stored_credentials.decrypt(
                self._settings, account.id, account.previous_credentials
            )
        except WrongKey:  # the account was rotated because the key was replaced
            return None
        try:
            adapter, _ = registry.build_account(
                account.gateway,
                old,
                account.methods,
                self._settings,
                by_merchant=account.by_merchant,
            )
        except registry.BadCredentials:  # the operator's address, which merchants may not name
            return None
        self._calls[id(adapter)] = RunningCalls(adapter)
        return adapter

    def _report(self, account: GatewayAccount, reason: str) -> None:
        metrics.count_unreadable_account(account.id)
        if self._gateways.unreadable.get(account.id) != reason:
            _log.error(
                "gateway account cannot be loaded",
                account=account.id,
                gateway=account.gateway,
                reason=reason,
            )
        self._gateways.update_account(account, reason)
        self._retry_at = asyncio.get_running_loop().time() + _RETRY_S

    async def _close_later(self, adapters: tuple[Gateway, ...]) -> None:
        await asyncio.sleep(self._grace_s)
        for adapter in adapters:
            calls = self._calls.pop(id(adapter), None)
            if calls is not None:
                with suppress(TimeoutError):
                    await asyncio.wait_for(calls.wait_until_idle(), LONGEST_CALL_S)
            await adapter.close()

    async def close(self) -> None:
        """Close every adapter that the gateways themselves do not close."""
        waiting = [adapter for adapters in self._closing.values() for adapter in adapters]
        for task in tuple(self._closing):
            task.cancel()
        current = set(map(id, self._gateways.values()))
        previous = [one for one in self._gateways.all_adapters() if id(one) not in current]
        for adapter in (*waiting, *previous):
            await adapter.close()


def _has_same_adapter(loaded: StoredAccount, account: StoredAccount) -> bool:
    return (
        loaded.credentials == account.credentials
        and loaded.previous_credentials == account.previous_credentials
        and loaded.previous_until == account.previous_until
        and loaded.methods == account.methods
        and loaded.by_merchant == account.by_merchant
    )


def _reason(error: Exception) -> str:
    """Return why an account cannot be loaded, without any of its credentials."""
    match error:
        case WrongKey():
            return "its credentials were encrypted with another key"
        case registry.BadCredentials():
            return f"its credential {error.field} is not accepted"
        case _:
            return type(error).__name__


@asynccontextmanager
async def following(
    db: Db,
    gateways: object,
    settings: Settings,
    attempt_ends: Iterable[str],
) -> AsyncIterator[None]:
    """Load the accounts before the block begins, and follow their changes while it runs.

    Gateways that are no ``Gateways``, as in some tests, have no accounts.
    """
    if not isinstance(gateways, Gateways):
        yield
        return
    accounts = AccountFollower(db, gateways, settings, attempt_ends)
    await retry_while_away(accounts.refresh)
    gateways.load_changes = accounts.refresh
    message = "gateway accounts cannot be loaded"
    try:
        async with poll_in_background(accounts.refresh, POLL_S, message):
            yield
    finally:
        gateways.load_changes = None
        await accounts.close()


async def load_changes(gateways: object) -> None:
    """Load the changes of accounts and rules into this process at once. Raises Unavailable.

    Other processes poll them.
    """
    if isinstance(gateways, Gateways) and gateways.load_changes is not None:
        await gateways.load_changes()
