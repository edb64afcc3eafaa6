"""Signatures of deliveries: our own headers and those of Standard Webhooks (standardwebhooks.com).

The names of our headers begin with ``X-Svc-`` or the deployment's prefix, so that merchants who
come from another service keep their code (decision 0037). A secret is ``whsec_`` and 24 random
bytes in base64. The key of ``X-Svc-Signature`` is the text of the secret, the key of
``webhook-signature`` the decoded bytes. For 24 hours after a rotation the old secret signs too: in
``webhook-signature`` after the new one and in ``X-Svc-Signature-Old``, separated by spaces.
"""

import base64
import binascii
import hmac
import secrets
from collections.abc import Sequence
from typing import Final

HEADER_PREFIX: Final = "X-Svc-"
_PREFIX: Final = "whsec_"
_SECRET_BYTES: Final = 24  # the specification's minimum, which needs no padding in base64


def new_secret() -> str:
    """Generate a secret."""
    return _PREFIX + base64.b64encode(secrets.token_bytes(_SECRET_BYTES)).decode()


def header_names(prefix: str) -> tuple[str, str, str]:
    """Return the names of our headers: signature, timestamp, signatures with old secrets."""
    return f"{prefix}Signature", f"{prefix}Timestamp", f"{prefix}Signature-Old"


def own_signature(secret: str, timestamp_ms: int, body: bytes) -> str:
    """Return ``X-Svc-Signature`` (contract.md#event-signatures)."""
    signed = str(timestamp_ms).encode() + b"." + body
    return "sha256=" + hmac.digest(secret.encode(), signed, "sha256").hex()


def standard_signature(secret: str, event_id: str, timestamp_s: int, body: bytes) -> str:
    """Return one signature of ``webhook-signature``, version 1."""
    signed = f"{event_id}.{timestamp_s}.".encode() + body
    digest = hmac.digest(_standard_key(secret), signed, "sha256")
    return "v1," + base64.b64encode(digest).decode()


def _standard_key(secret: str) -> bytes:
    text = secret.removeprefix(_PREFIX)
    try:
        return base64.b64decode(text, validate=True)
    except binascii.Error:  # ``new_secret`` did not create it: contract.md#event-signatures has one
        return text.encode()


def headers(
    keys: Sequence[str],
    event_id: str,
    timestamp_ms: int,
    body: bytes,
    prefix: str = HEADER_PREFIX,
) -> list[tuple[str, str]]:
    """Return the signature headers of an attempt; ``keys`` are the secrets, newest first.

    ``timestamp_ms`` is real time, because receivers compare it with their clock.
    """
    seconds = timestamp_ms // 1000
    standard = " ".join(standard_signature(key, event_id, seconds, body) for key in keys)
    signature, timestamp, old_signature = (name.lower() for name in header_names(prefix))
    signed = [
        (signature, own_signature(keys[0], timestamp_ms, body)),
        (timestamp, str(timestamp_ms)),
        ("webhook-id", event_id),
        ("webhook-timestamp", str(seconds)),
        ("webhook-signature", standard),
    ]
    if len(keys) > 1:
        old = " ".join(own_signature(key, timestamp_ms, body) for key in keys[1:])
        signed.append((old_signature, old))
    return signed
