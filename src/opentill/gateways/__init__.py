"""Gateways: payment service providers, the language spoken with them, and which are loaded."""

from opentill.gateways.model import (
    BadCallback,
    DisputeNews,
    DisputeStatus,
    Gateway,
    Method,
    News,
    Notified,
    PaymentNews,
    PaymentOutcome,
    PaymentRequest,
    PaymentStatus,
    RefundNews,
    RefundOutcome,
    RefundRequest,
    RefundStatus,
)
from opentill.gateways.registry import TOLD_BY_OPERATOR, load
from opentill.gateways.routing import BadGateways, Gateways, candidates, find_for, offered

__all__ = [
    "TOLD_BY_OPERATOR",
    "BadCallback",
    "BadGateways",
    "DisputeNews",
    "DisputeStatus",
    "Gateway",
    "Gateways",
    "Method",
    "News",
    "Notified",
    "PaymentNews",
    "PaymentOutcome",
    "PaymentRequest",
    "PaymentStatus",
    "RefundNews",
    "RefundOutcome",
    "RefundRequest",
    "RefundStatus",
    "candidates",
    "find_for",
    "load",
    "offered",
]
