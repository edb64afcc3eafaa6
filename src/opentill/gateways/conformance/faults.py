"""Responses that are lost, late, cut or not the provider's: no outcome is invented.

A fault applies to all requests of one operation after the first ones, so that an adapter that
repeats its request does not escape it, and each of several requests has it once. When the fault is
over, the same operation with the same id leads to the right result, and money moved once.
"""

from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from socket import socket
from typing import Final

import pytest

from opentill.gateways.conformance.case import STARTED, Case, repeated
from opentill.gateways.conformance.provider import Provider
from opentill.gateways.conformance.proxy import FAULTS, Fault
from opentill.gateways.conformance.running import Cases, Run
from opentill.gateways.model import Expires, PaymentOutcome, RefundRequest

_MOST_REQUESTS: Final = 5  # of one operation
# How many requests an operation of an adapter sends, once a test has found out.
_requests: Final[dict[tuple[type[Provider], str], int]] = {}
_ADRIFT: Final = ("UNKNOWN", "UNREACHABLE")
_OPEN: Final = ("ACTION_REQUIRED", "PENDING")


@asynccontextmanager
async def faulty(case: Case, fault: Fault, passed: int) -> AsyncIterator[Callable[[], bool]]:
    """Apply the fault to the requests of the block; yield whether one of them had it."""
    if fault == "refused":
        async with _refused(case, passed) as was_refused:
            yield was_refused
        return
    case.proxy.inject(fault, passed)
    try:
        yield lambda: case.proxy.applied > 0
    finally:
        case.proxy.fault = None


@asynccontextmanager
async def _refused(case: Case, passed: int) -> AsyncIterator[Callable[[], bool]]:
    """Let the adapter call an address where nothing listens, unless a request is to pass."""
    if passed:  # a connection is refused or not, so there is one round
        yield lambda: False
        return
    usual = case.gateway
    case.gateway = case.provider.make_gateway(_free_url())
    try:
        yield lambda: True
    finally:
        await case.gateway.close()
        case.gateway = usual


def _rounds(provider: Provider, operation: str) -> range:
    """Return how many requests pass before the fault, round by round.

    The last round, in which no request has the fault, is known from an earlier test.
    """
    return range(_requests.get((type(provider), operation), _MOST_REQUESTS))


def _found_out(provider: Provider, operation: str, fault: Fault, requests: int) -> None:
    if fault != "refused":
        _requests[type(provider), operation] = requests


def _free_url() -> str:
    """Return the address of a port of loopback at which nothing listens."""
    with socket() as free:
        free.bind(("127.0.0.1", 0))
        return f"http://127.0.0.1:{free.getsockname()[1]}"


async def _assert_true(case: Case, attempt_id: str, outcome: PaymentOutcome) -> None:
    """Fail unless an outcome of a faulty query is open, or true all the same."""
    if outcome.status == "SUCCEEDED":
        case.assert_paid(outcome)
        assert await case.taken(attempt_id) == case.provider.amount.minor, "nothing was taken"
    else:
        assert outcome.status in (*_ADRIFT, "PENDING"), outcome


async def _assert_refunded_once(case: Case, request: RefundRequest, part: int) -> None:
    """Send a refund again, as the worker does, and fail unless it is done once, or at most once.

    Providers without idempotent refunds do not get it again: staff decides.
    """
    outcome = await case.refund(request)
    attempt_id = request.attempt_id
    if not case.provider.repeats_refunds:
        assert outcome.status in ("UNKNOWN", "SUCCEEDED"), outcome
        assert await case.refunded(attempt_id) in (0, part)
        return
    assert outcome.status in ("SUCCEEDED", "PENDING"), outcome
    if case.provider.finds_refunds:
        settled = await case.settle_refund(request)
        assert settled.status == "SUCCEEDED", settled
    assert await case.refunded(attempt_id) == part


async def _assert_starts_alone(case: Case, fault: Fault) -> None:
    """Start a payment that needs no request: fail unless it starts, whatever the provider does."""
    request = case.provider.payment_request()
    async with faulty(case, fault, 0):
        outcomes = [await case.pay(request), await case.pay(request)]
    assert outcomes[0].status in STARTED, outcomes
    assert outcomes[0] == outcomes[1], outcomes
    assert case.proxy.applied == 0, "it calls the provider"


async def _assert_asks_nobody(case: Case, fault: Fault) -> None:
    """Refund by staff: fail unless the refund waits for them, whatever the provider does."""
    payment, provider_ref = await case.take()
    request = case.provider.refund_request(payment.attempt_id, provider_ref, 1)
    async with faulty(case, fault, 0):
        for outcome in (
            await case.refund(request),
            await case.refund(repeated(request)),
            await case.find_refund(request.refund_id, provider_ref),
        ):
            assert outcome.status == "PENDING", outcome
    assert case.proxy.applied == 0, "it calls the provider"


