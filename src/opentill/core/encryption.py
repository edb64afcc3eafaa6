"""Encrypts secrets that must be read back, such as webhook and Epay keys.

AES-256-GCM (NIST SP 800-38D) under a key that HKDF (RFC 5869) derives from ``OPENTILL_SECRET_KEY``
and the purpose. The purpose names the field and its owner (``"webhook secret mer_… whe_…"``): a
text that is moved to another row or column cannot be decrypted there.
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
    """The text cannot be decrypted: another key, another purpose, or it was changed."""


def _cipher(secret_key: str, purpose: str) -> AESGCM:
    derive = HKDF(SHA256(), length=32, salt=None, info=b"opentill sealed 1\0" + purpose.encode())
    return AESGCM(derive.derive(secret_key.encode()))


def encrypt(secret_key: str, purpose: str, text: str) -> bytes:
    """Encrypt a text for a purpose; each result is different."""
    nonce = os.urandom(_NONCE)
    hidden = _cipher(secret_key, purpose).encrypt(nonce, text.encode(), _VERSION)
    return _VERSION + nonce + hidden


def decrypt(secret_key: str, purpose: str, encrypted: bytes) -> str:
    """Return the text that was encrypted for the same purpose. Raises WrongKey."""
    version, nonce, hidden = encrypted[:1], encrypted[1 : 1 + _NONCE], encrypted[1 + _NONCE :]
    if version != _VERSION or len(nonce) != _NONCE:
        raise WrongKey
    try:
        return _cipher(secret_key, purpose).decrypt(nonce, hidden, _VERSION).decode()
    except InvalidTag:
        raise WrongKey from None
