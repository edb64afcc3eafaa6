"""One test's adapter, its provider and the proxy between them, used as OpenTill uses an adapter."""

import asyncio
import threading
import time
from collections.abc import AsyncIterator, Coroutine, Iterator, Sequence
from contextlib import asynccontextmanager, contextmanager
from typing import Any, Final, Protocol, TypeVar

import msgspec

from opentill.gateways.conformance.provider import Callback, Provider
from opentill.gateways.conformance.proxy import Proxy, running_proxy
from opentill.gateways.conformance.scan import scan
from opentill.gateways.deposits import takes_deposits
from opentill.gateways.model import (
    BadCallback,
    Gateway,
    GatewayEvent,
    PaymentOutcome,
    PaymentRequest,
    RefundOutcome,
    RefundRequest,
    fetches_keys,
    is_notified,
)

T = TypeVar("T")

LONGEST_S: Final = 12.0  # an operation takes about ten seconds at most
STARTED: Final = ("ACTION_REQUIRED", "SUCCEEDED")  # what a payment without faults returns
LONGEST_REASON: Final = 500  # characters
_TRIES: Final = 50
_PAUSE_S: Final = 0.1


class Case:
    """An adapter whose requests pass a proxy."""

    def __init__(self, provider: Provider, proxy: Proxy) -> None:
        """Use ``running_case``."""
        self.provider, self.proxy = provider, proxy
        self.gateway = provider.make_gateway(proxy.url)
        assert takes_deposits(self.gateway) == provider.deposits, "it declares ``deposits`` wrongly"
        self._reader: Gateway | None = None
        self._addresses: dict[str, str] = {}  # of attempts whose payments nobody reports

    async def restart(self) -> None:
        """Make the adapter anew, as a process that has cached nothing."""
        await self.gateway.close()
        self.gateway = self.provider.make_gateway(self.proxy.url)

    async def close(self) -> None:
        """Close the adapters."""
        await self.gateway.close()
        if self._reader is not None:
            await self._reader.close()

    def _direct(self) -> Gateway:
        if self._reader is None:
            self._reader = self.provider.make_gateway(self.provider.url)
        return self._reader

    async def call(self, operation: Coroutine[Any, Any, T]) -> T:
        """Return the result of an operation. Fails if it takes too long."""
        try:
            async with asyncio.timeout(LONGEST_S):
                return await operation
        except TimeoutError:
            message = f"an operation took longer than {LONGEST_S:.0f} s"
            raise AssertionError(message) from None

    async def pay(self, request: PaymentRequest) -> PaymentOutcome:
        """Start a payment."""
        if request.address is not None:
            self._addresses[request.attempt_id] = request.address
        return self._checked(await self.call(self.gateway.pay(request)))

    async def find(self, attempt_id: str, provider_ref: str) -> PaymentOutcome:
        """Query an attempt, and read the chain if that is where its payment is seen."""
        outcome = await self.call(self.gateway.find_payment(attempt_id, provider_ref))
        address = self._addresses.get(attempt_id)
        if address is not None and takes_deposits(self.gateway):
            assert outcome.status in ("ACTION_REQUIRED", "PENDING", "UNKNOWN"), outcome
            outcome = await self.call(scan(self.gateway, address, self.provider.amount))
        return self._checked(outcome)

    async def refund(self, request: RefundRequest) -> RefundOutcome:
        """Send a refund."""
        return self._checked(await self.call(self.gateway.refund(request)))

    async def find_refund(self, refund_id: str, payment_ref: str) -> RefundOutcome:
        """Query a refund."""
        return self._checked(await self.call(self.gateway.find_refund(refund_id, payment_ref)))

    def _checked(self, outcome: T) -> T:
        reason = getattr(outcome, "reason", "")
        assert len(reason) <= LONGEST_REASON, f"the reason has {len(reason)} characters"
        self.assert_no_secret(reason)
        return outcome

    def assert_no_secret(self, text: str) -> None:
        """Fail if a text has one of the provider's secrets."""
        assert not any(secret in text for secret in self.provider.secrets), "it shows a secret"

    def assert_paid(self, outcome: PaymentOutcome) -> None:
        """Fail unless an outcome of a query says that the payment is paid, with its amount."""
        assert outcome.status == "SUCCEEDED", outcome
        if self.provider.names_amounts or outcome.amount is not None:
            assert outcome.amount == self.provider.amount, outcome

    async def start(self) -> tuple[PaymentRequest, PaymentOutcome]:
        """Start a payment without faults; the customer must do something, or has paid."""
        request = self.provider.payment_request()
        outcome = await self.pay(request)
        assert outcome.status in STARTED, outcome
        return request, outcome

    async def approve(self, request: PaymentRequest, outcome: PaymentOutcome) -> None:
        """Pay as the customer, unless the payment is done."""
        if outcome.status == "SUCCEEDED":
            return
        page = outcome.action_url or outcome.qr_text
        await asyncio.to_thread(self.provider.approve, request.attempt_id, page)

    async def settle(self, attempt_id: str, provider_ref: str) -> PaymentOutcome:
        """Query an attempt until the provider has decided, as the worker does."""
        outcome = await self.find(attempt_id, provider_ref)
        for _ in range(_TRIES):
            if outcome.status not in ("PENDING", "ACTION_REQUIRED", "UNKNOWN"):
                break
            await asyncio.sleep(_PAUSE_S)
            outcome = await self.find(attempt_id, outcome.provider_ref or provider_ref)
        return outcome

    async def take(self) -> tuple[PaymentRequest, str]:
        """Take a payment without faults; return its request and the provider's id."""
        request, outcome = await self.start()
        await self.approve(request, outcome)
        paid = await self.settle(request.attempt_id, outcome.provider_ref)
        self.assert_paid(paid)
        return request, paid.provider_ref or outcome.provider_ref

    async def settle_refund(self, request: RefundRequest) -> RefundOutcome:
        """Query a refund until the provider has decided, as the worker does."""
        outcome = await self.find_refund(request.refund_id, request.provider_ref)
        for _ in range(_TRIES):
            if outcome.status != "PENDING":
                break
            await asyncio.sleep(_PAUSE_S)
            outcome = await self.find_refund(request.refund_id, request.provider_ref)
        return outcome

    async def taken(self, attempt_id: str) -> int | None:
        """Return what the provider took for an attempt, in minor units; None if it is unknown."""
        return await asyncio.to_thread(self.provider.taken, attempt_id)

    async def refunded(self, attempt_id: str) -> int:
        """Return what the provider refunded of an attempt, in minor units."""
        return await asyncio.to_thread(self.provider.refunded, attempt_id)

    async def callbacks(self, attempt_id: str) -> Sequence[Callback]:
        """Return the callbacks about a payment."""
        return await asyncio.to_thread(self.provider.callbacks, attempt_id)

    async def read(
        self, callback: Callback, gateway: Gateway | None = None, now: int | None = None
    ) -> tuple[GatewayEvent, ...] | None:
        """Return the events of a callback; None if the adapter refuses it.

        The adapter calls the provider at its own address, which callbacks may name.
        """
        reader = gateway or self._direct()
        at = time.time_ns() // 1_000_000 if now is None else now
        try:
            if callback.fields is not None:
                assert is_notified(reader)
                return await self.call(reader.read_notice(callback.fields))
            if fetches_keys(reader):
                await self.call(reader.fetch_keys(callback.headers))
            return reader.read_callback(callback.headers, callback.body, at)
        except BadCallback as error:
            self.assert_no_secret(str(error))
            return None


@asynccontextmanager
async def running_case(provider: Provider) -> AsyncIterator[Case]:
    """Run a proxy in front of the provider, and make an adapter that calls it."""
    async with running_proxy(provider.url) as proxy:
        case = Case(provider, proxy)
        try:
            yield case
        finally:
            await case.close()


class RunCoroutine(Protocol):
    """Runs a coroutine on an event loop in another thread."""

    def __call__(self, coroutine: Coroutine[Any, Any, T], /) -> T:
        """Return the coroutine's result."""
        ...


@contextmanager
def event_loop() -> Iterator[RunCoroutine]:
    """Run an event loop in a thread; yield a function that runs a coroutine on it."""
    loop = asyncio.new_event_loop()
    thread = threading.Thread(target=loop.run_forever, daemon=True)
    thread.start()

    def run(coroutine: Coroutine[Any, Any, T], /) -> T:
        return asyncio.run_coroutine_threadsafe(coroutine, loop).result()

    try:
        yield run
    finally:
        loop.call_soon_threadsafe(loop.stop)
        thread.join()
        loop.close()


def repeated(request: RefundRequest) -> RefundRequest:
    """Return a refund as it is sent again, after a call without a usable response."""
    return msgspec.structs.replace(request, repeated=True)
