"""The choice of accounts for a payment: which ones fit, in which order, and why.

``OPENTILL_GATEWAYS`` is the default order of the environment's accounts, and ``OPENTILL_ROUTES``
overrides it for a method. Accounts in the database follow them, by priority and weight. Everything
is decided in memory.
"""

import random
from collections.abc import Callable, Collection, Iterable, Mapping
from typing import Final, Literal, NamedTuple

import msgspec

from opentill.core.money import Money
from opentill.gateways.model import Gateway, Method, TakesWallet
from opentill.gateways.routing import Gateways, methods_of
from opentill.gateways.rules.model import RoutingRule

_ENVIRONMENT_WEIGHT: Final = 100  # of accounts of the environment, which have none

# Why an account comes before the others:
#   ONLY          no other account fits
#   OWN           it belongs to the merchant
#   ENVIRONMENT   the order of OPENTILL_ROUTES and OPENTILL_GATEWAYS
#   PRIORITY      its priority is the lowest
#   WEIGHT        chosen at random by weight, among accounts of equal priority or by a rule
#   LISTED        a rule names it
#   COST          a rule prefers low costs
#   SUCCESS_RATE  a rule prefers high success rates
#   EXPLORATION   a rule has a part of the payments try accounts with lower success rates
#   TEST          a test payment of this account, which no other account may take
Basis = Literal[
    "ONLY",
    "OWN",
    "ENVIRONMENT",
    "PRIORITY",
    "WEIGHT",
    "LISTED",
    "COST",
    "SUCCESS_RATE",
    "EXPLORATION",
    "TEST",
]
# Why a preferred account did not get the payment:
#   UNREACHABLE   its provider could not be reached
#   DAY_LIMIT     it has reached its limit of the day
#   BROKEN        it refused the payment with an error that pauses it
#   PREPAID       the merchant's prepaid balance is too low for the fee
Obstacle = Literal["UNREACHABLE", "DAY_LIMIT", "BROKEN", "PREPAID"]
# Why an account does not fit a payment.
Misfit = Literal[
    "UNREADABLE",
    "BROKEN",
    "PAUSED",
    "RETIRED",
    "MODE",
    "MERCHANT",
    "METHOD",
    "AMOUNT",
    "PREPAID",
]


class PassedOver(msgspec.Struct, frozen=True):
    """A preferred account that did not get the payment."""

    account: str
    why: Obstacle


class RouteReason(msgspec.Struct, frozen=True, omit_defaults=True):
    """Why a payment goes to an account; attempts store it as JSON."""

    by: Basis
    priority: int | None = None
    weight: int | None = None
    rule: str | None = None  # the id of the rule that decided
    success_percent: int | None = None
    passed: tuple[PassedOver, ...] = ()

    def after(self, passed: Iterable[PassedOver]) -> "RouteReason":
        """Return the reason if these accounts, too, did not get the payment."""
        accounts = {each.account for each in self.passed}
        more = tuple(each for each in passed if each.account not in accounts)
        return msgspec.structs.replace(self, passed=(*self.passed, *more)) if more else self


class Route(NamedTuple):
    """An account that fits a payment, and why it has its place in the order."""

    account: str
    reason: RouteReason


class PaymentFacts(msgspec.Struct, frozen=True, kw_only=True):
    """What the choice depends on.

    Without an amount, limits do not count; without a merchant, no merchant's own account does.
    ``fee`` is what the payment takes from the prepaid balance if it goes to an account of the
    merchant; None: unknown, so that the balance does not count.
    """

    method: Method
    currency: str
    amount_minor: int | None = None
    merchant_id: str | None = None
    on_phone: bool = False
    fee: Money | None = None

    @property
    def amount(self) -> Money | None:
        """The amount, None if it is unknown."""
        return None if self.amount_minor is None else Money(self.amount_minor, self.currency)


def encode_reason(reason: RouteReason) -> str:
    """Return a reason as an attempt stores it."""
    return _ENCODER.encode(reason).decode()


