"""Add, change, remove and move routing rules. Every change is recorded in the audit log."""

from collections.abc import Iterable

from opentill import merchants
from opentill.core.errors import Invalid, NotFound
from opentill.core.ids import new_id
from opentill.core.money import EXPONENTS, MOST_MINOR, show
from opentill.core.payment_methods import BY_NAME
from opentill.db.database import Tx
from opentill.gateways.rules import queries
from opentill.gateways.rules.model import (
    EXPLORATION_PERCENT,
    MOST_ACCOUNTS,
    MOST_EXPLORATION,
    MOST_RULES,
    NewRule,
    Ranking,
    RoutingRule,
)
from opentill.merchants import Actor


def default_exploration(ranking: Ranking, percent: int | None) -> int | None:
    """Return the share of payments that explore: 2 % for success rates unless it was entered."""
    return EXPLORATION_PERCENT if ranking == "SUCCESS_RATE" and percent is None else percent


async def list_rules(tx: Tx) -> list[RoutingRule]:
    """Return all rules in order."""
    return await queries.LIST.all(tx)


async def find(tx: Tx, text: str) -> RoutingRule:
    """Return the rule with an id or at a position. Raises NotFound."""
    for rule in await list_rules(tx):
        if text in (rule.id, str(rule.position)):
            return rule
    raise NotFound


async def add(
    tx: Tx,
    new: NewRule,
    position: int | None,
    existing_accounts: Iterable[str],
    now: int,
    *,
    actor: Actor,
) -> RoutingRule:
    """Add a rule at a position, None for the end. Raises Invalid, which names the field.

    ``existing_accounts`` are the ids that a rule may name.
    """
    _check(new, frozenset(existing_accounts))
    if new.merchant_id is not None:
        await merchants.find(tx, new.merchant_id)
    await queries.TOUCH.run(tx)
    number = await queries.COUNT.get(tx) or 0
    if number >= MOST_RULES:
        raise Invalid("rule", f"There are {MOST_RULES} rules, the maximum. Remove one first.")
    place = _check_position(number + 1 if position is None else position, number + 1)
    await queries.OPEN_GAP.run(tx, position=place)
    rule_id = new_id("rr")
    await queries.INSERT.run(tx, new, id=rule_id, position=place, now=now)
    rule = await find(tx, rule_id)
    await _record(tx, actor, rule, "gateways rules add", now)
    return rule


async def change(
    tx: Tx, rule_id: str, new: NewRule, existing_accounts: Iterable[str], now: int, *, actor: Actor
) -> RoutingRule:
    """Replace the conditions and the action of a rule, which keeps its position.

    The rule may keep accounts that it names although they are not among ``existing_accounts``.
    Raises NotFound, and Invalid, which names the field.
    """
    await queries.TOUCH.run(tx)
    rule = await find(tx, rule_id)
    _check(new, frozenset((*existing_accounts, *rule.accounts)))
    if new.merchant_id is not None:
        await merchants.find(tx, new.merchant_id)
    await queries.UPDATE.run(tx, new, id=rule.id)
    changed = await find(tx, rule.id)
    if changed != rule:
        await _record(tx, actor, changed, "gateways rules set", now, before=rule)
    return changed


async def remove(tx: Tx, rule_id: str, now: int, *, actor: Actor) -> RoutingRule:
    """Remove a rule. Raises NotFound."""
    await queries.TOUCH.run(tx)
    rule = await find(tx, rule_id)
    await queries.DELETE.run(tx, id=rule.id)
    await queries.CLOSE_GAP.run(tx, position=rule.position)
    await _record(tx, actor, rule, "gateways rules remove", now)
    return rule


