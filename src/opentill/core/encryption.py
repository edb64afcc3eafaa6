"""Encryption of secrets that must be read back, such as webhook secrets and Epay keys.

AES-256-GCM (NIST SP 800-38D) under a key that HKDF (RFC 5869) derives from ``OPENTILL_SECRET_KEY``
and a purpose. The purpose names the field and its owner (``"webhook secret mer_… whe_…"``), so that
a ciphertext that is copied to another row or column cannot be decrypted there.
"""

import os
from typing import Final

from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.ciphers.aead import AESGCM
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.kdf.hkdf import HKDF

_VERSION: Final = b"\x01"
_NONCE: Final = 12


class WrongKey(Exception):
    """Decryption failed: the key or the purpose is wrong, or the ciphertext was modified."""


def _cipher(secret_key: str, purpose: str) -> AESGCM:
    derive = HKDF(SHA256(), length=32, salt=None, info=b"opentill sealed 1\0" + purpose.encode())
    return AESGCM(derive.derive(secret_key.encode()))


def encrypt(secret_key: str, purpose: str, text: str) -> bytes:
    """Encrypt a text for a purpose, with a random nonce."""
    nonce = os.urandom(_NONCE)
    ciphertext = _cipher(secret_key, purpose).encrypt(nonce, text.encode(), _VERSION)
    return _VERSION + nonce + ciphertext


def decrypt(secret_key: str, purpose: str, encrypted: bytes) -> str:
    """Decrypt a text that was encrypted for the same purpose. Raises WrongKey."""
    version, nonce, ciphertext = encrypted[:1], encrypted[1 : 1 + _NONCE], encrypted[1 + _NONCE :]
    if version != _VERSION or len(nonce) != _NONCE:
        raise WrongKey
    try:
        return _cipher(secret_key, purpose).decrypt(nonce, ciphertext, _VERSION).decode()
    except InvalidTag:
        raise WrongKey from None
