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


class FreePrepaid(msgspec.Struct, frozen=True):
    """The part of a merchant's prepaid balance that no payment has reserved; minor units."""

    merchant_id: str
    currency: str
    free_minor: int


class AllowedGateway(msgspec.Struct, frozen=True):
    """A gateway of which a merchant may add and change accounts."""

    gateway: str


class PausedGateway(msgspec.Struct, frozen=True):
    """An account of the environment that is paused, by the name of its gateway."""

    gateway: str


class AmountLimit(msgspec.Struct, frozen=True):
    """The smallest and largest payment of an account in a currency; None for no limit."""

    currency: str
    smallest_minor: int | None
    largest_minor: int | None


class DayLimit(msgspec.Struct, frozen=True):
    """The largest sum and number of payments of an account on one day (UTC); None for no limit."""

    currency: str
    day_minor: int | None
    day_number: int | None


class LimitRow(msgspec.Struct, frozen=True, kw_only=True):
    """All limits of an account in a currency."""

    currency: str
    smallest_minor: int | None = None
    largest_minor: int | None = None
    day_minor: int | None = None
    day_number: int | None = None


class Cost(msgspec.Struct, frozen=True):
    """What a payment costs at an account: basis points of the amount and a fixed amount."""

    currency: str
    rate_bp: int
    fixed_minor: int


class NewAccount(msgspec.Struct, frozen=True, kw_only=True):
    """A request to add an account."""

    gateway: str
    label: str
    credentials: Mapping[str, str]
    # The id after its prefix, so that its callback address is known before; "" for a new one.
    id_suffix: str = ""
    merchant_id: str | None = None
    livemode: bool | None = None  # None: as the credentials say
    methods: str = ""
    limits: tuple[AmountLimit, ...] = ()
    day_limits: tuple[DayLimit, ...] = ()
    costs: tuple[Cost, ...] = ()
    priority: int = DEFAULT_RANK
    weight: int = DEFAULT_RANK
    by_merchant: bool = False  # the merchant enters the credentials

    def __repr__(self) -> str:
        """Omit the credentials."""
        return f"NewAccount(gateway={self.gateway!r}, label={self.label!r})"


class Problem(msgspec.Struct, frozen=True):
    """Why a provider does not accept an account.

    ``field`` is the credential that the provider's response is about, "" if it names none.
    ``was_asked``: False if the provider gave no usable response, so nothing was checked.
    """

    text: str
    field: str = ""
    was_asked: bool = True
    reported: str = ""  # the text of the adapter, which names variables of the environment


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
    by_merchant: bool


class AccountChanges(msgspec.Struct, frozen=True, kw_only=True):
    """New values of an account; None keeps the value, or the values of all currencies.

    A limit or cost replaces that of its currency; a limit without any value removes it.
    """

    label: str | None = None
    methods: str | None = None
    priority: int | None = None
    weight: int | None = None
    limits: tuple[AmountLimit, ...] = ()
    day_limits: tuple[DayLimit, ...] = ()
    costs: tuple[Cost, ...] = ()
    break_below_percent: int | None = None  # 0 removes it
    break_slower_ms: int | None = None  # 0 removes it
    break_texts: tuple[str, ...] | None = None
    break_minutes: int | None = None
    without_cost: tuple[str, ...] = ()  # currencies whose cost is removed
