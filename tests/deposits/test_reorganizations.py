"""Blocks of a chain are replaced, nodes are behind or fail, and processes crash."""

from typing import Any

import pytest
from structlog.testing import capture_logs

from deposits.chain_world import CONFIRMATIONS, USD, ChainWorld
from opentill.db.clock import now_ms
from opentill.deposits import jobs, list_chains, queries, scanning
from opentill.gateways.deposits import Block, ChainFailure, Transfer


async def test_a_transfer_that_disappears_before_its_confirmations_pays_nothing(
    world: ChainWorld,
) -> None:
    order, attempt, address = await world.begin("1.00")
    await world.scan()
    with world.chain.fork():
        world.chain.transfer(world.chain.usdt, address, USD)
        world.chain.mine(CONFIRMATIONS - 2)
        await world.scan()
        assert (await world.read(order))[1].status == "PENDING"
    world.chain.mine(CONFIRMATIONS)
    await world.scan()
    assert (await world.read(order))[0].status == "PENDING"
    assert await world.rows("select from deposit_transfers where address = $1", address) == []
    assert await world.cases(attempt) == []
    # The customer sends it again.
    world.chain.transfer(world.chain.usdt, address, USD)
    world.chain.mine(CONFIRMATIONS)
    await world.scan()
    assert (await world.read(order))[0].status == "PAID"


@pytest.mark.parametrize("deeper", [0, 30])
async def test_a_transfer_that_disappears_after_its_confirmations_is_a_case(
    world: ChainWorld, deeper: int
) -> None:
    order, attempt, address = await world.begin("1.00")
    await world.scan()
    with world.chain.fork():
        world.chain.transfer(world.chain.usdt, address, USD)
        world.chain.mine(CONFIRMATIONS + deeper)
        await world.scan()
        assert (await world.read(order))[0].status == "PAID"
    world.chain.mine()
    await world.scan()
    assert await world.cases(attempt) == [("REORGANIZED", USD)]
    assert (await world.read(order))[0].status == "PAID"  # staff decide
    sums = "select received from deposit_sums where address = $1"
    assert await world.rows(sums, address) == [(0,)]
    # It is included in another block: it counts again, and pays nothing twice.
    world.chain.transfer(world.chain.usdt, address, USD)
    world.chain.mine(CONFIRMATIONS)
    await world.scan()
    assert await world.rows(sums, address) == [(10**18,)]
    assert await world.cases(attempt) == [("REORGANIZED", USD)]
    assert (await world.events(order)).count("confirmed") == 1


async def test_a_node_that_omits_a_transfer_removes_nothing(
    world: ChainWorld, monkeypatch: pytest.MonkeyPatch
) -> None:
    order, attempt, address = await world.begin("1.00")
    await world.scan()
    world.chain.transfer(world.chain.usdt, address, USD)
    world.chain.mine(CONFIRMATIONS)
    await world.scan()

    async def nothing(*_: Any) -> tuple[list[Transfer], int]:
        return [], (await world.gateway.head()).number - CONFIRMATIONS + 1

    monkeypatch.setattr(world.gateway, "transfers", nothing)
    await world.scan()
    assert await world.cases(attempt) == []
    assert (await world.read(order))[0].status == "PAID"
    sums = "select received from deposit_sums where address = $1"
    assert await world.rows(sums, address) == [(10**18,)]


async def test_nothing_is_stored_if_the_chain_changes_while_it_is_read(
    world: ChainWorld, monkeypatch: pytest.MonkeyPatch
) -> None:
    order, _, address = await world.begin("1.00")
    await world.scan()
    world.chain.transfer(world.chain.usdt, address, USD)
    world.chain.mine(CONFIRMATIONS)
    block = world.gateway.block
    calls = 0

    async def other(number: int) -> Block | None:
        nonlocal calls
        calls += 1
        original = await block(number)
        # The second request for a block goes to a node on another branch.
        return Block(number, f"0x{calls:064x}", 0) if original and calls > 2 else original

    monkeypatch.setattr(world.gateway, "block", other)
    await world.scan()
    assert (await world.read(order))[0].status == "PENDING"
    async with world.db.connection() as tx:
        (failing,) = await list_chains(tx)
    assert failing.failure == "the chain changed while it was read"
    monkeypatch.undo()
    await world.scan()
    assert (await world.read(order))[0].status == "PAID"
    async with world.db.connection() as tx:
        (state,) = await list_chains(tx)
    assert (state.failure, state.failing_since) == (None, None)


