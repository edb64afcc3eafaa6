"""Reading a chain as OpenTill's scanner does, for adapters whose payments nobody reports.

The scanner (``opentill.deposits``) needs a database. This one reads the chain from its beginning.
"""

from opentill.core.money import EXPONENTS, Money
from opentill.gateways.deposits import (
    SCALE,
    Block,
    ChainFailure,
    TakesDeposits,
    Transfer,
)
from opentill.gateways.model import PaymentOutcome


async def scan(gateway: TakesDeposits, address: str, due: Money) -> PaymentOutcome:
    """Return the state of a payment: SUCCEEDED once enough has its confirmations.

    UNKNOWN if the chain cannot be read.
    """
    try:
        head = await gateway.head()
        confirmed = await confirmed_transfers(gateway, address, head)
        last = head.number - gateway.confirmations + 1
        seen, _ = await gateway.transfers([address], max(0, last + 1), head.number)
    except ChainFailure as failure:
        return PaymentOutcome(status="UNKNOWN", reason=str(failure))
    amount_due = due.minor * 10 ** (SCALE - EXPONENTS[due.currency])
    received = _sum(gateway, confirmed)
    if received >= amount_due:
        minor = received // 10 ** (SCALE - EXPONENTS[due.currency])
        return PaymentOutcome(status="SUCCEEDED", amount=Money(minor, due.currency))
    is_seen = received + _sum(gateway, seen) >= amount_due
    return PaymentOutcome(status="PENDING" if is_seen else "ACTION_REQUIRED")


async def confirmed_transfers(gateway: TakesDeposits, address: str, head: Block) -> list[Transfer]:
    """Return the transfers to an address with enough confirmations. Raises ChainFailure."""
    first, last = 0, head.number - gateway.confirmations + 1
    transfers: list[Transfer] = []
    while first <= last:
        part, end = await gateway.transfers([address], first, last)
        assert first <= end <= last, "the adapter read other blocks"
        transfers += part
        first = end + 1
    for each in transfers:
        block = await gateway.block(each.block_number)
        if block is None or block.hash != each.block_hash:
            msg = "the chain changed while it was read"
            raise ChainFailure(msg)
    return transfers


def _sum(gateway: TakesDeposits, transfers: list[Transfer]) -> int:
    tokens = {token.address: token for token in gateway.tokens}
    return sum(tokens[each.token].scaled(each.units) for each in transfers if each.token in tokens)
