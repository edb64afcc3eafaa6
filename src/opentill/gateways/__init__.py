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
from opentill.gateways.registry import load
from opentill.gateways.routing import BadGateways, Gateways, candidates, find_for, offered

__all__ = [
    "BadCallback",
    "BadGateways",
    "DisputeNews",
    "DisputeStatus",
    "Expires",
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
    "Traces",
    "candidates",
    "find_for",
    "load",
    "offered",
]