async def move(tx: Tx, rule_id: str, position: int, now: int, *, actor: Actor) -> RoutingRule:
    """Move a rule to another position. Raises NotFound, and Invalid on ``position``."""
    await queries.TOUCH.run(tx)
    rule = await find(tx, rule_id)
    _check_position(position, await queries.COUNT.get(tx) or 0)
    await queries.CLOSE_GAP.run(tx, position=rule.position)
    await queries.OPEN_GAP.run(tx, position=position)
    await queries.SET_POSITION.run(tx, id=rule.id, position=position)
    moved = await find(tx, rule.id)
    await _record(tx, actor, moved, "gateways rules move", now)
    return moved


def condition_text(rule: RoutingRule | NewRule) -> str:
    """Return which payments a rule matches, as text."""
    parts = [
        "|".join(rule.methods),
        "|".join(rule.currencies),
        _amounts(rule),
        rule.merchant_id or "",
        f"on a {rule.device}" if rule.device else "",
    ]
    return " ".join(part for part in parts if part) or "every payment"


def _amounts(rule: RoutingRule | NewRule) -> str:
    if rule.smallest_minor is None and rule.largest_minor is None:
        return ""
    return "-".join(
        "" if minor is None else show(minor, rule.currencies[0])
        for minor in (rule.smallest_minor, rule.largest_minor)
    )


async def _record(
    tx: Tx,
    actor: Actor,
    rule: RoutingRule,
    action: str,
    now: int,
    before: RoutingRule | None = None,
) -> None:
    subject = f"{rule.id}: {rule.position}: {_describe(rule)}"
    if before is not None:
        subject += f", before: {_describe(before)}"
    await merchants.record_audit(tx, actor, action, rule.merchant_id or "", subject, now)


def _describe(rule: RoutingRule) -> str:
    accounts = f": {', '.join(rule.accounts)}" if rule.accounts else ""
    return f"{condition_text(rule)}: {rule.ranking}{accounts}"


def _check_position(position: int, last: int) -> int:
    if not 1 <= position <= last:
        raise Invalid("position", f"position must be a whole number from 1 to {last}")
    return position


def _check(new: NewRule, existing_accounts: frozenset[str]) -> None:
    for method in new.methods:
        if method not in BY_NAME:
            raise Invalid("method", f"method must be one of {', '.join(BY_NAME)}, not {method!r}")
    for currency in new.currencies:
        if currency not in EXPONENTS:
            raise Invalid("currency", f"currency must be an ISO 4217 code, not {currency!r}")
    _check_amounts(new)
    if new.device not in (None, "desktop", "phone"):
        raise Invalid("device", "device must be desktop or phone")
    _check_action(new, existing_accounts)


def _check_amounts(new: NewRule) -> None:
    amounts = [minor for minor in (new.smallest_minor, new.largest_minor) if minor is not None]
    if amounts and len(new.currencies) != 1:
        raise Invalid("amount", "amount must be in the one currency of the rule")
    if not all(0 < minor <= MOST_MINOR for minor in amounts):
        raise Invalid("amount", "amount must be above 0")
    if amounts != sorted(amounts):
        raise Invalid("amount", "amount must have a smallest that is not above the largest")


def _check_action(new: NewRule, existing_accounts: frozenset[str]) -> None:
    if (new.ranking == "ACCOUNTS") != bool(new.accounts):
        raise Invalid("account", "account must be given, or else an order")
    if len(new.accounts) > MOST_ACCOUNTS or len(set(new.accounts)) != len(new.accounts):
        raise Invalid("account", f"account must be given at most {MOST_ACCOUNTS} times, each once")
    for account in new.accounts:
        if account not in existing_accounts:
            raise Invalid("account", f"account must be one that exists, not {account!r}")
    if new.is_only and not new.accounts:
        raise Invalid("only", "only must be used with accounts")
    if (new.ranking == "SUCCESS_RATE") != (new.exploration_percent is not None):
        raise Invalid("explore", "explore must be used with the order by success rate")
    if not 0 <= (new.exploration_percent or 0) <= MOST_EXPLORATION:
        raise Invalid("explore", f"explore must be from 0 to {MOST_EXPLORATION} percent")
