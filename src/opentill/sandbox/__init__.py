"""The sandbox bank: a small server that stands in for a real bank while no real money may move.

It takes payments, refunds and disputes over an API of its own, hosts the pages on which a customer
pays, reports results by signed callbacks and misbehaves on demand. It has its own storage and knows
nothing of the rest of the product, which speaks to it over HTTP as to any other provider.
"""

from opentill.sandbox.app import create_app
from opentill.sandbox.model import Timing
from opentill.sandbox.past import PastPayment, add_past

__all__ = ["PastPayment", "Timing", "add_past", "create_app"]
