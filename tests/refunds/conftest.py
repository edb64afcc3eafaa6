"""Tests of this folder may use the receiver of the sandbox bank's callbacks."""

from support.sandbox_bank import receiver

__all__ = ["receiver"]
