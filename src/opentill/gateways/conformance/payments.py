"""Payments without faults: what each outcome looks like, and that repeating changes nothing."""

import time

import pytest

from opentill.gateways.conformance.case import Case
from opentill.gateways.conformance.provider import Provider
from opentill.gateways.conformance.running import Cases, Run
from opentill.gateways.deposits import takes_deposits
from opentill.gateways.model import Expires


class PaymentCases(Cases):
    """Starts payments, lets customers pay or refuse, queries and ends them."""

    def test_methods(self, provider: Provider, run: Run) -> None:
        """The adapter takes the method in the currency, and nothing in one that is unknown."""

        async def work(case: Case) -> None:
            assert provider.method in case.gateway.methods(provider.amount.currency)
            assert case.gateway.methods("XTS") == ()

        run(work)

    def test_started(self, run: Run) -> None:
        """A started payment leads the customer on, and nothing is taken yet."""

        async def work(case: Case) -> None:
            request, outcome = await case.start()
            if outcome.status == "SUCCEEDED":
                pytest.skip("a payment is done at once")
            assert outcome.action_url or outcome.qr_text
            queried = await case.find(request.attempt_id, outcome.provider_ref)
            assert queried.status in ("ACTION_REQUIRED", "PENDING", "NOT_FOUND"), queried
            assert not await case.taken(request.attempt_id)

        run(work)

    def test_started_twice(self, provider: Provider, run: Run) -> None:
        """A repeated request leads to the same payment, which is taken once.

        At a provider that refuses to repeat it, it says nothing about the payment.
        """

        async def work(case: Case) -> None:
            request, outcome = await case.start()
            again = await case.pay(request)
            if not provider.repeats_payments:
                assert again.status == "UNKNOWN", again
                again = outcome
            assert (again.status, again.provider_ref) == (outcome.status, outcome.provider_ref)
            await case.approve(request, again)
            paid = await case.settle(request.attempt_id, again.provider_ref)
            assert paid.status == "SUCCEEDED", paid
            assert await case.taken(request.attempt_id) == request.amount.minor

        run(work)

    def test_paid(self, provider: Provider, run: Run) -> None:
        """A paid attempt has the amount; a repeated query says the same, and takes nothing."""

        async def work(case: Case) -> None:
            request, provider_ref = await case.take()
            assert await case.taken(request.attempt_id) == provider.amount.minor
            again = await case.find(request.attempt_id, provider_ref)
            case.assert_paid(again)
            assert again.method in (None, provider.method)
            assert await case.taken(request.attempt_id) == provider.amount.minor

        run(work)

    def test_paid_and_started_again(self, provider: Provider, run: Run) -> None:
        """Starting a paid attempt again takes nothing more."""

        async def work(case: Case) -> None:
            request, provider_ref = await case.take()
            outcome = await case.pay(request)
            assert outcome.status not in ("NOT_FOUND", "UNREACHABLE", "VOIDED"), outcome
            queried = await case.find(request.attempt_id, provider_ref)
            assert queried.status == "SUCCEEDED", queried
            assert await case.taken(request.attempt_id) == provider.amount.minor

        run(work)

    def test_declined(self, provider: Provider, run: Run) -> None:
        """A declined attempt is not paid."""
        if not provider.customers_decline:
            pytest.skip("customers only leave the provider's page")

        async def work(case: Case) -> None:
            request, outcome = await case.start()
            provider.decline(request.attempt_id, outcome.action_url or outcome.qr_text)
            queried = await case.find(request.attempt_id, outcome.provider_ref)
            assert queried.status in ("DECLINED", "ACTION_REQUIRED"), queried
            assert not await case.taken(request.attempt_id)

        run(work)

    def test_unknown(self, provider: Provider, run: Run) -> None:
        """An id that the provider has not seen is not found, or will never be paid."""

        async def work(case: Case) -> None:
            attempt_id = provider.unknown_attempt(time.time_ns() // 1_000_000)
            queried = await case.find(attempt_id, "")
            assert queried.status in ("NOT_FOUND", "DECLINED"), queried

        run(work)

    def test_ended(self, run: Run) -> None:
        """An ended page takes no payment; a paid attempt cannot be ended."""

        async def work(case: Case) -> None:
            if not isinstance(case.gateway, Expires):
                pytest.skip("the adapter ends no pages")
            request, outcome = await case.start()
            ended = await case.call(case.gateway.expire(request.attempt_id, outcome.provider_ref))
            assert ended.status in ("DECLINED", "VOIDED", "NOT_FOUND"), ended
            request, provider_ref = await case.take()
            paid = await case.call(case.gateway.expire(request.attempt_id, provider_ref))
            if takes_deposits(case.gateway):  # it does not say that it is paid, nor that it is over
                assert paid.status == "ACTION_REQUIRED", paid
                return
            assert paid.status == "SUCCEEDED", paid

        run(work)
