"""Payment attempts of an order as records, with the names of their gateway accounts."""

import re
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from opentill.db.database import Tx
    from opentill.gateways.choice import RouteReason
    from opentill.orders import HistoryRow, Order

COLUMNS: Final = ("id", "account", "method", "status", "reason", "why", "createdAt")
_ACCOUNT_ID: Final = re.compile(r"\bgat?_[0-9a-z]{26}\b")
_BASIS: Final = {
    "ONLY": "the only account that fits",
    "OWN": "the merchant's own account",
    "ENVIRONMENT": "order of OPENTILL_ROUTES and OPENTILL_GATEWAYS",
    "PRIORITY": "priority {priority}",
    "WEIGHT": "priority {priority}, at random with weight {weight}",
    "LISTED": "named by the rule",
    "COST": "lowest cost",
    "SUCCESS_RATE": "best success rate: {percent} %",
    "EXPLORATION": "test of the success rate: {percent} %",
    "TEST": "test payment of this account",
}
_BY_WEIGHT: Final = "at random with weight {weight}"  # by a rule, whatever the priority
_OBSTACLES: Final = {
    "UNREACHABLE": "{account} could not be reached",
    "DAY_LIMIT": "{account} has reached its limit of the day",
    "PREPAID": "the prepaid balance was too low for the fee of {account}",
    "BROKEN": "{account} refused it with an error that pauses the account",
}


def reason_text(
    reason: "RouteReason", names: Mapping[str, str], positions: Mapping[str, int]
) -> str:
    """Return why a payment goes to an account.

    ``names`` are those of accounts by id, ``positions`` those of rules.
    """
    is_by_weight_only = reason.by == "WEIGHT" and reason.priority is None
    text = _BY_WEIGHT if is_by_weight_only else _BASIS[reason.by]
    basis = text.format(
        priority=reason.priority, weight=reason.weight, percent=reason.success_percent
    )
    if reason.rule is not None:
        position = positions.get(reason.rule)
        number = "removed since" if position is None else f"at position {position}"
        basis = f"rule {reason.rule} ({number}): {basis}"
    passed = (
        _OBSTACLES[each.why].format(account=names.get(each.account, each.account))
        for each in reason.passed
    )
    return "; ".join([basis, *passed])


async def list_records(tx: "Tx", order: "Order") -> list[dict[str, Any]]:
    """Return the attempts of an order, the oldest first."""
    from opentill import orders
    from opentill.gateways import accounts, rules
    from opentill.gateways.choice import decode_reason

    names = await accounts.list_names(tx)
    positions = {rule.id: rule.position for rule in await rules.list_rules(tx)}
    records: list[dict[str, Any]] = []
    for attempt in await orders.attempts(tx, order.merchant_id, order.id):
        reason = decode_reason(attempt.route)
        records.append(
            {
                "id": attempt.id,
                "gateway": attempt.gateway,
                "account": names.get(attempt.gateway, attempt.gateway),
                "method": attempt.method,
                "status": attempt.status,
                "reason": attempt.reason,
                "why": "" if reason is None else reason_text(reason, names, positions),
                "createdAt": attempt.created_at,
            }
        )
    return records


async def with_account_names(tx: "Tx", rows: Sequence["HistoryRow"]) -> list["HistoryRow"]:
    """Replace the ids of accounts in the causes of an order's history by their names."""
    import msgspec

    from opentill.gateways import accounts

    names = await accounts.list_names(tx)

    def name_of(match: re.Match[str]) -> str:
        return names.get(match[0], match[0])

    return [msgspec.structs.replace(row, cause=_ACCOUNT_ID.sub(name_of, row.cause)) for row in rows]
