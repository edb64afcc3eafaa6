"""Rows of accounts with their credentials, and requests to add or change an account."""

from collections.abc import Mapping
from typing import Final

import msgspec

from opentill.gateways.account import AccountStatus, GatewayAccount

MAX_LABEL: Final = 60
MAX_METHODS: Final = 1000
MAX_RANK: Final = 1000  # of priorities and of weights
MAX_CREDENTIAL: Final = 20_000  # characters; a file of root certificates has about 8,000
DEFAULT_RANK: Final = 100


class StoredAccount(GatewayAccount, frozen=True, kw_only=True):
    """An account with its encrypted credentials, which no page and no log may contain."""

    credentials: bytes
    previous_credentials: bytes | None

    def __repr__(self) -> str:
        """Name the account only."""
        return f"StoredAccount(id={self.id!r})"


class AmountLimit(msgspec.Struct, frozen=True):
    """The smallest and largest payment of an account in a currency; None for no limit."""

    currency: str
    smallest_minor: int | None
    largest_minor: int | None


class NewAccount(msgspec.Struct, frozen=True, kw_only=True):
    """A request to add an account."""

    gateway: str
    label: str
    credentials: Mapping[str, str]
    merchant_id: str | None = None
    livemode: bool | None = None  # None: as the credentials say, or real money
    methods: str = ""
    limits: tuple[AmountLimit, ...] = ()
    priority: int = DEFAULT_RANK
    weight: int = DEFAULT_RANK

    def __repr__(self) -> str:
        """Omit the credentials."""
        return f"NewAccount(gateway={self.gateway!r}, label={self.label!r})"


class NewRow(msgspec.Struct, frozen=True, kw_only=True):
    """The row of a new account."""

    id: str
    gateway: str
    label: str
    merchant_id: str | None
    livemode: bool
    status: AccountStatus
    credentials: bytes
    credential_hints: str
    methods: str
    priority: int
    weight: int
