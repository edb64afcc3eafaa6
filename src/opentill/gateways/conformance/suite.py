"""All cases together: ``GatewayTests``, which an adapter's tests subclass."""

from opentill.gateways.conformance.callbacks import CallbackCases
from opentill.gateways.conformance.deposits import DepositCases
from opentill.gateways.conformance.faults import FaultCases
from opentill.gateways.conformance.payments import PaymentCases
from opentill.gateways.conformance.refunds import RefundCases


class GatewayTests(PaymentCases, RefundCases, FaultCases, CallbackCases, DepositCases):
    """The cases that each adapter passes. A subclass defines the fixture ``provider``."""
