"""A part of the adapters whose provider sends no callbacks."""

from collections.abc import Mapping

from opentill.gateways.model import BadCallback, GatewayEvent


class RefusesCallbacks:
    """Refuses every callback, because the provider sends none."""

    name: str

    def read_callback(
        self, headers: Mapping[str, str], body: bytes, now: int
    ) -> tuple[GatewayEvent, ...]:
        """Raise BadCallback, whatever was sent."""
        del headers, body, now
        msg = f"the gateway {self.name} has no callbacks"
        raise BadCallback(msg)
