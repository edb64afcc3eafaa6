"""The receiver of the bank's callbacks."""

from support.sandbox_bank import receiver

__all__ = ["receiver"]
