"""Fixture: the receiver of the sandbox bank's callbacks."""

from support.sandbox_bank import receiver

__all__ = ["receiver"]
