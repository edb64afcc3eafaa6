"""What receives the bank's callbacks."""

from sandbox.fixtures import receiver

__all__ = ["receiver"]
