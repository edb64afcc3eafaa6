"""The adapter for USDT and USDC on EVM chains.

Each attempt has an address of its own, derived from an extended public key: the server has no
private key and cannot spend anything. ``opentill.deposits`` scans the addresses and applies what
arrives; this adapter never reports a payment by itself (decision 0160).
"""

import time
from collections.abc import Collection
from typing import Final

import msgspec

from opentill.core.ids import creation_time
from opentill.gateways.deposits import Block, ChainFailure, Token, Transfer
from opentill.gateways.evm.addresses import with_checksum
from opentill.gateways.evm.chain import Chain
from opentill.gateways.evm.extended_keys import ExtendedKey
from opentill.gateways.model import (
    CheckProblem,
    Method,
    PaymentOutcome,
    PaymentRequest,
    RefundOutcome,
    RefundRequest,
)
from opentill.gateways.no_callbacks import RefusesCallbacks

CURRENCY: Final = "USD"
# After this time, an attempt whose address is empty is declined, and queried no more.
_GIVEN_UP_MS: Final = 2 * 86_400_000
_VARIABLES: Final = "OPENTILL_GATEWAY_EVM_"


class Options(msgspec.Struct, frozen=True, kw_only=True):
    """The account: its chain, tokens and key. The node's address is secret."""

    rpc_url: str
    chain_id: int
    network: str
    explorer: str  # "" if there is none
    confirmations: int
    tokens: tuple[Token, ...]
    key: ExtendedKey  # its children are the receiving addresses

    def __repr__(self) -> str:
        """Omit the node's address and the key."""
        return f"Options(chain_id={self.chain_id!r}, tokens={self.tokens!r})"


