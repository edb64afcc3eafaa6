"""Mails when a prepaid balance is low and when it is used up: once each, again after a top-up."""

import asyncio
from collections import Counter
from typing import Final

import msgspec
import pytest

from gateways.test_accounts import BANK
from mail.triggered_mails import NOW, SETTINGS, add_member, read_mails
from opentill import ledger, orders
from opentill.db.database import Db, Tx
from opentill.gateways import accounts
from opentill.gateways.accounts import NewAccount
from opentill.ledger import PrepaidState
from opentill.ledger import prepaid as prepaid_balances
from opentill.mail.prepaid_mails import queue_prepaid_mails
from opentill.orders import PaymentAttempt
from support import world
from support.people import TESTER
from support.prepaid import adjust, read_prepaid, submit_direct

FEE: Final = 40  # of 9.99 at 4 %
DAY_MS: Final = 86_400_000
PAYMENTS: Final = 64
FUNDED: Final = 20


class Till:
    """A merchant with an own account, whose owner, finance and viewer could be mailed."""

    def __init__(self, db: Db) -> None:
        """``create`` creates the merchant."""
        self.db = db
        self.merchant_id = ""
        self.product_id = ""

    async def create(self, *, has_account: bool = True) -> None:
        """Create the merchant, its members and its account."""

        async def work(tx: Tx) -> None:
            order = await world.create_order(tx)
            self.merchant_id, self.product_id = order.merchant_id, order.product_id
            for role in ("owner", "finance", "viewer"):
                await add_member(tx, self.merchant_id, role, f"{role}@example.com")
            if has_account:
                new = NewAccount(
                    gateway="sandbox", label="Own", credentials=BANK, merchant_id=self.merchant_id
                )
                await accounts.add(tx, SETTINGS, new, NOW, actor=TESTER)

        await self.db.run(work)

    async def top_up(self, amount_minor: int) -> None:
        """Record a bank transfer to the prepaid balance."""
        await self.db.run(lambda tx: adjust(tx, self.merchant_id, "topup", amount_minor))

    async def submit(self) -> PaymentAttempt | None:
        """Start a payment of a new order through the own account."""

        async def work(tx: Tx) -> PaymentAttempt | None:
            session = await world.create_session(tx, self.merchant_id, self.product_id)
            order = await orders.find(tx, self.merchant_id, session.order_id)
            return await submit_direct(tx, order)

        return await self.db.run(work)

    async def pay(self, number: int = 1) -> int:
        """Pay so many orders at the same time; return how many the prepaid balance allowed."""

        async def pay_one() -> bool:
            attempt = await self.submit()
            if attempt is not None:
                await self.db.run(lambda tx: world.report_payment(tx, attempt, "SUCCEEDED"))
            return attempt is not None

        return sum(await asyncio.gather(*(pay_one() for _ in range(number))))

    async def decline(self, attempt: PaymentAttempt) -> None:
        """Decline a payment, which gives its fee back."""
        await self.db.run(lambda tx: world.report_payment(tx, attempt, "DECLINED"))

    async def run_job(self, now: int = NOW) -> int:
        """Run the job of the worker; return how many mails it queued."""
        return await queue_prepaid_mails(self.db, SETTINGS, now)

    async def count_mails(self) -> Counter[tuple[str, str]]:
        """Count the queued mails by topic and recipient."""
        async with self.db.connection() as tx:
            mails = await read_mails(tx)
        return Counter((mail.topic, mail.recipient.partition("@")[0]) for mail in mails)


@pytest.fixture
async def till(db: Db) -> Till:
    till = Till(db)
    await till.create()
    return till


def both(topic: str, number: int = 1) -> dict[tuple[str, str], int]:
    return {(topic, "owner"): number, (topic, "finance"): number}


