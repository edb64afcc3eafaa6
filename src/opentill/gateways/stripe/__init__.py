"""The adapter for Stripe: Checkout pages, refunds, signed callbacks, through its official library.

The library is slow to import: the registry imports ``configuration``, and with it the library, only
where a deployment names this gateway.
"""
