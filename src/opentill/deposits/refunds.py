"""Refunds that staff send from their own wallet: the transaction is verified on the chain.

The server has no private key. A refund waits until staff have sent it; they record its transaction,
which must contain a transfer of one of the account's tokens to the recipient with the refund's
amount, and which counts for one refund only.
"""

import re
from decimal import Decimal
from typing import Final

from opentill.core.errors import Invalid
from opentill.core.money import Money
from opentill.db.database import Tx
from opentill.deposits import queries
from opentill.deposits.model import RefundEvidence
from opentill.gateways.deposits import ChainFailure, TakesDeposits, Transfer

_TRANSACTION: Final = re.compile(r"0x[0-9a-fA-F]{64}", re.ASCII)
_ADDRESS: Final = re.compile(r"0x[0-9a-fA-F]{40}", re.ASCII)


class WrongTransaction(Invalid):
    """A transaction is not the one of a refund."""

    def __init__(self, reason: str) -> None:
        """``reason`` is a sentence for staff."""
        super().__init__("transaction", reason)


async def verify_refund(
    gateway: TakesDeposits,
    account: str,
    refund_id: str,
    amount: Money,
    transaction: str,
    recipient: str,
) -> RefundEvidence:
    """Find the transfer of a refund on the chain. Raises Invalid, which names the field.

    The chain is read, so no transaction of the database may be open.
    """
    if _TRANSACTION.fullmatch(transaction) is None:
        msg = "transaction must be the hash of a transaction: 0x and 64 hexadecimal digits"
        raise WrongTransaction(msg)
    if _ADDRESS.fullmatch(recipient) is None or gateway.show_address(recipient) != recipient:
        msg = "recipient must be an address with its capitals, as wallets show it"
        raise Invalid("recipient", msg)
    try:
        transfers = await gateway.find_transfers(transaction.lower())
        head = await gateway.head()
        if transfers:
            block = await gateway.block(transfers[0].block_number)
            is_in_chain = block is not None and block.hash == transfers[0].block_hash
            transfers = transfers if is_in_chain else None
    except ChainFailure as failure:
        msg = f"transaction cannot be verified now, because the chain cannot be read: {failure}"
        raise WrongTransaction(msg) from None
    if transfers is None:
        msg = f"transaction is unknown on {gateway.network}, or it failed"
        raise WrongTransaction(msg)
    transfer = _choose(gateway, transfers, amount, recipient.lower())
    confirmations = head.number - transfer.block_number + 1
    if confirmations < gateway.confirmations:
        msg = (
            f"transaction has {confirmations} of {gateway.confirmations} confirmations: record it"
            " when it has all of them"
        )
        raise WrongTransaction(msg)
    return RefundEvidence(
        refund_id=refund_id,
        account=account,
        chain_id=gateway.chain_id,
        transaction=transfer.transaction,
        log_index=transfer.log_index,
        recipient=transfer.recipient,
        token=transfer.token,
        units=Decimal(transfer.units),
    )


def _choose(
    gateway: TakesDeposits, transfers: list[Transfer], amount: Money, recipient: str
) -> Transfer:
    """Return the transfer that is the refund. Raises WrongTransaction, which says what differs."""
    tokens = {token.address: token for token in gateway.tokens}
    ours = [each for each in transfers if each.token in tokens]
    if not ours:
        symbols = " or ".join(token.symbol for token in gateway.tokens)
        msg = f"transaction moves no {symbols}"
        raise WrongTransaction(msg)
    to_recipient = [each for each in ours if each.recipient == recipient]
    if not to_recipient:
        shown = gateway.show_address(ours[0].recipient)
        msg = f"transaction sends to {shown}, not to the recipient"
        raise WrongTransaction(msg)
    for each in to_recipient:
        if each.units == tokens[each.token].units(amount):
            return each
    token = tokens[to_recipient[0].token]
    sent = token.text(to_recipient[0].units)
    msg = f"transaction sends {sent} {token.symbol}, not the refund's {amount.text}"
    raise WrongTransaction(msg)


async def record_refund(tx: Tx, evidence: RefundEvidence, now: int) -> None:
    """Store the transaction of a refund. Raises Invalid if one of both was recorded before."""
    if await queries.RECORD_REFUND.run(tx, evidence, now=now):
        return
    existing = await queries.REFUND.first(tx, refund_id=evidence.refund_id)
    if existing != evidence:
        raise WrongTransaction(
            "transaction must be one that was recorded for no other refund"
            if existing is None
            else f"transaction must be {existing.transaction}, which was recorded for this refund"
        )


async def find_refund(tx: Tx, refund_id: str) -> RefundEvidence | None:
    """Return the transaction of a refund, None if none was recorded."""
    return await queries.REFUND.first(tx, refund_id=refund_id)
