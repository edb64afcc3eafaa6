"""Orders that are paid through two real adapters whose requests and responses get lost."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Final, NamedTuple

import msgspec

from gateways import adapter_stories as stories
from gateways.adapter_stories import Sites
from opentill import orders
from opentill.core.errors import Problem
from opentill.db.database import Db
from opentill.gateways import Gateways
from opentill.gateways.conformance import Provider
from opentill.gateways.conformance.proxy import Fault, Proxy, running_proxy
from opentill.orders import Order, PaymentAttempt
from support.ports import free_socket, url_of
from support.world import read_attempts

# What happens to every request of a new payment; "refused": nothing listens at the address.
FAULTS: Final[tuple[Fault | None, ...]] = (
    None, "refused", "cut_before", "cut_after", "error_503_after",
)  # fmt: skip
# Currency → the providers that are tried with it. EVM tokens need no request to start a payment.
GROUPS: Final = {
    "CNY": ("alipay", "wechat_pay", "epay", "epay_v2", "epusdt", "bepusdt", "sandbox"),
    "EUR": ("stripe", "paypal", "sandbox"),
    "USD": ("evm", "sandbox"),
}
_TRIES: Final = 4


class Pair(NamedTuple):
    """Two accounts, the first of which is preferred, and the currency of the order."""

    currency: str
    first: str
    second: str


PAIRS: Final = tuple(
    Pair(currency, first, second)
    for currency, names in GROUPS.items()
    for first in names
    for second in names
    if first != second
)


class Till:
    """A provider, a proxy in front of it, and the adapter."""

    def __init__(self, provider: Provider, proxy: Proxy, fault: Fault | None) -> None:
        """Use ``running_till``."""
        if fault == "refused" and provider.deposits:
            fault = "cut_before"  # a payment needs no request, but its transfer is read later
        self.provider, self._proxy, self._fault = provider, proxy, fault
        url = proxy.url
        if fault == "refused":
            with free_socket() as sock:
                url = url_of(sock)  # closed at once
        self.adapter = provider.make_gateway(url)

    def fail(self, *, fails: bool) -> None:
        """Let requests fail, or pass."""
        self._proxy.inject(self._fault if fails and self._fault != "refused" else None)

    async def has_charged(self, attempt: PaymentAttempt) -> bool:
        """Whether the provider has charged an attempt; a chain knows paid addresses only."""
        addresses = getattr(self.provider, "addresses", None)
        if addresses is not None and attempt.id not in addresses:
            return False
        return bool(await asyncio.to_thread(self.provider.taken, attempt.id))


@asynccontextmanager
async def running_till(provider: Provider, fault: Fault | None) -> AsyncIterator[Till]:
    """Run a proxy in front of a provider, and its adapter."""
    async with running_proxy(provider.url) as proxy:
        till = Till(provider, proxy, fault)
        try:
            yield till
        finally:
            await till.adapter.close()


class Result(msgspec.Struct, frozen=True):
    """How an order ended, and the attempts that the providers have charged."""

    status: str
    paid_attempt_id: str | None
    charges: list[str]


async def pay_with_faults(
    db: Db, sites: Sites, pair: Pair, faults: tuple[Fault | None, Fault | None]
) -> Result:
    """Pay an order while both providers fail at first; one that refuses connections stays down.

    If both take the same method, the second is tried without the customer; otherwise the customer
    chooses the other method. They pay on each page that they are shown, and the worker queries.
    """
    providers = (sites.get(pair.first), sites.get(pair.second))
    async with (
        running_till(providers[0], faults[0]) as first,
        running_till(providers[1], faults[1]) as second,
    ):
        tills = {"first": first, "second": second}
        gateways = Gateways({}, {}, {}, livemode=False)
        for number, (name, till) in enumerate(tills.items(), 1):
            stories.add_account(gateways, name, till.provider, till.adapter, priority=number)
        order = await stories.create_order(db, pair.currency)
        approved: set[str] = set()
        for number in range(_TRIES):
            till = (first, second)[number % 2]
            for each in (first, second):
                each.fail(fails=number == 0)
            await _try_to_pay(db, gateways, order, tills, till, approved)
            for provider in providers:
                for minutes in (1, 2):  # the first query may find that the customer has approved
                    await stories.query(db, gateways, provider, 20 * (number + 1) + minutes)
                await _look_at_chain(db, gateways, tills)
            current = await _read(db, order)
            if current.status == "PAID":
                break
        attempts = await _read_attempts(db, order)
        charges = [
            attempt.id for attempt in attempts if await tills[attempt.gateway].has_charged(attempt)
        ]
        current = await _read(db, order)
        return Result(current.status, current.paid_attempt_id, charges)


async def _try_to_pay(
    db: Db, gateways: Gateways, order: Order, tills: dict[str, Till], till: Till, approved: set[str]
) -> None:
    """Submit the payment page, and pay on the page that it leads to; later requests pass."""
    try:
        attempt = await stories.pay(db, gateways, order, till.provider)
    except Problem:  # the order waits for a result, or no account takes the method now
        attempt = None
    for each in tills.values():
        each.fail(fails=False)
    if attempt is None or attempt.status != "ACTION_REQUIRED" or attempt.id in approved:
        return
    approved.add(attempt.id)
    await stories.approve(tills[attempt.gateway].provider, attempt)


async def _look_at_chain(db: Db, gateways: Gateways, tills: dict[str, Till]) -> None:
    for name, till in tills.items():
        if till.provider.deposits:
            await stories.deliver_callbacks(db, gateways, name, till.provider, "")


async def _read(db: Db, order: Order) -> Order:
    return await db.read(lambda tx: orders.find(tx, order.merchant_id, order.id))


async def _read_attempts(db: Db, order: Order) -> list[PaymentAttempt]:
    return await db.read(lambda tx: read_attempts(tx, order))


def check(result: Result, pair: Pair, faults: tuple[Fault | None, Fault | None]) -> None:
    """Assert that an order was charged once, and that the books have it.

    It is not charged if neither account can be reached.
    """
    case = (pair, faults)
    assert len(result.charges) <= 1, (case, result)
    paid = [result.paid_attempt_id] if result.status == "PAID" else []
    assert paid == result.charges, (case, result)
    assert result.charges or faults == ("refused", "refused"), (case, result)
