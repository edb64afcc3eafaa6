"""Accounts at gateways that are rows of the database, beside those of the environment."""

from opentill.gateways.accounts.follower import following
from opentill.gateways.accounts.model import (
    AccountChanges,
    AmountLimit,
    Cost,
    DayLimit,
    NewAccount,
)
from opentill.gateways.accounts.service import (
    OVERLAP_MS,
    add,
    build,
    build_rotated,
    build_stored,
    change,
    check,
    decrypt,
    find,
    find_by_label,
    find_stored,
    list_accounts,
    list_names,
    list_stored,
    rotate,
    set_status,
    with_self_reporting,
)
from opentill.gateways.accounts.terms import cost_texts, day_limit_texts, limit_texts

__all__ = [
    "OVERLAP_MS",
    "AccountChanges",
    "AmountLimit",
    "Cost",
    "DayLimit",
    "NewAccount",
    "add",
    "build",
    "build_rotated",
    "build_stored",
    "change",
    "check",
    "cost_texts",
    "day_limit_texts",
    "decrypt",
    "find",
    "find_by_label",
    "find_stored",
    "following",
    "limit_texts",
    "list_accounts",
    "list_names",
    "list_stored",
    "rotate",
    "set_status",
    "with_self_reporting",
]