class FaultCases(Cases):
    """Each operation with each fault."""

    @pytest.mark.parametrize("fault", FAULTS)
    def test_pay(self, provider: Provider, run: Run, fault: Fault) -> None:
        """A payment whose response is lost is unknown, and taken once afterwards."""

        async def work(case: Case) -> None:
            if not provider.creates_payments:
                await _assert_starts_alone(case, fault)
                return
            for passed in _rounds(provider, "pay"):
                await case.restart()
                request = provider.payment_request()
                async with faulty(case, fault, passed) as is_faulty:
                    outcome = await case.pay(request)
                if not is_faulty():
                    _found_out(provider, "pay", fault, passed)
                    return
                if outcome.status == "SUCCEEDED":
                    await _assert_true(case, request.attempt_id, outcome)
                else:
                    assert outcome.status in (*_ADRIFT, *_OPEN), outcome
                if fault == "refused":
                    assert outcome.status == "UNREACHABLE", outcome
                if outcome.status == "UNREACHABLE":  # another gateway may be tried
                    assert await case.taken(request.attempt_id) is None, "it got the payment"
                exists = await case.taken(request.attempt_id) is not None
                again = await case.pay(request)
                if exists and not provider.repeats_payments:
                    assert again.status == "UNKNOWN", again
                    assert not await case.taken(request.attempt_id)
                    continue
                assert again.status in STARTED, again
                await case.approve(request, again)
                paid = await case.settle(request.attempt_id, again.provider_ref)
                case.assert_paid(paid)
                assert await case.taken(request.attempt_id) == provider.amount.minor

        run(work)

    @pytest.mark.parametrize("fault", FAULTS)
    def test_find_payment(self, provider: Provider, run: Run, fault: Fault) -> None:
        """A query without a usable response says nothing, and takes nothing twice."""

        async def work(case: Case) -> None:
            for passed in _rounds(provider, "find_payment"):
                await case.restart()
                request, outcome = await case.start()
                await case.approve(request, outcome)
                async with faulty(case, fault, passed) as is_faulty:
                    queried = await case.find(request.attempt_id, outcome.provider_ref)
                if is_faulty():
                    await _assert_true(case, request.attempt_id, queried)
                paid = await case.settle(request.attempt_id, outcome.provider_ref)
                case.assert_paid(paid)
                assert await case.taken(request.attempt_id) == provider.amount.minor
                if not is_faulty():
                    _found_out(provider, "find_payment", fault, passed)
                    return

        run(work)

    @pytest.mark.parametrize("fault", FAULTS)
    def test_refund(self, provider: Provider, run: Run, fault: Fault) -> None:
        """A refund whose response is lost is unknown, and done once afterwards."""

        async def work(case: Case) -> None:
            if not provider.refunds:
                await _assert_asks_nobody(case, fault)
                return
            for passed in _rounds(provider, "refund"):
                await case.restart()
                payment, provider_ref = await case.take()
                part = provider.amount.minor // 4
                request = provider.refund_request(payment.attempt_id, provider_ref, part)
                async with faulty(case, fault, passed) as is_faulty:
                    outcome = await case.refund(request)
                if not is_faulty():
                    _found_out(provider, "refund", fault, passed)
                    return
                assert outcome.status in (*_ADRIFT, "PENDING", "SUCCEEDED"), outcome
                done = await case.refunded(payment.attempt_id)
                if outcome.status == "UNREACHABLE":  # it is sent again as if it were new
                    assert done == 0, "the provider has refunded"
                if outcome.status == "SUCCEEDED":
                    assert done == part, "the provider has not refunded"
                await _assert_refunded_once(case, repeated(request), part)

        run(work)

    @pytest.mark.parametrize("fault", FAULTS)
    def test_find_refund(self, provider: Provider, run: Run, fault: Fault) -> None:
        """A query of a refund without a usable response says nothing."""
        if not (provider.finds_refunds and provider.refunds):
            pytest.skip("the provider has no query for refunds")

        async def work(case: Case) -> None:
            payment, provider_ref = await case.take()
            part = provider.amount.minor // 4
            request = provider.refund_request(payment.attempt_id, provider_ref, part)
            await case.refund(request)
            for passed in _rounds(provider, "find_refund"):
                await case.restart()
                async with faulty(case, fault, passed) as is_faulty:
                    outcome = await case.find_refund(request.refund_id, provider_ref)
                if is_faulty():
                    assert outcome.status in (*_ADRIFT, "PENDING"), outcome
                settled = await case.settle_refund(request)
                assert settled.status == "SUCCEEDED", settled
                if not is_faulty():
                    _found_out(provider, "find_refund", fault, passed)
                    return

        run(work)

    @pytest.mark.parametrize("fault", FAULTS)
    def test_expire(self, provider: Provider, run: Run, fault: Fault) -> None:
        """A page whose ending got no usable response is not taken for ended; a paid one is paid."""

        async def work(case: Case) -> None:
            if not isinstance(case.gateway, Expires):
                pytest.skip("the adapter ends no pages")
            for passed in _rounds(provider, "expire"):
                await case.restart()
                request, outcome = await case.start()
                await case.approve(request, outcome)
                async with faulty(case, fault, passed) as is_faulty:
                    ended = await case.call(
                        case.gateway.expire(request.attempt_id, outcome.provider_ref)
                    )
                if is_faulty() and ended.status != "ACTION_REQUIRED":
                    await _assert_true(case, request.attempt_id, ended)
                paid = await case.settle(request.attempt_id, outcome.provider_ref)
                assert paid.status == "SUCCEEDED", paid
                if not is_faulty():
                    _found_out(provider, "expire", fault, passed)
                    return

        run(work)
