"""Which key this database's secrets are encrypted with, by its fingerprint.

A key that was lost or mixed up is thus noticed when something starts, and not when the first
notification cannot be signed; and no secret is encrypted with a key that cannot decrypt the others.
"""

import hashlib
import hmac
from collections.abc import Awaitable, Callable

from opentill.core.errors import ConfigurationError
from opentill.core.settings import KEY_IS_LOST
from opentill.db import queries
from opentill.db.database import Tx

Opens = Callable[[Tx, str], Awaitable[bool]]
"""Returns whether what is encrypted can be decrypted with a key."""


class WrongSecretKey(ConfigurationError):
    """The database's secrets were encrypted with another key; the text says what to do."""


def fingerprint(secret_key: str) -> bytes:
    """Return what identifies a key without showing anything of it."""
    return hmac.digest(secret_key.encode(), b"opentill fingerprint 1", hashlib.sha256)


async def check(tx: Tx, secret_key: str, given_by: str, opens: Opens) -> None:
    """See that the key is the database's; one that knows none yet remembers it.

    ``given_by`` says where the key is from: a variable or a file. ``opens`` is asked where none is
    known, as in a database that an earlier version made. Raises ``WrongSecretKey``.
    """
    ours = fingerprint(secret_key)
    known = await queries.FINGERPRINT.get(tx)
    if known is None and await opens(tx, secret_key):
        await queries.REMEMBER_KEY.run(tx, fingerprint=ours)
        known = await queries.FINGERPRINT.get(tx)  # another process may have been faster
    if known != ours:
        message = (
            f"the key in {given_by} is not the one that the Epay keys and webhook secrets in this"
            " database are encrypted with, and without that one none of them can be read: set it"
            f" back, or restore it from the backup. {KEY_IS_LOST}"
        )
        raise WrongSecretKey(message)


async def replace(tx: Tx, secret_key: str) -> bool:
    """Make the key the database's from now on; ``False`` if it is already."""
    return await queries.REPLACE_KEY.run(tx, fingerprint=fingerprint(secret_key)) > 0
