"""The adapter for the sandbox bank: spoken to over HTTP, like any other provider."""

from opentill.gateways.sandbox.client import SandboxGateway

__all__ = ["SandboxGateway"]
