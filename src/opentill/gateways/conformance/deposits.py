"""Adapters whose customers pay to an address of their own: what the scanner relies on."""

from collections.abc import Callable, Coroutine, Iterator
from typing import Any, Final

import pytest

from opentill.gateways.conformance.case import Case
from opentill.gateways.conformance.faults import faulty
from opentill.gateways.conformance.provider import Provider
from opentill.gateways.conformance.proxy import FAULTS, Fault
from opentill.gateways.conformance.running import Cases, Run
from opentill.gateways.conformance.scan import confirmed_transfers
from opentill.gateways.deposits import ChainFailure, TakesDeposits, Transfer, takes_deposits

_NO_BLOCK: Final = 10**9  # the number of a block that no chain of a test has
_UNUSED: Final = 2_000_000_000  # the number of an address that no test pays


def _adapter(case: Case) -> TakesDeposits:
    assert takes_deposits(case.gateway)
    return case.gateway


class DepositCases(Cases):
    """Addresses, blocks and transfers, and each request of the scanner with each fault."""

    @pytest.fixture(autouse=True)
    def _skip_without_deposits(self, provider: Provider, request: pytest.FixtureRequest) -> None:
        if not provider.deposits and request.node.originalname in vars(DepositCases):
            pytest.skip("the provider reports its payments")

    def test_deposit_addresses(self, run: Run) -> None:
        """Each number has an address of its own, which is always the same."""

        async def work(case: Case) -> None:
            adapter = _adapter(case)
            addresses = [adapter.address(number) for number in range(20)]
            assert len(set(addresses)) == len(addresses)
            assert addresses == [adapter.address(number) for number in range(20)]
            for address in addresses:
                assert address == address.lower()
                assert adapter.show_address(address).lower() == address
            for token in adapter.tokens:
                uri = adapter.payment_uri(token, addresses[0], 1)
                assert adapter.show_address(addresses[0]) in uri

        run(work)

    def test_deposit(self, provider: Provider, run: Run) -> None:
        """The transfer of a payment is found by its address and by its transaction."""

        async def work(case: Case) -> None:
            adapter = _adapter(case)
            transfer = await _paid_transfer(case)
            tokens = {token.address: token for token in adapter.tokens}
            assert transfer.units == tokens[transfer.token].units(provider.amount)
            by_transaction = await adapter.find_transfers(transfer.transaction)
            assert by_transaction is not None
            assert transfer in by_transaction
            assert await adapter.find_transfers(f"0x{'0' * 64}") is None
            assert await adapter.block(_NO_BLOCK) is None
            nothing, _ = await adapter.transfers([adapter.address(_UNUSED)], 0, 1)
            assert nothing == []

        run(work)

    @pytest.mark.parametrize("fault", FAULTS)
    def test_deposit_fault(self, run: Run, fault: Fault) -> None:
        """A chain that cannot be read raises ChainFailure, and nothing else."""

        async def work(case: Case) -> None:
            transfer = await _paid_transfer(case)
            for read in _reads(transfer):
                await case.restart()
                async with faulty(case, fault, 0) as is_faulty:
                    with pytest.raises(ChainFailure) as failure:
                        await case.call(read(_adapter(case)))
                assert is_faulty()
                case.assert_no_secret(str(failure.value))
                await case.call(read(_adapter(case)))

        run(work)


async def _paid_transfer(case: Case) -> Transfer:
    """Take a payment; return its only transfer."""
    request, _ref = await case.take()
    assert request.address is not None
    adapter = _adapter(case)
    (transfer,) = await confirmed_transfers(adapter, request.address, await adapter.head())
    return transfer


def _reads(transfer: Transfer) -> Iterator[Callable[[TakesDeposits], Coroutine[Any, Any, object]]]:
    """Yield each request of the scanner, and the one that verifies a refund."""
    number = transfer.block_number
    yield lambda adapter: adapter.head()
    yield lambda adapter: adapter.block(number)
    yield lambda adapter: adapter.transfers([transfer.recipient], number, number)
    yield lambda adapter: adapter.find_transfers(transfer.transaction)
