"""The merchant services agreement: versioned templates, rendered for this deployment."""

from opentill.agreement.acceptance import accept, acceptances, require, status
from opentill.agreement.model import (
    Acceptance,
    AcceptedBy,
    Agreement,
    AgreementStatus,
    BrokenTemplate,
)
from opentill.agreement.service import PAGE_PATH, current

__all__ = [
    "PAGE_PATH",
    "Acceptance",
    "AcceptedBy",
    "Agreement",
    "AgreementStatus",
    "BrokenTemplate",
    "accept",
    "acceptances",
    "current",
    "require",
    "status",
]
