"""OpenTill: self-hosted payments for merchants."""

__version__ = "0.1.0"
