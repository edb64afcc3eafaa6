"""The gateways of a process with what the choice for a payment needs (``choice.py``).

``OPENTILL_GATEWAY_<NAME>_METHODS`` restricts the methods of a gateway of the environment.
"""

import time
from collections.abc import Awaitable, Callable, Mapping
from typing import Final, Literal

from opentill.core.errors import ConfigurationError
from opentill.core.money import EXPONENTS, Money
from opentill.core.payment_methods import parse_methods
from opentill.gateways.account import Breaker, GatewayAccount
from opentill.gateways.breakers import Breakers
from opentill.gateways.model import Gateway, Method
from opentill.gateways.rules.model import RuleSet
from opentill.gateways.success_rates import SuccessRates

_UNREACHABLE_S: Final = 30
_TRIAL_S: Final = 10  # a broken account gets one payment in this time, after its pause
_EXHAUSTED_S: Final = 2  # payments that fail are removed from the total of a day at any time
Methods = Mapping[Method, tuple[str, ...]]  # each method's currencies, () for any currency


class BadGateways(ConfigurationError, ValueError):
    """The configuration of the gateways is wrong; the message names the variable."""


class Gateways(dict[str, Gateway]):
    """The adapters by account, in order of preference.

    The first are the accounts of the environment, whose ids are the names of their gateways. A
    process adds and replaces the accounts of the database while it runs (``accounts/follower.py``)
    and never removes one, because a payment may be reported and refunded for ever.
    """

    def __init__(
        self,
        gateways: Mapping[str, Gateway],
        routes: Methods,
        allowed: Mapping[str, Methods],
        *,
        livemode: bool = True,
    ) -> None:
        """``routes`` maps a method to the gateways that come first, in their order.

        ``allowed`` maps each restricted gateway to its methods. ``livemode``: whether the
        deployment takes real money; only accounts of the same mode take its payments.
        """
        super().__init__(gateways)
        self.routes = routes
        self.allowed = dict(allowed)
        self.livemode = livemode
        # Accounts in the database by id, also those without an adapter.
        self.accounts: dict[str, GatewayAccount] = {}
        self.paused: frozenset[str] = frozenset()  # accounts of the environment
        # Breakers of the environment's accounts by gateway; None before the migration of them.
        self.environment: dict[str, Breaker] | None = None
        self.rules = RuleSet()
        self.success_rates = SuccessRates()
        self.breakers = Breakers()
        # Loads changes of accounts and rules at once; None if nothing follows them.
        self.load_changes: Callable[[], Awaitable[None]] | None = None
        # Free prepaid balances of merchants with accounts, by merchant and currency (minor units).
        self._prepaid: dict[tuple[str, str], int] = {}
        self._next_trial: dict[str, float] = {}  # monotonic time in seconds, by broken account
        self.unreadable: dict[str, str] = {}  # why an account could not be loaded, by id
        self._previous: dict[str, tuple[Gateway, int]] = {}
        self._unreachable_until: dict[str, float] = {}  # monotonic time in seconds, by gateway
        # Accounts that have reached their limit of the day, by currency: until when that is
        # assumed (monotonic time in seconds), and for which amounts.
        self._exhausted: dict[tuple[str, str], tuple[float, int]] = {}

    def put_account(
        self,
        account: GatewayAccount,
        adapter: Gateway,
        allowed: Methods | None,
        previous: Gateway | None,
    ) -> tuple[Gateway, ...]:
        """Add or replace an account and return the adapters that it no longer uses.

        ``previous`` has the credentials before the last rotation; it only verifies callbacks.
        """
        replaced = self.get(account.id)
        old_previous = self._previous.pop(account.id, None)
        self[account.id] = adapter
        self.accounts[account.id] = account
        self.unreadable.pop(account.id, None)
        self.allowed.pop(account.id, None)
        if allowed is not None:
            self.allowed[account.id] = allowed
        if previous is not None and account.previous_until is not None:
            self._previous[account.id] = (previous, account.previous_until)
        old = (replaced, old_previous and old_previous[0])
        return tuple(gateway for gateway in old if gateway is not None)

    def update_account(self, account: GatewayAccount, unreadable: str = "") -> None:
        """Store the row of an account whose adapter stays, or could not be built and why."""
        self.accounts[account.id] = account
        if unreadable:
            self.unreadable[account.id] = unreadable

    def verifiers(self, name: str, now: int) -> tuple[Gateway, ...]:
        """Return the adapters that may verify an account's callbacks, the current one first.

        ``now`` (Unix ms) decides whether the credentials before the last rotation still count.
        """
        previous = self._previous.get(name)
        if previous is None or previous[1] <= now:
            return (self[name],)
        return self[name], previous[0]

    def all_adapters(self) -> tuple[Gateway, ...]:
        """Return every adapter, including those of credentials before a rotation."""
        return (*self.values(), *(gateway for gateway, _ in self._previous.values()))

    def record_reachability(self, name: str, *, reached: bool) -> None:
        """Record whether a gateway was reached; an unreachable one is tried last for 30 seconds."""
        if reached:
            self._unreachable_until.pop(name, None)
        else:
            self._unreachable_until[name] = time.monotonic() + _UNREACHABLE_S

    def is_unreachable(self, name: str) -> bool:
        """Whether a gateway was unreachable within the last 30 seconds."""
        return self._unreachable_until.get(name, 0) > time.monotonic()

    def breaker(self, name: str) -> Breaker | None:
        """Return an account's breaker; None if an account of the environment has none."""
        return self.accounts.get(name) or (self.environment or {}).get(name)

    def list_breakers(self) -> list[Breaker]:
        """Return the breakers of the accounts that may pause themselves."""
        breakers = (*self.accounts.values(), *(self.environment or {}).values())
        return [breaker for breaker in breakers if breaker.has_breaker]

    def is_broken(self, name: str) -> bool:
        """Whether an account is paused for its failures, and must not be tried now."""
        breaker = self.breaker(name)
        if breaker is None or breaker.retry_at is None:
            return False
        is_waiting = breaker.retry_at > time.time() * 1000
        return is_waiting or self._next_trial.get(name, 0) > time.monotonic()

    def record_trial(self, name: str) -> None:
        """Record that a payment tries a broken account; the next one may do so in ten seconds."""
        breaker = self.breaker(name)
        if breaker is not None and breaker.broken_at is not None:
            self._next_trial[name] = time.monotonic() + _TRIAL_S

    def record_exhausted(self, name: str, amount: Money) -> None:
        """Record that an account's limit of the day is too small for an amount.

        For two seconds, the account is tried last for this amount and larger ones.
        """
        self._exhausted[name, amount.currency] = (time.monotonic() + _EXHAUSTED_S, amount.minor)

    def has_own_accounts(self, merchant_id: str) -> bool:
        """Whether an account belongs to a merchant."""
        return any(each.merchant_id == merchant_id for each in self.accounts.values())

    def record_prepaid(self, merchant_id: str, free: Money) -> None:
        """Record the part of a merchant's prepaid balance that no payment has reserved."""
        self._prepaid[merchant_id, free.currency] = free.minor

    def free_prepaid(self, merchant_id: str, currency: str) -> int:
        """Return the part of a prepaid balance that no payment has reserved, as last recorded."""
        return self._prepaid.get((merchant_id, currency), 0)

    def obstacles(self, amount: Money | None) -> dict[str, Literal["UNREACHABLE", "DAY_LIMIT"]]:
        """Return the accounts that are to be tried last for an amount, and why."""
        obstacles: dict[str, Literal["UNREACHABLE", "DAY_LIMIT"]] = {}
        for name in self._unreachable_until:
            if self.is_unreachable(name):
                obstacles[name] = "UNREACHABLE"
        for name, _ in self._exhausted:
            if self.is_exhausted(name, amount):
                obstacles[name] = "DAY_LIMIT"
        return obstacles

    def is_exhausted(self, name: str, amount: Money | None) -> bool:
        """Whether an account's limit of the day was too small within the last two seconds."""
        if amount is None or not self._exhausted:
            return False
        until, minor = self._exhausted.get((name, amount.currency), (0.0, 0))
        return amount.minor >= minor and until > time.monotonic()


