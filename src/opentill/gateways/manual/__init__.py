"""Bank transfers that the operator confirms."""

from opentill.gateways.manual.client import ManualGateway
from opentill.gateways.manual.configuration import BadInstructions, instructions

__all__ = ["BadInstructions", "ManualGateway", "instructions"]
