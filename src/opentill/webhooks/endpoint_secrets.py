"""The secrets of endpoints, as they are stored: encrypted, old ones beside them."""

from collections.abc import Sequence
from typing import Final

import msgspec

from opentill.core.encryption import decrypt, encrypt
from opentill.webhooks.model import Due


class OldSecret(msgspec.Struct, frozen=True, array_like=True):
    """A secret that was rotated out; it signs ``until`` then (business time, Unix ms)."""

    secret: str
    until: int


_read_old: Final = msgspec.json.Decoder(list[OldSecret]).decode


def purpose(merchant_id: str, endpoint_id: str) -> str:
    """Return the purpose that an endpoint's secrets are encrypted for."""
    return f"webhook secret {merchant_id} {endpoint_id}"


def signing_secrets(secret_key: str, due: Due, now: int) -> list[str]:
    """Return the secrets that sign a delivery now, the newest first. Raises WrongKey."""
    own = purpose(due.merchant_id, due.endpoint_id)
    secrets = [decrypt(secret_key, own, due.secret)]
    if due.old_secret is not None and now < (due.old_secret_until or 0):
        secrets += [old.secret for old in decrypt_old(secret_key, own, due.old_secret, now)]
    return secrets


def decrypt_old(secret_key: str, own: str, encrypted: bytes, now: int) -> list[OldSecret]:
    """Return the old secrets that go on signing, the newest first. Raises WrongKey."""
    stored = _read_old(decrypt(secret_key, own, encrypted))
    return [old for old in stored if now < old.until]


def encrypt_old(secret_key: str, own: str, old: Sequence[OldSecret]) -> bytes:
    """Encrypt old secrets together."""
    return encrypt(secret_key, own, msgspec.json.encode(old).decode())
