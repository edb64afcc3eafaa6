"""An account on a chain with its orders, and the worker's job, for tests of deposits."""

import itertools
from typing import Any, Final

from opentill import checkouts, orders
from opentill.db.database import Db
from opentill.deposits import jobs
from opentill.gateways.evm.client import EvmGateway
from opentill.gateways.evm.configuration import make
from opentill.orders import Order, PaymentAttempt
from opentill.orders.payments import deposit_addresses
from support.ganache import CHAIN_ID, Ganache
from support.sandbox_chain import SandboxChain
from support.world import NOW, create_order, read_attempts, read_history

TestChain = Ganache | SandboxChain
# The key m/0'/1/2' of test vector 1 of BIP-32, none of whose addresses Ganache uses itself.
XPUB: Final = (
    "xpub6D4BDPcP2GT577Vvch3R8wDkScZWzQzMMUm3PWbmWvVJrZwQY4VU"
    "NgqFJPMM3No2dFDFGTsxxpG5uJh7n7epu4trkrX7x7DogT5Uv6fcLW5"
)
CONFIRMATIONS: Final = 3
_first_numbers: Final = itertools.count(1_000, 1_000)
USD: Final = 10**6  # units of USDT for a dollar


def options(chain: TestChain, **changes: str) -> dict[str, str]:
    """Return the settings of an account on a chain."""
    settings = {
        "rpc_url": chain.url,
        "chain_id": str(CHAIN_ID),
        "xpub": XPUB,
        "tokens": f"USDT:{chain.usdt}:6,USDC:{chain.usdc}:18",
        "confirmations": str(CONFIRMATIONS),
        **changes,
    }
    return {f"evm_{name}": value for name, value in settings.items()}


class ChainWorld:
    """Orders that are paid through one account, named "evm"."""

    def __init__(self, db: Db, chain: TestChain, **changes: str) -> None:
        """``changes`` are settings of the account."""
        self.db, self.chain = db, chain
        self.gateway: EvmGateway = make(options(chain, **changes))
        self.now = NOW
        # Tests of a module share a chain, but no address.
        self.first_number = next(_first_numbers)

    async def open(self) -> None:
        """Begin to count addresses at a number of this test."""
        async with self.db.connection() as tx:
            await tx.execute(
                "insert into deposit_keys (key_id, next_number) values ($1, $2)"
                " on conflict (key_id) do nothing",
                self.gateway.key_id,
                self.first_number,
            )

    async def begin(self, price: str = "9.99") -> tuple[Order, PaymentAttempt, str]:
        """Begin to pay a new order; return it with its attempt and address."""
        order = await self.db.run(lambda tx: create_order(tx, price))
        payer = checkouts.PayerInput(
            email="ann@example.com", name="Ann", method="CRYPTO", ip="192.0.2.7", locale="en"
        )
        attempt = await checkouts.pay(
            self.db, {"evm": self.gateway}, order.checkout_id, payer, "http://127.0.0.1:9", self.now
        )
        assert attempt is not None
        async with self.db.connection() as tx:
            row = await deposit_addresses.find(tx, attempt.id)
        assert row is not None
        return order, attempt, row.address

    async def scan(self, later_ms: int = 0) -> None:
        """Run the worker's job until it has read the chain, ``later_ms`` from now on."""
        self.now += later_ms
        async with self.db.connection() as tx:
            await tx.execute("update deposit_positions set next_at = 0")
        await jobs.scan_all(self.db, {"evm": self.gateway}, self.now)

    async def read(self, order: Order) -> tuple[Order, PaymentAttempt]:
        """Return an order and its only attempt."""
        async with self.db.connection() as tx:
            current = await orders.find(tx, order.merchant_id, order.id)
            (attempt,) = await read_attempts(tx, order)
        return current, attempt

    async def events(self, order: Order) -> list[str]:
        """Return the events of an order's history."""
        async with self.db.connection() as tx:
            return [row.event for row in await read_history(tx, order)]

    async def rows(self, sql: str, *values: Any) -> list[tuple[Any, ...]]:
        """Return the rows of a query."""
        async with self.db.connection() as tx:
            return [tuple(row) for row in await tx.fetch(sql, *values)]

    async def cases(self, attempt: PaymentAttempt) -> list[tuple[str, int]]:
        """Return kind and units of the cases of an attempt."""
        sql = "select kind, units from deposit_cases where attempt_id = $1 order by opened_at, id"
        return [(kind, int(units)) for kind, units in await self.rows(sql, attempt.id)]

    async def close(self) -> None:
        """Close the connections."""
        await self.gateway.close()
