"""The client's version, which is the server's."""

__version__ = "0.1.0"