def decode_reason(text: str | None) -> RouteReason | None:
    """Return the reason that an attempt has stored; None if it has none that can be read."""
    if text is None:
        return None
    try:
        return _DECODER.decode(text)
    except msgspec.MsgspecError:  # another version wrote it
        return None


_ENCODER = msgspec.json.Encoder()
_DECODER = msgspec.json.Decoder(RouteReason)


def find_misfit(gateways: Mapping[str, Gateway], name: str, payment: PaymentFacts) -> Misfit | None:
    """Return why an account does not take a payment; None if it does."""
    misfit = _account_misfit(gateways, name, payment.amount, payment.merchant_id)
    if misfit is None and payment.method not in methods_of(gateways, name, payment.currency):
        return "METHOD"
    if misfit is None and payment.fee is not None and _lacks_fee(gateways, name, payment.fee):
        return "PREPAID"
    return misfit


def _is_own(gateways: Mapping[str, Gateway], name: str) -> bool:
    """Whether an account belongs to a merchant."""
    account = gateways.accounts.get(name) if isinstance(gateways, Gateways) else None
    return account is not None and account.merchant_id is not None


def _lacks_fee(gateways: Mapping[str, Gateway], name: str, fee: Money) -> bool:
    """Whether an account is the merchant's own, and their prepaid balance is too low for a fee.

    The balance is at most two seconds old: the statement that starts the payment decides.
    """
    account = gateways.accounts.get(name) if isinstance(gateways, Gateways) else None
    if account is None or account.merchant_id is None or not isinstance(gateways, Gateways):
        return False
    return 0 < fee.minor > gateways.free_prepaid(account.merchant_id, fee.currency)


def _account_misfit(
    gateways: Mapping[str, Gateway], name: str, amount: Money | None, merchant_id: str | None
) -> Misfit | None:
    """Return why an account takes no payment of a merchant and amount, whatever the method."""
    account = gateways.accounts.get(name) if isinstance(gateways, Gateways) else None
    if not isinstance(gateways, Gateways):
        return None
    if account is None:
        return _environment_misfit(gateways, name)
    misfit: Misfit | None = None
    if account.status != "ACTIVE":
        misfit = account.status
    elif name in gateways.unreadable:
        misfit = "UNREADABLE"
    elif account.retry_at is not None and gateways.is_broken(name):
        misfit = "BROKEN"
    elif account.livemode != gateways.livemode:
        misfit = "MODE"
    elif account.merchant_id is not None and account.merchant_id != merchant_id:
        misfit = "MERCHANT"
    elif amount is not None and not account.allows(amount):
        misfit = "AMOUNT"
    return misfit


def _environment_misfit(gateways: Gateways, name: str) -> Misfit | None:
    if name in gateways.paused:
        return "PAUSED"
    return "BROKEN" if gateways.is_broken(name) else None


def offered_methods(
    gateways: Mapping[str, Gateway],
    currency: str,
    *,
    amount_minor: int | None = None,
    merchant_id: str | None = None,
    fee_of: Callable[[Method], Money] | None = None,
) -> tuple[Method, ...]:
    """Return the methods for a payment, in the gateways' order of preference, each once.

    Amount and merchant are as in ``PaymentFacts``, ``fee_of`` returns the fee of a method.
    """
    amount = None if amount_minor is None else Money(amount_minor, currency)
    methods: dict[Method, None] = {}
    for name in gateways:
        if _account_misfit(gateways, name, amount, merchant_id) is None:
            own_fee_of = fee_of if _is_own(gateways, name) else None
            for method in methods_of(gateways, name, currency):
                if own_fee_of is None or not _lacks_fee(gateways, name, own_fee_of(method)):
                    methods[method] = None
    return tuple(methods)


