"""The platform's key for Epay V2: responses and notifications of all merchants are signed with it.

The key is generated when it is first needed, and stored encrypted with the deployment's key. A new
key replaces it at once: each merchant must then enter the new public half in its shop. Every
request reads which key is the newest, so that no process signs with the one before.
"""

import asyncio
import functools
from collections.abc import Mapping
from typing import Any, Final

import msgspec
from cryptography.hazmat.primitives.asymmetric.rsa import RSAPrivateKey

from opentill import merchants
from opentill.core import encryption
from opentill.core.errors import ConfigurationError, NotFound
from opentill.db.database import Tx
from opentill.epay import queries
from opentill.epay.model import PlatformKey
from opentill.gateways.epay import rsa_signature
from opentill.merchants import Actor

PURPOSE: Final = "epay platform key"
_MISSING_SETTING: Final = (
    "OPENTILL_SECRET_KEY must be set: the Epay platform key is encrypted with it"
)


class Signer(msgspec.Struct, frozen=True):
    """The platform key, ready to sign."""

    number: int
    public_key: str
    private_key: RSAPrivateKey

    def __repr__(self) -> str:
        """Omit the private key."""
        return f"Signer(number={self.number})"

    async def sign(self, fields: Mapping[str, Any]) -> str:
        """Return the signature of fields, made in a thread: it takes about a millisecond."""
        text = rsa_signature.text_to_sign(fields)
        return await asyncio.to_thread(_sign, self.private_key, text)


# Refusals without a field of the request have the same text within a second: nobody makes the
# processor sign as often as they send requests.
@functools.lru_cache(maxsize=256)
def _sign(key: RSAPrivateKey, text: str) -> str:
    return rsa_signature.sign_text(text, key)


@functools.lru_cache(maxsize=8)
def _open(secret_key: str, number: int, public_key: str, sealed_key: bytes) -> Signer:
    """Decrypt a platform key. Raises ``encryption.WrongKey``."""
    if not secret_key:
        raise encryption.WrongKey
    text = encryption.decrypt(secret_key, PURPOSE, sealed_key)
    return Signer(number, public_key, rsa_signature.read_own_private_key(text))


def decrypt(key: PlatformKey, secret_key: str) -> Signer:
    """Return a stored platform key, ready to sign. Raises ``encryption.WrongKey``."""
    return _open(secret_key, key.number, key.public_key, key.sealed_key)


class KeyPair(msgspec.Struct, frozen=True):
    """A platform key as it is stored, before it is encrypted."""

    public_key: str
    private_key: str

    def __repr__(self) -> str:
        """Omit the private key."""
        return f"KeyPair({self.public_key!r})"


def read(text: str) -> KeyPair:
    """Return a private key in PEM or Base64 with its public half. Raises ``BadKey``."""
    key = rsa_signature.read_private_key(text)
    return KeyPair(
        rsa_signature.bare_public_key(key.public_key()), rsa_signature.bare_private_key(key)
    )


async def find_or_none(tx: Tx) -> PlatformKey | None:
    """Return the current platform key, None if no merchant needed one yet."""
    return await queries.PLATFORM_KEY.first(tx)


async def find(tx: Tx) -> PlatformKey:
    """Return the current platform key. Raises NotFound if no merchant needed one yet."""
    key = await queries.PLATFORM_KEY.first(tx)
    if key is None:
        raise NotFound(
            reason="there is no Epay platform key yet: `opentill epay key-pair` makes it"
        )
    return key


async def find_or_create(tx: Tx, secret_key: str, now: int) -> PlatformKey:
    """Return the current platform key; generate one if there is none. Raises ConfigurationError."""
    key = await queries.PLATFORM_KEY.first(tx)
    if key is not None:
        return key
    await _insert(tx, secret_key, 1, now)
    return await queries.PLATFORM_KEY.one(tx)


async def find_signer(tx: Tx, secret_key: str, now: int) -> Signer:
    """Return the current platform key, ready to sign.

    Raises ConfigurationError, and ``encryption.WrongKey`` if it cannot be decrypted.
    """
    return decrypt(await find_or_create(tx, secret_key, now), secret_key)


async def _insert(tx: Tx, secret_key: str, number: int, now: int) -> None:
    if not secret_key:
        raise ConfigurationError(_MISSING_SETTING)
    private_key = await asyncio.to_thread(rsa_signature.generate)
    await queries.INSERT_PLATFORM_KEY.run(
        tx,
        number=number,
        public_key=rsa_signature.bare_public_key(private_key.public_key()),
        sealed_key=encryption.encrypt(
            secret_key, PURPOSE, rsa_signature.bare_private_key(private_key)
        ),
        now=now,
    )


async def rotate(tx: Tx, secret_key: str, now: int, *, actor: Actor) -> PlatformKey:
    """Replace the platform key at once, for all merchants; return the new one.

    Of concurrent calls one generates the key, and all return it. Raises ConfigurationError.
    """
    key = await queries.PLATFORM_KEY.first(tx)
    await _insert(tx, secret_key, 1 if key is None else key.number + 1, now)
    new_key = await queries.PLATFORM_KEY.one(tx)
    subject = f"platform key {new_key.number}"
    await merchants.record_audit(tx, actor, "epay rotate-platform-key", "", subject, now)
    return new_key


async def decrypts(tx: Tx, secret_key: str) -> bool:
    """Whether the deployment's key decrypts the platform key, if there is one."""
    key = await queries.PLATFORM_KEY.first(tx)
    try:
        return key is None or bool(decrypt(key, secret_key))
    except encryption.WrongKey:
        return False
