"""Merchants, their terms and API keys, the audit log, and authentication."""

from opentill.merchants.audit import OPENTILL, Actor, Verdict
from opentill.merchants.audit import newest as audit_log
from opentill.merchants.audit import record as record_audit
from opentill.merchants.audit import verify as verify_audit
from opentill.merchants.fees import read as read_fees
from opentill.merchants.key_uses import KeyUses
from opentill.merchants.model import (
    PREFIXES,
    AuditHead,
    AuditRow,
    FeePolicy,
    Key,
    Merchant,
    NewKey,
    Terms,
    TermsVersion,
)
from opentill.merchants.service import (
    all_merchants,
    authenticate,
    create_key,
    find,
    keys,
    lock,
    may_call,
    merchant_of_key,
    regenerate_key,
    revoke_key,
)
from opentill.merchants.terms import change, create, differences, history
from opentill.server.client_address import limit_subject

__all__ = [
    "OPENTILL",
    "PREFIXES",
    "Actor",
    "AuditHead",
    "AuditRow",
    "FeePolicy",
    "Key",
    "KeyUses",
    "Merchant",
    "NewKey",
    "Terms",
    "TermsVersion",
    "Verdict",
    "all_merchants",
    "audit_log",
    "authenticate",
    "change",
    "create",
    "create_key",
    "differences",
    "find",
    "history",
    "keys",
    "limit_subject",
    "lock",
    "may_call",
    "merchant_of_key",
    "read_fees",
    "record_audit",
    "regenerate_key",
    "revoke_key",
    "verify_audit",
]