def find_wallet(gateways: Mapping[str, Gateway], payment: PaymentFacts) -> str:
    """Return the wallet that the page for a payment takes besides cards, "" if it is uncertain.

    It is certain if every account for the payment has the same one.
    """
    names = [name for name in gateways if find_misfit(gateways, name, payment) is None]
    adapters = [gateways[name] for name in names]
    wallets = {one.wallet if isinstance(one, TakesWallet) else "" for one in adapters}
    return wallets.pop() if len(wallets) == 1 else ""


def candidates(
    gateways: Mapping[str, Gateway],
    method: Method,
    currency: str,
    *,
    amount_minor: int | None = None,
    merchant_id: str | None = None,
) -> list[str]:
    """Return the accounts for a payment, the preferred first, as ``find_routes`` does."""
    payment = PaymentFacts(
        method=method, currency=currency, amount_minor=amount_minor, merchant_id=merchant_id
    )
    return [route.account for route in find_routes(gateways, payment)]


def find_routes(gateways: Mapping[str, Gateway], payment: PaymentFacts) -> list[Route]:
    """Return the accounts for a payment with the reasons of their order, the preferred first.

    Unreachable ones are last, and behind them those that have reached their limit of the day. Those
    whose fee the prepaid balance lacks are left out, but the reasons of the others name them.
    """
    misfits = {name: find_misfit(gateways, name, payment) for name in gateways}
    names = [name for name, misfit in misfits.items() if misfit in {None, "PREPAID"}]
    if not isinstance(gateways, Gateways):
        return [Route(name, RouteReason("ENVIRONMENT")) for name in names]
    unfunded = {name for name in names if misfits[name] == "PREPAID"}
    if not len(gateways.rules):
        if len(names) <= 1:
            return [Route(name, RouteReason("ONLY")) for name in names if name not in unfunded]
        routes = _by_preference(gateways, names, payment)
    else:
        routes = _by_rules(gateways, names, payment)
    return _put_obstructed_last(gateways, routes, payment, unfunded)


def _by_rules(gateways: Gateways, names: list[str], payment: PaymentFacts) -> list[Route]:
    """Order accounts by the rules that match, and the remaining ones without rules."""
    routes: list[Route] = []
    for rule in gateways.rules.matching(
        payment.method,
        payment.currency,
        payment.amount_minor,
        payment.merchant_id,
        "phone" if payment.on_phone else "desktop",
    ):
        ranked = _rank(gateways, rule, names, payment)
        routes += ranked
        if rule.is_only or len(ranked) == len(names):
            return routes
        listed = {route.account for route in ranked}
        names = [name for name in names if name not in listed]
    return [*routes, *_by_preference(gateways, names, payment)]


def _rank(
    gateways: Gateways, rule: RoutingRule, names: list[str], payment: PaymentFacts
) -> list[Route]:
    """Order accounts as a rule says."""
    match rule.ranking:
        case "ACCOUNTS":
            reason = RouteReason("LISTED", rule=rule.id)
            return [Route(name, reason) for name in rule.accounts if name in names]
        case "PRIORITY":
            return [
                Route(name, msgspec.structs.replace(reason, rule=rule.id))
                for name, reason in _by_preference(gateways, names, payment)
            ]
        case "WEIGHT":
            weights = {name: _weight(gateways, name) for name in names}
            order = sorted(names, key=lambda name: -_chance(weights[name]))
            return [
                Route(name, RouteReason("WEIGHT", weight=weights[name], rule=rule.id))
                for name in order
            ]
        case "COST":
            reason = RouteReason("COST", rule=rule.id)
            order = sorted(names, key=lambda name: _cost(gateways, name, payment))
            return [Route(name, reason) for name in order]
        case "SUCCESS_RATE":
            return _by_success_rate(gateways, rule, names, payment.method)


