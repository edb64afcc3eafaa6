"""The authenticated caller of the API."""

import msgspec


class Caller(msgspec.Struct, frozen=True):
    """The merchant whose API key came with a request, and the key's id."""

    merchant_id: str
    key_id: str
