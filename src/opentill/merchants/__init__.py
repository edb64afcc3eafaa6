"""Merchants, their terms and API keys, the audit log, and authentication."""

from opentill.merchants.audit import OPENTILL, Actor, Sought, Verdict
from opentill.merchants.audit import newest as audit_log
from opentill.merchants.audit import record as record_audit
from opentill.merchants.audit import search as search_audit
from opentill.merchants.audit import verify as verify_audit
from opentill.merchants.fees import read as read_fees
from opentill.merchants.key_uses import KeyUses
from opentill.merchants.logos import MAX_BYTES as MAX_LOGO_BYTES
from opentill.merchants.logos import LogoRefused
from opentill.merchants.model import (
    PREFIXES,
    AuditHead,
    AuditRow,
    FeePolicy,
    Key,
    Logo,
    Merchant,
    NewKey,
    Terms,
    TermsVersion,
)
from opentill.merchants.profile import (
    PROFILE_FIELDS,
    Stale,
    find_logo,
    remove_logo,
    set_logo,
    version_of,
)
from opentill.merchants.profile import change as change_profile
from opentill.merchants.profile import checked as check_profile
from opentill.merchants.service import (
    all_merchants,
    authenticate,
    create_key,
    find,
    keys,
    lock,
    may_call,
    merchant_of_key,
    names,
    regenerate_key,
    rename_key,
    revoke_key,
    search,
)
from opentill.merchants.terms import change, create, differences, history
from opentill.server.client_address import limit_subject

__all__ = [
    "MAX_LOGO_BYTES",
    "OPENTILL",
    "PREFIXES",
    "PROFILE_FIELDS",
    "Actor",
    "AuditHead",
    "AuditRow",
    "FeePolicy",
    "Key",
    "KeyUses",
    "Logo",
    "LogoRefused",
    "Merchant",
    "NewKey",
    "Sought",
    "Stale",
    "Terms",
    "TermsVersion",
    "Verdict",
    "all_merchants",
    "audit_log",
    "authenticate",
    "change",
    "change_profile",
    "check_profile",
    "create",
    "create_key",
    "differences",
    "find",
    "find_logo",
    "history",
    "keys",
    "limit_subject",
    "lock",
    "may_call",
    "merchant_of_key",
    "names",
    "read_fees",
    "record_audit",
    "regenerate_key",
    "remove_logo",
    "rename_key",
    "revoke_key",
    "search",
    "search_audit",
    "set_logo",
    "verify_audit",
    "version_of",
]
