"""Merchants with money and bank accounts, payout runs, and processes that are killed."""

from collections.abc import Awaitable, Callable
from contextlib import AbstractAsyncContextManager
from typing import Any, Final, TypeVar

import msgspec

from opentill import adjustments, payouts
from opentill.core import bankaccounts
from opentill.core.bankaccounts import BankAccount
from opentill.db.database import Db, Tx
from opentill.merchants import Actor, Merchant
from opentill.payouts import FileRequest, HoldRule, Run, RunRequest, RunView
from support.world import NOW, create_merchant, new_reference

T = TypeVar("T")
ACCOUNT_KEY: Final = "k" * 32
ANN: Final = Actor("ann", "weekly")
BOB: Final = Actor("bob", "for the bank")
HOLD_RULE: Final = HoldRule(ACCOUNT_KEY, 3)
IBAN: Final = bankaccounts.check_account("Müller & Söhne <GmbH>", "DE89370400440532013000")
NATIONAL: Final = bankaccounts.check_account(
    "Harbour Books", "000123456789", country="US", bank_code="021000021"
)
ADDRESS: Final = bankaccounts.check_address(
    street="Große Bäckerstraße", building="7a", post_code="20095", town="Hamburg", country="de"
)
WITH_ADDRESS: Final = msgspec.structs.replace(IBAN, address=ADDRESS)
SOURCE_ACCOUNT: Final = bankaccounts.check_account(
    "The Till Ltd", "GB29NWBK60161331926819", bic="NWBKGB2L"
)


class Killed(Exception):
    """Simulates the end of a killed process."""


class DyingDatabase(Db):
    """Database of a process that is killed before or after the commit of its nth transaction."""

    def __init__(self, db: Db, last: int, *, committed: bool) -> None:
        """``committed``: the last transaction commits, but the process gets no confirmation."""
        self._db = db
        self._last = last
        self._committed = committed

    def connection(self, within_s: float | None = None) -> AbstractAsyncContextManager[Tx]:
        """Lend a connection of ``db``."""
        return self._db.connection(within_s)

    def snapshot(self, other: Tx | None = None) -> AbstractAsyncContextManager[Tx]:
        """Lend a snapshot of ``db``."""
        return self._db.snapshot(other)

    async def run(self, work: Callable[[Tx], Awaitable[T]]) -> T:
        """Run a transaction, or raise Killed."""
        self._last -= 1
        if self._last > 0:
            return await self._db.run(work)

        async def run_then_die(tx: Tx) -> None:
            await work(tx)
            if not self._committed:
                raise Killed

        await self._db.run(run_then_die)
        raise Killed


async def create_payee(
    tx: Tx,
    minor: int = 10_000,
    account: BankAccount | None = IBAN,
    rule: HoldRule = HOLD_RULE,
    **terms: Any,
) -> Merchant:
    """Create a merchant with money in euro and a bank account, unless ``account`` is None."""
    merchant = await create_merchant(tx, **{"settlement_currency": "EUR", **terms})
    adjustment = adjustments.AdjustmentRequest(
        kind="recharge", amount_minor=minor, reference=new_reference(), reason="start", by="ann"
    )
    await adjustments.request(tx, merchant.id, adjustment, None, NOW)
    if account is not None:
        await payouts.change_account(tx, merchant.id, account, ANN, rule, NOW)
    return merchant


def run_request(reference: str, **changes: Any) -> RunRequest:
    """Return a request for a payout run in euro."""
    return RunRequest(
        **{
            "currency": "EUR",
            "reference": reference,
            "actor": ANN,
            "source": SOURCE_ACCOUNT,
            **changes,
        }
    )


async def start_run(db: Db, reference: str, now: int = NOW, **changes: Any) -> Run:
    """Start a run, or return it if it was started before."""
    return await db.run(lambda tx: payouts.start_run(tx, run_request(reference, **changes), now))


async def complete_run(db: Db, reference: str, now: int = NOW, **changes: Any) -> RunView:
    """Start a run and perform it until it is READY."""
    run = await start_run(db, reference, now, **changes)
    return await payouts.perform_run(db, run, ACCOUNT_KEY, now)


async def download_run(
    db: Db, run_id: str, form: payouts.Form = "xml", now: int = NOW, key: str = ACCOUNT_KEY
) -> bytes:
    """Download a run's file as the operator."""
    await payouts.send_run(db, run_id, FileRequest(form, BOB, None), key, now)
    with await payouts.make_file(db, run_id, key) as file:
        return file.read()
