"""Which key this database's secrets are sealed with (``core/encryption.py``), by its fingerprint.

A key that was lost or mixed up is thus noticed when something starts, and not when the first notice
cannot be signed; and no secret is sealed with another key beside those that it cannot open.
"""

import hashlib
import hmac
from collections.abc import Awaitable, Callable
from typing import Final

from opentill.core.errors import ConfigurationError
from opentill.core.settings import KEY_IS_LOST
from opentill.db.database import Tx
from opentill.db.query import Command, Value

Opens = Callable[[Tx, str], Awaitable[bool]]
"""Tells whether what is sealed opens with a key."""

REMEMBER: Final = Command(
    "insert into secret_key (fingerprint) values (:fingerprint) on conflict (only_one) do nothing"
)
REPLACE: Final = Command(
    """
    insert into secret_key (fingerprint) values (:fingerprint)
    on conflict (only_one) do update set fingerprint = :fingerprint
    where secret_key.fingerprint <> :fingerprint
    """
)
FINGERPRINT: Final = Value(bytes, "select fingerprint from secret_key")


class WrongSecretKey(ConfigurationError):
    """The database's secrets were sealed with another key; the text says what to do."""


def fingerprint(secret_key: str) -> bytes:
    """Return what tells a key from others and shows nothing of it."""
    return hmac.digest(secret_key.encode(), b"opentill fingerprint 1", hashlib.sha256)


async def check(tx: Tx, secret_key: str, given_by: str, opens: Opens) -> None:
    """See that the key is the database's; one that knows none yet remembers it.

    ``given_by`` says where the key is from: a variable or a file. ``opens`` is asked where none is
    known, as in a database of before. Raises ``WrongSecretKey``.
    """
    ours = fingerprint(secret_key)
    known = await FINGERPRINT.get(tx)
    if known is None and await opens(tx, secret_key):
        await REMEMBER.run(tx, fingerprint=ours)
        known = await FINGERPRINT.get(tx)  # somebody may have been faster
    if known != ours:
        message = (
            f"the key in {given_by} is not the one that the Epay keys and webhook secrets in this"
            " database are encrypted with, and without that one none of them can be read: set it"
            f" back, or restore it from the backup. {KEY_IS_LOST}"
        )
        raise WrongSecretKey(message)


async def replace(tx: Tx, secret_key: str) -> bool:
    """Make the key the database's from now on; ``False`` if it is already."""
    return await REPLACE.run(tx, fingerprint=fingerprint(secret_key)) > 0
