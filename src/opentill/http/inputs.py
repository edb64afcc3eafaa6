"""Validation of fields that several features share: URLs, email addresses, metadata, names."""

import json
import re
from typing import Final
from urllib.parse import urlsplit

import msgspec

from opentill.core import hostnames, pasted
from opentill.core.errors import Invalid

MAX_URL: Final = 2048
MAX_METADATA: Final = 16 * 1024
MAX_KEYS: Final = 50
MAX_KEY: Final = 64
MAX_EMAIL: Final = 254  # RFC 5321 §4.5.3.1.3, less the angle brackets
_UNSAFE: Final = re.compile(r"[\s\x00-\x20\x7f-\x9f\\<>\"`{}|^]")
_SESSION_MARK: Final = "{CHECKOUT_SESSION_ID}"
# Matches the dot-atom of RFC 5322 without quoted forms, and a host name with at least one dot (RFC
# 1035), in any script (RFC 6531). Consecutive and final dots are allowed, because some mailboxes of
# Japanese providers have them.
_EMAIL: Final = re.compile(
    r"[^\s\x00-\x1f\x7f-\x9f()<>@,;:\\\"\[\].][^\s\x00-\x1f\x7f-\x9f()<>@,;:\\\"\[\]]*"
    r"@(?:[^\W_](?:[\w-]{0,61}[^\W_])?\.)+[^\W\d_](?:[\w-]{0,61}[^\W_])?",
)

# Patterns of the API document: what a URL and an email address cannot contain. Which hosts exist
# is not a matter of a pattern. Quotation marks and the like are escaped for generated code.
URL_PATTERN: Final = r"^[Hh][Tt][Tt][Pp][Ss]?://[^\s\x00-\x20\x22<>\x5c\x5e\x60|\x7f-\x9f]+$"
_MAILBOX: Final = r"[^\s\x00-\x1f\x7f-\x9f()<>@,;:\x5c\x22\x5b\x5d]"
EMAIL_PATTERN: Final = rf"^$|^\s*{_MAILBOX}+@{_MAILBOX}+\.{_MAILBOX}+\s*$"


def check_url(field: str, text: str | None) -> str | None:
    """Validate an absolute http(s) URL without credentials. Raises Invalid; None passes."""
    if text is None:
        return None
    reason = f"{field} must be an absolute http or https URL of at most {MAX_URL} characters"
    plain = text.replace(_SESSION_MARK, "x")
    if len(text) > MAX_URL or _UNSAFE.search(plain):
        raise Invalid(field, reason)
    try:
        parts = urlsplit(plain)
        has_valid_port = parts.port is None or parts.port > 0
        host = parts.hostname
    except ValueError:
        raise Invalid(field, reason) from None
    if parts.scheme not in ("http", "https") or not host or not has_valid_port:
        raise Invalid(field, reason)
    if parts.username is not None or parts.password is not None:
        raise Invalid(field, f"{field} must be an http or https URL without user name and password")
    try:
        # ``urlsplit`` has already checked an IPv6 address.
        if ":" not in host:
            hostnames.to_ascii(host)
    except hostnames.BadHost:
        raise Invalid(field, f"{field} must have a host that can exist: {host} cannot") from None
    return text


def check_email(field: str, text: str) -> str:
    """Validate an email address and return it trimmed. Raises Invalid."""
    trimmed = pasted.trim(text)
    if len(trimmed) > MAX_EMAIL or _EMAIL.fullmatch(trimmed) is None:
        raise Invalid(field, f"{field} must be an email address such as ada@example.com")
    try:
        hostnames.mailbox_in_ascii(trimmed)
    except hostnames.BadHost:
        domain = trimmed.rpartition("@")[2]
        raise Invalid(
            field, f"{field} must have a domain that can exist: {domain} cannot"
        ) from None
    return trimmed


def check_metadata(raw: msgspec.Raw) -> str:
    """Validate metadata and return its JSON text as sent, ``{}`` if absent. Raises Invalid."""
    text = bytes(raw).decode()
    if text in ("", "null"):
        return "{}"
    reason = "metadata must be a JSON object"
    if not text.startswith("{"):
        raise Invalid("metadata", reason)
    if len(text.encode()) > MAX_METADATA:
        raise Invalid("metadata", "metadata must be at most 16 KiB of JSON")
    keys = json.loads(text, parse_int=len, parse_float=len)
    if len(keys) > MAX_KEYS:
        raise Invalid("metadata", f"metadata must have at most {MAX_KEYS} keys")
    if any(len(key) > MAX_KEY for key in keys):
        raise Invalid("metadata", f"metadata keys must be at most {MAX_KEY} characters")
    return text


def check_name(field: str, text: str, most: int) -> str:
    """Validate a name of 1 to ``most`` characters and return it trimmed. Raises Invalid."""
    trimmed = text.strip()
    if not 1 <= len(trimmed) <= most:
        raise Invalid(field, f"{field} must be text of 1 to {most} characters")
    return trimmed
