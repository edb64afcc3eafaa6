"""The adapter for PayPal's Orders API v2: its approval page, captures, refunds and disputes."""

from opentill.gateways.paypal.client import PayPalGateway

__all__ = ["PayPalGateway"]
