"""The adapter for Stripe: Checkout pages, refunds, signed callbacks, through its official library.

Nothing here imports the library, which takes its time: ``client`` does, and is imported by the
registry once a deployment names this gateway.
"""