class EvmGateway(RefusesCallbacks):
    """The ``Gateway`` of an EVM chain; implements ``TakesDeposits``, ``Expires`` and ``Checks``."""

    name = "evm"

    def __init__(self, options: Options, chain: Chain) -> None:
        """``chain`` is closed with the gateway."""
        self._options = options
        self._chain = chain
        self.network, self.chain_id = options.network, options.chain_id
        self.confirmations, self.tokens = options.confirmations, options.tokens
        self.key_id = options.key.fingerprint

    def methods(self, currency: str) -> tuple[Method, ...]:
        """Return CRYPTO for US dollars."""
        return ("CRYPTO",) if currency == CURRENCY else ()

    async def close(self) -> None:
        """Close the connections."""
        await self._chain.close()

    # Addresses

    def address(self, number: int) -> str:
        """Return a receiving address, in lower case. Raises ValueError if it has none."""
        return self._options.key.child(number).address

    def show_address(self, address: str) -> str:
        """Return an address with its checksum."""
        return with_checksum(address)

    def show_transaction(self, transaction: str) -> str:
        """Return the URL of a transaction in a public block explorer, "" if there is none."""
        explorer = self._options.explorer
        return f"{explorer}/tx/{transaction}" if explorer else ""

    def payment_uri(self, token: Token, address: str, units: int) -> str:
        """Return the URI of a transfer (EIP-681)."""
        contract, recipient = with_checksum(token.address), with_checksum(address)
        return f"ethereum:{contract}@{self.chain_id}/transfer?address={recipient}&uint256={units}"

    # Payments

    async def pay(self, request: PaymentRequest) -> PaymentOutcome:
        """Return the address of an attempt, and the QR code of the first token."""
        if request.address is None or request.amount.currency != CURRENCY:
            return PaymentOutcome(status="DECLINED", reason="no address was reserved")
        token = self.tokens[0]
        return PaymentOutcome(
            status="ACTION_REQUIRED",
            provider_ref=with_checksum(request.address),
            qr_text=self.payment_uri(token, request.address, token.units(request.amount)),
        )

    async def find_payment(self, attempt_id: str, provider_ref: str = "") -> PaymentOutcome:
        """Return ACTION_REQUIRED; DECLINED for an old attempt whose address is empty.

        An attempt without an address was never shown to its customer: NOT_FOUND.
        """
        if not provider_ref:
            return PaymentOutcome(status="NOT_FOUND")
        if time.time_ns() // 1_000_000 - creation_time(attempt_id) < _GIVEN_UP_MS:
            return PaymentOutcome(status="ACTION_REQUIRED")
        return await self.expire(attempt_id, provider_ref)

    async def expire(self, attempt_id: str, provider_ref: str) -> PaymentOutcome:
        """Return DECLINED if nothing is at the address.

        An address cannot be closed: what arrives later is noticed and applied as a late payment.
        """
        del attempt_id
        try:
            await self._check_chain()
            for token in self.tokens:
                if await self._chain.balance(token, provider_ref.lower()):
                    return PaymentOutcome(status="ACTION_REQUIRED")
        except ChainFailure as failure:
            return PaymentOutcome(status="UNKNOWN", reason=str(failure))
        return PaymentOutcome(status="DECLINED", reason="expired")

    # Refunds: staff send them from their wallet, because the server has no private key.

    async def refund(self, request: RefundRequest) -> RefundOutcome:
        """Return PENDING: staff send the refund and record its transaction."""
        del request
        return RefundOutcome(status="PENDING")

    async def find_refund(self, refund_id: str, payment_ref: str = "") -> RefundOutcome:
        """Return PENDING: staff send the refund and record its transaction."""
        del refund_id, payment_ref
        return RefundOutcome(status="PENDING")

    # The chain

    async def head(self) -> Block:
        """Return the newest block. Raises ChainFailure, as the other methods do.

        The number of the chain is compared each time: behind an address there may be several nodes,
        and transfers of a test chain must pay nothing.
        """
        await self._check_chain()
        return await self._chain.head()

    async def _check_chain(self) -> None:
        chain_id = await self._chain.chain_id()
        if chain_id != self.chain_id:
            msg = f"the node is one of the chain {chain_id}, not {self.chain_id}"
            raise ChainFailure(msg)

    async def block(self, number: int) -> Block | None:
        """Return a block of the chain as the node sees it now; None if it has none."""
        return await self._chain.block(number)

    async def transfers(
        self, addresses: Collection[str], first: int, last: int
    ) -> tuple[list[Transfer], int]:
        """Return transfers of all tokens to addresses, and the last block that was read."""
        return await self._chain.transfers(addresses, first, last)

    async def find_transfers(self, transaction: str) -> list[Transfer] | None:
        """Return the transfers of a successful transaction, None if there is no such one."""
        return await self._chain.find_transfers(transaction)

    async def check(self) -> CheckProblem | None:
        """Compare chain and tokens with the node's; return the problem and its remedy."""
        try:
            chain_id = await self._chain.chain_id()
        except ChainFailure as failure:
            return CheckProblem(f"The node cannot be used ({failure}): correct {_VARIABLES}RPC_URL")
        if chain_id != self.chain_id:
            return CheckProblem(
                f"The node is one of the chain {chain_id}, not {self.chain_id}: correct"
                f" {_VARIABLES}CHAIN_ID, or {_VARIABLES}RPC_URL"
            )
        for token in self.tokens:
            problem = await self._check_token(token)
            if problem is not None:
                return problem
        return None

    async def _check_token(self, token: Token) -> CheckProblem | None:
        shown = with_checksum(token.address)
        try:
            decimals = await self._chain.decimals(token)
        except ChainFailure as failure:
            return CheckProblem(
                f"{token.symbol} at {shown} is no token ({failure}): correct {_VARIABLES}TOKENS"
            )
        if decimals is None:
            return CheckProblem(
                f"{self.network} has no contract at {shown}: correct {_VARIABLES}TOKENS"
            )
        if decimals != token.decimals:
            return CheckProblem(
                f"{token.symbol} at {shown} has {decimals} decimals, not {token.decimals}: correct"
                f" {_VARIABLES}TOKENS"
            )
        return None
