"""Approving applications, and closing settled merchants."""

from opentill.onboarding.model import NotClosable, Unfinished
from opentill.onboarding.service import Approved, approve, close, decline, unfinished

__all__ = ["Approved", "NotClosable", "Unfinished", "approve", "close", "decline", "unfinished"]