def _by_success_rate(
    gateways: Gateways, rule: RoutingRule, names: list[str], method: Method
) -> list[Route]:
    """Order accounts by success rate; a share of the payments tries another one first."""
    rates = {name: gateways.success_rates.rate(name, method) for name in names}
    order = sorted(names, key=lambda name: (-rates[name], random.random()))  # noqa: S311 - spreads load only
    share = (rule.exploration_percent or 0) / 100
    explores = random.random() < share  # noqa: S311 - spreads load only
    if explores and len(order) > 1:
        tried_first = random.randrange(1, len(order))  # noqa: S311 - spreads load only
        order.insert(0, order.pop(tried_first))
    return [
        Route(
            name,
            RouteReason(
                "EXPLORATION" if explores and place == 0 and len(order) > 1 else "SUCCESS_RATE",
                rule=rule.id,
                success_percent=round(rates[name] * 100),
            ),
        )
        for place, name in enumerate(order)
    ]


def _weight(gateways: Gateways, name: str) -> int:
    account = gateways.accounts.get(name)
    return _ENVIRONMENT_WEIGHT if account is None else account.weight


def _chance(weight: int) -> float:
    """Return a random sort key whose chance to be the largest is proportional to the weight.

    Efraimidis and Spirakis, "Weighted random sampling", 2006.
    """
    return float(random.random() ** (1 / weight))  # noqa: S311 - spreads load only


def _cost(gateways: Gateways, name: str, payment: PaymentFacts) -> tuple[bool, int, int, float]:
    """Return a sort key by the cost of a payment: exact, in basis points of minor units."""
    account = gateways.accounts.get(name)
    priority = 0 if account is None else account.priority
    if account is None or payment.currency not in account.cost_currencies:
        return True, 0, priority, random.random()  # noqa: S311 - spreads load only
    position = account.cost_currencies.index(payment.currency)
    cost = (payment.amount_minor or 0) * account.cost_rate_bp[position]
    cost += account.cost_fixed_minor[position] * 10_000
    return False, cost, priority, random.random()  # noqa: S311 - spreads load only


def _put_obstructed_last(
    gateways: Gateways, routes: list[Route], payment: PaymentFacts, unfunded: Collection[str]
) -> list[Route]:
    obstacles = gateways.obstacles(payment.amount)
    if not obstacles and not unfunded:
        return routes
    passed: list[PassedOver] = []
    free, unreachable, exhausted = list[Route](), list[Route](), list[Route]()
    for route in routes:
        obstacle = obstacles.get(route.account)
        if route.account in unfunded:
            passed.append(PassedOver(route.account, "PREPAID"))
        elif obstacle is None:
            free.append(Route(route.account, route.reason.after(passed)))
        else:
            passed.append(PassedOver(route.account, obstacle))
            (unreachable if obstacle == "UNREACHABLE" else exhausted).append(route)
    return [*free, *unreachable, *exhausted]


def _by_preference(gateways: Gateways, names: Iterable[str], payment: PaymentFacts) -> list[Route]:
    """Order accounts: the merchant's own first, then the environment's, then the operator's.

    Among accounts of equal priority the order is random, and each one's chance to be the first is
    proportional to its weight.
    """
    first = gateways.routes.get(payment.method, ())
    keyed: list[tuple[tuple[int, int, float], str]] = []
    for position, name in enumerate(names):
        account = gateways.accounts.get(name)
        if account is None:
            place = first.index(name) if name in first else len(first)
            keyed.append(((1, place, position), name))
        else:
            rank = 2 if account.merchant_id is None else 0
            keyed.append(((rank, account.priority, -_chance(account.weight)), name))
    keyed.sort()
    return [
        Route(name, _reason(gateways, key, name, next_key))
        for (key, name), next_key in zip(keyed, [*(key for key, _ in keyed[1:]), None], strict=True)
    ]


def _reason(
    gateways: Gateways,
    key: tuple[int, int, float],
    name: str,
    next_key: tuple[int, int, float] | None,
) -> RouteReason:
    account = gateways.accounts.get(name)
    if account is None:
        return RouteReason("ENVIRONMENT")
    if account.merchant_id is not None:
        return RouteReason("OWN")
    if next_key is not None and next_key[:2] == key[:2]:
        return RouteReason("WEIGHT", account.priority, account.weight)
    return RouteReason("PRIORITY", account.priority)