async def test_parallel_payments_that_use_up_the_balance_cause_one_mail(till: Till) -> None:
    """The job runs all the time, in two workers."""
    assert await till.run_job() == 0  # never topped up
    await till.top_up(FUNDED * FEE)

    async def keep_running() -> None:
        for _ in range(10):
            await till.run_job()
            await asyncio.sleep(0)

    paid, *_ = await asyncio.gather(till.pay(PAYMENTS), keep_running(), keep_running())
    assert paid == FUNDED
    await asyncio.gather(*(till.run_job() for _ in range(4)))
    counts = await till.count_mails()
    low = counts[("prepaid_low", "owner")]  # a run may have seen the balance in between
    assert low in {0, 1}
    assert counts == Counter(both("prepaid_empty")) + Counter(both("prepaid_low", low))
    async with till.db.connection() as tx:
        newest = (await read_mails(tx))[0]
    content = msgspec.json.decode(newest.data)
    assert content["merchant_id"] == till.merchant_id
    assert (content["free"], content["at"]) == ([0, "USD"], NOW)


async def test_each_fall_is_mailed_once_and_the_next_one_after_a_top_up(till: Till) -> None:
    await till.top_up(10 * FEE)
    await till.pay(7)
    assert await till.run_job() == 0  # 3 fees are left, as many as of three days
    await till.pay()
    for _ in range(3):
        await till.run_job()
    assert await till.count_mails() == both("prepaid_low")
    # A reservation that is given back, and a fee that is returned, are no top-ups.
    first, second = await till.submit(), await till.submit()
    assert first is not None
    assert second is not None
    assert await till.run_job() == 2
    for attempt in (first, second):
        await till.decline(attempt)
    assert await till.run_job() == 0
    await till.pay(2)
    assert await till.run_job() == 0
    assert await till.count_mails() == both("prepaid_low") | both("prepaid_empty")
    await till.top_up(FEE)  # still low, which was mailed
    assert await till.run_job() == 0
    await till.pay()
    assert await till.run_job() == 2  # used up again
    assert await till.count_mails() == both("prepaid_low") | both("prepaid_empty", 2)
    await till.top_up(20 * FEE)
    assert await till.run_job() == 0
    await till.pay(14)
    assert await till.run_job() == 2  # 6 fees are left, 25 were paid
    assert await till.count_mails() == both("prepaid_low", 2) | both("prepaid_empty", 2)


async def test_a_top_up_that_is_used_up_between_two_runs_is_not_missed(till: Till) -> None:
    await till.top_up(2 * FEE)
    await till.pay(2)
    assert await till.run_job() == 2
    await till.top_up(4 * FEE)
    await till.pay(4)
    assert await till.run_job() == 2
    await till.top_up(FEE - 1)  # pays no fee: the accounts are still not offered
    assert await till.run_job() == 0
    assert await till.count_mails() == both("prepaid_empty", 2)


async def test_a_merchant_without_an_active_account_gets_no_mail(db: Db) -> None:
    till = Till(db)
    await till.create(has_account=False)
    await till.top_up(FEE)
    await till.pay()
    assert await till.run_job() == 0
    async with db.connection() as tx:
        assert await read_prepaid(tx, till.merchant_id) == (0, 0)


async def test_with_more_fees_than_are_summed_the_pace_is_that_of_their_time(
    till: Till, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Ten fees in a day last for less than three days if the balance pays 20 more of them."""
    monkeypatch.setattr(prepaid_balances, "MAX_SUMMED", 10)
    await till.top_up(30 * FEE)
    await till.pay(10)

    async def find_state(tx: Tx) -> PrepaidState:
        return await ledger.find_prepaid_state(tx, till.merchant_id, "USD", NOW + DAY_MS)

    state = await till.db.read(find_state)
    assert (state.free_minor, state.fees_minor, state.pace_ms) == (20 * FEE, 10 * FEE, DAY_MS)
    levels = [state.level_of(fees * FEE) for fees in (31, 30, 29, 1)]
    assert levels == ["ENOUGH", "ENOUGH", "LOW", "LOW"]
    assert [state.level_of(minor) for minor in (FEE - 1, 0, -FEE)] == ["EMPTY"] * 3
