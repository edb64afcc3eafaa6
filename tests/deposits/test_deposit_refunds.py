"""Refunds that staff send from their wallet are verified on the chain."""

import asyncio
from decimal import Decimal
from functools import partial

import msgspec
import pytest

from deposits.chain_world import CONFIRMATIONS, USD, ChainWorld
from opentill.core.errors import Invalid
from opentill.core.money import Money
from opentill.db.database import Tx
from opentill.deposits import RefundEvidence, record_refund, verify_refund
from support.world import NOW

AMOUNT = Money(250, "USD")


async def verify(world: ChainWorld, transaction: str, recipient: str) -> RefundEvidence:
    return await verify_refund(world.gateway, "evm", "re_1", AMOUNT, transaction, recipient)


async def refused(world: ChainWorld, transaction: str, recipient: str) -> str:
    with pytest.raises(Invalid) as error:
        await verify(world, transaction, recipient)
    return f"{error.value.field}: {error.value}"


async def test_the_transaction_of_a_refund_is_found_on_the_chain(world: ChainWorld) -> None:
    recipient = world.gateway.show_address(world.chain.accounts[3])
    sent = world.chain.transfer(world.chain.usdt, recipient, 2_500_000)
    assert "1 of 3 confirmations" in await refused(world, sent, recipient)
    world.chain.mine(CONFIRMATIONS)
    evidence = await verify(world, sent.upper().replace("X", "x"), recipient)
    assert (evidence.transaction, evidence.token) == (sent, world.chain.usdt)
    assert (evidence.recipient, int(evidence.units)) == (recipient.lower(), 2_500_000)
    async with world.db.connection() as tx:
        await record_refund(tx, evidence, NOW)
        await record_refund(tx, evidence, NOW)  # sent twice
        other = msgspec.structs.replace(evidence, refund_id="re_2")
        with pytest.raises(Invalid, match="recorded for no other refund"):
            await record_refund(tx, other, NOW)


async def test_of_two_people_at_the_same_moment_exactly_one_records_a_transaction(
    world: ChainWorld,
) -> None:
    first = RefundEvidence(
        refund_id="re_3", account="evm", chain_id=1337, transaction=f"0x{'ab' * 32}", log_index=0,
        recipient=f"0x{'cd' * 20}", token=f"0x{'ef' * 20}", units=Decimal(2_500_000),
    )  # fmt: skip
    for second in (  # the same transaction for another refund, and another one for this refund
        msgspec.structs.replace(first, refund_id="re_4"),
        msgspec.structs.replace(first, transaction=f"0x{'12' * 32}"),
    ):
        begun = asyncio.Barrier(2)
        started: set[int] = set()

        async def record(
            tx: Tx,
            evidence: RefundEvidence,
            begun: asyncio.Barrier = begun,
            started: set[int] = started,
        ) -> None:
            if id(evidence) not in started:  # otherwise it is repeated after a collision
                started.add(id(evidence))
                await begun.wait()  # both transactions have begun
            await record_refund(tx, evidence, NOW)

        recording = (world.db.run(partial(record, evidence=each)) for each in (first, second))
        results = await asyncio.gather(*recording, return_exceptions=True)
        assert sorted(type(result).__name__ for result in results) == [
            "NoneType",
            "WrongTransaction",
        ]
        async with world.db.connection() as tx:
            rows = await tx.fetch("delete from deposit_refunds returning refund_id, transaction")
            winner = (first, second)[results.index(None)]
        assert [tuple(row) for row in rows] == [(winner.refund_id, winner.transaction)]


async def test_another_transaction_is_refused_with_the_difference(world: ChainWorld) -> None:
    chain, show = world.chain, world.gateway.show_address
    recipient = show(chain.accounts[3])
    too_little = chain.transfer(chain.usdt, recipient, 2_499_999)
    elsewhere = chain.transfer(chain.usdt, chain.accounts[4], 2_500_000)
    worthless = chain.transfer(chain.other, recipient, 2_500_000)
    decimals = chain.transfer(chain.usdc, recipient, 2_500_000)
    chain.mine(CONFIRMATIONS)
    assert "sends 2.499999 USDT, not the refund's 2.50" in await refused(
        world, too_little, recipient
    )
    assert f"sends to {show(chain.accounts[4])}" in await refused(world, elsewhere, recipient)
    assert "moves no USDT or USDC" in await refused(world, worthless, recipient)
    assert "sends 0.0000000000025 USDC" in await refused(world, decimals, recipient)
    assert "unknown on Local test chain" in await refused(world, f"0x{'ab' * 32}", recipient)
    assert "64 hexadecimal digits" in await refused(world, "0x12", recipient)
    wrong_capitals = recipient.swapcase().replace("X", "x")
    assert (await refused(world, elsewhere, wrong_capitals)).startswith("recipient: ")


async def test_a_transaction_of_a_replaced_block_is_refused(world: ChainWorld) -> None:
    recipient = world.gateway.show_address(world.chain.accounts[3])
    with world.chain.fork():
        sent = world.chain.transfer(world.chain.usdt, recipient, 2_500_000)
        world.chain.mine(CONFIRMATIONS)
        assert (await verify(world, sent, recipient)).units == 5 * USD // 2
    assert "unknown" in await refused(world, sent, recipient)
