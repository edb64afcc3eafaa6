"""Refunds without faults: each is done once, and never more than was paid."""

import pytest

from opentill.core.ids import new_id
from opentill.gateways.conformance.case import Case, repeated
from opentill.gateways.conformance.provider import Provider
from opentill.gateways.conformance.running import Cases, Run


class RefundCases(Cases):
    """Refunds parts of a payment, repeats refunds, and refunds too much."""

    @pytest.fixture(autouse=True)
    def _skip_without_refunds(self, provider: Provider, request: pytest.FixtureRequest) -> None:
        # The faults of refunds have a case for refunds by staff.
        if not provider.refunds and request.node.originalname in vars(RefundCases):
            pytest.skip("staff send refunds")

    def test_refund_in_parts(self, provider: Provider, run: Run) -> None:
        """Two refunds of one payment are two, and return all of it."""

        async def work(case: Case) -> None:
            payment, provider_ref = await case.take()
            part = provider.amount.minor // 4
            for minor in (part, provider.amount.minor - part):
                request = provider.refund_request(payment.attempt_id, provider_ref, minor)
                outcome = await case.refund(request)
                assert outcome.status in ("SUCCEEDED", "PENDING"), outcome
                if provider.finds_refunds:
                    settled = await case.settle_refund(request)
                    assert settled.status == "SUCCEEDED", settled
            assert await case.refunded(payment.attempt_id) == provider.amount.minor

        run(work)

    def test_refund_twice(self, provider: Provider, run: Run) -> None:
        """A repeated refund is done once."""

        async def work(case: Case) -> None:
            payment, provider_ref = await case.take()
            part = provider.amount.minor // 4
            request = provider.refund_request(payment.attempt_id, provider_ref, part)
            await case.refund(request)
            again = await case.refund(repeated(request))
            expected = ["SUCCEEDED", "PENDING"] if provider.finds_refunds else []
            expected += ["SUCCEEDED", "PENDING"] if provider.repeats_refunds else ["UNKNOWN"]
            assert again.status in expected, again
            assert await case.refunded(payment.attempt_id) == part

        run(work)

    def test_refund_too_much(self, provider: Provider, run: Run) -> None:
        """A refund of more than is left is refused, and nothing is returned."""

        async def work(case: Case) -> None:
            payment, provider_ref = await case.take()
            most = provider.amount.minor
            part = provider.refund_request(payment.attempt_id, provider_ref, most // 4)
            await case.refund(part)
            request = provider.refund_request(payment.attempt_id, provider_ref, most)
            outcome = await case.refund(request)
            assert outcome.status in ("REFUSED", "UNKNOWN"), outcome
            assert await case.refunded(payment.attempt_id) == most // 4

        run(work)

    def test_unknown_refund(self, provider: Provider, run: Run) -> None:
        """NOT_FOUND is what the provider says about a refund that it has not seen."""
        if not provider.finds_refunds:
            pytest.skip("the provider has no query for refunds")

        async def work(case: Case) -> None:
            _payment, provider_ref = await case.take()
            outcome = await case.find_refund(new_id("re"), provider_ref)
            assert outcome.status == "NOT_FOUND", outcome

        run(work)
