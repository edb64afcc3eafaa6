"""The fingerprint of the key with which this database's secrets are encrypted.

By the fingerprint every process notices a lost or wrong key as soon as it starts, and not only when
it must sign a notification. The fingerprint also prevents one database's secrets from being
encrypted with two keys.
"""

import hashlib
import hmac
from collections.abc import Awaitable, Callable

from opentill.core.errors import ConfigurationError
from opentill.core.settings import KEY_IS_LOST
from opentill.db import queries
from opentill.db.database import Tx

CanDecrypt = Callable[[Tx, str], Awaitable[bool]]
"""Returns whether a key decrypts the secrets of the database."""


class WrongSecretKey(ConfigurationError):
    """The database's secrets were encrypted with another key; the text says what to do."""


def fingerprint(secret_key: str) -> bytes:
    """Return a hash that identifies a key and reveals nothing about it."""
    return hmac.digest(secret_key.encode(), b"opentill fingerprint 1", hashlib.sha256)


async def check(tx: Tx, secret_key: str, key_source: str, can_decrypt: CanDecrypt) -> None:
    """Check that the key is the database's. Raises ``WrongSecretKey``.

    ``key_source`` names the variable or file of the key, for the error. If the database has no
    fingerprint, such as one of an earlier version, the key's fingerprint is stored, provided that
    the key decrypts the database's secrets.
    """
    own_fingerprint = fingerprint(secret_key)
    stored_fingerprint = await queries.FINGERPRINT.get(tx)
    if stored_fingerprint is None and await can_decrypt(tx, secret_key):
        await queries.REMEMBER_KEY.run(tx, fingerprint=own_fingerprint)
        # Another process may have stored a fingerprint in between.
        stored_fingerprint = await queries.FINGERPRINT.get(tx)
    if stored_fingerprint != own_fingerprint:
        message = (
            f"the key in {key_source} is not the one that the Epay keys and webhook secrets in this"
            " database are encrypted with, and without that one none of them can be read: set it"
            f" back, or restore it from the backup. {KEY_IS_LOST}"
        )
        raise WrongSecretKey(message)


async def replace(tx: Tx, secret_key: str) -> bool:
    """Store the key's fingerprint as the database's; ``False`` if it was stored already."""
    return await queries.REPLACE_KEY.run(tx, fingerprint=fingerprint(secret_key)) > 0
