"""Gateways: payment service providers, the language spoken with them, and which are loaded."""

from opentill.gateways.model import (
    BadCallback,
    DisputeNews,
    DisputeStatus,
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
)
from opentill.gateways.registry import load
from opentill.gateways.routing import BadGateways, Gateways, candidates, find_for, offered

__all__ = [
    "BadCallback",
    "BadGateways",
    "DisputeNews",
    "DisputeStatus",
    "Gateway",
    "Gateways",
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
    "candidates",
    "find_for",
    "load",
    "offered",
]
