"""How merchants come and go: approving applications, and closing merchants that are settled."""

from opentill.onboarding.model import NotClosable, Unfinished
from opentill.onboarding.service import Approved, approve, close, decline, unfinished

__all__ = ["Approved", "NotClosable", "Unfinished", "approve", "close", "decline", "unfinished"]
