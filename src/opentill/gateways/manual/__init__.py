"""Bank transfer by hand: shows how to pay; the operator confirms what has come in."""

from opentill.gateways.manual.client import BadInstructions, ManualGateway, instructions

__all__ = ["BadInstructions", "ManualGateway", "instructions"]
