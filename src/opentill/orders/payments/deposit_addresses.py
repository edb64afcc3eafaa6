"""Addresses to which customers send tokens: one for each payment attempt, never used again.

They follow from an extended public key and a number. Numbers are counted in the database, in the
order in which wallets list addresses (decision 0160).
"""

from decimal import Decimal
from typing import Final

from opentill.core.ids import creation_time
from opentill.core.money import Money
from opentill.db.database import Tx
from opentill.gateways.deposits import TakesDeposits
from opentill.orders.model import DAY_MS, PaymentAttempt
from opentill.orders.payments import queries
from opentill.orders.payments.model import DepositAddress

# How long after the end of its session an address is monitored for late transfers.
MONITORED_MS: Final = 7 * DAY_MS
_MOST_NUMBERS: Final = 4  # one number in 2**127 has no address


async def reserve(
    tx: Tx,
    gateway: TakesDeposits,
    attempt: PaymentAttempt,
    expires_at: int | None,
    now: int,
) -> str:
    """Return the address of an attempt, in lower case; reserve a new one if it has none.

    ``now`` and ``expires_at`` are business time. Raises ValueError if the key has no more
    addresses.
    """
    reserved = await queries.DEPOSIT_ADDRESS.first(tx, attempt_id=attempt.id)
    if reserved is not None:
        return reserved.address
    amount = Money(attempt.amount_minor, attempt.currency)
    due = max(token.scaled(token.units(amount)) for token in gateway.tokens)
    for _ in range(_MOST_NUMBERS):
        number = await queries.NEXT_DEPOSIT_NUMBER.get(tx, key_id=gateway.key_id)
        try:
            address = gateway.address(number or 0)
        except ValueError:
            continue
        await queries.RESERVE_ADDRESS.run(
            tx,
            address=address,
            account=attempt.gateway,
            chain_id=gateway.chain_id,
            key_id=gateway.key_id,
            number=number,
            attempt_id=attempt.id,
            amount_minor=attempt.amount_minor,
            currency=attempt.currency,
            due=Decimal(due),
            expires_at=expires_at,
            monitored_until=(now if expires_at is None else expires_at) + MONITORED_MS,
            reserved_at=creation_time(attempt.id),
        )
        return address
    msg = f"the key {gateway.key_id} has no more addresses"
    raise ValueError(msg)


async def find(tx: Tx, attempt_id: str) -> DepositAddress | None:
    """Return the address of an attempt, None if it has none."""
    return await queries.DEPOSIT_ADDRESS.first(tx, attempt_id=attempt_id)


async def find_by_address(tx: Tx, address: str) -> DepositAddress | None:
    """Return a reserved address, in lower case; None if it is not one."""
    return await queries.DEPOSIT_BY_ADDRESS.first(tx, address=address)


async def list_monitored(
    tx: Tx, account: str, chain_id: int, now: int, limit: int
) -> list[DepositAddress]:
    """Return the addresses of an account that are monitored, the newest first."""
    return await queries.MONITORED_ADDRESSES.all(
        tx, account=account, chain_id=chain_id, now=now, limit=limit
    )
