"""Refunds: held at creation, sent by the worker, ended by the gateway's word."""

from opentill.refunds.model import Refund, RefundBody
from opentill.refunds.service import create, find, hear

__all__ = ["Refund", "RefundBody", "create", "find", "hear"]
