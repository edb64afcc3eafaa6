"""The base of the suite's cases: how a test runs with the adapter of a subclass."""

from collections.abc import Callable, Coroutine, Iterator
from typing import Any, TypeVar

import pytest

from opentill.gateways.conformance.case import Case, event_loop, running_case
from opentill.gateways.conformance.provider import Provider

T = TypeVar("T")


class Cases:
    """Runs a case on an event loop of its own, with the provider of a subclass."""

    @pytest.fixture
    def provider(self) -> Iterator[Provider]:
        """Return the simulated provider. A subclass overrides this fixture, of any scope."""
        message = "define the fixture `provider`, which returns the simulated provider"
        raise NotImplementedError(message)

    @pytest.fixture
    def run(
        self, provider: Provider, caplog: pytest.LogCaptureFixture
    ) -> Iterator[Callable[[Callable[[Case], Coroutine[Any, Any, None]]], None]]:
        """Return a function that runs a case, and checks the log for secrets afterwards."""

        async def run_case(work: Callable[[Case], Coroutine[Any, Any, None]]) -> None:
            async with running_case(provider) as case:
                await work(case)
                case.assert_no_secret(repr(case.gateway))
                case.assert_no_secret(caplog.text)

        with event_loop() as run:
            yield lambda work: run(run_case(work))


Run = Callable[[Callable[[Case], Coroutine[Any, Any, None]]], None]