def gateway_of(gateways: Mapping[str, Gateway], name: str) -> str:
    """Return the gateway of an account; an account of the environment is named after it."""
    account = gateways.accounts.get(name) if isinstance(gateways, Gateways) else None
    return name if account is None else account.gateway


def account_name(gateways: Mapping[str, Gateway], name: str) -> str:
    """Return how pages name an account: its label and gateway, or the name of its gateway."""
    account = gateways.accounts.get(name) if isinstance(gateways, Gateways) else None
    return name if account is None else account.name


def callback_url(public_url: str, gateways: Mapping[str, Gateway], name: str) -> str:
    """Return the address to which a gateway reports on the payments of an account."""
    gateway = gateway_of(gateways, name)
    place = name if gateway == name else f"{gateway}/{name}"
    return f"{public_url}/gateways/{place}/callback"


def methods_of(gateways: Mapping[str, Gateway], name: str, currency: str) -> tuple[Method, ...]:
    """Return the methods that a gateway supports and the settings allow for a currency."""
    supported = gateways[name].methods(currency)
    allowed = gateways.allowed.get(name) if isinstance(gateways, Gateways) else None
    if allowed is None:
        return supported
    return tuple(
        method
        for method in supported
        if method in allowed and currency in (allowed[method] or (currency,))
    )


