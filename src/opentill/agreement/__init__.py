"""The merchant services agreement: versioned templates, filled in for this deployment."""

from opentill.agreement.model import Agreement, BrokenTemplate
from opentill.agreement.service import PAGE_PATH, current

__all__ = ["PAGE_PATH", "Agreement", "BrokenTemplate", "current"]
