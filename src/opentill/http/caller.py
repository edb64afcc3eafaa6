"""The authenticated caller of the API."""

import msgspec


class Caller(msgspec.Struct, frozen=True):
    """The merchant whose API key came with a request, the key's id, and its scopes."""

    merchant_id: str
    key_id: str
    scopes: frozenset[str] | None = None  # None: the key may do everything
