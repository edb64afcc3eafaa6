"""The node fails, lies or floods: nothing wrong is stored, and the order is paid afterwards."""

from collections.abc import AsyncIterator
from typing import Any, Final

import pytest
import pytest_asyncio

from deposits.chain_world import CONFIRMATIONS, USD, ChainWorld
from opentill.db.database import Db
from opentill.deposits import list_chains, scanning
from support.sandbox_chain import SandboxChain

# Fault, options, and the failure that the chain's state names; None if the scanner copes with it.
FAULTS: Final[list[tuple[str, dict[str, Any], str | None]]] = [
    ("error_500", {}, "HTTP 500"),
    ("reset", {}, "response was complete"),
    ("reset_after", {}, "response was complete"),
    ("timeout_before", {"delay_s": 5}, "in time"),
    ("slow", {"delay_s": 0.01}, None),
    ("malformed", {}, "the response is no JSON-RPC"),
    ("huge", {}, "the response is longer than"),
    ("behind", {}, None),
    ("other_chain", {}, "the node is one of the chain 1338, not 1337"),
    ("limit_exceeded", {}, "-32005 query returned more than 10000 results"),
    ("limit_exceeded", {"match": "eth_getLogs", "times": 3}, None),
    ("huge", {"match": "eth_getLogs", "times": 2}, None),
    ("malformed", {"match": "eth_getLogs"}, "eth_getLogs: the response is no JSON-RPC"),
    ("other_chain", {"match": "eth_getLogs"}, "transfers of another block"),
    ("other_chain", {"match": "eth_getBlockByNumber", "times": 1}, None),
    ("missing_logs", {}, None),
    ("duplicate_logs", {}, None),
]


@pytest_asyncio.fixture(loop_scope="session")
async def node_world(
    db: Db, sandbox_chain: SandboxChain, monkeypatch: pytest.MonkeyPatch
) -> AsyncIterator[ChainWorld]:
    """An account on the sandbox bank's chain, whose adapter waits a second."""
    world = ChainWorld(db, sandbox_chain)
    monkeypatch.setattr(world.gateway._chain._node, "_timeout_s", 1.0)
    await world.open()
    yield world
    sandbox_chain.api.delete("/faults")
    await world.close()


@pytest.mark.parametrize(("fault", "options", "failure"), FAULTS)
async def test_a_failing_node_stores_nothing_wrong(
    node_world: ChainWorld, fault: str, options: dict[str, Any], failure: str | None
) -> None:
    world, chain = node_world, node_world.chain
    assert isinstance(chain, SandboxChain)
    order, attempt, address = await world.begin("1.00")
    await world.scan()
    chain.transfer(chain.usdt, address, USD)
    chain.mine(CONFIRMATIONS)
    chain.inject_fault(fault, **{"times": 100, **options})
    await world.scan()
    chain.api.delete("/faults")
    if failure is not None:
        async with world.db.connection() as tx:
            (state,) = await list_chains(tx)
        assert failure in (state.failure or "")
        assert chain.url.rpartition("/")[2] not in (state.failure or "")
        assert (await world.read(order))[0].status == "PENDING"
    await world.scan()
    assert (await world.read(order))[0].status == "PAID"
    await world.scan()
    assert await world.cases(attempt) == []
    assert (await world.events(order)).count("confirmed") == 1
    sums = "select received from deposit_sums where address = $1"
    assert await world.rows(sums, address) == [(10**18,)]


async def test_a_transfer_that_moves_to_another_block_counts_once(node_world: ChainWorld) -> None:
    world, chain = node_world, node_world.chain
    assert isinstance(chain, SandboxChain)
    order, attempt, address = await world.begin("1.00")
    await world.scan()
    chain.transfer(chain.usdt, address, USD)
    chain.mine(CONFIRMATIONS)
    await world.scan()
    chain.reorganize(CONFIRMATIONS + 1, keep=True)
    chain.mine()
    await world.scan()
    assert (await world.read(order))[0].status == "PAID"
    # It was removed and counts again, in one transaction; staff see that the chain has changed.
    assert await world.cases(attempt) == [("REORGANIZED", USD)]
    sums = "select received from deposit_sums where address = $1"
    assert await world.rows(sums, address) == [(10**18,)]
    assert (await world.events(order)).count("confirmed") == 1


async def test_a_log_that_comes_twice_is_not_enough(node_world: ChainWorld) -> None:
    world, chain = node_world, node_world.chain
    assert isinstance(chain, SandboxChain)
    order, _, address = await world.begin("2.00")
    await world.scan()
    chain.transfer(chain.usdt, address, USD)  # half, without confirmations
    chain.inject_fault("duplicate_logs", times=100)
    await world.scan()
    assert (await world.read(order))[1].status == "ACTION_REQUIRED"


async def test_a_node_far_behind_is_reported(node_world: ChainWorld) -> None:
    world, chain = node_world, node_world.chain
    assert isinstance(chain, SandboxChain)
    await world.begin("1.00")
    chain.mine(scanning._REWIND + 300)
    await world.scan()
    async with world.db.connection() as tx:
        await tx.execute("update deposit_positions set number = number + $1", scanning._REWIND)
        await tx.execute("update deposit_positions set next_at = 0")
    chain.inject_fault("behind", times=100)
    await world.scan()
    async with world.db.connection() as tx:
        (state,) = await list_chains(tx)
    assert "long before block" in (state.failure or "")
