"""Merchants, their terms and API keys, the audit log, and authentication."""

from opentill.merchants import approval_limits
from opentill.merchants.applications import LONGEST as LONGEST_OF_APPLICATION
from opentill.merchants.applications import ApplicationForm, apply, count_waiting
from opentill.merchants.applications import check_form as check_application
from opentill.merchants.applications import find as application_of
from opentill.merchants.applications import waiting as waiting_applications
from opentill.merchants.audit import OPENTILL, Actor, AuditQuery, Verdict
from opentill.merchants.audit import lock_log as lock_audit_log
from opentill.merchants.audit import newest as audit_log
from opentill.merchants.audit import record as record_audit
from opentill.merchants.audit import search as search_audit
from opentill.merchants.audit import verify as verify_audit
from opentill.merchants.fee_schedule import parse_schedule as read_fees
from opentill.merchants.key_uses import KeyUses
from opentill.merchants.logos import MAX_BYTES as MAX_LOGO_BYTES
from opentill.merchants.logos import LogoRefused
from opentill.merchants.model import (
    CAPABILITIES,
    PREFIXES,
    STATUSES,
    TRANSITIONS,
    Application,
    AuditHead,
    AuditRow,
    Capability,
    CapabilityOff,
    FeePolicy,
    Key,
    KeyFields,
    Logo,
    Merchant,
    MerchantChange,
    NewKey,
    PendingApplication,
    SoloMovement,
    Status,
    StatusEvent,
    Terms,
    TermsVersion,
    logo_path,
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
from opentill.merchants.profile import normalize_field as check_profile
from opentill.merchants.service import (
    all_merchants,
    authenticate,
    create_key,
    find,
    keys,
    keys_made_by,
    lock,
    may_call,
    merchant_of_key,
    names,
    regenerate_key,
    rename_key,
    revoke_key,
    search,
    settlement_currencies,
)
from opentill.merchants.standing import (
    add_note,
    change_status,
    closed_at,
    create,
    require,
    set_capability,
    status_history,
    switched_off,
)
from opentill.merchants.terms import change, differences, history
from opentill.server.client_address import limit_subject

__all__ = [
    "CAPABILITIES",
    "LONGEST_OF_APPLICATION",
    "MAX_LOGO_BYTES",
    "OPENTILL",
    "PREFIXES",
    "PROFILE_FIELDS",
    "STATUSES",
    "TRANSITIONS",
    "Actor",
    "Application",
    "ApplicationForm",
    "AuditHead",
    "AuditQuery",
    "AuditRow",
    "Capability",
    "CapabilityOff",
    "FeePolicy",
    "Key",
    "KeyFields",
    "KeyUses",
    "Logo",
    "LogoRefused",
    "Merchant",
    "MerchantChange",
    "NewKey",
    "PendingApplication",
    "SoloMovement",
    "Stale",
    "Status",
    "StatusEvent",
    "Terms",
    "TermsVersion",
    "Verdict",
    "add_note",
    "all_merchants",
    "application_of",
    "apply",
    "approval_limits",
    "audit_log",
    "authenticate",
    "change",
    "change_profile",
    "change_status",
    "check_application",
    "check_profile",
    "closed_at",
    "count_waiting",
    "create",
    "create_key",
    "differences",
    "find",
    "find_logo",
    "history",
    "keys",
    "keys_made_by",
    "limit_subject",
    "lock",
    "lock_audit_log",
    "logo_path",
    "may_call",
    "merchant_of_key",
    "names",
    "read_fees",
    "record_audit",
    "regenerate_key",
    "remove_logo",
    "rename_key",
    "require",
    "revoke_key",
    "search",
    "search_audit",
    "set_capability",
    "set_logo",
    "settlement_currencies",
    "status_history",
    "switched_off",
    "verify_audit",
    "version_of",
    "waiting_applications",
]
