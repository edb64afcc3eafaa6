"""The versions of the Epay API that a merchant accepts, and its key for V2.

OpenTill stores only the public half of a merchant's key. A merchant has one key at a time:
replacing it ends the old one at once.
"""

import asyncio
from typing import Final

from opentill import merchants
from opentill.core.errors import Invalid
from opentill.db.database import Tx
from opentill.epay import credentials, platform_key, queries
from opentill.epay.model import Credentials, NewKeyPair, Versions
from opentill.gateways.epay import rsa_signature
from opentill.merchants import OPENTILL, Actor

_KEY_FORMS: Final = (
    "publicKey must be an RSA public key of 2048 to 4096 bits, as PEM or as one line of Base64"
)
_PRIVATE: Final = (
    "publicKey must be the public half of the key: this is the private half, which only the shop"
    " may have; replace it, because it has been shown to somebody else"
)


async def set_versions(
    tx: Tx, merchant_id: str, versions: Versions, now: int, *, actor: Actor = OPENTILL
) -> Credentials:
    """Set which versions of the Epay API a merchant accepts. Idempotent.

    Raises NotFound, and Invalid if the merchant has no key for V2.
    """
    await merchants.lock(tx, merchant_id)
    existing = await credentials.find(tx, merchant_id)
    if existing.versions == versions:
        return existing
    if versions != "V1" and existing.public_key is None:
        raise Invalid("versions", "versions must be V1 until the merchant has a key for V2")
    changed = await queries.SET_VERSIONS.one(
        tx, merchant_id=merchant_id, versions=versions, now=now
    )
    subject = f"pid {changed.pid}: {versions}"
    await merchants.record_audit(tx, actor, "epay versions", merchant_id, subject, now)
    return changed


class PrivateHalf(Invalid):
    """A private key where the public half is expected."""


def read_public_key(text: str) -> str:
    """Return a public key in PEM or Base64 as it is stored. Raises Invalid and PrivateHalf."""
    try:
        return rsa_signature.bare_public_key(rsa_signature.read_public_key(text))
    except rsa_signature.PrivateKeyGiven:
        raise PrivateHalf("publicKey", _PRIVATE) from None
    except rsa_signature.BadKey:
        raise Invalid("publicKey", _KEY_FORMS) from None


async def set_public_key(
    tx: Tx, secret_key: str, merchant_id: str, text: str, now: int, *, actor: Actor = OPENTILL
) -> Credentials:
    """Replace a merchant's key for V2 by a public key in PEM or Base64. Idempotent.

    Signatures with the old key are refused from the commit on. Raises NotFound,
    ConfigurationError, Invalid and PrivateHalf.
    """
    public_key = read_public_key(text)
    await platform_key.find_or_create(tx, secret_key, now)
    await merchants.lock(tx, merchant_id)
    existing = await credentials.find(tx, merchant_id)
    if existing.public_key == public_key:
        return existing
    return await _replace(tx, merchant_id, public_key, now, actor, "epay public-key")


async def create_key_pair(
    tx: Tx, secret_key: str, merchant_id: str, now: int, *, actor: Actor = OPENTILL
) -> NewKeyPair:
    """Replace a merchant's key for V2 by a new pair, of which only the public half is stored.

    Raises NotFound and ConfigurationError.
    """
    await credentials.find(tx, merchant_id)
    platform = await platform_key.find_or_create(tx, secret_key, now)
    private_key = await asyncio.to_thread(rsa_signature.generate)
    public_key = rsa_signature.bare_public_key(private_key.public_key())
    await merchants.lock(tx, merchant_id)
    changed = await _replace(tx, merchant_id, public_key, now, actor, "epay key-pair")
    return NewKeyPair(
        merchant_id=merchant_id,
        pid=changed.pid,
        private_key=rsa_signature.bare_private_key(private_key),
        public_key=public_key,
        platform_public_key=platform.public_key,
    )


async def _replace(
    tx: Tx, merchant_id: str, public_key: str, now: int, actor: Actor, action: str
) -> Credentials:
    changed = await queries.SET_PUBLIC_KEY.one(
        tx, merchant_id=merchant_id, public_key=public_key, now=now
    )
    subject = f"pid {changed.pid}"
    await merchants.record_audit(tx, actor, action, merchant_id, subject, now)
    return changed
