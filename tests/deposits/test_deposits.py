"""Customers pay orders in tokens on a real chain: enough, too little, too much, late, twice."""

import asyncio

import pytest

from deposits.chain_world import CONFIRMATIONS, USD, ChainWorld
from opentill.checkouts import jobs as checkout_jobs
from opentill.deposits import jobs
from opentill.orders import jobs as order_jobs
from support.world import DAY


async def test_a_transfer_pays_its_order_after_the_confirmations(world: ChainWorld) -> None:
    order, attempt, address = await world.begin()
    await world.scan()
    assert attempt.status == "ACTION_REQUIRED"
    assert attempt.provider_ref.lower() == address
    assert attempt.provider_ref != address  # with the capitals of its checksum
    world.chain.transfer(world.chain.usdt, address, 9_990_000)
    await world.scan()
    current, seen = await world.read(order)
    assert (current.status, seen.status, seen.reason) == ("PENDING", "PENDING", "confirming")
    world.chain.mine(CONFIRMATIONS - 2)
    await world.scan()
    assert (await world.read(order))[0].status == "PENDING"
    world.chain.mine()
    await world.scan()
    current, paid = await world.read(order)
    assert (current.status, current.payment_method) == ("PAID", "CRYPTO")
    assert paid.status == "SUCCEEDED"
    await world.scan()
    assert await world.cases(paid) == []


async def test_both_tokens_count_at_one_dollar_each(world: ChainWorld) -> None:
    order, attempt, address = await world.begin("10.00")
    await world.scan()
    world.chain.transfer(world.chain.usdt, address, 4 * USD)
    world.chain.transfer(world.chain.usdc, address, 6 * 10**18)
    world.chain.mine(CONFIRMATIONS)
    await world.scan()
    assert (await world.read(order))[0].status == "PAID"
    assert await world.cases(attempt) == []


async def test_too_little_waits_for_the_rest_within_the_session(world: ChainWorld) -> None:
    order, _, address = await world.begin("10.00")
    await world.scan()
    world.chain.transfer(world.chain.usdt, address, 10 * USD - 1)  # a millionth of a dollar less
    world.chain.mine(CONFIRMATIONS)
    await world.scan()
    current, attempt = await world.read(order)
    assert (current.status, attempt.status) == ("PENDING", "ACTION_REQUIRED")
    world.chain.transfer(world.chain.usdt, address, 1)
    world.chain.mine(CONFIRMATIONS)
    await world.scan()
    assert (await world.read(order))[0].status == "PAID"


async def test_too_little_is_for_staff_when_the_session_has_ended(world: ChainWorld) -> None:
    order, _, address = await world.begin("10.00")
    await world.scan()
    world.chain.transfer(world.chain.usdt, address, 4 * USD + 9_999)
    world.chain.mine(CONFIRMATIONS)
    await world.scan(2 * DAY)
    _, attempt = await world.read(order)
    assert attempt.reason == "amount_differs"
    assert "amount_differs" in await world.events(order)
    sql = "select cause from order_history where order_id = $1 and event = 'amount_differs'"
    ((cause,),) = await world.rows(sql, order.id)
    assert "4.00" in cause  # whole cents, rounded down
    await world.scan()
    assert (await world.events(order)).count("amount_differs") == 1
    # The rest arrives after all: the order is paid late, as by any other gateway.
    world.chain.transfer(world.chain.usdt, address, 6 * USD)
    world.chain.mine(CONFIRMATIONS)
    await world.scan()
    assert (await world.read(order))[0].status == "PAID"


