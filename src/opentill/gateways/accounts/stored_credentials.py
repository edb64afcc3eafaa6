"""How the credentials of an account are stored: encrypted, beside what may be shown of them."""

from collections.abc import Mapping
from typing import Final

import msgspec

from opentill.core import encryption
from opentill.core.settings import Settings
from opentill.gateways import registry

_SHOWN_END: Final = 4  # this many last characters of a long secret are shown
_LONG: Final = 16


def _purpose(account_id: str) -> str:
    return f"gateway account {account_id}"


def encrypt(settings: Settings, account_id: str, credentials: Mapping[str, str]) -> bytes:
    """Encrypt the credentials of an account with the deployment's key, bound to its id."""
    text = msgspec.json.encode(dict(credentials), order="sorted").decode()
    return encryption.encrypt(settings.secret_key, _purpose(account_id), text)


def decrypt(settings: Settings, account_id: str, encrypted: bytes) -> dict[str, str]:
    """Return the credentials of an account. Raises WrongKey."""
    text = encryption.decrypt(settings.secret_key, _purpose(account_id), encrypted)
    return msgspec.json.decode(text, type=dict[str, str])


def mask(gateway: str, credentials: Mapping[str, str]) -> dict[str, str]:
    """Return what may be shown of credentials: the end of long secrets, and what is not secret."""
    secret = registry.secret_names(gateway, credentials)
    return {
        name: _masked(value) if name in secret else value
        for name, value in sorted(credentials.items())
    }


def _masked(secret: str) -> str:
    return f"…{secret[-_SHOWN_END:]}" if len(secret) >= _LONG else "…"


def encode_hints(gateway: str, credentials: Mapping[str, str]) -> str:
    """Return what may be shown of credentials as JSON."""
    return msgspec.json.encode(mask(gateway, credentials)).decode()
