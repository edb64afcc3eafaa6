"""Fixtures of the tenant isolation test."""

from db.tenant_examiner import examined, inbox

__all__ = ["examined", "inbox"]
