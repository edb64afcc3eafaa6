"""Verifying webhooks: the signature and its age.

Every delivery has two sets of headers. ``X-Svc-Signature`` (a deployment may have another prefix)
uses the secret's text as the key; ``webhook-signature`` (Standard Webhooks) the secret's decoded
base64. Either proves the sender, so one valid signature is enough, also during a rotation, when
only some signatures use the old secret.
"""

import base64
import binascii
import hashlib
import hmac
import re
import time
from collections.abc import Iterator, Mapping, Sequence
from typing import Final

from .errors import WebhookInvalid
from .event import Event
from .event_reading import read

TOLERANCE_S: Final = 300.0
HEADER_PREFIX: Final = "X-Svc-"
_PREFIX: Final = "whsec_"
_MILLIS: Final = re.compile(r"[0-9]{1,15}", re.ASCII)
_SECONDS: Final = re.compile(r"[0-9]{1,12}", re.ASCII)


def verify_webhook(
    body: bytes | str,
    headers: Mapping[str, str],
    secret: str | Sequence[str],
    tolerance_s: float = TOLERANCE_S,
    *,
    now: float | None = None,
    header_prefix: str = HEADER_PREFIX,
) -> Event:
    """Verify a delivery and return its event. Raises WebhookInvalid.

    ``body`` is the unparsed request body. Pass both secrets during a rotation. ``now`` is in Unix
    seconds. ``header_prefix`` is the deployment's, in any case; the headers of Standard Webhooks
    are valid with any prefix. Delivery is at least once: store ``event.id``.
    """
    raw = _bytes(body) if isinstance(body, str) else bytes(body)
    lowered_headers = {name.lower(): value for name, value in headers.items()}
    keys = [secret] if isinstance(secret, str) else list(secret)
    if not all(keys) or not keys:
        message = "secret must be the secret of the endpoint, such as whsec_…"
        raise ValueError(message)
    at_s = time.time() if now is None else now
    ages = [at_s - sent_s for sent_s in _signature_times(raw, lowered_headers, keys, header_prefix)]
    if not ages:
        message = "no signature fits the body and the secret"
        raise WebhookInvalid(message)
    if all(abs(age) > tolerance_s for age in ages):
        message = f"the signature is not from the last {tolerance_s:g} seconds"
        raise WebhookInvalid(message)
    return read(raw)


def _signature_times(
    raw: bytes, headers: Mapping[str, str], keys: Sequence[str], header_prefix: str
) -> Iterator[float]:
    """Yield the time (Unix seconds) of each set of headers with a valid signature."""
    prefix = header_prefix.lower()
    signature, millis = headers.get(f"{prefix}signature", ""), headers.get(f"{prefix}timestamp", "")
    old = headers.get(f"{prefix}signature-old", "").split()
    if _MILLIS.fullmatch(millis) and _matches_any(
        [signature, *old], [_svc_signature(key, millis, raw) for key in keys]
    ):
        yield int(millis) / 1000
    seconds = headers.get("webhook-timestamp", "")
    signed = _bytes(f"{headers.get('webhook-id', '')}.{seconds}.") + raw
    standard = headers.get("webhook-signature", "").split()
    if _SECONDS.fullmatch(seconds) and _matches_any(
        standard, [_standard_signature(key, signed) for key in keys]
    ):
        yield float(seconds)


def _bytes(text: str) -> bytes:
    """Encode received text; lone surrogates become bytes that match no signature."""
    return text.encode(errors="surrogatepass")


def _matches_any(signatures: Sequence[str], expected: Sequence[str]) -> bool:
    """Compare all pairs in constant time."""
    same = [
        hmac.compare_digest(_bytes(one), other.encode()) for one in signatures for other in expected
    ]
    return any(same)


def _svc_signature(secret: str, millis: str, raw: bytes) -> str:
    signed = millis.encode() + b"." + raw
    return "sha256=" + hmac.new(secret.encode(), signed, hashlib.sha256).hexdigest()


def _standard_signature(secret: str, signed: bytes) -> str:
    text = secret.removeprefix(_PREFIX)
    try:
        key = base64.b64decode(text, validate=True)
    except binascii.Error:  # a secret that is not base64 is used as text, as on the server
        key = text.encode()
    digest = hmac.new(key, signed, hashlib.sha256).digest()
    return "v1," + base64.b64encode(digest).decode()
