"""Routing rules: which accounts take which payments, as rows of the database."""

from opentill.gateways.rules.model import NewRule, Ranking, RoutingRule, RuleSet
from opentill.gateways.rules.service import (
    add,
    change,
    condition_text,
    default_exploration,
    find,
    list_rules,
    move,
    remove,
)

__all__ = [
    "NewRule",
    "Ranking",
    "RoutingRule",
    "RuleSet",
    "add",
    "change",
    "condition_text",
    "default_exploration",
    "find",
    "list_rules",
    "move",
    "remove",
]
