"""Payments through a server of the Epay V2 convention, which signs by RSA."""

from opentill.gateways.epay_v2.client import EpayV2Gateway

__all__ = ["EpayV2Gateway"]
