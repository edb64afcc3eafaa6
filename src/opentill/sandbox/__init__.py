"""The sandbox bank: a small server that replaces a real bank while no real money may move.

It takes payments, refunds and disputes over its own API, hosts the pages on which customers pay,
reports results by signed callbacks and fails on demand. It has its own storage and is independent
of the rest of the product, which calls it over HTTP like any other provider.
"""

from opentill.sandbox.app import create_app
from opentill.sandbox.model import Timing
from opentill.sandbox.past import PastDispute, PastPayment, PastRefund, add_past

__all__ = ["PastDispute", "PastPayment", "PastRefund", "Timing", "add_past", "create_app"]
