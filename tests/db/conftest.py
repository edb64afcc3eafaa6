"""A server whose statements are examined, for the test of tenant isolation."""

from db.tenant_examiner import examined, inbox

__all__ = ["examined", "inbox"]
