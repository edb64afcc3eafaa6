"""An account at a gateway, as routing and pages see it: without its credentials.

An account of the environment has the name of its gateway as its id; an account in the database has
an id of its own. The id is what payment attempts, refund cases, disputes and figures store in their
columns named ``gateway`` (decision 0151).
"""

from typing import Final, Literal

import msgspec

from opentill.core.money import Money

AccountStatus = Literal["ACTIVE", "PAUSED", "RETIRED"]
LIVE_PREFIX: Final = "ga"
TEST_PREFIX: Final = "gat"
_PREFIXES: Final = (f"{LIVE_PREFIX}_", f"{TEST_PREFIX}_")


def is_account_id(gateway: str) -> bool:
    """Whether the value of a column named ``gateway`` is the id of an account in the database."""
    return gateway.startswith(_PREFIXES)


def is_test_account(gateway: str) -> bool:
    """Whether an id is that of an account in the database whose money is not real."""
    return gateway.startswith(_PREFIXES[1])


class Breaker(msgspec.Struct, frozen=True, kw_only=True):
    """When an account is paused by itself, and whether it is now; also of the environment's."""

    id: str
    break_below_percent: int | None  # the account is paused if fewer payments succeed
    break_slower_ms: int | None  # … or if it responds more slowly
    break_texts: list[str]  # … or if it reports one of these errors
    break_minutes: int  # … for so long
    broken_at: int | None  # when it was paused, real time in Unix ms; None: it is not
    broken_reason: str | None
    retry_at: int | None  # when it is tried again, real time in Unix ms

    @property
    def name(self) -> str:
        """The name on pages and in reports."""
        return self.id

    @property
    def has_breaker(self) -> bool:
        """Whether the account is paused by itself when it fails."""
        limits = (self.break_below_percent, self.break_slower_ms)
        return any(limit is not None for limit in limits) or bool(self.break_texts)


class GatewayAccount(Breaker, frozen=True, kw_only=True):
    """An account in the database."""

    gateway: str
    label: str
    merchant_id: str | None  # None: the account belongs to the operator
    livemode: bool
    status: AccountStatus
    credential_hints: str  # JSON: what may be shown of each credential
    previous_until: int | None  # the end of the overlap after a rotation, Unix ms
    methods: str  # in the syntax of OPENTILL_GATEWAY_…_METHODS; "" for all of the gateway
    limit_currencies: list[str]  # the currencies with limits; the next four lists belong to it
    smallest_minor: list[int | None]
    largest_minor: list[int | None]
    day_minor: list[int | None]  # the largest sum of a day (UTC)
    day_number: list[int | None]  # the largest number of payments of a day (UTC)
    cost_currencies: list[str]  # the currencies with known costs; the next two lists belong to it
    cost_rate_bp: list[int]  # basis points of the amount
    cost_fixed_minor: list[int]
    priority: int
    weight: int
    revision: int
    created_at: int
    updated_at: int
    # Whether the merchant has entered the credentials: adapters then call only addresses that
    # merchants may name.
    by_merchant: bool = False
    paused_by_merchant: bool = False  # the merchant has paused it, and may resume it

    @property
    def name(self) -> str:
        """The label with the gateway, for pages and reports."""
        return f"{self.label} ({self.gateway})"

    @property
    def callback_path(self) -> str:
        """The path to which the gateway reports on payments; it follows the public address."""
        return f"/gateways/{self.gateway}/{self.id}/callback"

    def allows(self, amount: Money) -> bool:
        """Whether an amount is within the account's limits for its currency."""
        if amount.currency not in self.limit_currencies:
            return True
        position = self.limit_currencies.index(amount.currency)
        smallest, largest = self.smallest_minor[position], self.largest_minor[position]
        return (smallest is None or amount.minor >= smallest) and (
            largest is None or amount.minor <= largest
        )

    def has_day_limit(self, currency: str) -> bool:
        """Whether the account takes only so much of a currency on one day."""
        if currency not in self.limit_currencies:
            return False
        position = self.limit_currencies.index(currency)
        return self.day_minor[position] is not None or self.day_number[position] is not None