async def test_too_much_pays_the_order_and_the_excess_is_a_case(world: ChainWorld) -> None:
    order, attempt, address = await world.begin("10.00")
    await world.scan()
    world.chain.transfer(world.chain.usdt, address, 7 * USD)
    world.chain.transfer(world.chain.usdc, address, 5 * 10**18)
    world.chain.mine(CONFIRMATIONS)
    await world.scan()
    assert (await world.read(order))[0].status == "PAID"
    assert await world.cases(attempt) == [("EXCESS", 2 * 10**18)]
    world.chain.transfer(world.chain.usdt, address, USD)  # and once more
    world.chain.mine(CONFIRMATIONS)
    await world.scan()
    await world.scan()
    assert await world.cases(attempt) == [("EXCESS", 2 * 10**18), ("EXCESS", USD)]


async def test_a_late_transfer_pays_the_order_late(world: ChainWorld) -> None:
    order, _, address = await world.begin()
    await world.scan()
    later = world.now + 2 * DAY
    await checkout_jobs.expire_due(world.db, later)
    gateways = {"evm": world.gateway}
    await order_jobs.check_attempts(world.db, gateways, "http://127.0.0.1:9", later)
    current, attempt = await world.read(order)
    assert (current.status, attempt.status) == ("CLOSED", "DECLINED")
    world.chain.transfer(world.chain.usdt, address, 9_990_000)
    world.chain.mine(CONFIRMATIONS)
    await world.scan(3 * DAY)
    assert (await world.read(order))[0].status == "PAID"


async def test_an_address_is_not_given_up_while_money_is_there(world: ChainWorld) -> None:
    order, _, address = await world.begin()
    world.chain.transfer(world.chain.usdt, address, USD)
    later = world.now + 2 * DAY
    await checkout_jobs.expire_due(world.db, later)
    gateways = {"evm": world.gateway}
    await order_jobs.check_attempts(world.db, gateways, "http://127.0.0.1:9", later)
    assert (await world.read(order))[1].status == "ACTION_REQUIRED"


async def test_an_unknown_token_is_a_case_and_pays_nothing(world: ChainWorld) -> None:
    order, attempt, address = await world.begin()
    await world.scan()
    hashes = [world.chain.transfer(world.chain.other, address, n) for n in range(1, 13)]
    world.chain.mine(CONFIRMATIONS)
    await world.scan()
    assert (await world.read(order))[0].status == "PENDING"
    cases = await world.cases(attempt)
    # Anybody can send worthless tokens: only some of them are stored.
    assert len(cases) == 10
    assert set(cases) <= {("UNKNOWN_TOKEN", n) for n in range(1, 13)}
    ((sender, token, transaction),) = await world.rows(
        "select sender, token, transaction from deposit_transfers where address = $1 and units = 1",
        address,
    )
    assert (sender, token) == (world.chain.accounts[0], world.chain.other)
    assert transaction == hashes[0]


@pytest.mark.parametrize("gap", [0, 700])
async def test_two_processes_at_once_do_everything_once(world: ChainWorld, gap: int) -> None:
    begun = [await world.begin("1.00") for _ in range(5)]
    await world.scan()
    for _, _, address in begun:
        world.chain.transfer(world.chain.usdt, address, 2 * USD)
    world.chain.mine(CONFIRMATIONS + gap)
    async with world.db.connection() as tx:
        await tx.execute("update deposit_positions set next_at = 0")
    gateways = {"evm": world.gateway}
    await asyncio.gather(*(jobs.scan_all(world.db, gateways, world.now) for _ in range(4)))
    await world.scan()
    for order, attempt, _ in begun:
        assert (await world.read(order))[0].status == "PAID"
        assert await world.cases(attempt) == [("EXCESS", USD)]
        assert (await world.events(order)).count("confirmed") == 1


async def test_addresses_are_never_used_twice(world: ChainWorld) -> None:
    begun = [await world.begin() for _ in range(4)]
    addresses = [address for _, _, address in begun]
    assert len(set(addresses)) == 4
    # The receiving addresses of a wallet with this key, in its order.
    assert addresses == [world.gateway.address(world.first_number + number) for number in range(4)]
    first = begun[0][0]
    again = await world.begin()
    assert again[2] not in addresses
    assert again[0].id != first.id
