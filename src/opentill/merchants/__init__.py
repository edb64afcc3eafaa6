"""Merchants, their API keys, and who is calling."""

from opentill.merchants.model import FeePolicy, Key, Merchant, NewKey
from opentill.merchants.service import (
    add_rate,
    all_merchants,
    change,
    create,
    create_key,
    enter,
    find,
    keys,
    record_audit,
    regenerate_key,
    revoke_key,
)

__all__ = [
    "FeePolicy",
    "Key",
    "Merchant",
    "NewKey",
    "add_rate",
    "all_merchants",
    "change",
    "create",
    "create_key",
    "enter",
    "find",
    "keys",
    "record_audit",
    "regenerate_key",
    "revoke_key",
]
