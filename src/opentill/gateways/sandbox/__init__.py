"""The adapter for the sandbox bank, which is called over HTTP like any other provider."""

from opentill.gateways.sandbox.client import SandboxGateway

__all__ = ["SandboxGateway"]
