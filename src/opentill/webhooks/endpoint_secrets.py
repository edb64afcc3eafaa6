"""Encryption of endpoints' signing secrets: the current secret, and secrets rotated out."""

from collections.abc import Sequence
from typing import Final

import msgspec

from opentill.core.encryption import decrypt, encrypt
from opentill.webhooks.model import DueDelivery


class OldSecret(msgspec.Struct, frozen=True, array_like=True):
    """A secret that was rotated out; it still signs until ``until`` (business time, Unix ms)."""

    secret: str
    until: int


_read_old: Final = msgspec.json.Decoder(list[OldSecret]).decode


def purpose(merchant_id: str, endpoint_id: str) -> str:
    """Return the encryption purpose that binds secrets to their endpoint."""
    return f"webhook secret {merchant_id} {endpoint_id}"


def signing_secrets(secret_key: str, due: DueDelivery, now: int) -> list[str]:
    """Return the secrets that sign a delivery now, the newest first. Raises WrongKey."""
    own_purpose = purpose(due.merchant_id, due.endpoint_id)
    secrets = [decrypt(secret_key, own_purpose, due.secret)]
    if due.old_secret is not None and now < (due.old_secret_until or 0):
        secrets += [old.secret for old in decrypt_old(secret_key, own_purpose, due.old_secret, now)]
    return secrets


def decrypt_old(secret_key: str, own_purpose: str, encrypted: bytes, now: int) -> list[OldSecret]:
    """Return the old secrets that still sign, the newest first. Raises WrongKey."""
    stored = _read_old(decrypt(secret_key, own_purpose, encrypted))
    return [old for old in stored if now < old.until]


def encrypt_old(secret_key: str, own_purpose: str, old: Sequence[OldSecret]) -> bytes:
    """Encrypt old secrets as one value."""
    return encrypt(secret_key, own_purpose, msgspec.json.encode(old).decode())
