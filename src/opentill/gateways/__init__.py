"""Gateways: payment service providers, the language spoken with them, and which are loaded."""

from opentill.gateways.model import (
    BadCallback,
    DisputeNews,
    DisputeStatus,
    Expires,
    Gateway,
    Method,
    News,
    PaymentNews,
    PaymentOutcome,
    PaymentRequest,
    PaymentStatus,
    RefundNews,
    RefundOutcome,
    RefundRequest,
    RefundStatus,
    Traces,
)
from opentill.gateways.registry import find_for, load, offered

__all__ = [
    "BadCallback",
    "DisputeNews",
    "DisputeStatus",
    "Expires",
    "Gateway",
    "Method",
    "News",
    "PaymentNews",
    "PaymentOutcome",
    "PaymentRequest",
    "PaymentStatus",
    "RefundNews",
    "RefundOutcome",
    "RefundRequest",
    "RefundStatus",
    "Traces",
    "find_for",
    "load",
    "offered",
]
