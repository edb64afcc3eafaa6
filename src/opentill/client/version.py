"""The client's version, which is also the server's version."""

__version__ = "0.1.0"
