"""A routing rule, and the rules of a process, compiled so that many of them cost little."""

from collections.abc import Iterable, Iterator
from typing import Final, Literal

import msgspec

from opentill.gateways.model import Method

# How a rule orders the accounts that fit a payment:
#   ACCOUNTS      the accounts that it names, in their order
#   PRIORITY      the order without rules
#   WEIGHT        at random, in proportion to the weights, whatever the priorities
#   COST          the lowest cost of the payment first, accounts without a known cost last
#   SUCCESS_RATE  the best success rate first, except for the payments that explore the others
Ranking = Literal["ACCOUNTS", "PRIORITY", "WEIGHT", "COST", "SUCCESS_RATE"]
Device = Literal["desktop", "phone"]
MOST_RULES: Final = 1000
MOST_ACCOUNTS: Final = 50
EXPLORATION_PERCENT: Final = 2
MOST_EXPLORATION: Final = 50


class NewRule(msgspec.Struct, frozen=True, kw_only=True):
    """A request to add a rule; conditions that are empty or None match every payment."""

    methods: tuple[str, ...] = ()
    currencies: tuple[str, ...] = ()
    smallest_minor: int | None = None
    largest_minor: int | None = None
    merchant_id: str | None = None
    device: str | None = None
    ranking: Ranking
    accounts: tuple[str, ...] = ()
    exploration_percent: int | None = None
    is_only: bool = False


class RoutingRule(msgspec.Struct, frozen=True, kw_only=True):
    """A stored rule; ``position`` 1 comes first."""

    id: str
    position: int
    methods: list[str]
    currencies: list[str]
    smallest_minor: int | None
    largest_minor: int | None
    merchant_id: str | None
    device: Device | None
    ranking: Ranking
    accounts: list[str]
    exploration_percent: int | None
    is_only: bool
    created_at: int


class RuleHead(msgspec.Struct, frozen=True):
    """The number of changes of all accounts, and that of all rules."""

    accounts: int
    rules: int


class RuleSet:
    """The rules of a process by payment method and currency, each in order."""

    def __init__(self, rules: Iterable[RoutingRule] = ()) -> None:
        """``rules`` are in order."""
        self._rules = tuple(rules)
        self._by_kind: dict[tuple[Method, str], tuple[RoutingRule, ...]] = {}

    @property
    def needs_success_rates(self) -> bool:
        """Whether a rule orders by success rate."""
        return any(rule.ranking == "SUCCESS_RATE" for rule in self._rules)

    @property
    def positions(self) -> dict[str, int]:
        """The position of each rule by its id."""
        return {rule.id: rule.position for rule in self._rules}

    def __len__(self) -> int:
        """Return the number of rules."""
        return len(self._rules)

    def matching(
        self,
        method: Method,
        currency: str,
        amount_minor: int | None,
        merchant_id: str | None,
        device: Device,
    ) -> Iterator[RoutingRule]:
        """Yield the rules that match a payment, in order.

        Without an amount, conditions on amounts count as met.
        """
        kind = (method, currency)
        rules = self._by_kind.get(kind)
        if rules is None:
            rules = self._by_kind[kind] = tuple(
                rule
                for rule in self._rules
                if (not rule.methods or method in rule.methods)
                and (not rule.currencies or currency in rule.currencies)
            )
        for rule in rules:
            if rule.merchant_id is not None and rule.merchant_id != merchant_id:
                continue
            if rule.device is not None and rule.device != device:
                continue
            if amount_minor is not None and not _includes(rule, amount_minor):
                continue
            yield rule


def _includes(rule: RoutingRule, amount_minor: int) -> bool:
    smallest, largest = rule.smallest_minor, rule.largest_minor
    return (smallest is None or amount_minor >= smallest) and (
        largest is None or amount_minor <= largest
    )
