"""PayPal's dialect: its Orders API v2, webhooks and certificates."""

from opentill.sandbox.paypal.dialect import PayPal
from opentill.sandbox.paypal.keys import (
    CLIENT_ID,
    CREDENTIAL_FILE,
    MERCHANT_ID,
    ROOT_FILE,
    WEBHOOK_ID,
    Account,
    create,
    load,
)

__all__ = [
    "CLIENT_ID",
    "CREDENTIAL_FILE",
    "MERCHANT_ID",
    "ROOT_FILE",
    "WEBHOOK_ID",
    "Account",
    "PayPal",
    "create",
    "load",
]