def read_methods(gateway: Gateway, name: str, text: str) -> Methods:
    """Read a METHODS variable: methods and their currencies. Raises BadGateways."""
    try:
        return parse_allowed(gateway, name, text)
    except ValueError as error:
        msg = f"OPENTILL_GATEWAY_{name.upper()}_METHODS {error}"
        raise BadGateways(msg) from None


def parse_allowed(gateway: Gateway, name: str, text: str) -> Methods:
    """Parse the allowed methods of a gateway. Raises ValueError, whose text continues a name."""
    try:
        allowed = parse_methods(text)
    except ValueError as error:
        msg = f"is {text!r}; it must be {error}, such as CREDIT_CARD,ALIPAY:CNY|HKD"
        raise ValueError(msg) from None
    for method, currencies in allowed.items():
        for currency in currencies:
            if currency not in EXPONENTS:
                msg = f"has {currency!r}, which is no ISO 4217 currency"
                raise ValueError(msg)
            if method not in gateway.methods(currency):
                msg = f"has {method}:{currency}, which {name} does not take"
                raise ValueError(msg)
        if not any(method in gateway.methods(currency) for currency in EXPONENTS):
            msg = f"has {method}, which {name} does not take"
            raise ValueError(msg)
    return allowed


def build_gateways(
    gateways: Mapping[str, Gateway],
    options: Mapping[str, str],
    text: str,
    *,
    livemode: bool = True,
) -> Gateways:
    """Combine the gateways with their settings. Raises BadGateways.

    ``options`` has the METHODS variables, ``text`` is OPENTILL_ROUTES, and ``livemode`` is as in
    ``Gateways``.
    """
    allowed = {
        name: read_methods(gateway, name, options[f"{name}_methods"])
        for name, gateway in gateways.items()
        if f"{name}_methods" in options
    }
    routes = parse_methods(text) if text else {}
    configured = Gateways(gateways, routes, allowed, livemode=livemode)
    for method, names in routes.items():
        for name in names:
            if name not in gateways:
                available = ", ".join(gateways)
                msg = f"OPENTILL_ROUTES names {name!r}; OPENTILL_GATEWAYS has: {available}"
                raise BadGateways(msg)
            if not any(method in methods_of(configured, name, currency) for currency in EXPONENTS):
                msg = f"OPENTILL_ROUTES has {method}:{name}, which it does not take"
                raise BadGateways(msg)
    return configured
