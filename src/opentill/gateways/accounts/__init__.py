"""Accounts at gateways that are rows of the database, beside those of the environment."""

from opentill.gateways.accounts.follower import following
from opentill.gateways.accounts.model import AmountLimit, NewAccount
from opentill.gateways.accounts.service import (
    OVERLAP_MS,
    add,
    build,
    build_rotated,
    build_stored,
    check,
    decrypt,
    find,
    find_by_label,
    find_stored,
    list_accounts,
    list_stored,
    rotate,
    set_status,
    with_self_reporting,
)

__all__ = [
    "OVERLAP_MS",
    "AmountLimit",
    "NewAccount",
    "add",
    "build",
    "build_rotated",
    "build_stored",
    "check",
    "decrypt",
    "find",
    "find_by_label",
    "find_stored",
    "following",
    "list_accounts",
    "list_stored",
    "rotate",
    "set_status",
    "with_self_reporting",
]
