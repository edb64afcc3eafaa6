"""Deposits: the addresses of payments in tokens are monitored, and what arrives is applied."""

from opentill.deposits.model import CaseKind, ChainState, DepositCase, Progress, RefundEvidence
from opentill.deposits.refunds import WrongTransaction, find_refund, record_refund, verify_refund
from opentill.deposits.service import (
    cases_of_attempts,
    close_case,
    count_open_cases,
    find_progress,
    list_chains,
    list_open_cases,
)

__all__ = [
    "CaseKind",
    "ChainState",
    "DepositCase",
    "Progress",
    "RefundEvidence",
    "WrongTransaction",
    "cases_of_attempts",
    "close_case",
    "count_open_cases",
    "find_progress",
    "find_refund",
    "list_chains",
    "list_open_cases",
    "record_refund",
    "verify_refund",
]