async def test_a_crash_at_any_moment_loses_nothing_and_does_nothing_twice(
    world: ChainWorld, monkeypatch: pytest.MonkeyPatch
) -> None:
    order, attempt, address = await world.begin("1.00")
    await world.scan()
    world.chain.transfer(world.chain.usdt, address, 2 * USD)
    world.chain.mine(CONFIRMATIONS)

    class Crash(BaseException):
        """The process is killed."""

    for statement in ("ADVANCE", "STORE", "ADD_UP", "RELEASE", "LOCK_DUE", "SET_REPORTED"):

        class Crashing:
            """Ends the process instead of running a statement."""

            async def _crash(self, *_: Any, **__: Any) -> None:
                raise Crash

            run = get = first = all = _crash

        with monkeypatch.context() as patch:
            patch.setattr(queries, statement, Crashing())
            with pytest.raises(Crash):
                await world.scan()
        # The lease of the process that crashed ends.
        async with world.db.connection() as tx:
            await tx.execute("update deposit_positions set claimed_until = 0")
    await world.scan()
    assert (await world.read(order))[0].status == "PAID"
    assert await world.cases(attempt) == [("EXCESS", USD)]
    assert (await world.events(order)).count("confirmed") == 1


async def test_the_first_position_is_before_the_first_address(world: ChainWorld) -> None:
    # The worker was not running while the customer paid.
    order, _, address = await world.begin("1.00")
    world.chain.transfer(world.chain.usdt, address, USD)
    world.chain.mine(CONFIRMATIONS + 5)
    await world.scan()
    await world.scan()
    assert (await world.read(order))[0].status == "PAID"


async def test_money_that_is_older_than_its_address_pays_nothing(world: ChainWorld) -> None:
    # A deployment that was restored from a backup derives an address again.
    order, attempt, address = await world.begin("1.00")
    await world.scan()
    world.chain.transfer(world.chain.usdt, address, USD)
    world.chain.mine(CONFIRMATIONS)
    async with world.db.connection() as tx:
        await tx.execute("update deposit_addresses set reserved_at = $1", now_ms() + 2 * 3_600_000)
    await world.scan()
    assert (await world.read(order))[0].status == "PENDING"
    assert await world.cases(attempt) == []


async def test_a_failing_node_is_reported_and_another_account_goes_on(
    world: ChainWorld, monkeypatch: pytest.MonkeyPatch
) -> None:
    order, _, address = await world.begin("1.00")
    await world.scan()
    failing = ChainWorld(world.db, world.chain)
    monkeypatch.setattr(failing.gateway, "head", _fail)
    async with world.db.connection() as tx:
        await tx.execute(
            "insert into deposit_positions select 'other', chain_id, number, hash, 0, 0"
            " from deposit_positions"
        )
    world.chain.transfer(world.chain.usdt, address, USD)
    world.chain.mine(CONFIRMATIONS)
    async with world.db.connection() as tx:
        await tx.execute("update deposit_positions set next_at = 0")
    with capture_logs() as lines:
        gateways = {"other": failing.gateway, "evm": world.gateway}
        await jobs.scan_all(world.db, gateways, world.now)
    assert (await world.read(order))[0].status == "PAID"
    assert [(each["event"], each["account"]) for each in lines if "account" in each] == [
        ("chain not read", "other")
    ]
    async with world.db.connection() as tx:
        row, working = await list_chains(tx)
    assert (working.account, working.failure) == ("evm", None)
    assert (row.account, row.failure) == ("other", "no node today")
    await failing.close()


async def _fail() -> Block:
    msg = "no node today"
    raise ChainFailure(msg)


async def test_an_idle_account_asks_its_node_once_a_minute(world: ChainWorld) -> None:
    await world.scan()
    ((next_at,),) = await world.rows("select next_at from deposit_positions")
    assert next_at - now_ms() > scanning.IDLE_MS - 30_000
    # … but begins at once when a customer does.
    order, _, address = await world.begin("1.00")
    world.chain.transfer(world.chain.usdt, address, USD)
    world.chain.mine(CONFIRMATIONS)
    await jobs.scan_all(world.db, {"evm": world.gateway}, world.now)
    assert (await world.read(order))[0].status == "PAID"
