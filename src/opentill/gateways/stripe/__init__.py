"""The adapter for Stripe: Checkout pages, refunds and signed callbacks, with its official library.

The library is slow to import, so the registry imports ``configuration``, and with it the library,
only if a deployment has this gateway.
"""
