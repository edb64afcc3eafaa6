"""A merchant's Epay credentials: a pid and a key, which is never an API key.

The key is encrypted with the deployment's key and not hashed, because MD5 signatures need the key
itself. The operator sees it when it is created, and again by ``enable``. A merchant has one key at
a time: rotating it ends the old one.
"""

import secrets
import string
from typing import Final

import structlog

from opentill import merchants
from opentill.core import encryption
from opentill.core.errors import ConfigurationError, Invalid, NotFound
from opentill.core.settings import Settings
from opentill.db.database import Tx
from opentill.epay import platform_key, queries
from opentill.epay.model import Credentials, NewCredentials
from opentill.merchants import OPENTILL, Actor

_log: Final = structlog.get_logger()
_KEY_ALPHABET: Final = string.ascii_letters + string.digits
_KEY_LENGTH: Final = 32
# A pid has nine digits, so that it fits into a client's 32-bit integer.
_FIRST_PID, _PIDS = 100_000_000, 900_000_000
WRONG_KEY: Final = (
    "OPENTILL_SECRET_KEY is not the one that the Epay keys were encrypted with: set it back, or"
    " make new ones with `opentill epay rotate` and `opentill epay rotate-platform-key`"
)


def _purpose(merchant_id: str) -> str:
    return f"epay key {merchant_id}"


def directory_id(pid: str) -> str:
    """Return the public id under which the directory lists a pid."""
    return f"pid_{pid}"


def decrypt(credentials: Credentials, secret_key: str) -> str:
    """Return the Epay key. Raises ``encryption.WrongKey``."""
    if not secret_key:
        raise encryption.WrongKey
    return encryption.decrypt(secret_key, _purpose(credentials.merchant_id), credentials.sealed_key)


def _new_key(settings: Settings, merchant_id: str) -> tuple[str, bytes]:
    if not settings.secret_key:
        message = "OPENTILL_SECRET_KEY must be set: Epay keys are encrypted with it"
        raise ConfigurationError(message)
    key = "".join(secrets.choice(_KEY_ALPHABET) for _ in range(_KEY_LENGTH))
    return key, encrypt_key(settings, merchant_id, key)


def encrypt_key(settings: Settings, merchant_id: str, key: str) -> bytes:
    """Encrypt a merchant's key with the deployment's key."""
    return encryption.encrypt(settings.secret_key, _purpose(merchant_id), key)


def _new_credentials(credentials: Credentials, key: str, settings: Settings) -> NewCredentials:
    return NewCredentials(
        merchant_id=credentials.merchant_id,
        pid=credentials.pid,
        key=key,
        state=credentials.state,
        url=f"{settings.public_url}/epay/",
    )


async def enable(
    tx: Tx, settings: Settings, merchant_id: str, now: int, *, actor: Actor = OPENTILL
) -> NewCredentials:
    """Enable the Epay API for a merchant and return its credentials with the key.

    A merchant that was disabled keeps its pid and key. Raises NotFound, and ConfigurationError
    if the deployment's key does not decrypt the stored keys.
    """
    await merchants.lock(tx, merchant_id)
    if not await key_decrypts(tx, settings.secret_key):
        raise ConfigurationError(WRONG_KEY)
    if await queries.LOCKED.first(tx, merchant_id=merchant_id) is not None:
        enabled = await queries.SET_STATE.one(tx, merchant_id=merchant_id, state="ENABLED", now=now)
        await _record(tx, actor, "epay enable", enabled, now)
        return _new_credentials(enabled, decrypt(enabled, settings.secret_key), settings)
    key, encrypted = _new_key(settings, merchant_id)
    while True:
        pid = _FIRST_PID + secrets.randbelow(_PIDS)
        if await queries.LIST_PID.run(tx, merchant_id=merchant_id, id=directory_id(str(pid))):
            break
    credentials = await queries.INSERT.one(
        tx, merchant_id=merchant_id, pid=pid, sealed_key=encrypted, now=now
    )
    await _record(tx, actor, "epay enable", credentials, now)
    return _new_credentials(credentials, key, settings)


async def _record(tx: Tx, actor: Actor, action: str, credentials: Credentials, now: int) -> None:
    subject = f"pid {credentials.pid}"
    await merchants.record_audit(tx, actor, action, credentials.merchant_id, subject, now)


async def rotate(
    tx: Tx, settings: Settings, merchant_id: str, now: int, *, actor: Actor = OPENTILL
) -> NewCredentials:
    """Replace a merchant's key; signatures with the old key are refused from the commit on.

    Raises NotFound.
    """
    await find(tx, merchant_id)
    key, encrypted = _new_key(settings, merchant_id)
    rotated = await queries.SET_KEY.one(tx, merchant_id=merchant_id, sealed_key=encrypted, now=now)
    await _record(tx, actor, "epay rotate", rotated, now)
    return _new_credentials(rotated, key, settings)


async def disable(tx: Tx, merchant_id: str, now: int, *, actor: Actor = OPENTILL) -> Credentials:
    """Disable the Epay API for a merchant; its shop is still notified of paid orders.

    Raises NotFound, and Invalid if it is disabled already.
    """
    credentials = await find(tx, merchant_id)
    if credentials.state == "DISABLED":
        raise Invalid("merchant", "merchant must be one with Epay enabled: it is disabled")
    disabled = await queries.SET_STATE.one(tx, merchant_id=merchant_id, state="DISABLED", now=now)
    await _record(tx, actor, "epay disable", disabled, now)
    return disabled


async def find(tx: Tx, merchant_id: str) -> Credentials:
    """Return a merchant's credentials. Raises NotFound."""
    await merchants.find(tx, merchant_id)
    credentials = await queries.OF_MERCHANT.first(tx, merchant_id=merchant_id)
    if credentials is None:
        reason = f"{merchant_id} has no Epay credentials: opentill epay enable {merchant_id}"
        raise NotFound(reason=reason)
    return credentials


async def list_credentials(tx: Tx) -> list[Credentials]:
    """Return the Epay credentials of all merchants."""
    return await queries.ALL.all(tx)


async def key_decrypts(tx: Tx, secret_key: str) -> bool:
    """Whether the deployment's key decrypts the stored Epay keys, and the platform's key of V2."""
    credentials = await queries.ANY.first(tx)
    try:
        if credentials is not None:
            decrypt(credentials, secret_key)
    except encryption.WrongKey:
        return False
    return await platform_key.decrypts(tx, secret_key)


async def check_key(tx: Tx, secret_key: str) -> bool:
    """Like ``key_decrypts``, but also log an error if the key does not decrypt them."""
    if await key_decrypts(tx, secret_key):
        return True
    _log.error("the Epay API cannot check keys", reason=WRONG_KEY)
    return False
