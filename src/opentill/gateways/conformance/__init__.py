"""A conformance suite for adapters: pytest tests of what OpenTill relies on.

A package with an adapter subclasses ``Provider`` for the server that simulates its payment service
provider, and ``GatewayTests``, whose fixture ``provider`` returns it::

    class TestPiggy(GatewayTests):
        @pytest.fixture
        def provider(self) -> Iterator[Provider]:
            with running_piggy() as provider:
                yield provider

The suite needs no plugin of pytest. Its own one ends the run with a table of adapters and cases:
``pytest_plugins = ["opentill.gateways.conformance.plugin"]`` in ``conftest.py``.
``docs/recipes/add-a-gateway.md`` has an example.
"""

import pytest

_WITH_ASSERTIONS = (
    "running", "callbacks", "case", "deposits", "faults", "payments", "refunds", "scan",
)  # fmt: skip
pytest.register_assert_rewrite(*(f"{__name__}.{name}" for name in _WITH_ASSERTIONS))

from opentill.gateways.conformance.provider import Callback, Provider  # noqa: E402 - see above
from opentill.gateways.conformance.suite import GatewayTests  # noqa: E402 - see above

__all__ = ["Callback", "GatewayTests", "Provider"]
